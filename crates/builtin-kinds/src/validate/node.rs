//! Validates nodes: taints, pod networks, and status.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorType, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, render_go};
use super::container_resources::resource_amount;
use crate::tree::{at, entries, list, text};

pub(super) fn node(check: &mut Check, node: &Value) {
    taints(check, node);
    resources(check, node);
    networks(check, node);
    declared_features(check, node);
}

/// Checks that the pod network and the provider ID of a node do not change once they are set.
pub(super) fn node_update(check: &mut Check, node: &Value, old: &Value) {
    resources(check, node);
    addresses(check, node);
    let (spec, before) = (at(node, &["spec"]), at(old, &["spec"]));
    let path = Path::new("spec");
    kept_networks(check, spec, before, &path.child("podCIDRs"));
    let provider = text(before, &["providerID"]);
    if !provider.is_empty() && provider != text(spec, &["providerID"]) {
        check.forbidden(
            path.child("providerID"),
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    taints(check, node);
    if text(spec, &["externalID"]) != text(before, &["externalID"]) {
        check.forbidden(path.child("externalID"), "may not be updated");
    }
    declared_features(check, node);
}

fn kept_networks(check: &mut Check, spec: &Value, before: &Value, path: &Path) {
    let fault = "node updates may not change podCIDR except from \"\" to valid";
    let (new, old) = (list(spec, &["podCIDRs"]), list(before, &["podCIDRs"]));
    if old.is_empty() {
        return;
    }
    if new.len() != old.len() {
        return check.forbidden(path.clone(), fault);
    }
    for _ in new.iter().zip(old).filter(|(new, old)| new != old) {
        check.forbidden(path.clone(), fault);
    }
}

const TAINT: &[GoPrint] = &[
    GoPrint("Key", "key", &[]),
    GoPrint("Value", "value", &[]),
    GoPrint("Effect", "effect", &[]),
    GoPrint("TimeAdded", "timeAdded", &[]),
];

fn taints(check: &mut Check, node: &Value) {
    let mut seen = HashSet::new();
    for (index, taint) in list(node, &["spec", "taints"]).iter().enumerate() {
        // The API server reports these errors under `metadata`.
        let path = Path::new("metadata").child("taints").index(index);
        let [key, value, effect] = ["key", "value", "effect"].map(|field| text(taint, &[field]));
        check.faults(&path.child("key"), key, names::qualified_name(key));
        let faults = names::label_value(value);
        if !faults.is_empty() {
            check.invalid(path.child("value"), &value.into(), faults.join(";"));
        }
        if effect.is_empty() {
            check.required(path.child("effect"), "");
        } else {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            check.one_of(taint, &path, "effect", &effects);
        }
        if !seen.insert((key, effect)) {
            check.errors.push(Error {
                kind: ErrorType::Duplicate,
                field: path,
                value: Some(render_go(&with_texts(taint), TAINT)),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
}

/// Returns a taint with empty strings for omitted fields.
fn with_texts(taint: &Value) -> Value {
    let mut taint = taint.clone();
    if let Some(fields) = taint.as_object_mut() {
        for field in ["key", "value", "effect"] {
            fields.entry(field).or_insert_with(|| "".into());
        }
    }
    taint
}

fn resources(check: &mut Check, node: &Value) {
    for field in ["capacity", "allocatable"] {
        let path = Path::new("status").child(field);
        for (name, quantity) in entries(node, &["status", field]) {
            resource_amount(check, name, quantity, &path.child(name));
        }
    }
}

fn declared_features(check: &mut Check, node: &Value) {
    let path = Path::new("status").child("declaredFeatures");
    let mut previous = "";
    for (index, feature) in list(node, &["status", "declaredFeatures"]).iter().enumerate() {
        let name = feature.as_str().unwrap_or_default();
        let path = path.index(index);
        if index > 0 && name == previous {
            check.duplicate(path.clone(), feature);
        }
        if index > 0 && name < previous {
            check.invalid(path.clone(), feature, "list must be sorted alphabetically");
        }
        previous = name;
        if !is_feature(name) {
            let why = format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            check.invalid(path, feature, why);
        }
    }
}

fn is_feature(name: &str) -> bool {
    let is_word = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.split('/').all(is_word)
}

fn addresses(check: &mut Check, node: &Value) {
    let path = Path::new("status").child("addresses");
    let all = list(node, &["status", "addresses"]);
    let print = &[GoPrint("Type", "type", &[]), GoPrint("Address", "address", &[])];
    let mut seen = HashSet::new();
    for (index, address) in all.iter().enumerate() {
        if !seen.insert(address) {
            check.errors.push(Error {
                kind: ErrorType::Duplicate,
                field: path.index(index),
                value: Some(render_go(address, print)),
                detail: String::new(),
            });
        }
    }
}

fn networks(check: &mut Check, node: &Value) {
    let path = Path::new("spec").child("podCIDRs");
    let given = at(node, &["spec", "podCIDRs"]);
    let all = list(given, &[]);
    for (index, network) in all.iter().enumerate() {
        let network = network.as_str().unwrap_or_default();
        check.faults(&path.index(index), network, names::cidr(network));
    }
    let bad = all.iter().position(|network| {
        network
            .as_str()
            .is_none_or(|text| names::sloppy_cidr(text).is_none())
    });
    if let Some(bad) = bad.filter(|_| all.len() > 1) {
        let shown = all.get(bad).and_then(Value::as_str).unwrap_or_default();
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{bad}]: <nil> (invalid CIDR address: {shown})"
        );
        check
            .errors
            .push(Error::new(ErrorType::Internal, path.clone(), why));
    }
    let families: HashSet<Option<bool>> = all
        .iter()
        .map(|network| names::parse_cidr(network.as_str()?).map(|(address, _)| address.is_ipv4()))
        .collect();
    if all.len() > 2 || all.len() == 2 && (families.len() < 2 || bad.is_some()) {
        let detail = "may specify no more than one CIDR for each IP family";
        check.invalid(path, given, detail);
    }
}
