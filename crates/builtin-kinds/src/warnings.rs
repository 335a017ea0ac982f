//! Warnings: what the server says about objects that it accepts all the same.

mod kinds;

use std::collections::{HashMap, HashSet};

use apimachinery::field::Path;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::prepare::generation_changed;
use crate::tree::{at, entries, list, text};
use apimachinery::gvk::Gvk;

/// Returns the warning that every request to a deprecated resource gets.
pub fn deprecation(group: &str, resource: &str) -> Option<&'static str> {
    match (group, resource) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// Warnings that the server sends for a written object: fields that are deprecated, ineffective or surprising.
pub fn warnings(gvk: &Gvk, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = Path::new("spec");
    match (gvk.group, gvk.kind) {
        // Pods are changed by machines.
        ("", "Pod") if old.is_none() => {
            name(&mut warnings, object, "the Pod's hostname");
            pod_spec(&mut warnings, at(object, &["spec"]), &path);
        }
        ("", "PodTemplate") => {
            let path = Path::new("template").child("spec");
            pod_spec(&mut warnings, at(object, &["template", "spec"]), &path);
        }
        ("apps", _) | ("batch", "Job") | ("", "ReplicationController") => {
            if old.is_none() {
                name(&mut warnings, object, "Pod names and hostnames");
            }
            if old.is_none_or(|old| generation_changed(gvk, old, object)) {
                let path = path.child("template").child("spec");
                pod_spec(&mut warnings, at(object, &["spec", "template", "spec"]), &path);
            }
        }
        ("batch", "CronJob") => {
            if old.is_none() {
                name(&mut warnings, object, "Pod names and hostnames");
            }
            if old.is_none_or(|old| generation_changed(gvk, old, object)) {
                let steps = ["jobTemplate", "spec", "template", "spec"];
                let path = steps.iter().fold(path, |path, step| path.child(step));
                let template = at(object, &["spec", "jobTemplate", "spec", "template", "spec"]);
                pod_spec(&mut warnings, template, &path);
            }
        }
        ("networking.k8s.io", "Ingress") if old.is_none() => ingress(&mut warnings, object),
        ("", "PersistentVolume") => persistent_volume(&mut warnings, object),
        ("", "PersistentVolumeClaim") => fractional_bytes(&mut warnings, at(object, &["spec"]), &path),
        ("", "Node") => kinds::node(&mut warnings, object, old),
        ("", "Secret") => kinds::secret(&mut warnings, object),
        ("", "Service") => kinds::service(&mut warnings, object),
        ("", "ServiceAccount") => kinds::service_account(&mut warnings, object, old),
        ("node.k8s.io", "RuntimeClass") => kinds::runtime_class(&mut warnings, object),
        ("storage.k8s.io", "CSIDriver") if old.is_none() => kinds::csi_driver(&mut warnings, object),
        ("storage.k8s.io", "StorageClass") => kinds::storage_class(&mut warnings, object),
        _ => {}
    }
    warnings
}

