//! Prepares pods.

use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::tree::{Object, at, by_name, copy_entry, is_zero, list, object_in, text};

/// Sets the status of a new pod. A quality of service class in the request is kept, as by the API server.
pub(super) fn prepare_for_create(pod: &mut Object, given_class: &str) {
    let class = match given_class {
        "" => pod.get("spec").map_or("BestEffort", qos_class),
        given => given,
    };
    let mut status = json!({ "phase": "Pending", "qosClass": class });
    let is_gated = pod
        .get("spec")
        .is_some_and(|spec| !list(spec, &["schedulingGates"]).is_empty());
    if is_gated {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": null,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.insert("status".to_owned(), status);
}

/// Keeps the spec and the owner references, which kubelets cannot change.
pub(super) fn prepare_status(pod: &mut Object, old: &Value) {
    if let Some(metadata) = object_in(pod, "metadata") {
        copy_entry(metadata, at(old, &["metadata"]), "ownerReferences");
        copy_entry(metadata, at(old, &["metadata"]), "deletionTimestamp");
    }
    if let Some(status) = object_in(pod, "status") {
        // Validation rejects a different class.
        if status.get("qosClass").is_none_or(is_zero) {
            copy_entry(status, at(old, &["status"]), "qosClass");
        }
    }
}

/// Keeps everything except the ephemeral containers of the request.
pub(super) fn keep_all_but_ephemeral_containers(pod: &mut Object, old: &Value) {
    let requested = pod
        .get("spec")
        .and_then(|spec| spec.get("ephemeralContainers"))
        .cloned();
    keep_all_but_versions(pod, old);
    let Some(spec) = object_in(pod, "spec") else {
        return;
    };
    match requested {
        Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
        None => spec.remove("ephemeralContainers"),
    };
}

/// Keeps everything except the container resources of the request.
pub(super) fn keep_all_but_resources(pod: &mut Object, old: &Value) {
    let requested = pod.get("spec").cloned().unwrap_or_default();
    let same_names = |field: &str| {
        let names = |containers: &[Value]| -> Vec<String> {
            let names = containers.iter().map(|container| text(container, &["name"]));
            names.map(str::to_owned).collect()
        };
        names(list(&requested, &[field])) == names(list(old, &["spec", field]))
    };
    if !(same_names("containers") && same_names("initContainers")) {
        // Validation reports containers that are added, removed or renamed.
        return;
    }
    keep_all_but_versions(pod, old);
    let Some(spec) = object_in(pod, "spec") else {
        return;
    };
    for field in ["containers", "initContainers"] {
        let known = by_name(list(old, &["spec", field]));
        let resized = list(&requested, &[field]).iter().map(|container| {
            let Some(before) = known.get(text(container, &["name"])) else {
                return container.clone();
            };
            let mut resized = (*before).clone();
            if let Some(fields) = resized.as_object_mut() {
                copy_entry(fields, container, "resources");
                copy_entry(fields, container, "resizePolicy");
            }
            resized
        });
        let resized: Vec<Value> = resized.collect();
        if resized.is_empty() {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), resized.into());
        }
    }
}

/// Keeps everything except the resourceVersion, the managedFields and the generateName of the request.
fn keep_all_but_versions(pod: &mut Object, old: &Value) {
    let Some(old) = old.as_object() else {
        return;
    };
    let requested = pod.get("metadata").cloned().unwrap_or_default();
    pod.clone_from(old);
    if let Some(metadata) = object_in(pod, "metadata") {
        copy_entry(metadata, &requested, "resourceVersion");
        copy_entry(metadata, &requested, "managedFields");
        copy_entry(metadata, &requested, "generateName");
        // Validation reports that it is immutable.
        copy_entry(metadata, &requested, "deletionGracePeriodSeconds");
    }
}

/// Returns the quality-of-service class of a pod, derived from its requests and limits.
pub fn qos_class(spec: &Value) -> &'static str {
    let own = at(spec, &["resources"]);
    let of_pod = [own];
    let of_containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| list(spec, &[field]))
        .map(|container| at(container, &["resources"]))
        .collect();
    // Empty resources of the pod count, too.
    let all: &[&Value] = if own.is_object() { &of_pod } else { &of_containers };
    let (mut any, mut guaranteed) = (false, true);
    for resources in all {
        for name in ["cpu", "memory"] {
            let amount = |field: &str| {
                let quantity = Quantity::from_json(at(resources, &[field, name])).ok()?;
                (!quantity.is_zero()).then_some(quantity)
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
