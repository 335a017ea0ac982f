//! `create webhook` and `delete webhook`: defaulting, validation and conversion of a kind.

use operator_manifests::config::Operator;
use operator_manifests::webhook::{Target, configurations};
use operator_manifests::{rbac::Rule, render};
use serde_json::Value;

use super::create_api::checks::base_values;
use super::create_api::{OPERATOR, add_to_module};
use super::draft::Draft;
use super::{Plan, PlanError, config, delete, manifests};
use crate::args::{CreateWebhookArgs, DeleteWebhookArgs, KindArgs, WebhookArgs};
use crate::edit::rust;
use crate::names;
use crate::project::layout::{self, Place};
use crate::project::{Config, Project, Resource, Webhooks, builtin};
use crate::template::{self, ApiValues, ConversionValues};

const RUNTIME: &str = "operator_runtime::webhook";
const CERTIFICATES: &str = "managed_certificates()";

/// Plans the files of new webhooks.
pub(crate) fn plan(args: &CreateWebhookArgs, project: &Project) -> Result<Plan, PlanError> {
    if args.parts.is_empty() {
        return Err(PlanError::Usage(
            "no type of webhook was given".to_owned(),
            "use one or more of `--defaulting`, `--programmatic-validation` and `--conversion`",
        ));
    }
    let resource = resource_of(args, project)?;
    check_name(&resource.kind)?;
    let there = resource.webhooks.clone().unwrap_or_default();
    let spokes = match args.parts.conversion {
        true => spokes_of(args, &there, project)?,
        false => Vec::new(),
    };
    check_new(args, &there, &spokes)?;
    let mut draft = Draft::new(&project.tree, args.force);
    let api = values(&resource, project);
    let place = place_of(&args.kind, &project.config);
    write_webhook(&mut draft, args.parts, &api, &place)?;
    write_test(&mut draft, args.parts, &api, &place)?;
    for spoke in &spokes {
        write_spoke(&mut draft, spoke, &api, project, &place)?;
    }
    if args.parts.conversion {
        let all = joined(&there, args.parts, &spokes).spoke;
        write_conversion(&mut draft, &all, &api, project, &place)?;
        store_in_hub(&mut draft, &api, project)?;
    }
    let mut changed = project.config.clone();
    changed.put(Resource {
        webhooks: Some(joined(&there, args.parts, &spokes)),
        ..resource
    });
    let before = config::operator(&project.config, &project.tree)?;
    let after = config::with_config(&before, &changed);
    register(&mut draft, &api, &place)?;
    settle(draft, &changed, &before, &after)
}

/// Updates the files that depend on the webhooks. `before` and `after` are the states of the operator.
fn settle(
    mut draft: Draft<'_>,
    changed: &Config,
    before: &Operator,
    after: &Operator,
) -> Result<Plan, PlanError> {
    set_certificates(&mut draft, after.manages_certificates())?;
    write_manifests(&mut draft, changed);
    write_role(&mut draft, changed, after.manages_certificates())?;
    config::change(&mut draft, Some(before), after)?;
    draft.put(layout::PROJECT, changed.render());
    Ok(draft.plan)
}

// === checks ===

/// Returns the kind from PROJECT, or a new entry for it: webhooks may be for kinds of other projects.
fn resource_of(args: &CreateWebhookArgs, project: &Project) -> Result<Resource, PlanError> {
    let kind = &args.kind;
    if let Some(there) = project.config.find(&kind.group, &kind.version, &kind.kind) {
        return Ok(there.clone());
    }
    names::check_version(&kind.version)?;
    names::check_kind_syntax(&kind.kind)?;
    let foreign = |path: &str, domain: &str| Resource {
        domain: domain.to_owned(),
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        path: Some(path.to_owned()),
        version: kind.version.clone(),
        ..Resource::default()
    };
    if let Some(path) = &args.external.external_api_path {
        let domain = args.external.external_api_domain.as_deref().unwrap_or_default();
        return Ok(Resource {
            external: true,
            module: args.external.external_api_module.clone(),
            ..foreign(path, domain)
        });
    }
    let name = || format!("{}/{} {}", kind.group, kind.version, kind.kind);
    let core = builtin::find(&kind.group, &kind.version, &kind.kind);
    let core = core.ok_or_else(|| PlanError::NoSuchKind(name()))?;
    Ok(Resource {
        core: true,
        plural: Some(core.plural.to_owned()).filter(|plural| *plural != names::plural_of(core.kind)),
        ..foreign(core.module, core.domain)
    })
}

