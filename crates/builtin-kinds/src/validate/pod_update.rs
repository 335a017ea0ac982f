//! Validates updates of pods: immutable and mutable fields.

use std::collections::HashSet;

use apimachinery::field::Path;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::Check;
use super::{container, pod, pod_annotation};
use crate::tree::{at, by_name, copy_entry, entries, is_zero, list, objects_in, text};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate_update(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec");
    let (spec, old_spec) = (at(pod, &["spec"]), at(old, &["spec"]));
    let annotations = at(pod, &["metadata", "annotations"]);
    let old_annotations = at(old, &["metadata", "annotations"]);
    let annotation_path = Path::new("metadata").child("annotations");
    pod_annotation::changes(check, annotations, old_annotations, &annotation_path);
    pod_annotation::annotations(check, annotations, spec, &annotation_path);
    pod::pod_rules(check, spec, &path);
    for field in ["containers", "initContainers"] {
        let path = path.child(field);
        if list(spec, &[field]).len() != list(old_spec, &[field]).len() {
            return check.forbidden(path, "pod updates may not add or remove containers");
        }
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            container::image(check, container, &path.index(index));
            container::trimmed_image(check, container, &path.index(index));
        }
    }
    if !updated_deadline(check, spec, old_spec, &path.child("activeDeadlineSeconds")) {
        return;
    }
    if keeps_tolerations(spec, old_spec) {
        pod::tolerations(check, spec, &path.child("tolerations"));
    } else {
        check.forbidden(
            path.child("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    fewer_gates(check, spec, old_spec, &path.child("schedulingGates"));
    let mut rest = without_updatable(spec, old_spec);
    if !list(old_spec, &["schedulingGates"]).is_empty() {
        gated_selector(check, &mut rest, old_spec, &path.child("nodeSelector"));
        gated_affinity(
            check,
            &mut rest,
            old_spec,
            &path.child("affinity").child("nodeAffinity"),
        );
    }
    if rest != *old_spec {
        check.forbidden(path, UPDATABLE);
    }
}

/// Checks the deadline; returns true if the rest of the pod must be checked.
fn updated_deadline(check: &mut Check, spec: &Value, old: &Value, path: &Path) -> bool {
    let deadline = at(spec, &["activeDeadlineSeconds"]);
    let before = at(old, &["activeDeadlineSeconds"]).as_i64();
    let fault = match (deadline.as_i64(), before) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            "must be between 0 and 2147483647, inclusive"
        }
        (Some(new), Some(old)) if new > old => "must be less than or equal to previous value",
        (None, Some(_)) => {
            let fault = "must not update from a positive integer to nil value";
            check.invalid(path.clone(), deadline, fault);
            return true;
        }
        _ => return true,
    };
    check.invalid(path.clone(), deadline, fault);
    false
}

/// Checks that scheduling gates are only removed.
fn fewer_gates(check: &mut Check, spec: &Value, old: &Value, path: &Path) {
    let old = by_name(list(old, &["schedulingGates"]));
    for (index, gate) in list(spec, &["schedulingGates"]).iter().enumerate() {
        let name = text(gate, &["name"]);
        if !old.contains_key(name) {
            check.forbidden(
                path.index(index).child("name"),
                format!("only deletion is allowed, but found new scheduling gate '{name}'"),
            );
        }
    }
}

/// Checks that the node selector of a gated pod only becomes narrower.
fn gated_selector(check: &mut Check, spec: &mut Value, old: &Value, path: &Path) {
    let before = at(old, &["nodeSelector"]);
    let selector = at(spec, &["nodeSelector"]);
    if entries(before, &[]).any(|(key, value)| at(selector, &[key]) != value) {
        check.invalid(
            path.clone(),
            selector,
            "only additions are allowed (no mutations or deletions)",
        );
    }
    if let Some(root) = spec.as_object_mut() {
        copy_entry(root, old, "nodeSelector");
    }
}

/// While a pod is gated, its node affinity can be set, and its required terms can only become narrower.
fn gated_affinity(check: &mut Check, spec: &mut Value, old: &Value, path: &Path) {
    let of_node = ["affinity", "nodeAffinity"];
    let (new, before) = (at(spec, &of_node).clone(), at(old, &of_node));
    if new == *before {
        return;
    }
    let required = [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let (terms, old_terms) = (list(&new, &required), list(before, &required));
    let path = required.iter().fold(path.clone(), |path, part| path.child(part));
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        check.invalid(path, at(&new, &required), why);
    } else {
        for (index, (term, old)) in terms.iter().zip(old_terms).enumerate() {
            if !only_adds(term, old) {
                let why = "only additions are allowed (no mutations or deletions)";
                check.invalid(path.index(index), term, why);
            }
        }
    }
    let Some(root) = spec.as_object_mut() else { return };
    let is_other = |affinity: &Value| {
        let others = ["podAffinity", "podAntiAffinity"];
        others.iter().any(|field| !at(affinity, &[field]).is_null())
    };
    match root.get_mut("affinity").filter(|affinity| affinity.is_object()) {
        None => copy_entry(root, old, "affinity"),
        Some(affinity) if at(old, &["affinity"]).is_null() && !is_other(affinity) => {
            root.remove("affinity");
        }
        Some(affinity) => {
            if let Some(fields) = affinity.as_object_mut() {
                copy_entry(fields, at(old, &["affinity"]), "nodeAffinity");
            }
        }
    }
}

