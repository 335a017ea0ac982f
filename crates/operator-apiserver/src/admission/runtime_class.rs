//! RuntimeClass: sets the overhead and the node selection of a pod from its runtime class.

use std::collections::HashSet;

use apimachinery::object;
use serde_json::Value;

use super::attributes::Attributes;
use crate::admission::Admission;
use crate::status::{self, Status};
use crate::write::Write;
use builtin_kinds::pod_resources::amounts;
use builtin_kinds::tree::{at, entries, list, text};

const TABLE: &str = "runtimeclasses.node.k8s.io";
const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Sets the fields of a new pod from its class.
pub(super) fn admit(admission: &Admission, write: &Write, pod: &mut Value) -> Result<(), Status> {
    let Some(name) = at(pod, &["spec", "runtimeClassName"]).as_str().map(str::to_owned) else {
        return Ok(());
    };
    if name.is_empty() {
        return Err(status::plain("resource name may not be empty"));
    }
    let Some(class) = admission.store.get(TABLE, &name) else {
        let faults = apimachinery::names::path_segment(&name);
        let name = apimachinery::go::quote(&name);
        if !faults.is_empty() {
            let faults = faults.join(" ");
            return Err(status::plain(format!("invalid resource name {name}: [{faults}]")));
        }
        return Err(write.forbidden(Some(pod), &format!("pod rejected: RuntimeClass {name} not found")));
    };
    set_overhead(&class.value, pod).map_err(|why| write.forbidden(Some(pod), why))?;
    set_scheduling(&class.value, pod).map_err(|why| write.forbidden(Some(pod), &why))
}

fn set_overhead(class: &Value, pod: &mut Value) -> Result<(), &'static str> {
    let fixed = at(class, &["overhead", "podFixed"]);
    if !at(class, &["overhead"]).is_object() {
        return Ok(());
    }
    let own = at(pod, &["spec", "overhead"]);
    if !own.is_null() && amounts(own) != amounts(fixed) {
        return Err(OTHER_OVERHEAD);
    }
    object::child_mut(pod, "spec").insert("overhead".to_owned(), fixed.clone());
    Ok(())
}

fn set_scheduling(class: &Value, pod: &mut Value) -> Result<(), String> {
    for (key, wanted) in entries(class, &["scheduling", "nodeSelector"]) {
        let own = at(pod, &["spec", "nodeSelector", key]);
        if !own.is_null() && own != wanted {
            let (wanted, own) = (
                wanted.as_str().unwrap_or_default(),
                own.as_str().unwrap_or_default(),
            );
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        let spec = object::child_mut(pod, "spec");
        let selector = spec.entry("nodeSelector".to_owned()).or_insert(Value::Null);
        if !selector.is_object() {
            *selector = Value::Object(serde_json::Map::new());
        }
        selector[key.as_str()] = wanted.clone();
    }
    let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
    let own: HashSet<&Value> = tolerations.iter().collect();
    let added = list(class, &["scheduling", "tolerations"]);
    let missing: Vec<Value> = added.iter().filter(|one| !own.contains(one)).cloned().collect();
    if !missing.is_empty() {
        tolerations.extend(missing);
        object::child_mut(pod, "spec").insert("tolerations".to_owned(), tolerations.into());
    }
    Ok(())
}

/// Rejects an overhead that differs from the overhead of the class.
pub(super) fn check(attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let Some(pod) = attributes.object.filter(|_| attributes.old.is_none()) else {
        return Ok(());
    };
    if !write.definition.is("", "pods") || !write.subresource.is_empty() {
        return Ok(());
    }
    let overhead = at(pod, &["spec", "overhead"]);
    let class = attributes
        .admission
        .store
        .get(TABLE, text(pod, &["spec", "runtimeClassName"]));
    let fixed = class
        .as_ref()
        .map(|class| at(&class.value, &["overhead"]))
        .filter(|overhead| overhead.is_object());
    match fixed {
        Some(fixed) if amounts(at(fixed, &["podFixed"])) != amounts(overhead) => {
            Err(attributes.forbidden(OTHER_OVERHEAD))
        }
        None if overhead.is_object() => Err(attributes
            .forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")),
        _ => Ok(()),
    }
}