/// Rejects a kind whose type would shadow a name that its webhook file uses.
fn check_name(kind: &str) -> Result<(), PlanError> {
    const USED: [&str; 8] = [
        "AdmissionRequest",
        "Conversion",
        "Convertible",
        "Defaulter",
        "Denied",
        "Validator",
        "Warnings",
        "Webhook",
    ];
    match USED.contains(&kind) {
        false => Ok(()),
        true => Err(PlanError::Usage(
            format!("a type {kind} is used by the code of every webhook"),
            "give the kind another name, or write its webhook by hand with `operator_runtime::webhook`",
        )),
    }
}

fn check_new(args: &CreateWebhookArgs, there: &Webhooks, spokes: &[String]) -> Result<(), PlanError> {
    let parts = args.parts;
    let again = [
        (parts.defaulting && there.defaulting, "defaulting"),
        (parts.programmatic_validation && there.validation, "validating"),
        // More versions are added to an existing conversion.
        (
            parts.conversion && there.conversion && spokes.is_empty(),
            "conversion",
        ),
    ];
    match again.iter().find(|(again, _)| *again && !args.force) {
        Some((_, what)) => Err(PlanError::AlreadyThere(format!(
            "the {what} webhook of {}/{} {}",
            args.kind.group, args.kind.version, args.kind.kind
        ))),
        None => Ok(()),
    }
}

/// Returns the versions to convert to the hub: the given ones, or all others. Without `--force`, versions that already
/// have a conversion are omitted.
fn spokes_of(
    args: &CreateWebhookArgs,
    there: &Webhooks,
    project: &Project,
) -> Result<Vec<String>, PlanError> {
    let kind = &args.kind;
    let others: Vec<&Resource> = project
        .config
        .resources
        .iter()
        .filter(|there| there.is_kind(&kind.group, &kind.kind) && there.api.is_some())
        .filter(|there| there.version != kind.version)
        .collect();
    let hub = others.iter().find(|there| {
        there
            .webhooks
            .as_ref()
            .is_some_and(|webhooks| webhooks.conversion)
    });
    if let Some(hub) = hub {
        return Err(PlanError::Usage(
            format!("{} is converted through version {}", kind.kind, hub.version),
            "a kind has one hub version: remove its conversion first with `operator-sdk delete webhook --conversion`",
        ));
    }
    let named = args
        .spoke
        .iter()
        .find(|spoke| !others.iter().any(|there| there.version == **spoke));
    if let Some(unknown) = named {
        return Err(PlanError::NoSuchKind(format!(
            "{}/{unknown} {}",
            kind.group, kind.kind
        )));
    }
    if others.is_empty() {
        return Err(PlanError::Usage(
            format!("{} has no other version to convert", kind.kind),
            "add one first with `operator-sdk create api --version`",
        ));
    }
    let mut spokes = match args.spoke.is_empty() {
        true => others.iter().map(|there| there.version.clone()).collect(),
        false => args.spoke.clone(),
    };
    if there.conversion && !args.force {
        spokes.retain(|spoke| !there.spoke.contains(spoke));
    }
    Ok(spokes)
}

fn joined(there: &Webhooks, parts: WebhookArgs, spokes: &[String]) -> Webhooks {
    let mut joined = there.clone();
    joined.defaulting |= parts.defaulting;
    joined.validation |= parts.programmatic_validation;
    joined.conversion |= parts.conversion;
    for spoke in spokes {
        if !joined.spoke.contains(spoke) {
            joined.spoke.push(spoke.clone());
        }
    }
    "v1".clone_into(&mut joined.webhook_version);
    joined
}

fn values(resource: &Resource, project: &Project) -> ApiValues {
    let mut api = base_values(&resource.group, &resource.version, &resource.kind, project);
    api.api_group = resource.api_group();
    api.plural = resource.plural();
    if let Some(path) = &resource.path {
        path.clone_into(&mut api.api_path);
        api.foreign = true;
    }
    api
}

fn place_of(kind: &KindArgs, config: &Config) -> Place {
    Place::of(config, &kind.group, &kind.version, &kind.kind)
}

