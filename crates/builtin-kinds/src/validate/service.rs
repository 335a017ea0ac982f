//! Validates Services. The registry allocates addresses and node ports, and rejects those that are taken.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, is_zero, list, text};

const LB_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn service(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let kind = text(spec, &["type"]);
    let headless = is_headless(spec);
    let ports = list(spec, &["ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        check.required(path.child("ports"), "");
    }
    by_type(check, spec, &path);
    service_ports(check, ports, &path.child("ports"));
    check.labels(at(spec, &["selector"]), &path.child("selector"));
    session_affinity(check, spec, &path);
    addresses(check, spec, &path);
    for (index, ip) in list(spec, &["externalIPs"]).iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        let path = path.child("externalIPs").index(index);
        if names::ip_address(ip).is_empty() {
            check.faults(&path, ip, names::endpoint_address(ip));
        } else {
            check.faults(&path, ip, names::ip_address(ip));
        }
    }
    if kind.is_empty() {
        check.required(path.child("type"), "");
    } else {
        check.one_of(
            spec,
            &path,
            "type",
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        );
    }
    unique_ports(check, spec, &path.child("ports"));
    load_balancer(check, spec, &path);
    traffic(check, spec, &path);
}

fn is_headless(spec: &Value) -> bool {
    match list(spec, &["clusterIPs"]) {
        [] => text(spec, &["clusterIP"]) == "None",
        [only] => only == "None",
        _ => false,
    }
}

fn by_type(check: &mut Check, spec: &Value, path: &Path) {
    let kind = text(spec, &["type"]);
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => check.invalid(
            path.child("clusterIPs").index(0),
            &"None".into(),
            format!("may not be set to 'None' for {kind} services"),
        ),
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let value = at(spec, &[field]);
                if !is_zero(value) || field == "ipFamilyPolicy" && !value.is_null() {
                    check.forbidden(path.child(field), "may not be set for ExternalName services");
                }
            }
            let name = text(spec, &["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            let path = path.child("externalName");
            if name.is_empty() {
                check.required(path, "");
            } else {
                check.faults(&path, name, names::dns1123_subdomain(name));
            }
        }
        _ => {}
    }
}

fn service_ports(check: &mut Check, ports: &[Value], path: &Path) {
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, &["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                check.required(path.child("name"), "");
            }
        } else {
            check.faults(&path.child("name"), name, names::dns1123_label(name));
            if !seen.insert(name) {
                check.duplicate(path.child("name"), &name.into());
            }
        }
        check.port(at(port, &["port"]), &path.child("port"));
        if text(port, &["protocol"]).is_empty() {
            check.required(path.child("protocol"), "");
        } else {
            check.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
        }
        check.port(at(port, &["targetPort"]), &path.child("targetPort"));
        check.pointer_form(port, &path, "appProtocol", names::qualified_name);
    }
}