fn name(warnings: &mut Vec<String>, object: &Value, used_in: &str) {
    let faults = names::dns1123_label(text(object, &["metadata", "name"]));
    if !faults.is_empty() && !text(object, &["metadata", "name"]).is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

fn ingress(warnings: &mut Vec<String>, object: &Value) {
    let annotation = "kubernetes.io/ingress.class";
    if !at(object, &["metadata", "annotations", annotation]).is_null() {
        warnings.push(format!(
            "annotation {annotation:?} is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
}

fn persistent_volume(warnings: &mut Vec<String>, object: &Value) {
    if text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
}

/// Volume sources that have been given up, and since when.
const DEPRECATED_VOLUMES: &[(&str, &str)] = &[
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn pod_spec(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (index, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(index);
        null_selector(warnings, constraint, &path);
    }
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        for (source, since) in DEPRECATED_VOLUMES {
            if !at(volume, &[source]).is_null() {
                let path = path.child("volumes").index(index).child(source);
                warnings.push(format!("{path}: {since}"));
            }
        }
    }
    for (index, secret) in list(spec, &["imagePullSecrets"]).iter().enumerate() {
        if text(secret, &["name"]).is_empty() {
            let path = path.child("imagePullSecrets").index(index).child("name");
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
    }
    for field in ["initContainers", "containers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            let path = path.child(field).index(index);
            fractional_bytes(warnings, container, &path);
            hidden_variables(warnings, container, &path);
        }
    }
    fractional_amounts(warnings, at(spec, &["overhead"]), &path.child("overhead"));
    host_aliases(warnings, spec, &path.child("hostAliases"));
    duplicate_ports(warnings, spec, &path.child("containers"));
    let grace = at(spec, &["terminationGracePeriodSeconds"]).as_i64();
    if grace.is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            path.child("terminationGracePeriodSeconds")
        ));
    }
    affinity(warnings, at(spec, &["affinity"]), &path.child("affinity"));
}

fn null_selector(warnings: &mut Vec<String>, parent: &Value, path: &Path) {
    if at(parent, &["labelSelector"]).is_null() {
        warnings.push(format!(
            "{}: a null labelSelector results in matching no pod",
            path.child("labelSelector")
        ));
    }
}

fn affinity(warnings: &mut Vec<String>, affinity: &Value, path: &Path) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in list(affinity, &[kind, required]).iter().enumerate() {
            null_selector(warnings, term, &path.child(kind).child(required).index(index));
        }
        for (index, term) in list(affinity, &[kind, preferred]).iter().enumerate() {
            let path = path.child(kind).child(preferred).index(index);
            let term = at(term, &["podAffinityTerm"]);
            null_selector(warnings, term, &path.child("podAffinityTerm"));
        }
    }
}

/// Memory is counted in whole bytes.
fn fractional_bytes(warnings: &mut Vec<String>, owner: &Value, path: &Path) {
    for field in ["limits", "requests"] {
        let amounts = at(owner, &["resources", field]);
        fractional_amounts(warnings, amounts, &path.child("resources").child(field));
    }
}

fn fractional_amounts(warnings: &mut Vec<String>, amounts: &Value, path: &Path) {
    let counts_bytes = |name: &str| {
        matches!(name, "memory" | "ephemeral-storage" | "storage") || name.starts_with("hugepages-")
    };
    for (name, quantity) in entries(amounts, &[]) {
        let whole = Quantity::from_json(quantity).is_ok_and(|quantity| quantity.is_whole());
        if counts_bytes(name) && !whole {
            let path = path.key(name);
            let shown = quantity.as_str().unwrap_or_default();
            warnings.push(format!(
                "{path}: fractional byte value {shown:?} is invalid, must be an integer"
            ));
        }
    }
}

fn host_aliases(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        let ip = text(alias, &["ip"]);
        if !seen.insert(ip) {
            warnings.push(format!("{}: duplicate ip {ip:?}", path.index(index).child("ip")));
        }
    }
}

/// A variable that is defined again, unless the second definition builds on the first.
fn hidden_variables(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    let variables = list(container, &["env"]);
    let mut defined = HashSet::new();
    for (index, variable) in variables.iter().enumerate() {
        let name = text(variable, &["name"]);
        let hides = !defined.insert(name);
        let builds_on = text(variable, &["value"]).contains(&format!("$({name})"));
        if hides && !builds_on {
            let path = path.child("env").index(index);
            warnings.push(format!(
                "{path}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn duplicate_ports(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (index, container) in list(spec, &["containers"]).iter().enumerate() {
        let mut seen: HashMap<[&Value; 4], Path> = HashMap::new();
        for (port_index, port) in list(container, &["ports"]).iter().enumerate() {
            let place = path.index(index).child("ports").index(port_index);
            let key = ["containerPort", "protocol", "hostPort", "hostIP"].map(|field| at(port, &[field]));
            match seen.get(&key) {
                Some(first) => {
                    warnings.push(format!("{place}: duplicate port definition with {first}"));
                }
                None => {
                    seen.insert(key, place);
                }
            }
        }
    }
}