/// Returns true if a term has the expressions of an old one, followed by others.
fn only_adds(term: &Value, old: &Value) -> bool {
    const PARTS: [&str; 2] = ["matchExpressions", "matchFields"];
    // A term without expressions selects nothing, so that an expression would widen it.
    let is_empty = |term: &Value| PARTS.iter().all(|part| list(term, &[part]).is_empty());
    if is_empty(old) {
        return is_empty(term);
    }
    PARTS
        .iter()
        .all(|part| list(term, &[part]).starts_with(list(old, &[part])))
}

/// Returns true if every toleration of the old spec still exists; the seconds may differ.
fn keeps_tolerations(spec: &Value, old: &Value) -> bool {
    fn fixed(toleration: &Value) -> [&Value; 4] {
        ["key", "operator", "value", "effect"].map(|field| at(toleration, &[field]))
    }
    let new: HashSet<_> = list(spec, &["tolerations"]).iter().map(fixed).collect();
    let mut old = list(old, &["tolerations"]).iter();
    old.all(|old| new.contains(&fixed(old)))
}

/// Returns the new spec with the old values of all fields that an update may change.
fn without_updatable(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(root) = spec.as_object_mut() else {
        return spec;
    };
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        copy_entry(root, old, field);
    }
    let grace = at(old, &["terminationGracePeriodSeconds"]).as_i64();
    if grace.is_some_and(|seconds| seconds < 0)
        && root.get("terminationGracePeriodSeconds").and_then(Value::as_i64) == Some(1)
    {
        copy_entry(root, old, "terminationGracePeriodSeconds");
    }
    for field in ["containers", "initContainers"] {
        let images = list(old, &[field]).iter().map(|c| at(c, &["image"]).clone());
        for (container, image) in objects_in(root, field).zip(images) {
            container.insert("image".to_owned(), image);
        }
    }
    spec
}

/// Checks that ephemeral containers are only added.
pub(super) fn validate_ephemeral_update(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec").child("ephemeralContainers");
    let spec = at(pod, &["spec"]);
    pod::pod_rules(check, spec, &Path::new("spec"));
    let new = by_name(list(spec, &["ephemeralContainers"]));
    for existing in list(old, &["spec", "ephemeralContainers"]) {
        let name = text(existing, &["name"]);
        match new.get(name) {
            None => check.forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            ),
            Some(new) if *new != existing => check.forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be changed\n"),
            ),
            Some(_) => {}
        }
    }
}

/// Checks that a resize does not change the quality-of-service class.
pub(super) fn validate_resize(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec");
    pod::pod_rules(check, at(pod, &["spec"]), &path);
    for field in ["containers", "initContainers"] {
        let (new, old) = (list(pod, &["spec", field]), list(old, &["spec", field]));
        let path = path.child(field);
        if new.len() != old.len() {
            check.forbidden(path, format!("{field} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if at(new, &["name"]) != at(old, &["name"]) {
                let why = format!("{field} may not be renamed or reordered on resize");
                check.forbidden(path.index(index).child("name"), why);
            }
        }
    }
    let old_class = text(old, &["status", "qosClass"]);
    let class = crate::prepare::qos_class(at(pod, &["spec"]));
    if !old_class.is_empty() && class != old_class {
        check.invalid(
            Path::new("spec"),
            at(pod, &["status", "qosClass"]),
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    for (index, container) in list(pod, &["spec", "containers"]).iter().enumerate() {
        let previous = list(old, &["spec", "containers"]).get(index);
        let previous = previous.unwrap_or(&Value::Null);
        let limit = |of: &Value| Quantity::from_json(at(of, &["resources", "limits", "memory"]));
        let removed = |field: &str| {
            is_zero(at(container, &["resources", field])) && !is_zero(at(previous, &["resources", field]))
        };
        if removed("limits") && limit(previous).is_ok() {
            check.forbidden(
                path.child("containers")
                    .index(index)
                    .child("resources")
                    .child("limits"),
                "resource limits cannot be removed",
            );
        }
        let requests = at(previous, &["resources", "requests"]);
        let kept = |name: &str| !at(container, &["resources", "requests", name]).is_null();
        if entries(requests, &[]).any(|(name, _)| !kept(name)) {
            check.forbidden(
                path.child("containers")
                    .index(index)
                    .child("resources")
                    .child("requests"),
                "resource requests cannot be removed",
            );
        }
    }
    let is_changed = |field: &str| {
        let fixed = |pod: &Value| -> Vec<Value> {
            let containers = list(pod, &["spec", field]).iter();
            containers.map(fixed_resources).collect()
        };
        let (new, old) = (fixed(pod), fixed(old));
        new.len() == old.len() && new != old
    };
    if is_changed("containers") || is_changed("initContainers") {
        check.forbidden(path, "only cpu and memory resources are mutable");
    }
}

/// Returns the resources of a container that a resize cannot change.
fn fixed_resources(container: &Value) -> Value {
    let mut resources = at(container, &["resources"]).clone();
    for field in ["requests", "limits"] {
        let Some(amounts) = resources.get_mut(field).and_then(Value::as_object_mut) else {
            continue;
        };
        amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
        if amounts.is_empty()
            && let Some(fields) = resources.as_object_mut()
        {
            fields.remove(field);
        }
    }
    if is_zero(&resources) {
        Value::Null
    } else {
        resources
    }
}
