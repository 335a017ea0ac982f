//! Prepares Services: keeps allocated addresses and ports, and removes those that the new type does not use.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::tree::{Object, at, copy_entry, is_zero, list, objects_in, set_if_zero, text};

/// Synchronizes `clusterIP` with the first of `clusterIPs`. Removes the internal traffic policy of an ExternalName;
/// validation rejects an unknown policy.
pub(super) fn prepare_for_create(service: &mut Object) {
    let Some(Value::Object(spec)) = service.get_mut("spec") else {
        return;
    };
    let policy = spec.get("internalTrafficPolicy").and_then(Value::as_str);
    if spec.get("type").is_some_and(|kind| kind == "ExternalName")
        && matches!(policy, Some("Cluster" | "Local"))
    {
        spec.remove("internalTrafficPolicy");
    }
    let single = spec.get("clusterIP").filter(|ip| !is_zero(ip)).cloned();
    if let Some(single) = single {
        set_if_zero(spec, "clusterIPs", json!([single]));
    }
}

pub(super) fn prepare_for_update(service: &mut Object, old: &Value) {
    let before = at(old, &["spec"]);
    let Some(Value::Object(spec)) = service.get_mut("spec") else {
        return;
    };
    follow_cluster_ip(spec, before);
    keep_allocated(spec, before);
    drop_unneeded(spec, before);
}

/// Updates `clusterIPs` for an old client, which changes only `clusterIP`.
fn follow_cluster_ip(spec: &mut Object, before: &Value) {
    let single = spec.get("clusterIP").cloned().unwrap_or_default();
    let all = spec.get("clusterIPs").cloned().unwrap_or_default();
    if &single == at(before, &["clusterIP"]) || &all != at(before, &["clusterIPs"]) {
        return;
    }
    if is_zero(&single) {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
}

/// The fields that a service type uses. A field is dropped when the type changes to one that does not use it.
struct Needs {
    cluster_ip: bool,
    node_ports: bool,
    /// True if missing node ports are allocated.
    allocates_ports: bool,
    health_check_port: bool,
    load_balancer: bool,
    external_policy: bool,
}

fn needs(spec: &Value) -> Needs {
    let kind = text(spec, &["type"]);
    let load_balancer = kind == "LoadBalancer";
    let local = text(spec, &["externalTrafficPolicy"]) == "Local";
    let is_manual = at(spec, &["allocateLoadBalancerNodePorts"]) == &Value::Bool(false);
    Needs {
        cluster_ip: kind != "ExternalName",
        // Ports that are set stay, even if the service does not want further ones.
        node_ports: kind == "NodePort" || load_balancer,
        allocates_ports: kind == "NodePort" || load_balancer && !is_manual,
        health_check_port: load_balancer && local,
        load_balancer,
        external_policy: load_balancer
            || kind == "NodePort"
            || kind == "ClusterIP" && !is_zero(at(spec, &["externalIPs"])),
    }
}

const CLUSTER_IP_FIELDS: &[&str] = &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// Sets the fields that the request omits to those of the existing service.
fn keep_allocated(spec: &mut Object, before: &Value) {
    let after = needs(&Value::Object(spec.clone()));
    let had = needs(before);
    if had.cluster_ip && after.cluster_ip {
        for field in CLUSTER_IP_FIELDS {
            // The addresses and their families belong to the first address, so they are kept only if it is unchanged.
            let belongs = !matches!(*field, "clusterIPs" | "ipFamilies")
                || spec.get("clusterIP").unwrap_or(&Value::Null) == at(before, &["clusterIP"]);
            if belongs && is_missing(spec, field) {
                copy_entry(spec, before, field);
            }
        }
        let single = spec.get("clusterIP").filter(|ip| !is_zero(ip)).cloned();
        if let Some(single) = single {
            set_if_zero(spec, "clusterIPs", json!([single]));
        }
    }
    if had.allocates_ports && after.allocates_ports {
        keep_node_ports(spec, before);
    }
    if had.health_check_port && after.health_check_port && is_missing(spec, "healthCheckNodePort") {
        copy_entry(spec, before, "healthCheckNodePort");
    }
}

fn is_missing(spec: &Object, field: &str) -> bool {
    spec.get(field).is_none_or(is_zero)
}

/// Keeps the node ports by the names of the ports, unless the request assigns the number to another port.
fn keep_node_ports(spec: &mut Object, before: &Value) {
    let number = |port: &Value| at(port, &["nodePort"]).as_i64().unwrap_or(0);
    let requested: HashSet<i64> = objects_in(spec, "ports")
        .filter_map(|port| port.get("nodePort")?.as_i64())
        .collect();
    let old_ports = list(before, &["ports"]);
    let named = |port| (text(port, &["name"]), number(port));
    let last: HashMap<&str, i64> = old_ports.iter().map(named).collect();
    let mut used: HashSet<i64> = old_ports
        .iter()
        .map(number)
        .filter(|number| *number != 0 && requested.contains(number))
        .collect();
    for port in objects_in(spec, "ports") {
        if !is_missing(port, "nodePort") {
            continue;
        }
        let name = port.get("name").and_then(Value::as_str).unwrap_or("");
        let old = last.get(name).copied().unwrap_or(0);
        if old != 0 && used.insert(old) {
            port.insert("nodePort".to_owned(), old.into());
        }
    }
}

/// Drops the fields that the old type uses and the new type does not use, if the request did not change them.
fn drop_unneeded(spec: &mut Object, before: &Value) {
    let after = needs(&Value::Object(spec.clone()));
    let had = needs(before);
    if had.cluster_ip && !after.cluster_ip {
        drop_unchanged(spec, before, &["clusterIP", "clusterIPs"]);
        drop_unchanged(spec, before, &["ipFamilies"]);
        drop_unchanged(spec, before, &["ipFamilyPolicy"]);
        drop_unchanged(spec, before, &["internalTrafficPolicy"]);
    }
    if had.node_ports && !after.node_ports && same_node_ports(spec, before) {
        for port in objects_in(spec, "ports") {
            port.remove("nodePort");
        }
    }
    if had.health_check_port && !after.health_check_port {
        drop_unchanged(spec, before, &["healthCheckNodePort"]);
    }
    if had.load_balancer && !after.load_balancer {
        drop_unchanged(spec, before, &["allocateLoadBalancerNodePorts"]);
        drop_unchanged(spec, before, &["loadBalancerClass"]);
    }
    if had.external_policy && !after.external_policy {
        drop_unchanged(spec, before, &["externalTrafficPolicy"]);
    }
}

fn drop_unchanged(spec: &mut Object, before: &Value, fields: &[&str]) {
    let unchanged = fields
        .iter()
        .all(|field| spec.get(*field).unwrap_or(&Value::Null) == at(before, &[field]));
    if unchanged {
        for field in fields {
            spec.remove(*field);
        }
    }
}

fn same_node_ports(spec: &mut Object, before: &Value) -> bool {
    let new: Vec<Option<Value>> = objects_in(spec, "ports")
        .map(|port| port.get("nodePort").cloned())
        .collect();
    let old: HashSet<Option<Value>> = list(before, &["ports"])
        .iter()
        .map(|port| port.get("nodePort").cloned())
        .collect();
    new.iter().all(|port| port.is_none() || old.contains(port))
}
