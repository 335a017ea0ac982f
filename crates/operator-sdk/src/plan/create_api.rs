//! `create api`: type, controller, test, sample and roles of a kind, and their registration in the project.

pub(crate) mod checks;
mod definition;

use operator_manifests::rbac::Rule;
use operator_manifests::render;
use serde_json::Map;
use toml_edit::{DocumentMut, InlineTable, Item, Value};

use self::checks::{Wanted, checked};
use super::draft::Draft;
use super::{Plan, PlanError, chaos, config, manifests};
use crate::args::CreateApiArgs;
use crate::edit::rust;
use crate::names;
use crate::project::layout::{self, Place};
use crate::project::{Api, Config, NamedController, Project, Resource};
use crate::template::{self, ApiValues};

/// Plans the files. `resource` and `controller` of the arguments must be set, or have their defaults.
pub(crate) fn plan(args: &CreateApiArgs, project: &Project) -> Result<Plan, PlanError> {
    let wanted = checked(args, project)?;
    let mut draft = Draft::new(&project.tree, args.force);
    let before = config::operator(&project.config, &project.tree)?;
    if wanted.resource {
        write_type(&mut draft, &wanted)?;
    }
    if wanted.controller {
        write_controller(&mut draft, &wanted)?;
    }
    if wanted.resource && wanted.api.storage {
        chaos::add(&mut draft, &wanted.api)?;
    }
    register(&mut draft, &wanted)?;
    let mut changed = project.config.clone();
    changed.put(resource(&wanted, &project.config));
    if wanted.controller {
        let role = with_rules(&draft, &changed, scaffolded_rules(&wanted.api))?;
        draft.put(layout::ROLE, role);
    }
    if let Some(module) = &args.external.external_api_module {
        let text = with_dependency(draft.get(layout::CARGO).unwrap_or_default(), module)?;
        draft.put(layout::CARGO, text);
    }
    let after = config::with_config(&before, &changed);
    config::change(&mut draft, Some(&before), &after)?;
    draft.put(layout::PROJECT, changed.render());
    Ok(draft.plan)
}

fn resource(wanted: &Wanted, config: &Config) -> Resource {
    let api = &wanted.api;
    let there = config.find(&api.group, &api.version, &api.kind).cloned();
    let mut resource = there.unwrap_or_else(|| Resource {
        core: api.foreign && !api.external,
        domain: wanted.domain.clone(),
        external: api.external,
        group: api.group.clone(),
        kind: api.kind.clone(),
        module: wanted.module.clone(),
        path: api.foreign.then(|| api.api_path.clone()),
        version: api.version.clone(),
        ..Resource::default()
    });
    if wanted.resource {
        resource.api = Some(Api {
            crd_version: "v1".to_owned(),
            namespaced: api.namespaced,
            rest: Map::new(),
        });
    }
    resource.plural = Some(api.plural.clone()).filter(|plural| *plural != names::plural_of(&api.kind));
    if wanted.controller {
        add_controller(&mut resource, api);
    }
    resource
}

/// Records a controller in PROJECT: a single one as `controller: true`, several by name.
fn add_controller(resource: &mut Resource, api: &ApiValues) {
    let named = |name: &str| NamedController {
        name: name.to_owned(),
    };
    match &api.controller_name {
        None if resource.controllers.is_empty() => resource.controller = true,
        name => {
            if std::mem::take(&mut resource.controller) {
                resource.controllers.push(named(&api.kind_lower));
            }
            let controller = named(name.as_deref().unwrap_or(&api.kind_lower));
            if !resource.controllers.contains(&controller) {
                resource.controllers.push(controller);
            }
        }
    }
}

// === the type ===

fn write_type(draft: &mut Draft<'_>, wanted: &Wanted) -> Result<(), PlanError> {
    let api = &wanted.api;
    let template = match api.image {
        Some(_) => "image/types.rs",
        None => "api/types.rs",
    };
    draft.own(&wanted.place.types(), template::render(template, api)?)?;
    let module = layout::types_module(&api.kind);
    let names = ["", "Spec", "Status"].map(|suffix| format!("{}{suffix}", api.kind));
    add_to_module(draft, api, &api.api_path, &module, &names)?;

    let path = layout::crd_base(&wanted.kind.crd_file());
    let derived = definition::derived(api);
    let crd = manifests::joined(draft.get(&path), derived)?;
    draft.put(&path, render::documents([crd.value()]));
    draft.own(
        &layout::sample(&wanted.kind.sample_file()),
        template::render("config/sample.yaml", api)?,
    )
}

