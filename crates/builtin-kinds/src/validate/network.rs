//! Validates ingresses, ingress classes, network policies, endpoints and endpoint slices.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, is_zero, list, text};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(super) fn ingress_create(check: &mut Check, object: &Value) {
    let annotation = at(object, &["metadata", "annotations", CLASS_ANNOTATION]);
    let class = at(object, &["spec", "ingressClassName"]);
    if !annotation.is_null() && !class.is_null() && annotation != class {
        check.invalid(
            Path::new("annotations").child(CLASS_ANNOTATION),
            annotation,
            "must match `ingressClassName` when both are specified",
        );
    }
    ingress(check, object);
}

pub(super) fn ingress(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let rules = list(spec, &["rules"]);
    let default = at(spec, &["defaultBackend"]);
    if rules.is_empty() && default.is_null() {
        check.invalid(
            path.clone(),
            at(spec, &["rules"]),
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if !default.is_null() {
        backend(check, default, &path.child("defaultBackend"));
    }
    for (index, rule) in rules.iter().enumerate() {
        ingress_rule(check, rule, &path.child("rules").index(index));
    }
    for (index, tls) in list(spec, &["tls"]).iter().enumerate() {
        for (host_index, host) in list(tls, &["hosts"]).iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let path = path.child("tls").index(index).child("hosts").index(host_index);
            check.faults(&path, host, host_faults(host));
        }
        let path = path.child("tls").index(index);
        check.optional_form(tls, &path, "secretName", names::dns1123_subdomain);
    }
    check.pointer_form(spec, &path, "ingressClassName", names::dns1123_subdomain);
}

fn host_faults(host: &str) -> Vec<String> {
    if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    }
}

fn ingress_rule(check: &mut Check, rule: &Value, path: &Path) {
    let host = text(rule, &["host"]);
    if !host.is_empty() {
        let path = path.child("host");
        if names::sloppy_ip(host).is_some() {
            check.invalid(
                path.clone(),
                &host.into(),
                "must be a DNS name, not an IP address",
            );
        }
        check.faults(&path, host, host_faults(host));
    }
    let http = at(rule, &["http"]);
    if http.is_null() {
        return;
    }
    let path = path.child("http").child("paths");
    let paths = list(http, &["paths"]);
    if paths.is_empty() {
        check.required(path.clone(), "");
    }
    for (index, item) in paths.iter().enumerate() {
        ingress_path(check, item, &path.index(index));
    }
}

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

