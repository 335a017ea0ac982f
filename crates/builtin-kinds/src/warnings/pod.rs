//! Warnings about pods and pod templates, in the API server's order.

use std::collections::{HashMap, HashSet};

use apimachinery::field::Path;
use apimachinery::go::quote;
use apimachinery::names;
use serde_json::Value;

use super::kinds::old_label;
use super::{fractional_amount, persistent_volume_claim};
use crate::app_armor;
use crate::tree::{at, entries, list, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// Deprecated volume types: the field, its name in the warning, and the version since which it is deprecated.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warns about a pod, or about a pod template if `template` is its path.
pub(super) fn pod(warnings: &mut Vec<String>, pod: &Value, template: Option<&Path>) {
    let below = |field: &str| template.map_or_else(|| Path::new(field), |path| path.child(field));
    let (spec, path) = (at(pod, &["spec"]), below("spec"));
    let annotations = at(pod, &["metadata", "annotations"]);
    let annotation_path = below("metadata").child("annotations");

    for (label, _) in entries(spec, &["nodeSelector"]) {
        if let Some(why) = old_label(label) {
            warnings.push(format!("{}: {why}", path.child("nodeSelector").key(label)));
        }
    }
    node_affinity(warnings, spec, &path.child("affinity").child("nodeAffinity"));
    for (index, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(index);
        let key = text(constraint, &["topologyKey"]);
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {key} is {why}", path.child("topologyKey")));
        }
        null_selector(warnings, constraint, &path);
    }
    for (key, why) in OLD_ANNOTATIONS {
        if !at(annotations, &[key]).is_null() {
            warnings.push(format!("{}: {why}", annotation_path.key(key)));
        }
    }
    volumes(warnings, list(spec, &["volumes"]), &path.child("volumes"));
    super::overlap::warnings(warnings, list(spec, &["volumes"]));
    repeated(warnings, spec, &path, "hostAliases", "ip");
    repeated(warnings, spec, &path, "imagePullSecrets", "name");
    for (index, secret) in list(spec, &["imagePullSecrets"]).iter().enumerate() {
        if text(secret, &["name"]).is_empty() {
            let path = path.child("imagePullSecrets").index(index).child("name");
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
    }
    for name in ["memory", "ephemeral-storage"] {
        fractional_amount(warnings, at(spec, &["overhead"]), name, &path.child("overhead"));
    }
    let has_seccomp = |owner: &Value| !at(owner, &["securityContext", "seccompProfile"]).is_null();
    if !has_seccomp(spec) && !at(annotations, &[SECCOMP_POD]).is_null() {
        warnings.push(format!("{}: {SECCOMP}", annotation_path.key(SECCOMP_POD)));
    }
    let has_app_armor = |owner: &Value| !at(owner, &["securityContext", "appArmorProfile"]).is_null();
    for (path, container) in containers(spec, &path) {
        let name = text(container, &["name"]);
        let key = format!("{SECCOMP_CONTAINER}{name}");
        if !has_seccomp(container) && !at(annotations, &[&key]).is_null() {
            warnings.push(format!("{}: {SECCOMP}", annotation_path.key(&key)));
        }
        let key = format!("{}{name}", app_armor::ANNOTATION);
        let has_field = has_app_armor(spec) || has_app_armor(container);
        // For a pod, the synchronization of the annotation and the field returns the warning.
        if let Some(template) = template
            && !has_field
            && !at(annotations, &[&key]).is_null()
        {
            warnings.push(app_armor::deprecated(
                &template.child("metadata").to_string(),
                &key,
            ));
        }
        for name in ["memory", "ephemeral-storage"] {
            for field in ["limits", "requests"] {
                let amounts = at(container, &["resources", field]);
                fractional_amount(warnings, amounts, name, &path.child("resources").child(field));
            }
        }
        hidden_variables(warnings, container, &path);
    }
    ports(warnings, spec, &path);
    let grace = at(spec, &["terminationGracePeriodSeconds"]).as_i64();
    if grace.is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            path.child("terminationGracePeriodSeconds")
        ));
    }
    pod_affinity(warnings, at(spec, &["affinity"]), &path.child("affinity"));
}

/// Returns all containers in the order in which the real server visits them.
fn containers<'a>(spec: &'a Value, path: &Path) -> impl Iterator<Item = (Path, &'a Value)> {
    let path = path.clone();
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |field| {
            let path = path.child(field);
            let containers = list(spec, &[field]).iter().enumerate();
            containers.map(move |(index, container)| (path.index(index), container))
        })
}

fn node_affinity(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let affinity = at(spec, &["affinity", "nodeAffinity"]);
    let terms = list(affinity, &[REQUIRED, "nodeSelectorTerms"]);
    for (index, term) in terms.iter().enumerate() {
        let path = path.child(REQUIRED).child("nodeSelectorTerms").index(index);
        node_selector_term(warnings, term, false, &path);
    }
    for (index, term) in list(affinity, &[PREFERRED]).iter().enumerate() {
        let path = path.child(PREFERRED).index(index).child("preference");
        node_selector_term(warnings, at(term, &["preference"]), true, &path);
    }
}

