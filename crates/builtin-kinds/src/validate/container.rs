//! Validates containers: ports, environment, mounts, resources, probes.

use std::collections::{BTreeSet, HashMap, HashSet};

use apimachinery::field::{Error, Path};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::{Check, no_backsteps};
use super::container_resources::resources;
use super::{container_restart, mount, security};
use crate::tree::{at, by_name, is_zero, list, text};

/// The parts of a pod that its containers reference.
pub(super) struct Pod<'a> {
    spec: &'a Value,
    /// The mountable volumes, with true for each claim.
    volumes: HashMap<String, bool>,
    /// The names of the pod's resource claims.
    claims: BTreeSet<&'a str>,
}

impl<'a> Pod<'a> {
    pub(super) fn new(spec: &'a Value, volumes: HashMap<String, bool>) -> Self {
        let claims = list(spec, &["resourceClaims"]).iter();
        Self {
            spec,
            volumes,
            claims: claims
                .map(|claim| text(claim, &["name"]))
                .filter(|name| !name.is_empty())
                .collect(),
        }
    }

    pub(super) fn claims(&self) -> &BTreeSet<&'a str> {
        &self.claims
    }

    /// The termination grace period of the pod.
    fn grace_seconds(&self) -> i64 {
        let seconds = at(self.spec, &["terminationGracePeriodSeconds"]).as_i64();
        match seconds {
            Some(seconds) if seconds < 0 => 1,
            seconds => seconds.unwrap_or(0),
        }
    }
}

pub(super) fn containers(check: &mut Check, pod: &Pod<'_>, path: &Path) {
    let path = path.child("containers");
    let items = list(pod.spec, &["containers"]);
    if items.is_empty() {
        check.required(path, "");
        return;
    }
    let mut seen = HashSet::new();
    for (index, container) in items.iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, pod);
        let name = text(container, &["name"]);
        if !seen.insert(name) {
            check.duplicate(path.child("name"), &name.into());
        }
        hooks(check, container, &path, pod.grace_seconds());
        container_restart::restart_policy(check, container, &path, false);
    }
    host_port_conflicts(check, items, &path);
}

pub(super) fn init_containers(check: &mut Check, pod: &Pod<'_>, path: &Path) {
    let (spec, path) = (pod.spec, path.child("initContainers"));
    let regular = list(spec, &["containers"]).iter();
    let mut seen: HashSet<&str> = regular.map(|c| text(c, &["name"])).collect();
    let of_all = path.clone();
    for (index, container) in list(spec, &["initContainers"]).iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, pod);
        container_restart::restart_policy(check, container, &path, true);
        unique(check, &mut seen, container, &path);
        // The API server shows the index of a list with one item.
        host_port_conflicts(check, std::slice::from_ref(container), &of_all);
        if text(container, &["restartPolicy"]) == "Always" {
            hooks(check, container, &path, pod.grace_seconds());
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
        for (index, policy) in list(container, &["resizePolicy"]).iter().enumerate() {
            let policy = at(policy, &["restartPolicy"]);
            if policy == "RestartContainer" {
                let path = path.child("resizePolicy").index(index).child("restartPolicy");
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                check.invalid(path, policy, why);
            }
        }
    }
}

const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

pub(super) fn ephemeral_containers(check: &mut Check, pod: &Pod<'_>, path: &Path) {
    let spec = pod.spec;
    let all = ["containers", "initContainers"];
    let others = all.iter().flat_map(|field| list(spec, &[field]));
    let others: HashSet<&str> = others.map(|c| text(c, &["name"])).collect();
    let mut seen = others.clone();
    let path = path.child("ephemeralContainers");
    for (index, container) in list(spec, &["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(index);
        common(check, container, &path, pod);
        trimmed_image(check, container, &path);
        unique(check, &mut seen, container, &path);
        let target = text(container, &["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            check.not_found(path.child("targetContainerName"), &target.into(), "");
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let value = at(container, &[field]);
            // The others are lists and pointers: those with an empty value are set.
            if !is_zero(value) || field != "resources" && !value.is_null() {
                check.forbidden(path.child(field), NOT_EPHEMERAL);
            }
        }
        for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, &[field]).is_empty() {
                    let path = path.child("volumeMounts").index(index).child(field);
                    check.forbidden(path, NOT_EPHEMERAL);
                }
            }
        }
    }
}

fn unique<'a>(check: &mut Check, seen: &mut HashSet<&'a str>, container: &'a Value, path: &Path) {
    let name = text(container, &["name"]);
    if seen.contains(name) {
        check.duplicate(path.child("name"), &name.into());
    } else if !name.is_empty() {
        // Only containers of the first list are compared by an empty name.
        seen.insert(name);
    }
}

/// Validates the rules for containers of every type.
fn common(check: &mut Check, container: &Value, path: &Path, pod: &Pod<'_>) {
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
    mount::mounts(check, container, path, &pod.volumes);
    mount::devices(check, container, &path.child("volumeDevices"), &pod.volumes);
    check.one_of(
        container,
        path,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
    );
    let of_container = at(container, &["resources"]);
    resources(check, of_container, &path.child("resources"), pod.claims());
    container_restart::resize_policy(check, container, path, text(pod.spec, &["restartPolicy"]));
    security::container(
        check,
        at(container, &["securityContext"]),
        &path.child("securityContext"),
        at(pod.spec, &["hostUsers"]) != &Value::Bool(false),
    );
}