fn ingress_path(check: &mut Check, item: &Value, path: &Path) {
    let value = text(item, &["path"]);
    let value_path = path.child("path");
    match at(item, &["pathType"]).as_str() {
        None => return check.required(path.child("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                check.invalid(value_path.clone(), &value.into(), "must be an absolute path");
            }
            let illegal = ["//", "/./", "/../", "%2f", "%2F"];
            for part in illegal.into_iter().filter(|part| value.contains(part)) {
                let detail = format!("must not contain '{part}'");
                check.invalid(value_path.clone(), &value.into(), detail);
            }
            for end in ["/..", "/."] {
                if value.ends_with(end) {
                    let detail = format!("cannot end with '{end}'");
                    check.invalid(value_path.clone(), &value.into(), detail);
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                check.invalid(value_path, &value.into(), "must be an absolute path");
            }
        }
        Some(_) => check.one_of(item, path, "pathType", PATH_TYPES),
    }
    backend(check, at(item, &["backend"]), &path.child("backend"));
}

fn backend(check: &mut Check, backend: &Value, path: &Path) {
    let (service, resource) = (at(backend, &["service"]), at(backend, &["resource"]));
    match (service.is_null(), resource.is_null()) {
        (false, false) => check.invalid(
            path.clone(),
            &"".into(),
            "cannot set both resource and service backends",
        ),
        (true, true) => check.invalid(
            path.clone(),
            &"".into(),
            "resource or service backend is required",
        ),
        (true, false) => {
            typed_reference(check, resource, &path.child("resource"));
        }
        (false, true) => {
            check.required_form(service, &path.child("service"), "name", names::dns1123_label);
            let (name, number) = (text(service, &["port", "name"]), at(service, &["port", "number"]));
            let port = path.child("service").child("port");
            match (name.is_empty(), is_zero(number)) {
                (true, true) => {
                    check.required(path.clone(), "port name or number is required");
                }
                (false, false) => check.invalid(
                    path.clone(),
                    &"".into(),
                    "cannot set both port name & port number",
                ),
                (false, true) => {
                    check.faults(&port.child("name"), name, names::port_name(name));
                }
                (true, false) => check.port(number, &port.child("number")),
            }
        }
    }
}

/// Checks a reference to an object of any kind.
fn typed_reference(check: &mut Check, reference: &Value, path: &Path) {
    check.pointer_form(reference, path, "apiGroup", names::dns1123_subdomain);
    for field in ["kind", "name"] {
        let value = text(reference, &[field]);
        if value.is_empty() {
            check.required(path.child(field), "");
        }
        check.faults(&path.child(field), value, names::path_segment(value));
    }
}

/// Checks the parameters of an ingress class.
fn class_parameters(check: &mut Check, parameters: &Value, path: &Path) {
    typed_reference(check, parameters, path);
    let namespace = at(parameters, &["namespace"]);
    let scope = at(parameters, &["scope"]).as_str();
    let namespace_path = path.child("namespace");
    match (scope, namespace.as_str()) {
        (None, _) => check.required(path.child("scope"), ""),
        (Some("Namespace"), None) => {
            check.required(namespace_path, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(name)) => {
            check.faults(&namespace_path, name, names::dns1123_label(name));
        }
        (Some("Cluster"), Some(_)) => {
            check.forbidden(namespace_path, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(_), _) => check.one_of(parameters, path, "scope", &["Cluster", "Namespace"]),
    }
}

/// The maximum length of the controller of an IngressClass, in bytes.
const CONTROLLER_MAX: usize = 250;

pub(super) fn ingress_class(check: &mut Check, object: &Value) {
    let path = Path::new("spec");
    let controller = text(object, &["spec", "controller"]);
    let of_controller = path.child("controller");
    if controller.len() > CONTROLLER_MAX {
        let error = Error::too_long(of_controller.clone(), CONTROLLER_MAX);
        check.errors.push(error);
    }
    check.domain_prefixed_path(controller, &of_controller);
    let parameters = at(object, &["spec", "parameters"]);
    if !parameters.is_null() {
        class_parameters(check, parameters, &path.child("parameters"));
    }
}

pub(super) fn ingress_class_update(check: &mut Check, object: &Value, old: &Value) {
    // A missing string is empty in Go.
    let controller = |object: &Value| Value::from(text(object, &["spec", "controller"]));
    check.immutable(
        &controller(object),
        &controller(old),
        Path::new("spec").child("controller"),
    );
}

pub(super) fn network_policy(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.label_selector(at(spec, &["podSelector"]), &path.child("podSelector"));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(spec, &[direction]).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (index, port) in list(rule, &["ports"]).iter().enumerate() {
                policy_port(check, port, &path.child("ports").index(index));
            }
            for (index, peer) in list(rule, &[peers]).iter().enumerate() {
                policy_peer(check, peer, &path.child(peers).index(index));
            }
        }
    }
    let types = list(spec, &["policyTypes"]);
    let path = path.child("policyTypes");
    if types.len() > 2 {
        check.invalid(
            path,
            at(spec, &["policyTypes"]),
            "may not specify more than two policyTypes",
        );
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        if !["Ingress", "Egress"].contains(&kind.as_str().unwrap_or_default()) {
            let error = Error::not_supported(path.index(index), kind, &["Ingress", "Egress"]);
            check.errors.push(error);
        }
    }
}

fn policy_port(check: &mut Check, port: &Value, path: &Path) {
    check.optional_one_of(port, path, "protocol", &["TCP", "UDP", "SCTP"]);
    let number = at(port, &["port"]);
    let end = at(port, &["endPort"]);
    if number.is_null() {
        if !end.is_null() {
            check.invalid(
                path.child("endPort"),
                end,
                "may not be specified when `port` is not specified",
            );
        }
        return;
    }
    let Some(first) = number.as_i64() else {
        if !end.is_null() {
            check.invalid(
                path.child("endPort"),
                end,
                "may not be specified when `port` is non-numeric",
            );
        }
        check.port(number, &path.child("port"));
        return;
    };
    check.port(number, &path.child("port"));
    if let Some(last) = end.as_i64() {
        if last < first {
            // The API server shows the port here.
            check.invalid(
                path.child("endPort"),
                number,
                "must be greater than or equal to `port`",
            );
        }
        if !names::port_number(last).is_empty() {
            check.port(end, &path.child("endPort"));
        }
    }
}

fn policy_peer(check: &mut Check, peer: &Value, path: &Path) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        let selector = at(peer, &[field]);
        if !selector.is_null() {
            selectors += 1;
            check.label_selector(selector, &path.child(field));
        }
    }
    let block = at(peer, &["ipBlock"]);
    if !block.is_null() {
        ip_block(check, block, &path.child("ipBlock"));
    }
    match (selectors, block.is_null()) {
        (0, true) => check.required(path.clone(), "must specify a peer"),
        (1.., false) => check.forbidden(path.clone(), "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(check: &mut Check, block: &Value, path: &Path) {
    let cidr = text(block, &["cidr"]);
    if cidr.is_empty() {
        check.required(path.child("cidr"), "");
        return;
    }
    check.faults(&path.child("cidr"), cidr, names::cidr(cidr));
    let Some(outer) = names::sloppy_cidr(cidr) else {
        return;
    };
    for (index, except) in list(block, &["except"]).iter().enumerate() {
        let path = path.child("except").index(index);
        let text = except.as_str().unwrap_or_default();
        check.faults(&path, text, names::cidr(text));
        let inner = names::sloppy_cidr(text);
        if inner.is_some_and(|inner| !is_strict_subnet(inner, outer)) {
            check.invalid(path, except, "must be a strict subset of `cidr`");
        }
    }
}

type Network = (std::net::IpAddr, u8);

fn is_strict_subnet(inner: Network, outer: Network) -> bool {
    let bits = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        std::net::IpAddr::V6(address) => u128::from(address),
    };
    let mask = match outer.1 {
        0 => 0,
        length => u128::MAX << (128 - u32::from(length)),
    };
    inner.0.is_ipv4() == outer.0.is_ipv4()
        && inner.1 > outer.1
        && bits(inner.0) & mask == bits(outer.0) & mask
}

