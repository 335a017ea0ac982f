//! Conditions of CustomResourceDefinitions, and the finalizer that protects their instances.

use apimachinery::object;
use serde_json::{Value, json};

/// Returns the condition of a type.
pub(crate) fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    crd.pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| object::text(condition, &["type"]) == kind)
}

pub(crate) fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|found| object::text(found, &["status"]) == "True")
}

pub(crate) fn set_condition(
    crd: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut fresh = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now,
    });
    let conditions = object::child_mut(crd, "status")
        .entry("conditions".to_owned())
        .or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list
        .iter_mut()
        .find(|condition| object::text(condition, &["type"]) == kind)
    {
        Some(found) => {
            if object::text(found, &["status"]) == status {
                fresh["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = fresh;
        }
        None => list.push(fresh),
    }
}

/// The finalizer that keeps a CRD until its instances are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
