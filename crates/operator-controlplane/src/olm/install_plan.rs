//! InstallPlan: executes the steps in order, retries for a minute, and reports the outcome.

use std::time::Duration;

use jiff::SignedDuration;
use operator_apiserver::client::{Event, Gvr, ServedResource};
use serde_json::{Value, json};
use structural_schema::Schema;

use super::kinds::{CSV, INSTALL_PLAN};
use super::{owner_labels, owner_reference};
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{CUSTOM_RESOURCE_DEFINITION, Kind};
use crate::object::{Object, set, time, with_status};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, until, update_subresource};

/// The time during which failing steps are retried, in seconds.
const RETRY_SECONDS: i64 = 60;

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "olm-install-plan",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&INSTALL_PLAN, event, keys);
    if CUSTOM_RESOURCE_DEFINITION.is(&event.gvr) || CSV.is(&event.gvr) {
        let running = objects
            .list(&INSTALL_PLAN, "")
            .filter(|plan| plan.text("/status/phase") == "Installing");
        keys.extend(running.map(|plan| Key::of(plan)));
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key) -> Plan {
    let found = world.objects.get(&INSTALL_PLAN, &key.namespace, &key.name);
    let Some(found) = found.filter(|plan| !plan.is_terminating()) else {
        return Plan::done();
    };
    let status = found.get("status").cloned().unwrap_or_default();
    match found.text("/status/phase") {
        "RequiresApproval" if found.flag("/spec/approved") => {
            let mut status = status;
            status["phase"] = "Installing".into();
            act(found, status)
        }
        "Installing" if found.text("/status/startTime").is_empty() => {
            let mut status = status;
            status["startTime"] = time(world.now);
            act(found, status)
        }
        "Installing" => install(world, found, status),
        _ => Plan::done(),
    }
}

fn act(plan: &Value, status: Value) -> Plan {
    Plan::act(update_subresource(
        &INSTALL_PLAN,
        "status",
        with_status(plan, status),
    ))
}