pub(super) fn endpoints(check: &mut Check, object: &Value) {
    for (index, subset) in list(object, &["subsets"]).iter().enumerate() {
        let path = Path::new("subsets").index(index);
        let given = ["addresses", "notReadyAddresses"];
        if given.iter().all(|field| list(subset, &[field]).is_empty()) {
            check.required(path.clone(), "must specify `addresses` or `notReadyAddresses`");
        }
        for field in given {
            for (index, address) in list(subset, &[field]).iter().enumerate() {
                let ip = text(address, &["ip"]);
                let path = path.child(field).index(index);
                check.faults(&path.child("ip"), ip, names::ip_address(ip));
                check.optional_form(address, &path, "hostname", names::dns1123_label);
                check.pointer_form(address, &path, "nodeName", names::dns1123_subdomain);
                check.faults(&path.child("ip"), ip, names::endpoint_address(ip));
            }
        }
        let ports = list(subset, &["ports"]);
        for (index, port) in ports.iter().enumerate() {
            let path = path.child("ports").index(index);
            if ports.len() > 1 && text(port, &["name"]).is_empty() {
                check.required(path.child("name"), "");
            } else {
                check.optional_form(port, &path, "name", names::dns1123_label);
            }
            check.port(at(port, &["port"]), &path.child("port"));
            check.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
            check.pointer_form(port, &path, "appProtocol", names::qualified_name);
        }
    }
}

/// Validates changed endpoints; the subsets are validated only if they change.
pub(super) fn endpoints_update(check: &mut Check, object: &Value, old: &Value) {
    if at(object, &["subsets"]) != at(old, &["subsets"]) {
        endpoints(check, object);
    }
}

pub(super) fn endpoint_slice(check: &mut Check, object: &Value) {
    slice_form(check, object);
    slice_endpoints(check, object);
}

/// Validates the address type and the ports of a slice.
fn slice_form(check: &mut Check, object: &Value) {
    let root = Path::default();
    let kind = text(object, &["addressType"]);
    if kind.is_empty() {
        check.required(root.child("addressType"), "");
    } else {
        check.one_of(object, &root, "addressType", &["FQDN", "IPv4", "IPv6"]);
    }
    slice_ports(check, object);
}