// === the code ===

fn write_webhook(
    draft: &mut Draft<'_>,
    parts: WebhookArgs,
    api: &ApiValues,
    place: &Place,
) -> Result<(), PlanError> {
    let module = layout::webhook_module(&api.kind);
    add_to_module(draft, api, &place.webhook_path(), &module, &[])?;
    draft.edit_rust(layout::LIB, None, |source| rust::add_module(source, "webhook"))?;
    let path = place.webhook();
    let start = template::render("webhook/webhook.rs", api)?;
    let type_ = format!("{}Webhook", api.kind);
    let parts = [
        (parts.defaulting, "Defaulter", "webhook/defaulter.rs", "defaulter"),
        (
            parts.programmatic_validation,
            "Validator",
            "webhook/validator.rs",
            "validator",
        ),
    ];
    if draft.force && parts.iter().all(|(wanted, ..)| *wanted) {
        draft.put(&path, start.clone());
    }
    let mut start = Some(start);
    for (_, trait_, template, method) in parts.into_iter().filter(|(wanted, ..)| *wanted) {
        let item = template::render(template, api)?;
        draft.edit_rust(&path, start.take(), |source| {
            let mut names = vec!["AdmissionRequest", "Denied", trait_];
            if trait_ == "Validator" {
                names.push("Warnings");
            }
            let mut source = rust::add_imports(source, RUNTIME, &names)?;
            if !rust::has_impl(&source, trait_, &type_) {
                source = rust::add_item(&source, &item);
            }
            rust::add_calls(&source, "webhook", &[format!("{method}({type_})")])
        })?;
    }
    if draft.get(&path).is_none() {
        draft.put(&path, start.unwrap_or_default());
    }
    Ok(())
}

fn write_test(
    draft: &mut Draft<'_>,
    parts: WebhookArgs,
    api: &ApiValues,
    place: &Place,
) -> Result<(), PlanError> {
    let path = place.webhook_test();
    if draft.get(&path).is_none() {
        draft.put(&path, template::render("webhook/test.rs", api)?);
    }
    let module = layout::webhook_module(&api.kind);
    let ours = format!("{}::{}::{module}", api.crate_name, place.webhook_path());
    let type_ = format!("{}Webhook", api.kind);
    let validator: &[&str] = if api.foreign {
        &["AdmissionRequest", "Validator"]
    } else {
        &[]
    };
    let parts = [
        (
            parts.defaulting,
            &["AdmissionRequest", "Defaulter"] as &[&str],
            "webhook/test_defaulter.rs",
        ),
        (
            parts.programmatic_validation,
            validator,
            "webhook/test_validator.rs",
        ),
    ];
    for (_, names, template) in parts.into_iter().filter(|(wanted, ..)| *wanted) {
        let item = template::render(template, api)?;
        draft.edit_rust(&path, None, |source| {
            let mut source = source.to_owned();
            if !names.is_empty() {
                source = rust::add_imports(&source, RUNTIME, names)?;
                source = rust::add_imports(&source, &ours, &[&type_])?;
            }
            Ok(match rust::has_last_function(&source, &item) {
                true => source,
                false => rust::add_item(&source, &item),
            })
        })?;
    }
    Ok(())
}

/// Adds the conversion of one version to the hub and back.
fn write_spoke(
    draft: &mut Draft<'_>,
    version: &str,
    hub: &ApiValues,
    project: &Project,
    hub_place: &Place,
) -> Result<(), PlanError> {
    let spoke = base_values(&hub.group, version, &hub.kind, project);
    let place = Place::of(&project.config, &hub.group, version, &hub.kind);
    let values = ConversionValues {
        spoke_path: format!("{}::{}", hub.crate_name, spoke.api_path),
        hub_version: hub.version.clone(),
        hub_path: hub.api_path.clone(),
        spoke,
    };
    let text = template::render("webhook/conversion.rs", &values)?;
    draft.own(&place.conversion(), text)?;
    let module = layout::conversion_module(&hub.kind);
    add_to_module(draft, &values.spoke, &place.api_path(), &module, &[])?;
    let item = template::render("webhook/test_conversion.rs", &values)?;
    draft.edit_rust(&hub_place.webhook_test(), None, |source| {
        let names = ["Convertible", "hub_round_trip", "round_trip"];
        let source = rust::add_imports(source, RUNTIME, &names)?;
        Ok(rust::add_item(&source, &item))
    })
}

