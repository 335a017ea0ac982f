//! OperatorCondition: one for each ClusterServiceVersion, with a role for the operator to write it.

use std::collections::BTreeSet;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::kinds::{CSV, OPERATOR_CONDITION};
use super::kinds::{ROLE, ROLE_BINDING};
use super::names::label;
use super::{is_copy, owner_labels, owner_reference};
use crate::controller::key_of;
use crate::engine::Controller;
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, create, update, update_status};

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "olm-operator-condition",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CSV, event, keys);
    for kind in [&*OPERATOR_CONDITION, &*ROLE, &*ROLE_BINDING] {
        key_of(kind, event, keys);
    }
}

/// Returns the names of the deployments and the service accounts of an install strategy.
fn parts(csv: &Value) -> (Vec<&str>, BTreeSet<&str>) {
    let deployments = csv.items("/spec/install/spec/deployments");
    let accounts = deployments
        .iter()
        .map(|deployment| deployment.text("/spec/template/spec/serviceAccountName"))
        .map(|account| if account.is_empty() { "default" } else { account })
        .collect();
    let names = deployments
        .iter()
        .map(|deployment| deployment.text("/name"))
        .collect();
    (names, accounts)
}

pub(super) fn plan(world: &World<'_>, key: &Key) -> Plan {
    let csv = world.objects.get(&CSV, &key.namespace, &key.name);
    let Some(csv) = csv.filter(|csv| !is_copy(csv) && !csv.is_terminating()) else {
        return Plan::done();
    };
    let (deployments, accounts) = parts(csv);
    let spec = json!({"serviceAccounts": accounts, "deployments": deployments});
    let known = world.objects.get(&OPERATOR_CONDITION, &key.namespace, &key.name);
    let metadata = json!({
        "name": key.name, "namespace": key.namespace, "ownerReferences": [owner_reference(&CSV, csv)],
        "labels": owner_labels(CSV.name, csv),
    });
    let Some(known) = known else {
        let object = json!({"metadata": metadata, "spec": spec});
        return Plan::act(create(&OPERATOR_CONDITION, object, None));
    };
    let mut changed = Value::clone(known);
    for name in ["serviceAccounts", "deployments"] {
        set(&mut changed, &["spec", name], spec[name].clone());
    }
    if changed != **known {
        return Plan::act(update(&OPERATOR_CONDITION, changed, None));
    }
    let name = label(&key.name);
    let mut metadata = metadata;
    metadata["name"] = name.as_str().into();
    metadata["ownerReferences"] = json!([owner_reference(&OPERATOR_CONDITION, known)]);
    if world.objects.get(&ROLE, &key.namespace, &name).is_none() {
        let rules = json!([{
            "apiGroups": [OPERATOR_CONDITION.gvr.group], "resources": [OPERATOR_CONDITION.gvr.resource],
            "resourceNames": [key.name], "verbs": ["get", "update", "patch"],
        }]);
        return Plan::act(create(&ROLE, json!({"metadata": metadata, "rules": rules}), None));
    }
    if world.objects.get(&ROLE_BINDING, &key.namespace, &name).is_none() {
        let subjects: Vec<Value> = accounts
            .iter()
            .map(|account| json!({"kind": "ServiceAccount", "name": account, "namespace": key.namespace}))
            .collect();
        let role = json!({"apiGroup": ROLE.gvr.group, "kind": ROLE.name, "name": name});
        let binding = json!({"metadata": metadata, "subjects": subjects, "roleRef": role});
        return Plan::act(create(&ROLE_BINDING, binding, None));
    }
    let mut status = known.get("status").cloned().unwrap_or(json!({}));
    status["conditions"] = json!(known.items("/spec/conditions"));
    Plan {
        status: update_status(&OPERATOR_CONDITION, known, status),
        ..Plan::default()
    }
}

/// Returns the reason why an operator must not be upgraded, if there is one.
pub(super) fn not_upgradeable(objects: &Objects, namespace: &str, csv: &str) -> Option<String> {
    let condition = objects.get(&OPERATOR_CONDITION, namespace, csv)?;
    let of_kind = |pointer: &str| {
        let all = condition.items(pointer).iter();
        all.into_iter().find(|found| found.text("/type") == "Upgradeable")
    };
    if let Some(override_) = of_kind("/spec/overrides") {
        return (override_.text("/status") != "True").then(|| refused(override_));
    }
    let found = of_kind("/status/conditions").or_else(|| of_kind("/spec/conditions"))?;
    let observed = found.int("/observedGeneration");
    if observed.is_some_and(|observed| observed != condition.generation()) {
        let status = found.text("/status");
        return Some(format!(
            "the operatorcondition status \"Upgradeable\"=\"{status}\" is outdated"
        ));
    }
    (found.text("/status") == "False").then(|| refused(found))
}

fn refused(condition: &Value) -> String {
    format!("the operator is not upgradeable: {}", condition.text("/message"))
}
