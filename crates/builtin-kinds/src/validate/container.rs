//! Containers: ports, environment, mounts, resources, probes.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::{Check, descending_path};
use super::{container_restart, security};
use crate::tree::{at, entries, is_zero, list, text};

type Volumes = HashSet<String>;

pub(super) fn containers(check: &mut Check, spec: &Value, path: &Path, volumes: &Volumes) {
    let path = path.child("containers");
    let items = list(spec, &["containers"]);
    if items.is_empty() {
        check.required(path, "");
        return;
    }
    let mut seen = HashSet::new();
    for (index, container) in items.iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, volumes);
        unique(check, &mut seen, container, &path);
        hooks(check, container, &path);
        container_restart::restart_policy(check, container, &path);
    }
    host_port_conflicts(check, items, &path);
}

pub(super) fn init_containers(check: &mut Check, spec: &Value, path: &Path, volumes: &Volumes) {
    let path = path.child("initContainers");
    let regular = list(spec, &["containers"]).iter();
    let mut seen: HashSet<&str> = regular.map(|c| text(c, &["name"])).collect();
    seen.remove("");
    for (index, container) in list(spec, &["initContainers"]).iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, volumes);
        unique(check, &mut seen, container, &path);
        host_port_conflicts(check, std::slice::from_ref(container), &path);
        container_restart::restart_policy(check, container, &path);
        if text(container, &["restartPolicy"]) == "Always" {
            hooks(check, container, &path);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !at(container, &[field]).is_null() {
                check.forbidden(
                    path.child(field),
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
    }
}

pub(super) fn ephemeral_containers(check: &mut Check, spec: &Value, path: &Path, volumes: &Volumes) {
    let all = ["containers", "initContainers"];
    let others = all.iter().flat_map(|field| list(spec, &[field]));
    let others: HashSet<&str> = others.map(|c| text(c, &["name"])).collect();
    let mut seen = others.clone();
    let path = path.child("ephemeralContainers");
    for (index, container) in list(spec, &["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, volumes);
        unique(check, &mut seen, container, &path);
        for field in [
            "ports",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
            "resources",
        ] {
            if !is_zero(at(container, &[field])) {
                check.forbidden(path.child(field), "cannot be set for an Ephemeral Container");
            }
        }
        let target = text(container, &["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            check.not_found(path.child("targetContainerName"), &target.into());
        }
    }
}

fn unique<'a>(check: &mut Check, seen: &mut HashSet<&'a str>, container: &'a Value, path: &Path) {
    let name = text(container, &["name"]);
    if !name.is_empty() && !seen.insert(name) {
        check.duplicate(path.child("name"), &name.into());
    }
}

/// What holds for containers of every sort.
fn common(check: &mut Check, container: &Value, path: &Path, volumes: &Volumes) {
    check.required_form(container, path, "name", names::dns1123_label);
    image(check, container, path);
    check.one_of(
        container,
        path,
        "terminationMessagePolicy",
        &["File", "FallbackToLogsOnError"],
    );
    ports(check, container, &path.child("ports"));
    environment(check, container, path);
    mounts(check, container, &path.child("volumeMounts"), volumes);
    check.one_of(
        container,
        path,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
    );
    resources(check, at(container, &["resources"]), &path.child("resources"));
    container_restart::resize_policy(check, container, path);
    security::container(
        check,
        at(container, &["securityContext"]),
        &path.child("securityContext"),
    );
}

/// An image must be named.
pub(super) fn image(check: &mut Check, container: &Value, path: &Path) {
    check.required_text(container, path, "image");
}

/// In a pod, unlike in a template, an image is named without white space around the name.
pub(super) fn trimmed_image(check: &mut Check, container: &Value, path: &Path) {
    let image = text(container, &["image"]);
    if image.trim() != image {
        check.invalid(
            path.child("image"),
            &image.into(),
            "must not have leading or trailing whitespace",
        );
    }
}

fn ports(check: &mut Check, container: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, port) in list(container, &["ports"]).iter().enumerate() {
        let path = path.index(index);
        let name = text(port, &["name"]);
        if !name.is_empty() {
            let faults = names::port_name(name);
            if faults.is_empty() && !seen.insert(name) {
                check.duplicate(path.child("name"), &name.into());
            }
            check.faults(&path.child("name"), name, faults);
        }
        let number = at(port, &["containerPort"]);
        if number.as_i64() == Some(0) {
            check.required(path.child("containerPort"), "");
        } else {
            check.port(number, &path.child("containerPort"));
        }
        let host_port = at(port, &["hostPort"]);
        if !is_zero(host_port) {
            check.port(host_port, &path.child("hostPort"));
        }
        check.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts(check: &mut Check, containers: &[Value], path: &Path) {
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in list(container, &["ports"]).iter().enumerate() {
            let number = at(port, &["hostPort"]).as_i64().unwrap_or(0);
            let (protocol, ip) = (text(port, &["protocol"]), text(port, &["hostIP"]));
            let key = format!("{protocol}/{ip}/{number}");
            if number != 0 && !seen.insert(key.clone()) {
                let path = path.index(index).child("ports").index(port_index);
                check.duplicate(path.child("hostPort"), &key.into());
            }
        }
    }
}

fn environment(check: &mut Check, container: &Value, path: &Path) {
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let path = path.child("env").index(index);
        check.required_form(variable, &path, "name", names::environment_name);
        let source = at(variable, &["valueFrom"]);
        if source.is_object() {
            let has_value = !text(variable, &["value"]).is_empty();
            value_from(check, source, has_value, &path.child("valueFrom"));
        }
    }
    let path = path.child("envFrom");
    for (index, source) in list(container, &["envFrom"]).iter().enumerate() {
        check.optional_form(source, &path.index(index), "prefix", names::environment_name);
        let given = ["configMapRef", "secretRef"]
            .iter()
            .filter(|field| !at(source, &[field]).is_null());
        for field in given.clone() {
            check.required_text(at(source, &[field]), &path.index(index).child(field), "name");
        }
        match given.count() {
            0 => check.invalid(
                path.clone(),
                &"".into(),
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => check.invalid(
                path.clone(),
                &"".into(),
                "may not have more than one field specified at a time",
            ),
        }
    }
}

const SOURCES: &[&str] = &[
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

fn value_from(check: &mut Check, source: &Value, has_value: bool, path: &Path) {
    let given: Vec<&&str> = SOURCES
        .iter()
        .filter(|field| !at(source, &[field]).is_null())
        .collect();
    for field in &given {
        let reference = at(source, &[field]);
        let path = path.child(field);
        match **field {
            "fieldRef" => field_reference(check, reference, &path, ENVIRONMENT_FIELDS),
            "resourceFieldRef" => resource_reference(check, reference, &path),
            "configMapKeyRef" | "secretKeyRef" => key_reference(check, reference, &path),
            _ => check.required_text(reference, &path, "key"),
        }
    }
    let fault = match (given.len(), has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        _ => "may not have more than one field specified at a time",
    };
    check.invalid(path.clone(), &"".into(), fault);
}

/// The fields of a pod that its environment can refer to.
const ENVIRONMENT_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a pod that a downward API volume can refer to.
pub(super) const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// The fields that have names at all.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn field_reference(check: &mut Check, reference: &Value, path: &Path, allowed: &[&str]) {
    check.required_text(reference, path, "apiVersion");
    let field = text(reference, &["fieldPath"]);
    let path = path.child("fieldPath");
    if field.is_empty() {
        check.required(path, "");
        return;
    }
    if let Some((base, subscript)) = field.strip_suffix("']").and_then(|f| f.split_once("['")) {
        if matches!(base, "metadata.annotations" | "metadata.labels") {
            let key = subscript.to_lowercase();
            check.faults(&path, subscript, names::qualified_name(&key));
        } else {
            check.invalid(path, &field.into(), "does not support subscript");
        }
        return;
    }
    let version = text(reference, &["apiVersion"]);
    if !version.is_empty() && version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        check.invalid(path, &field.into(), detail);
    } else if !KNOWN_FIELDS.contains(&field) {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        check.invalid(path, &field.into(), detail);
    } else if !allowed.contains(&field) {
        check
            .errors
            .push(Error::not_supported(path, &field.into(), allowed));
    }
}

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn resource_reference(check: &mut Check, reference: &Value, path: &Path) {
    let resource = text(reference, &["resource"]);
    let huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| resource.starts_with(prefix));
    if resource.is_empty() {
        check.required(path.child("resource"), "");
    } else if !huge {
        check.one_of(reference, path, "resource", RESOURCE_FIELDS);
    }
}