fn write_conversion(
    draft: &mut Draft<'_>,
    spokes: &[String],
    api: &ApiValues,
    project: &Project,
    place: &Place,
) -> Result<(), PlanError> {
    let chain: String = spokes
        .iter()
        .map(|version| {
            let spoke = Place::of(&project.config, &api.group, version, &api.kind);
            format!(".spoke::<{}::{}>()", absolute(&spoke.api_path()), api.kind)
        })
        .collect();
    draft.edit_rust(&place.webhook(), None, |source| {
        let source = rust::add_imports(source, RUNTIME, &["Conversion"])?;
        let source = rust::remove_method(&source, "webhook", "conversion")?;
        rust::add_calls(
            &source,
            "webhook",
            &[format!("conversion(Conversion::new(){chain})")],
        )
    })
}

/// Makes the hub the storage version. A request then needs at most one conversion, and fields that exist only in the
/// hub are kept.
fn store_in_hub(draft: &mut Draft<'_>, hub: &ApiValues, project: &Project) -> Result<(), PlanError> {
    let versions = project.config.resources.iter();
    let versions = versions.filter(|there| there.is_kind(&hub.group, &hub.kind) && there.api.is_some());
    for version in versions.map(|there| &there.version) {
        let path = Place::of(&project.config, &hub.group, version, &hub.kind).types();
        if draft.get(&path).is_some() {
            let stored = *version == hub.version;
            draft.edit_rust(&path, None, |source| rust::set_storage(source, &hub.kind, stored))?;
        }
    }
    let path = layout::crd_base(&format!("{}_{}.yaml", hub.api_group, hub.plural));
    let there = draft
        .get(&path)
        .and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    let Some(mut definition) = there else {
        return Ok(());
    };
    let versions = definition
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut);
    let mut changed = false;
    for version in versions.into_iter().flatten() {
        let stored = Value::Bool(version["name"] == hub.version);
        changed |= version["storage"] != stored;
        if let Some(version) = version.as_object_mut() {
            version.insert("storage".to_owned(), stored);
        }
    }
    if changed {
        draft.put(&path, render::documents([&definition]));
    }
    Ok(())
}

fn absolute(path: &str) -> String {
    format!("crate::{path}")
}

// === registration ===

/// Returns the call in src/lib.rs that creates the webhooks of a kind.
fn constructor(api: &ApiValues, place: &Place) -> String {
    let module = layout::webhook_module(&api.kind);
    format!("{}::{module}::webhook()", place.webhook_path())
}

fn register(draft: &mut Draft<'_>, api: &ApiValues, place: &Place) -> Result<(), PlanError> {
    let webhook = constructor(api, place);
    draft.edit_rust(layout::LIB, None, |source| {
        rust::add_calls(source, OPERATOR, &[format!("webhook({webhook})")])
    })
}

/// Adds or removes the permissions that managed certificates need.
pub(crate) fn set_certificates(draft: &mut Draft<'_>, managed: bool) -> Result<(), PlanError> {
    draft.edit_rust(layout::LIB, None, |source| {
        let source = rust::remove_calls(source, OPERATOR, &[CERTIFICATES.to_owned()])?;
        match managed {
            true => rust::add_calls(&source, OPERATOR, &[CERTIFICATES.to_owned()]),
            false => Ok(source),
        }
    })
}

/// Writes config/webhook/manifests.yaml in the form that `generate manifests` will write. Entries with custom options
/// are kept.
fn write_manifests(draft: &mut Draft<'_>, config: &Config) {
    let there = draft.get(layout::WEBHOOK_MANIFESTS).unwrap_or_default();
    let there = entries_of(there);
    let mut mutating = Vec::new();
    let mut validating = Vec::new();
    for resource in &config.resources {
        let Some(webhooks) = &resource.webhooks else {
            continue;
        };
        let (group, plural) = (resource.api_group(), resource.plural());
        let target = Target {
            api_group: &group,
            version: &resource.version,
            kind: &resource.kind,
            plural: &plural,
        };
        let known = |entry: Value| {
            let same = there.iter().find(|there| there["name"] == entry["name"]);
            same.cloned().unwrap_or(entry)
        };
        if webhooks.defaulting {
            mutating.push(known(target.mutating()));
        }
        if webhooks.validation {
            validating.push(known(target.validating()));
        }
    }
    let configurations = configurations(&mutating, &validating);
    if configurations.is_empty() {
        draft.remove(layout::WEBHOOK_MANIFESTS);
    } else {
        draft.put(layout::WEBHOOK_MANIFESTS, render::documents(&configurations));
    }
}

