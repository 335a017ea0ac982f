//! The Deployments of a ClusterServiceVersion: their desired state, and their health.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Certificates, Member, api_service, webhook};
use crate::kind::DEPLOYMENT;
use crate::object::{Object, set};
use crate::olm::kinds::{CSV, SUBSCRIPTION};
use crate::olm::names::{hash, label};
use crate::olm::{is_owned, owner_labels, owner_reference};
use crate::plan::{Action, create, delete, update};

const HASH: &str = "olm.deployment-spec-hash";

/// The state of an installation.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::olm) enum Health {
    Ready,
    Waiting(String),
    /// An owned API is not available yet.
    ApisMissing,
    /// A part differs from its desired state, and is installed again.
    Changed(String),
    Failed(String),
}

/// Returns the remaining writes of an installation: webhooks with their certificates, then Deployments.
pub(super) fn actions(
    member: &Member<'_>,
    certificates: &mut Certificates<'_>,
) -> Result<Vec<Action>, String> {
    let before = webhook::services(member, certificates)?;
    if !before.is_empty() {
        return Ok(before);
    }
    let mut actions = Vec::new();
    for wanted in deployments(member) {
        match live(member, wanted.name()) {
            None => actions.push(create(&DEPLOYMENT, wanted, None)),
            Some(known) if is_same(known, &wanted) && is_owner(member, known) => {}
            Some(known) => {
                let mut changed = Value::clone(known);
                changed["spec"] = wanted["spec"].clone();
                for field in ["labels", "annotations"] {
                    if let Value::Object(entries) = &wanted["metadata"][field] {
                        for (name, value) in entries {
                            set(&mut changed, &["metadata", field, name], value.clone());
                        }
                    }
                }
                set(
                    &mut changed,
                    &["metadata", "ownerReferences"],
                    wanted["metadata"]["ownerReferences"].clone(),
                );
                actions.push(update(&DEPLOYMENT, changed, None));
            }
        }
    }
    actions.extend(orphans(member).map(|orphan| delete(&DEPLOYMENT, orphan, None)));
    if actions.is_empty() {
        actions = api_service::actions(member);
        actions.extend(webhook::configurations(member)?);
    }
    Ok(actions)
}

fn live<'a>(member: &Member<'a>, name: &str) -> Option<&'a Arc<Value>> {
    member
        .world
        .objects
        .get(&DEPLOYMENT, member.csv.namespace(), name)
}

fn is_owner(member: &Member<'_>, object: &Value) -> bool {
    let owners = object.items("/metadata/ownerReferences").iter();
    owners
        .map(|owner| owner.text("/uid"))
        .any(|uid| uid == member.csv.uid())
}

/// Returns the Deployments of this ClusterServiceVersion that it no longer lists.
fn orphans<'a>(member: &'a Member<'_>) -> impl Iterator<Item = &'a Arc<Value>> {
    let csv = member.csv;
    let listed: Vec<&str> = csv
        .items("/spec/install/spec/deployments")
        .iter()
        .map(|deployment| deployment.text("/name"))
        .collect();
    member
        .world
        .objects
        .list(&DEPLOYMENT, csv.namespace())
        .filter(|known| is_owned(known, CSV.name, csv.namespace(), csv.name()))
        .filter(move |known| !listed.contains(&known.name()))
}

