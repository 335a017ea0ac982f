//! Copies a ClusterServiceVersion to its target namespaces, where users can see it.

use std::collections::BTreeSet;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::kinds::{CSV, OLM_CONFIG, OPERATOR_GROUP};
use super::operator_group::targets;
use super::{COPIED_FROM, is_copy, originals};
use crate::engine::Controller;
use crate::kind::NAMESPACE;
use crate::object::{Object, set, unset};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, delete, update, update_status};

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "olm-copied-csv",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    if CSV.is(&event.gvr) {
        match object.label(COPIED_FROM) {
            Some(namespace) => keys.push(Key::new(namespace, object.name())),
            None => keys.push(Key::of(object)),
        }
    }
    if OPERATOR_GROUP.is(&event.gvr) || NAMESPACE.is(&event.gvr) || OLM_CONFIG.is(&event.gvr) {
        keys.extend(originals(objects, "").map(|csv| Key::of(csv)));
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key) -> Plan {
    let objects = world.objects;
    let csv = objects.get(&CSV, &key.namespace, &key.name);
    let csv = csv.filter(|csv| !csv.is_terminating() && !is_copy(csv));
    let wanted = csv.map_or(BTreeSet::new(), |csv| namespaces(objects, csv));
    let mut actions: Vec<Action> = objects
        .list(&CSV, "")
        .filter(|copy| copy.name() == key.name && copy.label(COPIED_FROM) == Some(&key.namespace))
        .filter(|copy| !copy.is_terminating() && !wanted.contains(copy.namespace()))
        .map(|copy| delete(&CSV, copy, None))
        .collect();
    if let Some(csv) = csv {
        for namespace in wanted {
            actions.extend(copy(objects, csv, &namespace));
        }
    }
    Plan::actions(actions)
}

/// Returns the namespaces that get a copy.
fn namespaces(objects: &Objects, csv: &Value) -> BTreeSet<String> {
    let mut groups = objects.list(&OPERATOR_GROUP, csv.namespace());
    let (Some(group), None) = (groups.next(), groups.next()) else {
        return BTreeSet::new();
    };
    if csv.text("/status/phase").is_empty() || csv.text("/status/reason") == "UnsupportedOperatorGroup" {
        return BTreeSet::new();
    }
    let targets = targets(group);
    let is_global = targets == [""];
    let disabled = objects
        .get(&OLM_CONFIG, "", "cluster")
        .is_some_and(|config| config.flag("/spec/features/disableCopiedCSVs"));
    if is_global && disabled {
        return BTreeSet::new();
    }
    objects
        .list(&NAMESPACE, "")
        .filter(|namespace| !namespace.is_terminating() && namespace.name() != csv.namespace())
        .filter(|namespace| is_global || targets.iter().any(|target| target == namespace.name()))
        .map(|namespace| namespace.name().to_owned())
        .collect()
}

/// Creates or updates the copy in a namespace. The status is written separately.
fn copy(objects: &Objects, csv: &Value, namespace: &str) -> Option<Action> {
    let mut labels = csv.pointer("/metadata/labels").cloned().unwrap_or(json!({}));
    labels[COPIED_FROM] = csv.namespace().into();
    let mut annotations = csv.pointer("/metadata/annotations").cloned().unwrap_or(json!({}));
    unset(&mut annotations, &["olm.targetNamespaces"]);
    unset(
        &mut annotations,
        &["kubectl.kubernetes.io/last-applied-configuration"],
    );
    let mut status = csv.get("status").cloned().unwrap_or(json!({}));
    status["reason"] = "Copied".into();
    status["message"] = format!(
        "The operator is running in {} but is managing this namespace",
        csv.namespace()
    )
    .into();
    let Some(known) = objects.get(&CSV, namespace, csv.name()) else {
        let metadata = json!({
            "name": csv.name(), "namespace": namespace, "labels": labels, "annotations": annotations,
        });
        return Some(create(
            &CSV,
            json!({"metadata": metadata, "spec": csv["spec"]}),
            None,
        ));
    };
    if known.label(COPIED_FROM) != Some(csv.namespace()) {
        return None;
    }
    let mut changed = Value::clone(known);
    set(&mut changed, &["metadata", "labels"], labels);
    set(&mut changed, &["metadata", "annotations"], annotations);
    changed["spec"] = csv["spec"].clone();
    if changed != **known {
        return Some(update(&CSV, changed, None));
    }
    update_status(&CSV, known, status)
}