fn node_selector_term(warnings: &mut Vec<String>, term: &Value, check_values: bool, path: &Path) {
    for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let key = text(expression, &["key"]);
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {key} is {why}", path.child("key")));
        }
        let values = list(expression, &["values"]).iter().filter(|_| check_values);
        for (index, value) in values.enumerate() {
            let value = value.as_str().unwrap_or_default();
            for fault in names::label_value(value) {
                let path = path.child("values").index(index);
                warnings.push(format!("{path}: {value} is invalid, {fault}"));
            }
        }
    }
}

fn null_selector(warnings: &mut Vec<String>, parent: &Value, path: &Path) {
    if at(parent, &["labelSelector"]).is_null() {
        warnings.push(format!(
            "{}: a null labelSelector results in matching no pod",
            path.child("labelSelector")
        ));
    }
}

fn pod_affinity(warnings: &mut Vec<String>, affinity: &Value, path: &Path) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in list(affinity, &[kind, REQUIRED]).iter().enumerate() {
            null_selector(warnings, term, &path.child(kind).child(REQUIRED).index(index));
        }
        for (index, term) in list(affinity, &[kind, PREFERRED]).iter().enumerate() {
            let path = path.child(kind).child(PREFERRED).index(index);
            let term = at(term, &["podAffinityTerm"]);
            null_selector(warnings, term, &path.child("podAffinityTerm"));
        }
    }
}

/// Warns about the deprecated sources of a persistent volume.
pub(super) fn old_volumes_of(warnings: &mut Vec<String>, volume: &Value) {
    let path = Path::new("spec");
    for (field, name, since) in OLD_VOLUMES {
        let is_of_pods = matches!(field, "gitRepo" | "flocker" | "quobyte");
        if !is_of_pods && !at(volume, &["spec", field]).is_null() {
            warnings.push(format!("{}: {since}", path.child(name)));
        }
    }
}

fn volumes(warnings: &mut Vec<String>, volumes: &[Value], path: &Path) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        for (field, name, since) in OLD_VOLUMES {
            if !at(volume, &[field]).is_null() {
                warnings.push(format!("{}: {since}", path.child(name)));
            }
        }
        let template = at(volume, &["ephemeral", "volumeClaimTemplate"]);
        let path = path.child("ephemeral").child("volumeClaimTemplate").child("spec");
        persistent_volume_claim(warnings, at(template, &["spec"]), &path);
    }
}

/// Warns about duplicate values of `field` in a list.
fn repeated(warnings: &mut Vec<String>, spec: &Value, path: &Path, list_name: &str, field: &str) {
    let mut seen = HashSet::new();
    for (index, item) in list(spec, &[list_name]).iter().enumerate() {
        let value = text(item, &[field]);
        if !seen.insert(value) {
            let path = path.child(list_name).index(index).child(field);
            warnings.push(format!("{path}: duplicate {field} {}", quote(value)));
        }
    }
}

/// Warns about a duplicate variable, unless the second definition refers to the first one.
fn hidden_variables(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    let mut defined = HashSet::new();
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let name = text(variable, &["name"]);
        let hides = !defined.insert(name);
        let builds_on = text(variable, &["value"]).contains(&format!("$({name})"));
        if hides && !builds_on {
            let path = path.child("env").index(index);
            let name = quote(name);
            warnings.push(format!(
                "{path}: hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
    }
}

/// The maximum number of warnings about ports; no more ports are compared after it.
const REPORTED: usize = 1000;

fn ports(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut all: HashMap<(i64, &str), Vec<(Path, &Value)>> = HashMap::new();
    for (path, container) in containers(spec, path) {
        for (index, port) in list(container, &["ports"]).iter().enumerate() {
            let path = path.child("ports").index(index);
            let host = |port: &Value| at(port, &["hostPort"]).as_i64().unwrap_or_default();
            let number = at(port, &["containerPort"]).as_i64().unwrap_or_default();
            let (ip, protocol) = (text(port, &["hostIP"]), text(port, &["protocol"]));
            if !ip.is_empty() && host(port) == 0 {
                let name = text(port, &["name"]);
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
                ));
            }
            let others = all.entry((number, protocol)).or_default();
            for (other_path, other) in others.iter() {
                let other_ip = text(other, &["hostIP"]);
                let relation = if ip == other_ip && host(port) == host(other) {
                    "duplicate"
                } else if host(port) == 0 || host(other) == 0 {
                    "overlapping"
                } else if host(port) == host(other) && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{path}: {relation} port definition with {other_path}"));
            }
            others.push((path, port));
            if warnings.len() >= REPORTED {
                return;
            }
        }
    }
}