/// Returns the desired Deployments.
fn deployments(member: &Member<'_>) -> Vec<Value> {
    let csv = member.csv;
    let config = config(member);
    csv.items("/spec/install/spec/deployments")
        .iter()
        .map(|entry| {
            let name = entry.text("/name");
            let mut spec = entry.get("spec").cloned().unwrap_or_default();
            spec["revisionHistoryLimit"] = json!(1);
            for (annotation, value) in csv.texts("/metadata/annotations") {
                set(
                    &mut spec,
                    &["template", "metadata", "annotations", annotation],
                    value.into(),
                );
            }
            let targets = member.targets.join(",");
            for (annotation, value) in [
                ("olm.operatorGroup", member.group.name()),
                ("olm.operatorNamespace", member.group.namespace()),
                ("olm.targetNamespaces", targets.as_str()),
            ] {
                set(
                    &mut spec,
                    &["template", "metadata", "annotations", annotation],
                    value.into(),
                );
            }
            webhook::mount(csv, name, &mut spec);
            containers(&mut spec, |container| {
                let condition = json!({"name": "OPERATOR_CONDITION_NAME", "value": csv.name()});
                merge_named(container, "env", &[condition]);
            });
            if let Some(config) = config {
                configure(&mut spec, config);
            }
            let mut labels: Map<String, Value> = entry
                .texts("/label")
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            if let Value::Object(own) = owner_labels(CSV.name, csv) {
                labels.extend(own);
            }
            labels.insert(HASH.to_owned(), label(&hash(&spec)).into());
            json!({
                "metadata": {
                    "name": name, "namespace": csv.namespace(), "labels": labels,
                    "ownerReferences": [owner_reference(&CSV, csv)],
                },
                "spec": spec,
            })
        })
        .collect()
}

fn containers(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    let containers = spec.pointer_mut("/template/spec/containers");
    for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
        change(container);
    }
}

/// Adds entries to a list by name; an entry with the same name is replaced.
pub(super) fn merge_named(object: &mut Value, field: &str, entries: &[Value]) {
    if !object.get(field).is_some_and(Value::is_array) {
        object[field] = json!([]);
    }
    let Some(Value::Array(list)) = object.get_mut(field) else {
        return;
    };
    for entry in entries {
        match list
            .iter_mut()
            .find(|known| known.text("/name") == entry.text("/name"))
        {
            Some(known) => *known = entry.clone(),
            None => list.push(entry.clone()),
        }
    }
}

/// Returns `spec.config` of the Subscription of this ClusterServiceVersion.
fn config<'a>(member: &Member<'a>) -> Option<&'a Value> {
    let csv = member.csv;
    let mut subscriptions = member.world.objects.list(&SUBSCRIPTION, csv.namespace());
    let own = subscriptions.find(|subscription| {
        [
            subscription.text("/status/installedCSV"),
            subscription.text("/status/currentCSV"),
        ]
        .contains(&csv.name())
    });
    own?.pointer("/spec/config")
}

/// Applies the settings of a user to a Deployment.
pub(in crate::olm) fn configure(spec: &mut Value, config: &Value) {
    containers(spec, |container| {
        merge_named(container, "env", config.items("/env"));
        merge_named(container, "volumeMounts", config.items("/volumeMounts"));
        let from = config.items("/envFrom");
        if !from.is_empty() {
            let mut all = container.items("/envFrom").to_vec();
            all.extend(from.iter().cloned());
            container["envFrom"] = json!(all);
        }
        for field in ["env", "volumeMounts"] {
            if container.items(&format!("/{field}")).is_empty() {
                crate::object::unset(container, &[field]);
            }
        }
        if let Some(resources) = config.get("resources") {
            container["resources"] = resources.clone();
        }
    });
    let Some(pod) = spec.pointer_mut("/template/spec") else {
        return;
    };
    if !config.items("/volumes").is_empty() {
        merge_named(pod, "volumes", config.items("/volumes"));
    }
    let mut tolerations = pod.items("/tolerations").to_vec();
    for toleration in config.items("/tolerations") {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if !tolerations.is_empty() {
        pod["tolerations"] = json!(tolerations);
    }
    for field in ["nodeSelector", "affinity"] {
        if let Some(value) = config.get(field) {
            pod[field] = value.clone();
        }
    }
    for (name, value) in config.texts("/annotations") {
        set(spec, &["template", "metadata", "annotations", name], value.into());
    }
}

/// Returns true if a live Deployment has the hash and the essential fields of the desired one.
fn is_same(live: &Value, wanted: &Value) -> bool {
    live.label(HASH) == wanted.label(HASH) && edited(live, wanted).is_none()
}

/// Returns the first essential field that was edited.
fn edited(live: &Value, wanted: &Value) -> Option<&'static str> {
    if wanted
        .int("/spec/replicas")
        .is_some_and(|replicas| live.int("/spec/replicas") != Some(replicas))
    {
        return Some("replicas");
    }
    let containers = "/spec/template/spec/containers";
    let (live, wanted) = (live.items(containers), wanted.items(containers));
    if live.len() != wanted.len() {
        return Some("containers");
    }
    let pairs = || live.iter().zip(wanted);
    let field = |name: &'static str| {
        pairs()
            .any(|(live, wanted)| live.get(name) != wanted.get(name))
            .then_some(name)
    };
    let names = |container: &Value| -> Vec<String> {
        let env = container.items("/env").iter();
        env.map(|entry| format!("{}={}", entry.text("/name"), entry.text("/value")))
            .collect()
    };
    ["name", "image", "command", "args"]
        .into_iter()
        .find_map(field)
        .or_else(|| {
            pairs()
                .any(|(live, wanted)| names(live) != names(wanted))
                .then_some("env")
        })
}