fn session_affinity(check: &mut Check, spec: &Value, path: &Path) {
    let affinity = text(spec, &["sessionAffinity"]);
    if affinity.is_empty() {
        check.required(path.child("sessionAffinity"), "");
    } else {
        check.one_of(spec, path, "sessionAffinity", &["ClientIP", "None"]);
    }
    let config = at(spec, &["sessionAffinityConfig"]);
    let path = path.child("sessionAffinityConfig");
    match affinity {
        "None" if !config.is_null() => {
            check.forbidden(path, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            let seconds = at(config, &["clientIP", "timeoutSeconds"]);
            if !seconds.as_i64().is_some_and(|s| (1..=86400).contains(&s)) {
                check.invalid(
                    path.child("clientIP").child("timeoutSeconds"),
                    seconds,
                    "must be greater than 0 and less than 86400",
                );
            }
        }
        _ => {}
    }
}

/// Checks the cluster addresses of a service, and their families.
fn addresses(check: &mut Check, spec: &Value, path: &Path) {
    if text(spec, &["type"]) == "ExternalName" {
        return;
    }
    let single = text(spec, &["clusterIP"]);
    let all = list(spec, &["clusterIPs"]);
    let shown = at(spec, &["clusterIPs"]);
    let of_all = path.child("clusterIPs");
    if single.is_empty() && !all.is_empty() {
        let why = "must be empty when `clusterIP` is not specified";
        check.invalid(of_all.clone(), shown, why);
    }
    if !single.is_empty() && all.first().is_some_and(|first| first != single) {
        check.invalid(of_all.clone(), shown, "first value must match `clusterIP`");
    }
    let families = list(spec, &["ipFamilies"]);
    address_families(check, spec, families, path);
    let given: Vec<&str> = match all {
        [] if !single.is_empty() => vec![single],
        all => all.iter().filter_map(Value::as_str).collect(),
    };
    let mut all_valid = true;
    for (index, ip) in given.iter().enumerate() {
        if *ip == "None" && index == 0 {
            if given.len() > 1 {
                all_valid = false;
                let why = "'None' must be the first and only value";
                check.invalid(of_all.clone(), shown, why);
            }
            continue;
        }
        let faults = names::ip_address(ip);
        all_valid &= faults.is_empty();
        check.faults(&of_all.index(index), ip, faults);
    }
    if given.len() > 2 {
        check.invalid(of_all.clone(), shown, "may only hold up to 2 values");
    }
    if !all_valid {
        return;
    }
    if given.len() > 1 && (given.len() > 2 || given.iter().filter(|ip| names::is_ipv4(ip)).count() != 1) {
        let why = "may specify no more than one IP for each IP family";
        check.invalid(of_all.clone(), shown, why);
    }
    for (index, ip) in given.iter().enumerate().filter(|(_, ip)| **ip != "None") {
        let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
        let expected = families.get(index).and_then(Value::as_str);
        if let Some(expected @ ("IPv4" | "IPv6")) = expected
            && expected != family
        {
            check.invalid(
                of_all.index(index),
                &(*ip).into(),
                format!("expected an {expected} value as indicated by `ipFamilies[{index}]`"),
            );
        }
    }
}

fn address_families(check: &mut Check, spec: &Value, families: &[Value], path: &Path) {
    let mut seen = HashSet::new();
    for (index, family) in families.iter().enumerate() {
        let path = path.child("ipFamilies").index(index);
        if ![Value::from("IPv4"), "IPv6".into()].contains(family) {
            let error = Error::not_supported(path.clone(), family, &["IPv4", "IPv6"]);
            check.errors.push(error);
        }
        if !seen.insert(family) {
            check.duplicate(path, family);
        }
    }
    check.optional_one_of(
        spec,
        path,
        "ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
}

fn unique_ports(check: &mut Check, spec: &Value, path: &Path) {
    let ports = list(spec, &["ports"]);
    let node_port = |port: &Value| at(port, &["nodePort"]).as_i64().unwrap_or(0);
    if text(spec, &["type"]) == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if node_port(port) != 0 {
                check.forbidden(
                    path.index(index).child("nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                );
            }
        }
    }
    let mut node_ports = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let number = node_port(port);
        if number != 0 && !node_ports.insert((text(port, &["protocol"]), number)) {
            check.duplicate(path.index(index).child("nodePort"), &number.into());
        }
    }
    let mut numbers = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let protocol = text(port, &["protocol"]);
        let number = at(port, &["port"]).as_i64().unwrap_or(0);
        if !numbers.insert((protocol, number)) {
            let mut error = Error::duplicate(path.index(index), &Value::Null);
            error.value = Some(format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            ));
            check.errors.push(error);
        }
    }
}

fn load_balancer(check: &mut Check, spec: &Value, path: &Path) {
    let is_balancer = text(spec, &["type"]) == "LoadBalancer";
    let ranges = list(spec, &["loadBalancerSourceRanges"]);
    // The API server spells this field with a capital letter.
    let range_path = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_balancer {
        check.forbidden(range_path.clone(), LB_ONLY);
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        let faults = names::cidr(range);
        check.faults(&range_path.index(index), range, faults);
    }
    if is_balancer {
        if at(spec, &["allocateLoadBalancerNodePorts"]).is_null() {
            check.required(path.child("allocateLoadBalancerNodePorts"), "");
        }
    } else if !at(spec, &["allocateLoadBalancerNodePorts"]).is_null() {
        check.forbidden(path.child("allocateLoadBalancerNodePorts"), LB_ONLY);
    }
    load_balancer_class(check, spec, path);
}

fn load_balancer_class(check: &mut Check, spec: &Value, path: &Path) {
    let field = "loadBalancerClass";
    if text(spec, &["type"]) == "LoadBalancer" {
        check.pointer_form(spec, path, field, names::qualified_name);
    } else if !at(spec, &[field]).is_null() {
        check.forbidden(path.child(field), LB_ONLY);
    }
}