/// Checks that the image is set.
pub(super) fn image(check: &mut Check, container: &Value, path: &Path) {
    check.required_text(container, path, "image");
}

/// Checks that the image has no surrounding white space. This applies to pods, but not to templates.
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
            let reference = at(source, &[field]);
            let path = path.index(index).child(field);
            check.required_form(reference, &path, "name", names::dns1123_subdomain);
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
            _ => file_reference(check, reference, &path),
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

/// The fields of a pod that environment variables can reference.
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

/// The fields of a pod that a downward API volume can reference.
pub(super) const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// All fields that can be referenced.
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
    divisor(check, reference, resource, &path.child("divisor"));
}

fn divisor(check: &mut Check, reference: &Value, resource: &str, path: &Path) {
    const BYTES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (known, name) = match resource.split_once('.') {
        Some((_, "cpu")) => ("1m and 1", "cpu resource"),
        Some((_, "memory")) => (BYTES, "memory resource"),
        Some((_, "ephemeral-storage")) => (BYTES, "local ephemeral storage resource"),
        Some((_, name)) if name.starts_with("hugepages-") => (BYTES, "hugepages resource"),
        _ => return,
    };
    let Ok(divisor) = Quantity::from_json(at(reference, &["divisor"])) else {
        return;
    };
    let mut units = known.split(", ").flat_map(|units| units.split(" and "));
    if !divisor.is_zero() && !units.any(|unit| unit == divisor.to_string()) {
        let why = format!("only divisor's values {known} are supported with the {name}");
        check.invalid(path.clone(), &resource.into(), why);
    }
}

fn file_reference(check: &mut Check, reference: &Value, path: &Path) {
    check.required_form(reference, path, "key", names::environment_name);
    check.required_form(reference, path, "volumeName", names::dns1123_label);
    check.required_text(reference, path, "path");
    no_backsteps(check, text(reference, &["path"]), &path.child("path"));
}

/// Checks that the files of environment variables are in volumes of the pod.
pub(super) fn file_volumes(check: &mut Check, spec: &Value, path: &Path) {
    let volumes = by_name(list(spec, &["volumes"]));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            let path = path.child(field).index(index).child("env");
            for (index, variable) in list(container, &["env"]).iter().enumerate() {
                let reference = at(variable, &["valueFrom", "fileKeyRef"]);
                let name = text(reference, &["volumeName"]);
                let volume = volumes.get(name);
                let path = path.index(index).child("valueFrom").child("fileKeyRef");
                if reference.is_null() {
                    continue;
                }
                if volume.is_none() {
                    check.not_found(path.child("volumeName"), &name.into(), "");
                } else if volume.is_some_and(|volume| at(volume, &["emptyDir"]).is_null()) {
                    let why = "referenced volume must be of type emptyDir";
                    check.invalid(path.child("volumeName"), &name.into(), why);
                }
            }
        }
    }
}

fn key_reference(check: &mut Check, reference: &Value, path: &Path) {
    let name = text(reference, &["name"]);
    check.faults(&path.child("name"), name, names::dns1123_subdomain(name));
    check.required_form(reference, path, "key", names::config_key);
}

// === probes and hooks ===

/// Validates the lifecycle and the probes.
fn hooks(check: &mut Check, container: &Value, path: &Path, grace: i64) {
    for hook in ["postStart", "preStop"] {
        let handler = at(container, &["lifecycle", hook]);
        if !handler.is_null() {
            handle(check, handler, &path.child("lifecycle").child(hook), grace);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let value = at(container, &[name]);
        if !value.is_null() {
            probe(check, value, name, &path.child(name), grace);
        }
    }
}

fn probe(check: &mut Check, probe: &Value, name: &str, path: &Path, grace: i64) {
    handle(check, probe, path, grace);
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

fn handle(check: &mut Check, handler: &Value, path: &Path, grace: i64) {
    let mut given = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"]
        .into_iter()
        .filter(|kind| !at(handler, &[kind]).is_null());
    let Some(first) = given.next() else {
        check.required(path.clone(), "must specify a handler type");
        return;
    };
    action(check, first, at(handler, &[first]), &path.child(first), grace);
    for other in given {
        check.forbidden(path.child(other), "may not specify more than 1 handler type");
    }
}

fn action(check: &mut Check, kind: &str, action: &Value, path: &Path, grace: i64) {
    match kind {
        "exec" if list(action, &["command"]).is_empty() => {
            check.required(path.child("command"), "");
        }
        "httpGet" => {
            check.required_text(action, path, "path");
            check.port(at(action, &["port"]), &path.child("port"));
            check.one_of(action, path, "scheme", &["HTTP", "HTTPS"]);
            for header in list(action, &["httpHeaders"]) {
                let name = text(header, &["name"]);
                if !names::is_http_header(name) {
                    check.invalid(path.child("httpHeaders"), &name.into(), names::HTTP_HEADER);
                }
            }
        }
        "tcpSocket" | "grpc" => check.port(at(action, &["port"]), &path.child("port")),
        "sleep" => {
            let seconds = at(action, &["seconds"]).as_i64().unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                check.invalid(path.clone(), &seconds.into(), why);
            }
        }
        _ => {}
    }
}