/// Returns the state of the Deployments and webhooks.
pub(super) fn health(member: &Member<'_>) -> Health {
    for wanted in deployments(member) {
        let name = wanted.name();
        let Some(live) = live(member, name) else {
            return Health::Changed(format!("missing deployment with name={name}"));
        };
        if let Some(waiting) = rollout(live) {
            return waiting;
        }
        let Some(known) = live.label(HASH) else {
            return Health::Changed(format!("deployment {name} doesn't have a spec hash, update it"));
        };
        let expected = wanted.label(HASH).unwrap_or_default();
        if known != expected {
            return Health::Changed(format!(
                "deployment changed old hash={known}, new hash={expected}"
            ));
        }
        if let Some(field) = edited(live, &wanted) {
            return Health::Changed(format!(
                "deployment changed old hash={known}, new hash={expected} ({field} was edited)"
            ));
        }
    }
    if !api_service::actions(member).is_empty() {
        return Health::Changed("APIServices not installed".to_owned());
    }
    if !api_service::are_available(member) {
        return Health::ApisMissing;
    }
    match webhook::configurations(member) {
        Ok(actions) if actions.is_empty() => Health::Ready,
        Ok(_) => Health::Changed("Webhooks not installed".to_owned()),
        Err(message) => Health::Failed(message),
    }
}

/// Returns the reason why a Deployment is not ready.
pub(in crate::olm) fn rollout(live: &Value) -> Option<Health> {
    let name = live.name();
    let waiting = |reason: String| {
        Some(Health::Waiting(format!(
            "waiting for deployment {name} to become ready: {reason}"
        )))
    };
    if live.int("/status/observedGeneration").unwrap_or(0) < live.generation() {
        return waiting(format!(
            "waiting for spec update of deployment \"{name}\" to be observed..."
        ));
    }
    let progressing = live.condition("Progressing");
    if progressing.is_some_and(|condition| condition.text("/reason") == "ProgressDeadlineExceeded") {
        return Some(Health::Failed(format!(
            "deployment {name} not ready before timeout: deployment \"{name}\" exceeded its progress deadline"
        )));
    }
    let count = |field: &str| live.int(&format!("/status/{field}")).unwrap_or(0);
    let old = count("replicas") - count("updatedReplicas");
    if old > 0 {
        return waiting(format!(
            "deployment \"{name}\" waiting for {old} outdated replica(s) to be terminated"
        ));
    }
    match live.condition("Available") {
        Some(available) if available.text("/status") == "True" => None,
        Some(available) => waiting(format!(
            "deployment \"{name}\" not available: {}",
            available.text("/message")
        )),
        None => waiting(format!(
            "deployment \"{name}\" not available: missing condition Available"
        )),
    }
}
