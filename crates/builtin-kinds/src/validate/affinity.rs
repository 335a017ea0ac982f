//! Validates pod affinity and node selectors.

use apimachinery::field::Path;
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

/// Validates node and pod affinity.
pub(super) fn affinity(check: &mut Check, affinity: &Value, path: &Path) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = at(affinity, &["nodeAffinity", required]);
    if node.is_object() {
        node_selector(check, node, &path.child("nodeAffinity").child(required));
    }
    let path_of_nodes = path.child("nodeAffinity").child(preferred);
    for (index, term) in list(affinity, &["nodeAffinity", preferred]).iter().enumerate() {
        let path = path_of_nodes.index(index);
        weight(check, term, &path);
        node_selector_term(
            check,
            at(term, &["preference"]),
            &path.child("preference"),
            Values::Any,
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in list(affinity, &[kind, required]).iter().enumerate() {
            let path = path.child(kind).child(required).index(index);
            pod_affinity_term(check, term, &path);
        }
        for (index, weighted) in list(affinity, &[kind, preferred]).iter().enumerate() {
            let path = path.child(kind).child(preferred).index(index);
            weight(check, weighted, &path);
            let term = at(weighted, &["podAffinityTerm"]);
            pod_affinity_term(check, term, &path.child("podAffinityTerm"));
        }
    }
}

fn weight(check: &mut Check, weighted: &Value, path: &Path) {
    let weight = at(weighted, &["weight"]).as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        check.invalid(path.child("weight"), &weight.into(), "must be in the range 1-100");
    }
}

/// Validates the labels of the pod that are added to the selector of a term.
fn match_label_keys(check: &mut Check, term: &Value, path: &Path) {
    let fields = ["matchLabelKeys", "mismatchLabelKeys"];
    let keys = |field: &str| list(term, &[field]);
    if at(term, &["labelSelector"]).is_null() {
        for field in fields.iter().filter(|field| !keys(field).is_empty()) {
            let why = "must not be specified when labelSelector is not set";
            check.forbidden(path.child(field), why);
        }
        return;
    }
    for field in fields {
        for (index, key) in keys(field).iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            check.faults(&path.child(field).index(index), key, names::qualified_name(key));
        }
    }
    for (index, key) in keys("matchLabelKeys").iter().enumerate() {
        if keys("mismatchLabelKeys").contains(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            check.invalid(path.child("matchLabelKeys").index(index), key, why);
        }
    }
}

fn pod_affinity_term(check: &mut Check, term: &Value, path: &Path) {
    for field in ["labelSelector", "namespaceSelector"] {
        check.label_selector(at(term, &[field]), &path.child(field));
    }
    for name in list(term, &["namespaces"]) {
        let name = name.as_str().unwrap_or_default();
        check.faults(&path.child("namespace"), name, names::dns1123_label(name));
    }
    match_label_keys(check, term, path);
    let key = text(term, &["topologyKey"]);
    if key.is_empty() {
        check.required(path.child("topologyKey"), "can not be empty");
    }
    check.faults(&path.child("topologyKey"), key, names::qualified_name(key));
}

/// The valid values of a requirement. A required selector rejects values that no label can have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    OfLabels,
    Any,
}

/// Validates a node selector, as in node affinity.
pub(super) fn node_selector(check: &mut Check, selector: &Value, path: &Path) {
    let terms = list(selector, &["nodeSelectorTerms"]);
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        check.required(path.clone(), "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_selector_term(check, term, &path.index(index), Values::OfLabels);
    }
}

fn node_selector_term(check: &mut Check, term: &Value, path: &Path, allowed: Values) {
    let labels = path.child("matchExpressions");
    for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        node_requirement(check, expression, &labels.index(index), allowed);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        node_field_requirement(check, requirement, &fields.index(index));
    }
}

/// Validates a requirement on a field of a node. Only the name can be selected.
fn node_field_requirement(check: &mut Check, requirement: &Value, path: &Path) {
    let values = list(requirement, &["values"]);
    let operator = text(requirement, &["operator"]);
    match operator {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => check.required(
            path.child("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        _ => check.invalid(
            path.child("operator"),
            &operator.into(),
            "not a valid selector operator",
        ),
    }
    let key = text(requirement, &["key"]);
    if key != "metadata.name" {
        check.invalid(path.child("key"), &key.into(), "not a valid field selector key");
        return;
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        check.faults(
            &path.child("values").index(index),
            value,
            names::dns1123_subdomain(value),
        );
    }
}

fn node_requirement(check: &mut Check, expression: &Value, path: &Path, allowed: Values) {
    let values = list(expression, &["values"]);
    match text(expression, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => check.required(
            path.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => check.forbidden(
            path.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => check.required(
            path.child("values"),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => check.invalid(
            path.child("operator"),
            &text(expression, &["operator"]).into(),
            "not a valid selector operator",
        ),
    }
    let key = text(expression, &["key"]);
    check.faults(&path.child("key"), key, names::qualified_name(key));
    if allowed == Values::OfLabels {
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            check.faults(
                &path.child("values").index(index),
                value,
                names::label_value(value),
            );
        }
    }
}