/// Adds `pub mod module;` and its names to a module such as `api::cache::v1`, which is created if it does not exist.
pub(crate) fn add_to_module(
    draft: &mut Draft<'_>,
    api: &ApiValues,
    path: &str,
    module: &str,
    names: &[String],
) -> Result<(), PlanError> {
    let header = &api.header;
    for (depth, parent) in Place::parents(path).into_iter().enumerate() {
        // `init` wrote the outermost module, except that of the webhooks. The next module is that of the group.
        let start = match depth {
            0 if parent.path == layout::WEBHOOK => Some(format!(
                "{header}//! The webhooks of this operator, by version.\n"
            )),
            0 => None,
            _ => Some(format!("{header}//! The group {}.\n", api.api_group)),
        };
        draft.edit_rust(&parent.path, start, |source| {
            rust::add_module(source, &parent.module)
        })?;
    }
    let start = match path.contains("::") {
        true if path.ends_with(&format!("::{}", api.version)) => template::render("api/version.rs", api)?,
        _ => format!("{header}//! The controllers of the group {}.\n", api.api_group),
    };
    draft.edit_rust(&layout::module_file(path), Some(start), |source| {
        let source = rust::add_module(source, module)?;
        match names {
            [] => Ok(source),
            names => rust::add_reexport(&source, module, names),
        }
    })
}

// === the controller ===

fn write_controller(draft: &mut Draft<'_>, wanted: &Wanted) -> Result<(), PlanError> {
    let api = &wanted.api;
    // A second controller of a kind does not write its status.
    let (code, test) = match (&api.image, api.foreign || api.controller_name.is_some()) {
        (_, true) => ("further/controller.rs", "further/test.rs"),
        (Some(_), false) => ("image/controller.rs", "image/test.rs"),
        (None, false) => ("api/controller.rs", "api/test.rs"),
    };
    let name = api.controller_file_name();
    let module = layout::controller_module(name);
    draft.own(&wanted.place.controller(name), template::render(code, api)?)?;
    draft.own(&wanted.place.test(&module), template::render(test, api)?)?;
    add_to_module(draft, api, &wanted.place.controller_path(), &module, &[])
}

/// Adds the kind and its controller to `operator` of src/lib.rs.
fn register(draft: &mut Draft<'_>, wanted: &Wanted) -> Result<(), PlanError> {
    let api = &wanted.api;
    let mut calls = Vec::new();
    if wanted.resource {
        calls.push(crd_call(&api.api_path, &api.kind));
    }
    if wanted.controller {
        let module = layout::controller_module(api.controller_file_name());
        calls.push(controller_call(&wanted.place.controller_path(), &module));
    }
    draft.edit_rust(layout::LIB, None, |source| {
        rust::add_calls(source, OPERATOR, &calls)
    })
}

/// The function of src/lib.rs that returns the operator.
pub(crate) const OPERATOR: &str = "operator";

pub(crate) fn crd_call(api_path: &str, kind: &str) -> String {
    format!("crd::<{api_path}::{kind}>()")
}

pub(crate) fn controller_call(path: &str, module: &str) -> String {
    format!("controller({path}::{module}::controller())")
}

// === the role ===

/// Returns the role with additional rules, in the form that `generate manifests` will write.
pub(crate) fn with_rules(draft: &Draft<'_>, config: &Config, more: Vec<Rule>) -> Result<String, PlanError> {
    let there = draft.get(layout::ROLE);
    let mut rules = there.map_or_else(|| Ok(Vec::new()), manifests::rules_of)?;
    rules.extend(more);
    Ok(manifests::role(&rules, config.namespaced))
}

/// Returns the permissions for the kinds that the scaffolded controller watches and owns.
fn scaffolded_rules(api: &ApiValues) -> Vec<Rule> {
    let (read, all) = ("get;list;watch", "create;delete;get;list;patch;update;watch");
    let rule = |group: &str, resource: &str, verbs: &str| Rule {
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        verbs: verbs.split(';').map(str::to_owned).collect(),
        ..Rule::default()
    };
    let plural = &api.plural;
    let mut rules = vec![
        rule(&api.api_group, plural, read),
        rule(&api.api_group, &format!("{plural}/finalizers"), "update"),
        rule("events.k8s.io", "events", "create;patch"),
    ];
    if !api.foreign {
        rules.push(rule(
            &api.api_group,
            &format!("{plural}/status"),
            "get;update;patch",
        ));
    }
    if api.image.is_some() {
        rules.push(rule("apps", "deployments", all));
        rules.push(rule("", "pods", "get;list;watch"));
    }
    rules
}

// === the dependency ===

/// Adds the crate of external types to Cargo.toml. An existing dependency keeps its version.
fn with_dependency(manifest: &str, module: &str) -> Result<String, PlanError> {
    let broken = |reason: String| PlanError::Edit {
        path: layout::CARGO.to_owned(),
        reason,
        remedy: "correct the file, or add the dependency by hand".to_owned(),
    };
    let (name, version) = module.split_once('@').ok_or_else(|| {
        PlanError::Usage(
            format!("{module:?} is not a crate with a version"),
            "write it as `--external-api-module NAME@VERSION`",
        )
    })?;
    let mut document: DocumentMut = manifest
        .parse()
        .map_err(|_| broken("it is not valid TOML".to_owned()))?;
    let dependencies = document
        .get_mut("dependencies")
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| broken("it has no `[dependencies]`".to_owned()))?;
    if !dependencies.contains_key(name) {
        let mut table = InlineTable::new();
        table.insert("version", Value::from(version));
        dependencies.insert(name, Item::Value(Value::InlineTable(table)));
    }
    Ok(document.to_string())
}
