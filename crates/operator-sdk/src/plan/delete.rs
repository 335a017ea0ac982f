//! `delete`: removes the files that a `create` command wrote.

use operator_manifests::config::Kind;
use operator_manifests::rbac::Rule;
use serde_json::Value;

use super::create_api::checks::base_values;
use super::create_api::{OPERATOR, controller_call, crd_call};
use super::draft::Draft;
use super::{Plan, PlanError, chaos, config, manifests};
use crate::args::DeleteApiArgs;
use crate::edit::rust;
use crate::names;
use crate::project::layout::{self, Place};
use crate::project::{Config, Project, Resource};
use crate::template::ApiValues;

/// Plans the changes of `delete api`.
pub(crate) fn api(args: &DeleteApiArgs, project: &Project) -> Result<Plan, PlanError> {
    let kind = &args.kind;
    let there = project.config.find(&kind.group, &kind.version, &kind.kind);
    let name = format!("{}/{} {}", kind.group, kind.version, kind.kind);
    let resource = there.ok_or(PlanError::NotThere(name.clone()))?;
    if resource.has_webhooks() {
        return Err(PlanError::Usage(
            format!("{name} has webhooks"),
            "remove them first with `operator-sdk delete webhook`",
        ));
    }
    let mut draft = Draft::new(&project.tree, args.consent.force);
    let mut changed = project.config.clone();
    changed.remove(&kind.group, &kind.version, &kind.kind);
    check_storage(resource, &changed)?;
    let api = base_values(&kind.group, &kind.version, &kind.kind, project);
    let place = Place::of(&project.config, &kind.group, &kind.version, &kind.kind);
    for controller in controllers_of(resource) {
        remove_controller(&mut draft, &place, &controller)?;
    }
    if resource.api.is_some() {
        remove_type(&mut draft, &api, &place, &changed)?;
        chaos::remove(&mut draft, &api)?;
    }
    remove_empty_modules(&mut draft, &place)?;
    remove_rules(&mut draft, resource, &changed)?;
    let before = config::operator(&project.config, &project.tree)?;
    let after = config::with_config(&before, &changed);
    config::change(&mut draft, Some(&before), &after)?;
    draft.put(layout::PROJECT, changed.render());
    Ok(draft.plan)
}

/// Checks that the storage version is removed last.
fn check_storage(resource: &Resource, rest: &Config) -> Result<(), PlanError> {
    let others: Vec<&Resource> = rest
        .resources
        .iter()
        .filter(|other| other.is_kind(&resource.group, &resource.kind) && other.api.is_some())
        .collect();
    let controlled = resource.has_controller() && !others.is_empty();
    if controlled && !others.iter().any(|other| other.has_controller()) {
        return Err(PlanError::Usage(
            format!(
                "version {} of {} has its controller, and other versions stay",
                resource.version, resource.kind
            ),
            "move the controller to another version in the source and in PROJECT first",
        ));
    }
    Ok(())
}

/// Returns the names of the controllers of a kind in CamelCase.
fn controllers_of(resource: &Resource) -> Vec<String> {
    let named = resource.controllers.iter().map(|controller| {
        if controller.name == resource.kind.to_lowercase() {
            resource.kind.clone()
        } else {
            names::camel_case(&controller.name)
        }
    });
    let only = resource.controller.then(|| resource.kind.clone());
    only.into_iter().chain(named).collect()
}

fn remove_controller(draft: &mut Draft<'_>, place: &Place, name: &str) -> Result<(), PlanError> {
    let module = layout::controller_module(name);
    draft.remove(&place.controller(name));
    draft.remove(&place.test(&module));
    remove_from_module(draft, &place.controller_path(), &module)?;
    let call = controller_call(&place.controller_path(), &module);
    draft.edit_rust(layout::LIB, None, |source| {
        rust::remove_calls(source, OPERATOR, &[call])
    })
}

fn remove_type(
    draft: &mut Draft<'_>,
    api: &ApiValues,
    place: &Place,
    rest: &Config,
) -> Result<(), PlanError> {
    draft.remove(&place.types());
    remove_from_module(draft, &place.api_path(), &layout::types_module(&api.kind))?;
    draft.edit_rust(layout::LIB, None, |source| {
        rust::remove_calls(source, OPERATOR, &[crd_call(&api.api_path, &api.kind)])
    })?;
    let kind = Kind {
        group: api.group.clone(),
        api_group: api.api_group.clone(),
        version: api.version.clone(),
        kind: api.kind.clone(),
        plural: api.plural.clone(),
        ..Kind::default()
    };
    draft.remove(&layout::sample(&kind.sample_file()));
    let path = layout::crd_base(&kind.crd_file());
    let others = rest
        .resources
        .iter()
        .any(|other| other.is_kind(&api.group, &api.kind) && other.api.is_some());
    if !others {
        draft.remove(&path);
    } else if let Some(text) = draft.get(&path) {
        let text = manifests::without_version(text, &api.version)?;
        draft.put(&path, text);
    }
    Ok(())
}

pub(crate) fn remove_from_module(draft: &mut Draft<'_>, path: &str, module: &str) -> Result<(), PlanError> {
    let file = layout::module_file(path);
    if draft.get(&file).is_none() {
        return Ok(());
    }
    draft.edit_rust(&file, None, |source| {
        rust::remove_module(&rust::remove_reexport(source, module)?, module)
    })
}

/// Removes empty modules of a version or a group, but not the modules of `init`.
pub(crate) fn remove_empty_modules(draft: &mut Draft<'_>, place: &Place) -> Result<(), PlanError> {
    for path in [place.api_path(), place.controller_path(), place.webhook_path()] {
        for parent in Place::parents(&path).into_iter().rev() {
            let file = parent.path.replace(".rs", &format!("/{}.rs", parent.module));
            let empty = draft.get(&file).is_some_and(rust::has_no_items);
            if empty {
                draft.remove(&file);
                draft.edit_rust(&parent.path, None, |source| {
                    rust::remove_module(source, &parent.module)
                })?;
            }
        }
    }
    Ok(())
}

/// Returns the role without the rules about a removed kind of this project.
fn remove_rules(draft: &mut Draft<'_>, resource: &Resource, rest: &Config) -> Result<(), PlanError> {
    let stays = rest
        .resources
        .iter()
        .any(|other| other.is_kind(&resource.group, &resource.kind));
    let Some(text) = draft.get(layout::ROLE).filter(|_| !stays) else {
        return Ok(());
    };
    let (group, plural) = (resource.api_group(), resource.plural());
    let mut rules: Vec<Rule> = Vec::new();
    for mut rule in manifests::rules_of(text)? {
        if rule.api_groups.contains(&group) {
            let of_kind = |name: &String| name.split('/').next() == Some(plural.as_str());
            let mut others = rule.clone();
            others.api_groups.retain(|there| *there != group);
            if !others.api_groups.is_empty() {
                rules.push(others);
            }
            rule.api_groups = vec![group.clone()];
            rule.resources.retain(|name| !of_kind(name));
        }
        rules.push(rule);
    }
    rules.retain(|rule| !rule.resources.is_empty() || !rule.non_resource_urls.is_empty());
    let role = manifests::role(&rules, rest.namespaced);
    draft.put(layout::ROLE, role);
    Ok(())
}

/// Returns true if a CRD on disk has this version as its storage version.
pub(crate) fn stores(crd: &Value, version: &str) -> bool {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    versions.is_some_and(|versions| {
        versions
            .iter()
            .any(|there| there["name"] == version && there["storage"] == true)
    })
}