/// The state of a step.
pub(super) enum Step {
    Done(&'static str),
    /// A write is needed.
    Write(Box<Action>),
    Wait,
    Failed {
        status: &'static str,
        message: String,
        is_final: bool,
    },
}

fn install(world: &World<'_>, plan: &Value, mut status: Value) -> Plan {
    let resources = (world.resources)();
    let start = plan.time("/status/startTime").unwrap_or(world.now);
    let deadline = start
        .checked_add(SignedDuration::from_secs(RETRY_SECONDS))
        .unwrap_or(start);
    let steps = plan.items("/status/plan");
    let mut states: Vec<Value> = steps.to_vec();
    for (index, step) in steps.iter().enumerate() {
        let state = self::step(world, plan, step, &resources, start);
        match state {
            Step::Done(state) => states[index]["status"] = state.into(),
            Step::Wait => {
                return Plan {
                    after: Some(Duration::from_secs(1)),
                    ..Plan::default()
                };
            }
            Step::Write(action) => {
                let Some(failure) = world.failure else {
                    return Plan::act(*action);
                };
                status["plan"] = json!(states);
                if world.now >= deadline && !is_forbidden(&failure.message) {
                    return failed(world, plan, status, &failure.message);
                }
                status["message"] = format!("retrying execution due to error: {}", failure.message).into();
                return Plan {
                    actions: vec![*action],
                    status: Some(update_subresource(
                        &INSTALL_PLAN,
                        "status",
                        with_status(plan, status),
                    )),
                    after: None,
                };
            }
            Step::Failed {
                status: state,
                message,
                is_final,
            } => {
                states[index]["status"] = state.into();
                status["plan"] = json!(states);
                if is_final || world.now >= deadline {
                    return failed(world, plan, status, &message);
                }
                status["message"] = format!("retrying execution due to error: {message}").into();
                let changed = plan.get("status") != Some(&status);
                return Plan {
                    status: changed
                        .then(|| update_subresource(&INSTALL_PLAN, "status", with_status(plan, status))),
                    after: Some(until(world.now, deadline)),
                    ..Plan::default()
                };
            }
        }
    }
    status["plan"] = json!(states);
    status["phase"] = "Complete".into();
    if let Value::Object(fields) = &mut status {
        fields.remove("message");
    }
    let now = time(world.now);
    status["conditions"] = json!([{
        "type": "Installed", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now,
    }]);
    act(plan, status)
}

/// Returns true if a write was rejected because of a permission. It is retried without limit, because the permission
/// may still be granted.
fn is_forbidden(message: &str) -> bool {
    message.contains("is forbidden:")
}

fn failed(world: &World<'_>, plan: &Value, mut status: Value, message: &str) -> Plan {
    let now = time(world.now);
    status["phase"] = "Failed".into();
    status["message"] = message.into();
    status["conditions"] = json!([{
        "type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }]);
    Plan {
        status: Some(update_subresource(
            &INSTALL_PLAN,
            "status",
            with_status(plan, status),
        )),
        ..Plan::default()
    }
}

fn step(
    world: &World<'_>,
    plan: &Value,
    step: &Value,
    resources: &[ServedResource],
    start: jiff::Timestamp,
) -> Step {
    let Ok(mut object) = serde_json::from_str::<Value>(step.text("/resource/manifest")) else {
        return invalid("the InstallPlan contains invalid data".to_owned());
    };
    let kind = step.text("/resource/kind");
    let (group, version) = (step.text("/resource/group"), step.text("/resource/version"));
    let served = resources
        .iter()
        .find(|served| served.gvr.group == group && served.kind == kind);
    let Some(served) = served else {
        return Step::Failed {
            status: "UnsupportedResource",
            message: format!(
                "api-server resource not found installing {kind} {}: GroupVersionKind {group}/{version}, Kind={kind} \
                 not found on the cluster. This API may have been deprecated and removed, see \
                 https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information.",
                object.name()
            ),
            is_final: true,
        };
    };
    if served.namespaced {
        set(&mut object, &["metadata", "namespace"], plan.namespace().into());
    }
    let gvr = Gvr::new(group, version, &served.gvr.resource);
    let key = Key::of(&object);
    let known = world.objects.find(&gvr, &key);
    let state = |known: &Value| {
        let created = known.time("/metadata/creationTimestamp");
        if created.is_some_and(|created| created.as_second() >= start.as_second()) {
            "Created"
        } else {
            "Present"
        }
    };
    match (kind, known) {
        ("ClusterServiceVersion" | "Subscription", Some(known)) => Step::Done(state(known)),
        ("ClusterServiceVersion" | "Subscription", None) => Step::Write(Box::new(created(&gvr, object))),
        ("CustomResourceDefinition", Some(known)) => {
            definition(world.objects, &gvr, known, &object, state(known))
        }
        (_, known) => {
            let owner = world.objects.get(&CSV, plan.namespace(), step.text("/resolving"));
            let Some(owner) = owner else {
                // The owner was deleted, so nothing is installed for it.
                return Step::Done("NotPresent");
            };
            if kind != "CustomResourceDefinition" {
                own(&mut object, owner, served.namespaced, known.map(AsRef::as_ref));
            }
            match known {
                None => Step::Write(Box::new(created(&gvr, object))),
                Some(known) => match merged(known, &object) {
                    Some(changed) => Step::Write(Box::new(put(&gvr, changed))),
                    None => Step::Done(state(known)),
                },
            }
        }
    }
}

fn invalid(message: String) -> Step {
    Step::Failed {
        status: "Unknown",
        message,
        is_final: true,
    }
}

fn created(gvr: &Gvr, object: Value) -> Action {
    Action::Create {
        gvr: gvr.clone(),
        object: Box::new(object),
        note: None,
    }
}

fn put(gvr: &Gvr, object: Value) -> Action {
    Action::Put {
        gvr: gvr.clone(),
        object: Box::new(object),
    }
}

/// Adds the labels of an owned object, and the owner reference if the owner is in the same namespace.
fn own(object: &mut Value, owner: &Value, namespaced: bool, known: Option<&Value>) {
    if let Value::Object(labels) = owner_labels(CSV.name, owner) {
        for (name, value) in labels {
            set(object, &["metadata", "labels", &name], value);
        }
    }
    if namespaced {
        let mut owners = known.map_or(Vec::new(), |known| {
            known.items("/metadata/ownerReferences").to_vec()
        });
        if !owners.iter().any(|known| known.text("/uid") == owner.uid()) {
            owners.push(owner_reference(&CSV, owner));
        }
        set(object, &["metadata", "ownerReferences"], json!(owners));
    }
}

/// Returns the live object with the content of a manifest, or `None` if they do not differ.
pub(super) fn merged(known: &Value, wanted: &Value) -> Option<Value> {
    let mut changed = known.clone();
    let Value::Object(fields) = wanted else {
        return None;
    };
    for (name, value) in fields {
        match name.as_str() {
            "metadata" => {
                for map in ["labels", "annotations"] {
                    for (name, value) in value.texts(&format!("/{map}")) {
                        set(&mut changed, &["metadata", map, name], value.into());
                    }
                }
                if let Some(owners) = value.get("ownerReferences") {
                    set(&mut changed, &["metadata", "ownerReferences"], owners.clone());
                }
            }
            "status" | "apiVersion" | "kind" => {}
            _ => overlay(&mut changed[name], value, 0),
        }
    }
    (changed != *known).then_some(changed)
}

/// Merges the fields of a manifest into a live object, which keeps its defaults and allocated values.
fn overlay(live: &mut Value, wanted: &Value, depth: usize) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) if depth < 64 => {
            for (name, value) in wanted {
                overlay(live.entry(name.clone()).or_insert(Value::Null), value, depth + 1);
            }
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() && depth < 64 => {
            for (live, wanted) in live.iter_mut().zip(wanted) {
                overlay(live, wanted, depth + 1);
            }
        }
        (live, wanted) => *live = wanted.clone(),
    }
}

/// Updates an existing CRD, unless a stored version would be removed or an object would be invalid. Waits until the
/// CRD is established.
pub(super) fn definition(
    objects: &Objects,
    gvr: &Gvr,
    known: &Value,
    wanted: &Value,
    state: &'static str,
) -> Step {
    let versions: Vec<&str> = wanted
        .items("/spec/versions")
        .iter()
        .map(|version| version.text("/name"))
        .collect();
    for stored in known
        .items("/status/storedVersions")
        .iter()
        .filter_map(Value::as_str)
    {
        if !versions.contains(&stored) {
            return Step::Failed {
                status: "Unknown",
                message: format!(
                    "risk of data loss updating \"{}\": new CRD removes version {stored} that is listed as a stored \
                     version on the existing CRD",
                    known.name()
                ),
                is_final: false,
            };
        }
    }
    let mut wanted = wanted.clone();
    // A conversion that OLM installed is kept until the new operator replaces it.
    if known.text("/spec/conversion/strategy") == "Webhook"
        && let Value::Object(spec) = &mut wanted["spec"]
    {
        spec.remove("conversion");
    }
    let schemas = |definition: &Value| -> Vec<Option<Value>> {
        let versions = definition.items("/spec/versions").iter();
        versions.map(|version| version.get("schema").cloned()).collect()
    };
    let mut changed = merged(known, &wanted);
    if schemas(known) != schemas(&wanted) {
        if let Some(message) = too_restrictive(objects, &wanted) {
            return Step::Failed {
                status: "Unknown",
                message,
                is_final: false,
            };
        }
        let mut replaced = known.clone();
        replaced["spec"]["versions"] = wanted["spec"]["versions"].clone();
        changed = Some(changed.map_or(replaced.clone(), |mut changed| {
            changed["spec"]["versions"] = replaced["spec"]["versions"].take();
            changed
        }));
    }
    match changed {
        Some(changed) => Step::Write(Box::new(put(gvr, changed))),
        None if known.is_condition_true("Established") => Step::Done(state),
        None => Step::Wait,
    }
}

/// Returns the first existing object that a new schema rejects, with the reason.
fn too_restrictive(objects: &Objects, definition: &Value) -> Option<String> {
    let group = definition.text("/spec/group");
    let is_converted = definition.text("/spec/conversion/strategy") == "Webhook";
    for version in definition
        .items("/spec/versions")
        .iter()
        .filter(|version| version.flag("/served"))
    {
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        // The API server reports an invalid schema.
        let schema = Schema::compile(schema).ok()?;
        let version = version.text("/name");
        let kind = Kind {
            gvr: Gvr::new(group, version, definition.text("/spec/names/plural")),
            name: "",
        };
        for object in objects.list(&kind, "") {
            let is_stored = object.text("/apiVersion") == kind.api_version();
            if is_converted && !is_stored {
                continue;
            }
            let errors = schema.validate(object, None);
            let reason = match &*errors {
                [] => continue,
                [error] => error.to_string(),
                errors => format!(
                    "[{}]",
                    errors
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };
            let name = match object.namespace() {
                "" => object.name().to_owned(),
                namespace => format!("{namespace}/{}", object.name()),
            };
            return Some(format!(
                "error validating {group}/{version}, Kind={} \"{name}\": updated validation is too restrictive: {reason}",
                definition.text("/spec/names/kind")
            ));
        }
    }
    None
}