fn entries_of(manifests: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap_or_default();
    let entries = documents
        .iter()
        .filter_map(|document| document["webhooks"].as_array());
    entries.flatten().cloned().collect()
}

/// Returns the role with or without the rules for managed certificates, in the form that `generate manifests` will
/// write.
pub(crate) fn write_role(draft: &mut Draft<'_>, config: &Config, managed: bool) -> Result<(), PlanError> {
    let there = draft.get(layout::ROLE);
    let mut rules = there.map_or_else(|| Ok(Vec::new()), manifests::rules_of)?;
    rules.retain(|rule| !is_about_certificates(rule));
    if managed {
        rules.extend(certificate_rules(config));
    }
    draft.put(layout::ROLE, manifests::role(&rules, config.namespaced));
    Ok(())
}

fn certificate_rules(config: &Config) -> Vec<Rule> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut rules = vec![
        Rule {
            api_groups: words(&[""]),
            resources: words(&["secrets"]),
            verbs: words(&["get", "create", "update"]),
            namespace: Some(manifests::OWN_NAMESPACE.to_owned()),
            ..Rule::default()
        },
        Rule {
            api_groups: words(&["admissionregistration.k8s.io"]),
            resources: words(&["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]),
            verbs: words(&["list", "watch", "patch"]),
            ..Rule::default()
        },
    ];
    let converted = config.resources.iter().filter(|resource| {
        let webhooks = resource.webhooks.as_ref();
        webhooks.is_some_and(|webhooks| webhooks.conversion)
    });
    let names: Vec<String> = converted
        .map(|resource| format!("{}.{}", resource.plural(), resource.api_group()))
        .collect();
    if !names.is_empty() {
        rules.push(Rule {
            api_groups: words(&["apiextensions.k8s.io"]),
            resources: words(&["customresourcedefinitions"]),
            resource_names: names,
            verbs: words(&["list", "watch", "patch"]),
            ..Rule::default()
        });
    }
    rules
}

/// Grants the rules for the operator's own namespace in all namespaces, except reading Secrets.
pub(crate) fn widen(rules: &mut [Rule]) {
    for rule in rules.iter_mut().filter(|rule| !is_about_certificates(rule)) {
        rule.namespace
            .take_if(|namespace| namespace == manifests::OWN_NAMESPACE);
    }
}

fn is_about_certificates(rule: &Rule) -> bool {
    let own_secrets =
        rule.resources == ["secrets"] && rule.namespace.as_deref() == Some(manifests::OWN_NAMESPACE);
    let configurations = rule.api_groups == ["admissionregistration.k8s.io"];
    let definitions = rule.api_groups == ["apiextensions.k8s.io"] && !rule.resource_names.is_empty();
    own_secrets || configurations || definitions
}

// === delete webhook ===

/// Plans the changes of `delete webhook`.
pub(crate) fn deletion(args: &DeleteWebhookArgs, project: &Project) -> Result<Plan, PlanError> {
    let kind = &args.kind;
    let name = format!("{}/{} {}", kind.group, kind.version, kind.kind);
    let there = project.config.find(&kind.group, &kind.version, &kind.kind);
    let resource = there
        .filter(|there| there.has_webhooks())
        .ok_or_else(|| PlanError::NotThere(format!("a webhook of {name}")))?
        .clone();
    let mut rest = resource.webhooks.clone().unwrap_or_default();
    let gone = without(&mut rest, args.parts, &name)?;
    let mut draft = Draft::new(&project.tree, args.consent.force);
    let api = values(&resource, project);
    let place = place_of(kind, &project.config);
    let none = !(rest.defaulting || rest.validation || rest.conversion);
    if gone.conversion {
        for version in &resource.webhooks.clone().unwrap_or_default().spoke {
            remove_spoke(&mut draft, version, &api, project)?;
        }
    }
    if none {
        remove_all(&mut draft, &api, &place)?;
    } else {
        remove_calls(&mut draft, gone, &api, &place)?;
    }
    let mut changed = project.config.clone();
    let left = Resource {
        webhooks: (!none).then_some(rest),
        ..resource
    };
    match left.api.is_none() && !left.has_controller() && !left.has_webhooks() {
        true => changed.remove(&kind.group, &kind.version, &kind.kind),
        false => changed.put(left),
    }
    let before = config::operator(&project.config, &project.tree)?;
    let after = config::with_config(&before, &changed);
    settle(draft, &changed, &before, &after)
}

/// Removes the given webhooks, or all, from `rest`, and returns the removed ones.
fn without(rest: &mut Webhooks, parts: WebhookArgs, name: &str) -> Result<WebhookArgs, PlanError> {
    let all = parts.is_empty();
    let mut take = |wanted: bool, there: fn(&mut Webhooks) -> &mut bool, what: &str| {
        let there = there(rest);
        if wanted && !*there && !all {
            return Err(PlanError::NotThere(format!("the {what} webhook of {name}")));
        }
        let taken = (wanted || all) && *there;
        *there &= !taken;
        Ok(taken)
    };
    let gone = WebhookArgs {
        defaulting: take(parts.defaulting, |it| &mut it.defaulting, "defaulting")?,
        programmatic_validation: take(
            parts.programmatic_validation,
            |it| &mut it.validation,
            "validating",
        )?,
        conversion: take(parts.conversion, |it| &mut it.conversion, "conversion")?,
    };
    if gone.conversion {
        rest.spoke.clear();
    }
    Ok(gone)
}

fn remove_spoke(
    draft: &mut Draft<'_>,
    version: &str,
    hub: &ApiValues,
    project: &Project,
) -> Result<(), PlanError> {
    let place = Place::of(&project.config, &hub.group, version, &hub.kind);
    draft.remove(&place.conversion());
    delete::remove_from_module(draft, &place.api_path(), &layout::conversion_module(&hub.kind))
}

fn remove_all(draft: &mut Draft<'_>, api: &ApiValues, place: &Place) -> Result<(), PlanError> {
    draft.remove(&place.webhook());
    draft.remove(&place.webhook_test());
    delete::remove_from_module(draft, &place.webhook_path(), &layout::webhook_module(&api.kind))?;
    delete::remove_empty_modules(draft, place)?;
    let webhook = constructor(api, place);
    draft.edit_rust(layout::LIB, None, |source| {
        rust::remove_calls(source, OPERATOR, &[format!("webhook({webhook})")])
    })?;
    if draft.get(layout::WEBHOOK).is_some_and(rust::has_no_items) {
        draft.remove(layout::WEBHOOK);
        draft.edit_rust(layout::LIB, None, |source| rust::remove_module(source, "webhook"))?;
    }
    Ok(())
}

/// Removes the calls that create the webhooks. Their code stays until the author removes it.
fn remove_calls(
    draft: &mut Draft<'_>,
    gone: WebhookArgs,
    api: &ApiValues,
    place: &Place,
) -> Result<(), PlanError> {
    let type_ = format!("{}Webhook", api.kind);
    let calls = [
        (gone.defaulting, "defaulter"),
        (gone.programmatic_validation, "validator"),
    ];
    draft.edit_rust(&place.webhook(), None, |source| {
        let mut source = source.to_owned();
        for (_, method) in calls.into_iter().filter(|(gone, _)| *gone) {
            source = rust::remove_calls(&source, "webhook", &[format!("{method}({type_})")])?;
        }
        match gone.conversion {
            true => rust::remove_method(&source, "webhook", "conversion"),
            false => Ok(source),
        }
    })?;
    let path = place.webhook_test();
    if gone.conversion && draft.get(&path).is_some() {
        // The tests of the conversion use the type, which has lost its conversion.
        for suffix in ["_comes_back_whole", "_is_served_too"] {
            draft.edit_rust(&path, None, |source| rust::remove_functions(source, suffix))?;
        }
        draft.edit_rust(&path, None, |source| {
            rust::remove_imports(source, RUNTIME, &["Convertible", "hub_round_trip", "round_trip"])
        })?;
        draft.edit_rust(&place.webhook(), None, |source| {
            rust::remove_imports(source, RUNTIME, &["Conversion"])
        })?;
    }
    Ok(())
}