fn traffic(check: &mut Check, spec: &Value, path: &Path) {
    let kind = text(spec, &["type"]);
    let external = matches!(kind, "LoadBalancer" | "NodePort")
        || kind == "ClusterIP" && !list(spec, &["externalIPs"]).is_empty();
    let policy = at(spec, &["externalTrafficPolicy"]);
    if external && is_zero(policy) {
        check.required(path.child("externalTrafficPolicy"), "");
    } else if external {
        check.one_of(spec, path, "externalTrafficPolicy", &["Cluster", "Local"]);
    } else if !is_zero(policy) {
        check.invalid(
            path.child("externalTrafficPolicy"),
            policy,
            "may only be set for externally-accessible services",
        );
    }
    health_check_port(check, spec, path);
    if at(spec, &["internalTrafficPolicy"]).is_null()
        && matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort")
    {
        check.required(path.child("internalTrafficPolicy"), "");
    }
    check.optional_one_of(spec, path, "internalTrafficPolicy", &["Cluster", "Local"]);
    check.optional_one_of(
        spec,
        path,
        "trafficDistribution",
        &["PreferClose", "PreferSameZone", "PreferSameNode"],
    );
}

fn health_check_port(check: &mut Check, spec: &Value, path: &Path) {
    let port = at(spec, &["healthCheckNodePort"]);
    let local = text(spec, &["externalTrafficPolicy"]) == "Local";
    let path = path.child("healthCheckNodePort");
    if is_zero(port) {
        // The registry allocates an address if it is required.
        return;
    }
    if text(spec, &["type"]) == "LoadBalancer" && local {
        check.port(port, &path);
    } else {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        check.invalid(path, port, detail);
    }
}

/// Checks the addresses of a service before missing ones are allocated.
pub(super) fn related_addresses(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    if text(spec, &["type"]) != "ExternalName" {
        addresses(check, spec, &path);
    }
}

/// Checks that the addresses of a service do not change.
pub(super) fn unchanged_addresses(check: &mut Check, object: &Value, old: &Value) {
    let (spec, before) = (at(object, &["spec"]), at(old, &["spec"]));
    let is_external = |spec| text(spec, &["type"]) == "ExternalName";
    let headless = is_headless(spec) && is_headless(before);
    if !is_external(spec) && !is_external(before) && !headless {
        kept_addresses(check, spec, before, &Path::new("spec"));
    }
}

pub(super) fn service_update(check: &mut Check, object: &Value, old: &Value) {
    let path = Path::new("spec");
    let (spec, before) = (at(object, &["spec"]), at(old, &["spec"]));
    unchanged_addresses(check, object, old);
    let class = "loadBalancerClass";
    let both = [spec, before]
        .iter()
        .all(|spec| text(spec, &["type"]) == "LoadBalancer");
    if both && at(spec, &[class]) != at(before, &[class]) {
        check.invalid(path.child(class), at(spec, &[class]), "may not change once set");
    }
    // The API server checks the class twice.
    load_balancer_class(check, spec, &path);
    let port = "healthCheckNodePort";
    let needs_port =
        |spec| text(spec, &["type"]) == "LoadBalancer" && text(spec, &["externalTrafficPolicy"]) == "Local";
    if needs_port(spec) && needs_port(before) && at(spec, &[port]) != at(before, &[port]) {
        check.forbidden(path.child(port), "field is immutable");
    }
    service(check, object);
}

/// Checks that allocated addresses are unchanged. A secondary address can be added and removed.
fn kept_addresses(check: &mut Check, spec: &Value, before: &Value, path: &Path) {
    let given = at(spec, &["clusterIPs"]);
    let (new, old) = (list(spec, &["clusterIPs"]), list(before, &["clusterIPs"]));
    let path_of_all = path.child("clusterIPs");
    if new.is_empty() && !old.is_empty() {
        let detail = "primary clusterIP can not be unset";
        check.invalid(path_of_all.index(0), given, detail);
    }
    let shared = if new.len() == old.len() { new.len() } else { 1 };
    for (index, (new, old)) in new.iter().zip(old).take(shared).enumerate() {
        if new != old {
            check.invalid(path_of_all.index(index), given, "may not change once set");
        }
    }
    let single = text(spec, &["ipFamilyPolicy"]) == "SingleStack";
    if new.len() == 1 && old.len() > 1 && !single {
        check.invalid(
            path.child("ipFamilyPolicy"),
            at(spec, &["ipFamilyPolicy"]),
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        );
    }
}