fn slice_endpoints(check: &mut Check, object: &Value) {
    let kind = text(object, &["addressType"]);
    for (position, endpoint) in list(object, &["endpoints"]).iter().enumerate() {
        let path = Path::new("endpoints").index(position).child("addresses");
        let addresses = list(endpoint, &["addresses"]);
        if addresses.is_empty() {
            check.required(path.clone(), "must contain at least 1 address");
        } else if addresses.len() > 100 {
            let error = Error::too_many(path.clone(), addresses.len(), 100);
            check.errors.push(error);
        }
        for (index, address) in addresses.iter().enumerate() {
            let address = address.as_str().unwrap_or_default();
            slice_address(check, kind, address, &path, index);
        }
        let path = Path::new("endpoints").index(position);
        check.pointer_form(endpoint, &path, "nodeName", names::dns1123_subdomain);
        check.pointer_form(endpoint, &path, "hostname", names::dns1123_label);
        slice_hints(check, at(endpoint, &["hints"]), &path.child("hints"));
    }
}

/// The maximum number of zone and node hints of one endpoint.
const HINTS_MAX: usize = 8;

/// A check of a name's format.
type Form = fn(&str) -> Vec<String>;

fn slice_hints(check: &mut Check, hints: &Value, path: &Path) {
    let forms: [(&str, Form); 2] = [
        ("forZones", names::label_value),
        ("forNodes", names::dns1123_subdomain),
    ];
    for (field, form) in forms {
        let items = list(hints, &[field]);
        let path = path.child(field);
        if items.len() > HINTS_MAX {
            let error = Error::too_many(path, items.len(), HINTS_MAX);
            check.errors.push(error);
            continue;
        }
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let (name, path) = (text(item, &["name"]), path.index(index).child("name"));
            if !seen.insert(name) {
                check.duplicate(path.clone(), &name.into());
            }
            check.faults(&path, name, form(name));
        }
    }
}

fn slice_ports(check: &mut Check, object: &Value) {
    let mut seen = HashSet::new();
    for (index, port) in list(object, &["ports"]).iter().enumerate() {
        let path = Path::new("ports").index(index);
        let name = text(port, &["name"]);
        if !name.is_empty() {
            check.faults(&path.child("name"), name, names::dns1123_label(name));
        }
        if !seen.insert(name) {
            check.duplicate(path.child("name"), &name.into());
        }
        check.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
        check.pointer_form(port, &path, "appProtocol", names::qualified_name);
    }
}

fn slice_address(check: &mut Check, kind: &str, address: &str, path: &Path, index: usize) {
    let item = path.index(index);
    let (is_kind, article, faults) = match kind {
        "IPv4" => (names::is_ipv4(address), "an IPv4", names::ip_address(address)),
        "IPv6" => (
            names::is_ipv6(address),
            "an IPv6",
            names::canonical_ip_address(address),
        ),
        "FQDN" => return domain(check, address, &item),
        _ => return,
    };
    if !faults.is_empty() {
        return check.faults(&item, address, faults);
    }
    if !is_kind {
        let detail = format!("must be {article} address");
        check.invalid(path.clone(), &address.into(), detail);
    }
    check.faults(&item, address, names::endpoint_address(address));
}

/// Checks a domain name with at least two labels. It may end with a dot.
fn domain(check: &mut Check, name: &str, path: &Path) {
    if name.is_empty() {
        return check.required(path.clone(), "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let faults = names::dns1123_subdomain(name);
    if !faults.is_empty() {
        return check.faults(path, name, faults);
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return check.invalid(path.clone(), &name.into(), why);
    }
    for label in name.split('.') {
        check.faults(path, label, names::dns1123_label(label));
    }
}

/// Validates a changed slice. Unchanged endpoints are not validated, even if the address type changes.
pub(super) fn endpoint_slice_update(check: &mut Check, object: &Value, old: &Value) {
    slice_form(check, object);
    if at(object, &["endpoints"]) != at(old, &["endpoints"]) {
        slice_endpoints(check, object);
    }
    check.immutable(
        at(object, &["addressType"]),
        at(old, &["addressType"]),
        Path::new("addressType"),
    );
}
