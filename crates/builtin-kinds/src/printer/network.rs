//! The rows of services, endpoints, ingresses and network policies.

use std::collections::HashSet;

use serde_json::Value;

use super::{NONE, Row, UNSET, format_labels, format_selector, joined, or, plain};
use crate::tree::{at, list, text};

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let first = row.list(&["spec", "clusterIPs"]).first().and_then(Value::as_str);
    let internal = first.unwrap_or_else(|| row.text(&["spec", "clusterIP"]));
    vec![
        row.name(),
        row.text(&["spec", "type"]).into(),
        or(internal, NONE).into(),
        external_address(row).into(),
        ports(row.list(&["spec", "ports"])).into(),
        row.age(),
        format_labels(row.at(&["spec", "selector"])).into(),
    ]
}

fn external_address(row: &Row<'_>) -> String {
    let external = row
        .list(&["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str);
    match row.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => joined(external),
        "ExternalName" => row.text(&["spec", "externalName"]).to_owned(),
        "LoadBalancer" => {
            let balanced = row.at(&["status", "loadBalancer"]);
            let balanced = balancer_addresses(balanced);
            let all: Vec<&str> = balanced.into_iter().chain(external).collect();
            or(&all.join(","), "<pending>").to_owned()
        }
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the addresses of a load balancer without duplicates.
fn balancer_addresses(status: &Value) -> Vec<&str> {
    let mut addresses = Vec::new();
    let mut seen = HashSet::new();
    for ingress in list(status, &["ingress"]) {
        let address = or(text(ingress, &["ip"]), text(ingress, &["hostname"]));
        if !address.is_empty() && seen.insert(address) {
            addresses.push(address);
        }
    }
    addresses
}

fn ports(ports: &[Value]) -> String {
    let port = |port: &Value| {
        let protocol = text(port, &["protocol"]);
        let number = at(port, &["port"]).as_i64().unwrap_or(0);
        match at(port, &["nodePort"]).as_i64().unwrap_or(0) {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    let all: Vec<String> = ports.iter().map(port).collect();
    joined(all.iter().map(String::as_str))
}

/// Formats at most three items, and the number of the other items.
fn first_three(items: &[String]) -> String {
    let shown = items.get(..3).unwrap_or(items).join(",");
    match items.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in row.list(&["subsets"]) {
        let addresses = list(subset, &["addresses"]).iter().map(|a| text(a, &["ip"]));
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let number = at(port, &["port"]).as_i64().unwrap_or(0);
            all.extend(addresses.clone().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{number}")
                } else {
                    format!("{ip}:{number}")
                }
            }));
        }
    }
    let shown = first_three(&all);
    vec![row.name(), or(&shown, NONE).into(), row.age()]
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list(&["ports"])
        .iter()
        .map(|port| match at(port, &["port"]) {
            Value::Null => "*".to_owned(),
            number => plain(number),
        })
        .collect();
    let addresses: Vec<String> = row
        .list(&["endpoints"])
        .iter()
        .flat_map(|endpoint| list(endpoint, &["addresses"]))
        .map(plain)
        .collect();
    vec![
        row.name(),
        row.text(&["addressType"]).into(),
        or(&first_three(&ports), UNSET).into(),
        or(&first_three(&addresses), UNSET).into(),
        row.age(),
    ]
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let class = row.at(&["spec", "ingressClassName"]).as_str().unwrap_or(NONE);
    let hosts: Vec<String> = row
        .list(&["spec", "rules"])
        .iter()
        .map(|rule| text(rule, &["host"]).to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    let addresses = balancer_addresses(row.at(&["status", "loadBalancer"]));
    let ports = if row.list(&["spec", "tls"]).is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        row.name(),
        class.into(),
        or(&first_three(&hosts), "*").into(),
        addresses.join(",").into(),
        ports.into(),
        row.age(),
    ]
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let parameters = row.at(&["spec", "parameters"]);
    let shown = if parameters.is_null() {
        NONE.to_owned()
    } else {
        let group = text(parameters, &["apiGroup"]);
        let dot = if group.is_empty() { "" } else { "." };
        let (kind, name) = (text(parameters, &["kind"]), text(parameters, &["name"]));
        format!("{kind}{dot}{group}/{name}")
    };
    vec![
        row.name(),
        row.text(&["spec", "controller"]).into(),
        shown.into(),
        row.age(),
    ]
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    let selector = format_selector(row.at(&["spec", "podSelector"]));
    vec![row.name(), selector.into(), row.age()]
}
