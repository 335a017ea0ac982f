//! Validates kinds with an immutable specification: addresses, device claims, volume classes.

use apimachinery::field::Path;
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, render_go};
use crate::tree::{at, list, text};

const PARENT: &[GoPrint] = &[
    GoPrint("Group", "group", &[]),
    GoPrint("Resource", "resource", &[]),
    GoPrint("Namespace", "namespace", &[]),
    GoPrint("Name", "name", &[]),
];

pub(super) fn ip_address(check: &mut Check, address: &Value) {
    let path = Path::new("spec").child("parentRef");
    let parent = at(address, &["spec", "parentRef"]);
    if parent.is_null() {
        return check.required(path, "");
    }
    for (field, rule) in [
        ("group", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("resource", names::path_segment),
        ("name", names::path_segment),
        ("namespace", names::path_segment),
    ] {
        let value = text(parent, &[field]);
        if !value.is_empty() {
            check.faults(&path.child(field), value, rule(value));
        } else if matches!(field, "resource" | "name") {
            check.required(path.child(field), "");
        }
    }
}

pub(super) fn ip_address_update(check: &mut Check, address: &Value, old: &Value) {
    let parent = at(address, &["spec", "parentRef"]);
    if parent != at(old, &["spec", "parentRef"]) {
        let path = Path::new("spec").child("parentRef");
        check.invalid_text(path, go_texts(parent), "field is immutable");
    }
}

/// Formats a reference as a Go struct of strings.
fn go_texts(reference: &Value) -> String {
    render_go(reference, PARENT).replace(":null", ":\"\"")
}

pub(super) fn service_cidr(check: &mut Check, cidr: &Value) {
    let path = Path::new("spec").child("cidrs");
    let cidrs = list(cidr, &["spec", "cidrs"]);
    if cidrs.is_empty() {
        return check.required(path, "at least one CIDR required");
    }
    if cidrs.len() > 2 {
        let why = "may only hold up to 2 values";
        return check.invalid(path, at(cidr, &["spec", "cidrs"]), why);
    }
    if let [first, second] = cidrs {
        let family = |cidr: &Value| names::parse_cidr(cidr.as_str()?).map(|(ip, _)| ip.is_ipv6());
        if let (Some(first), Some(second)) = (family(first), family(second))
            && first == second
        {
            check.invalid(
                path.clone(),
                at(cidr, &["spec", "cidrs"]),
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            );
        }
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        let value = cidr.as_str().unwrap_or_default();
        check.faults(&path.index(index), value, names::cidr(value));
    }
}

pub(super) fn service_cidr_update(check: &mut Check, cidr: &Value, old: &Value) {
    let path = Path::new("spec").child("cidrs");
    let shown = at(cidr, &["spec", "cidrs"]);
    let (new, known) = (list(shown, &[]), list(old, &["spec", "cidrs"]));
    // A second network can be added.
    match (known, new) {
        ([_], [_, _]) => {}
        _ if known.len() != new.len() => return check.invalid(path, shown, "field is immutable"),
        _ => {}
    }
    for (index, (before, now)) in known.iter().zip(new).enumerate() {
        if now != before {
            check.invalid(path.index(index), now, "field is immutable");
        }
    }
    if new.len() > known.len() {
        service_cidr(check, cidr);
    }
}

pub(super) fn attributes_class(check: &mut Check, class: &Value) {
    let name = text(class, &["driverName"]);
    if name.is_empty() {
        check.required(Path::new("driverName"), "");
    } else {
        let name = name.to_lowercase();
        check.faults(&Path::new("driverName"), &name, names::qualified_name(&name));
    }
    let parameters = at(class, &["parameters"]).as_object();
    if parameters.is_none_or(serde_json::Map::is_empty) {
        check.required(
            Path::new("parameters"),
            "must contain at least one key/value pair",
        );
    } else if parameters.is_some_and(|parameters| parameters.keys().any(String::is_empty)) {
        check.invalid(Path::new("parameters"), &"".into(), "field can not be empty.");
    }
}

pub(super) fn attributes_class_update(check: &mut Check, class: &Value, old: &Value) {
    for field in ["driverName", "parameters"] {
        if at(class, &[field]) != at(old, &[field]) {
            check.forbidden(Path::new(field), format!("updates to {field} are forbidden."));
        }
    }
}

pub(super) fn storage_capacity(check: &mut Check, object: &Value) {
    let root = Path::default();
    let class = text(object, &["storageClassName"]);
    let of_class = Path::new("storageClassName");
    check.faults(&of_class, class, names::dns1123_subdomain(class));
    let topology = at(object, &["nodeTopology"]);
    if topology.is_object() {
        check.label_selector(topology, &Path::new("nodeTopology"));
    }
    check.non_negative_quantity(at(object, &["capacity"]), &root.child("capacity"));
}

pub(super) fn storage_capacity_update(check: &mut Check, object: &Value, old: &Value) {
    for field in ["nodeTopology", "storageClassName"] {
        check.immutable(at(object, &[field]), at(old, &[field]), Path::new(field));
    }
}