fn key_reference(check: &mut Check, reference: &Value, path: &Path) {
    let name = text(reference, &["name"]);
    if !name.is_empty() {
        check.faults(&path.child("name"), name, names::dns1123_subdomain(name));
    }
    check.required_form(reference, path, "key", names::config_key);
}

fn mounts(check: &mut Check, container: &Value, path: &Path, volumes: &Volumes) {
    let mut seen = HashSet::new();
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let item = path.index(index);
        let name = text(mount, &["name"]);
        if name.is_empty() {
            check.required(item.child("name"), "");
        }
        if !volumes.contains(name) {
            check.not_found(item.child("name"), &name.into());
        }
        let mount_path = text(mount, &["mountPath"]);
        if mount_path.is_empty() {
            check.required(item.child("mountPath"), "");
        }
        if !seen.insert(mount_path) {
            check.invalid(item.child("mountPath"), &mount_path.into(), "must be unique");
        }
        // The real server names the list, not the item, for these two.
        for field in ["subPath", "subPathExpr"] {
            descending_path(check, text(mount, &[field]), &path.child(field));
        }
        check.optional_one_of(
            mount,
            &item,
            "mountPropagation",
            &["Bidirectional", "HostToContainer", "None"],
        );
    }
}

/// What a container, or a pod as a whole, requests and is limited to.
pub(super) fn resources(check: &mut Check, resources: &Value, path: &Path) {
    let limits = at(resources, &["limits"]);
    let (limit_path, request_path) = (path.child("limits"), path.child("requests"));
    for (name, quantity) in entries(limits, &[]) {
        resource(check, name, quantity, &limit_path.key(name));
    }
    for (name, quantity) in entries(resources, &["requests"]) {
        resource(check, name, quantity, &request_path.key(name));
        let overcommit = is_native(name) && !name.starts_with("hugepages-");
        let request = Quantity::from_json(quantity);
        let limit = Quantity::from_json(at(limits, &[name]));
        match (request, limit) {
            (Ok(request), Ok(limit)) if !overcommit && request != limit => check.invalid(
                request_path.clone(),
                quantity,
                format!("must be equal to {name} limit of {limit}"),
            ),
            (Ok(request), Ok(limit)) if request > limit => check.invalid(
                request_path.clone(),
                quantity,
                format!("must be less than or equal to {name} limit of {limit}"),
            ),
            (Ok(_), Err(_)) if !overcommit => check.required(
                limit_path.clone(),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
    }
    let mut named = entries(resources, &["limits"]).chain(entries(resources, &["requests"]));
    let has = |test: fn(&str) -> bool| named.clone().any(|(name, _)| test(name));
    let has_huge = has(|name| name.starts_with("hugepages-"));
    let has_base = named.any(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    if has_huge && !has_base {
        check.forbidden(path.clone(), "HugePages require cpu or memory");
    }
}

/// Resources of Kubernetes itself have no domain in front, or its own.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn resource(check: &mut Check, name: &str, quantity: &Value, path: &Path) {
    resource_name(check, name, path);
    resource_amount(check, name, quantity, path);
}

/// How much there is of a resource: not less than nothing, and whole where it comes in pieces.
pub(super) fn resource_amount(check: &mut Check, name: &str, quantity: &Value, path: &Path) {
    check.non_negative_quantity(quantity, path);
    let whole = Quantity::from_json(quantity).is_ok_and(|quantity| quantity.is_whole());
    let in_pieces = !is_native(name) || matches!(name, "pods" | "services" | "secrets" | "configmaps");
    if in_pieces && !whole {
        check.invalid(path.clone(), quantity, "must be an integer");
    }
}

/// The name of a resource that containers have.
pub(super) fn resource_name(check: &mut Check, name: &str, path: &Path) {
    let of_container =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if of_container || !any_resource_name(check, name, path) || name.contains('/') {
        return;
    }
    check.invalid(
        path.clone(),
        &name.into(),
        "must be a standard resource for containers",
    );
}

/// The name of any resource; answers whether it is formed as one.
pub(super) fn any_resource_name(check: &mut Check, name: &str, path: &Path) -> bool {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        check.faults(path, name, faults);
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        check.invalid(
            path.clone(),
            &name.into(),
            "must be a standard resource type or fully qualified",
        );
    }
    true
}

/// Names without a domain that mean something, though perhaps not for containers.
pub(super) fn is_standard(name: &str) -> bool {
    const STANDARD: &[&str] = &[
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    ];
    STANDARD.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

// === probes and hooks ===

/// Lifecycle and probes.
fn hooks(check: &mut Check, container: &Value, path: &Path) {
    for hook in ["postStart", "preStop"] {
        let handler = at(container, &["lifecycle", hook]);
        if !handler.is_null() {
            handle(check, handler, &path.child("lifecycle").child(hook));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let value = at(container, &[name]);
        if !value.is_null() {
            probe(check, value, name, &path.child(name));
        }
    }
}

fn probe(check: &mut Check, probe: &Value, name: &str, path: &Path) {
    handle(check, probe, path);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        check.non_negative(probe, path, field);
    }
    let grace = at(probe, &["terminationGracePeriodSeconds"]);
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        check.invalid(
            path.child("terminationGracePeriodSeconds"),
            grace,
            "must be greater than 0",
        );
    }
    let successes = at(probe, &["successThreshold"]);
    if name == "readinessProbe" {
        if !grace.is_null() {
            check.invalid(
                path.child("terminationGracePeriodSeconds"),
                grace,
                "must not be set for readinessProbes",
            );
        }
    } else if successes.as_i64() != Some(1) {
        check.invalid(path.child("successThreshold"), successes, "must be 1");
    }
}

fn handle(check: &mut Check, handler: &Value, path: &Path) {
    let given: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"]
        .into_iter()
        .filter(|kind| !at(handler, &[kind]).is_null())
        .collect();
    let Some((first, others)) = given.split_first() else {
        check.required(path.clone(), "must specify a handler type");
        return;
    };
    for other in others {
        check.forbidden(path.child(other), "may not specify more than 1 handler type");
    }
    let action = at(handler, &[first]);
    let path = path.child(first);
    match *first {
        "exec" if list(action, &["command"]).is_empty() => {
            check.required(path.child("command"), "");
        }
        "httpGet" => {
            check.required_text(action, &path, "path");
            check.port(at(action, &["port"]), &path.child("port"));
            check.one_of(action, &path, "scheme", &["HTTP", "HTTPS"]);
            for header in list(action, &["httpHeaders"]) {
                let name = text(header, &["name"]);
                if !names::is_http_header(name) {
                    check.invalid(path.child("httpHeaders"), &name.into(), names::HTTP_HEADER);
                }
            }
        }
        "tcpSocket" | "grpc" => check.port(at(action, &["port"]), &path.child("port")),
        "sleep"
            if at(action, &["seconds"])
                .as_i64()
                .is_some_and(|seconds| seconds < 0) =>
        {
            check.invalid(
                path.child("seconds"),
                at(action, &["seconds"]),
                "must be greater than or equal to 0",
            );
        }
        _ => {}
    }
}
