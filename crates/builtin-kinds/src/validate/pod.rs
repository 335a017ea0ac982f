//! Validates pods and pod templates.

use std::collections::{HashMap, HashSet};

use apimachinery::field::{Error, Path, render};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use super::container::Pod;
use super::{affinity, container, container_resources, operating_system, pod_annotation, security, volume};
use crate::tree::{at, list, text};

pub(super) fn validate_create(check: &mut Check, pod: &Value) {
    let path = Path::new("spec");
    let spec = at(pod, &["spec"]);
    let annotations = at(pod, &["metadata", "annotations"]);
    let annotation_path = Path::new("metadata").child("annotations");
    pod_annotation::annotations(check, annotations, spec, &annotation_path);
    pod_rules(check, spec, &path);
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        check.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, &["nodeName"]).is_empty() && !list(spec, &["schedulingGates"]).is_empty() {
        check.forbidden(
            path.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    pod_annotation::app_armor_fields(check, annotations, spec, &path);
}

/// Validates the spec of a pod or a template. The controller of a template does some of its checks.
pub(super) fn pod_rules(check: &mut Check, spec: &Value, path: &Path) {
    spec_rules(check, spec, path);
    if text(spec, &["serviceAccountName"]).is_empty() {
        volume::no_tokens(check, spec, &path.child("volumes"));
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            container::trimmed_image(check, container, &path.child(field).index(index));
        }
    }
}

/// Validates a pod template: the labels, the annotations and the spec.
pub(super) fn template(check: &mut Check, template: &Value, path: &Path) {
    template_metadata(check, template, path);
    let spec = at(template, &["spec"]);
    spec_rules(check, spec, &path.child("spec"));
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        check.forbidden(
            path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Validates the labels and the annotations of a pod template.
pub(super) fn template_metadata(check: &mut Check, template: &Value, path: &Path) {
    // The API server's paths omit `metadata` here.
    check.labels(at(template, &["metadata", "labels"]), &path.child("labels"));
    check.annotations(
        at(template, &["metadata", "annotations"]),
        &path.child("annotations"),
    );
    let spec = at(template, &["spec"]);
    pod_annotation::annotations(
        check,
        at(template, &["metadata", "annotations"]),
        spec,
        &path.child("annotations"),
    );
}

/// Validates the spec of a pod.
pub(super) fn spec_rules(check: &mut Check, spec: &Value, path: &Path) {
    let volumes = volume::volumes(check, spec, &path.child("volumes"));
    container_resources::pod_claims(check, spec, &path.child("resourceClaims"));
    let pod = Pod::new(spec, volumes);
    container::containers(check, &pod, path);
    container::init_containers(check, &pod, path);
    container::ephemeral_containers(check, &pod, path);
    container_resources::pod_level(check, spec, path, pod.claims());
    if text(spec, &["restartPolicy"]).is_empty() {
        check.required(path.child("restartPolicy"), "");
    } else {
        check.one_of(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"]);
    }
    dns_policy(check, spec, path);
    check.labels(at(spec, &["nodeSelector"]), &path.child("nodeSelector"));
    security::pod(check, spec, path);
    affinity::affinity(check, at(spec, &["affinity"]), &path.child("affinity"));
    dns_config(check, spec, &path.child("dnsConfig"));
    for (index, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let path = path.child("readinessGates").index(index);
        let condition = text(gate, &["conditionType"]);
        check.faults(
            &path.child("conditionType"),
            condition,
            names::qualified_name(condition),
        );
    }
    scheduling_gates(check, spec, &path.child("schedulingGates"));
    topology_spread(check, spec, &path.child("topologySpreadConstraints"));
    security::host_processes(check, spec, path);
    host_users(check, spec, path);
    hostname_override(check, spec, path);
    check.optional_form(spec, path, "serviceAccountName", names::dns1123_subdomain);
    check.optional_form(spec, path, "nodeName", names::dns1123_subdomain);
    active_deadline(check, spec, path);
    check.optional_form(spec, path, "hostname", names::dns1123_label);
    check.optional_form(spec, path, "subdomain", names::dns1123_label);
    tolerations(check, spec, &path.child("tolerations"));
    host_aliases(check, spec, &path.child("hostAliases"));
    check.optional_form(spec, path, "priorityClassName", names::dns1123_subdomain);
    check.pointer_form(spec, path, "runtimeClassName", names::dns1123_subdomain);
    if text(spec, &["preemptionPolicy"]).is_empty() && at(spec, &["preemptionPolicy"]).is_string() {
        check.required(path.child("preemptionPolicy"), "");
    } else {
        check.optional_one_of(spec, path, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    }
    overhead(check, at(spec, &["overhead"]), &path.child("overhead"));
    os(check, at(spec, &["os"]), &path.child("os"));
    operating_system::fields(check, spec, path);
    container::file_volumes(check, spec, path);
}

fn hostname_override(check: &mut Check, spec: &Value, path: &Path) {
    let Some(name) = at(spec, &["hostnameOverride"]).as_str() else {
        return;
    };
    let of_name = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if at(spec, &[field]) == &Value::Bool(true) {
            let why = format!("may not be specified when {field} is true");
            check.forbidden(of_name.clone(), why);
        }
    }
    if name.len() > HOSTNAME_LENGTH_MAX {
        let error = Error::too_long(of_name.clone(), HOSTNAME_LENGTH_MAX);
        check.errors.push(error);
    }
    check.faults(&of_name, name, names::dns1123_subdomain(name));
}

/// Checks that a pod with its own user namespace shares no other namespace with the host.
fn host_users(check: &mut Check, spec: &Value, path: &Path) {
    let is_true = |field: &str| at(spec, &[field]) == &Value::Bool(true);
    if at(spec, &["hostUsers"]) != &Value::Bool(false) {
        return;
    }
    for (field, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if is_true(field) {
            check.forbidden(path.child(shown), "when `hostUsers` is false");
        }
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            if !list(container, &["volumeDevices"]).is_empty() {
                let path = path.child(field).index(index).child("volumeDevices");
                check.forbidden(path, "when `hostUsers` is false");
            }
        }
    }
}

/// The maximum length of a host name on Linux.
const HOSTNAME_LENGTH_MAX: usize = 64;

fn os(check: &mut Check, os: &Value, path: &Path) {
    let known = ["linux", "windows"];
    match text(os, &["name"]) {
        _ if os.is_null() => {}
        "" => check.required(path.child("name"), ""),
        name if !known.contains(&name) => {
            let error = Error::not_supported(path.clone(), &name.into(), &known);
            check.errors.push(error);
        }
        _ => {}
    }
}

/// Validates the overhead of a pod.
pub(super) fn overhead(check: &mut Check, overhead: &Value, path: &Path) {
    if !overhead.is_null() {
        container_resources::overhead(check, overhead, path);
    }
}

fn scheduling_gates(check: &mut Check, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, &["schedulingGates"]).iter().enumerate() {
        let (name, path) = (text(gate, &["name"]), path.index(index));
        check.faults(&path, name, names::qualified_name(name));
        if !seen.insert(name) {
            check.duplicate(path, &name.into());
        }
    }
}

fn active_deadline(check: &mut Check, spec: &Value, path: &Path) {
    let deadline = at(spec, &["activeDeadlineSeconds"]);
    let range = 1..=i64::from(i32::MAX);
    if deadline.as_i64().is_some_and(|seconds| !range.contains(&seconds)) {
        check.invalid(
            path.child("activeDeadlineSeconds"),
            deadline,
            "must be between 1 and 2147483647, inclusive",
        );
    }
}

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const NAME_SERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;

fn dns_policy(check: &mut Check, spec: &Value, path: &Path) {
    if text(spec, &["dnsPolicy"]).is_empty() {
        check.required(path.child("dnsPolicy"), "");
    } else {
        check.one_of(spec, path, "dnsPolicy", DNS_POLICIES);
    }
}

fn dns_config(check: &mut Check, spec: &Value, path: &Path) {
    let config = at(spec, &["dnsConfig"]);
    let servers = list(config, &["nameservers"]);
    if text(spec, &["dnsPolicy"]) == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return check.required(path.clone(), detail);
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return check.required(path.child("nameservers"), detail);
        }
    }
    let servers_path = path.child("nameservers");
    if servers.len() > NAME_SERVERS_MAX {
        let detail = format!("must not have more than {NAME_SERVERS_MAX} nameservers");
        check.invalid(servers_path.clone(), at(config, &["nameservers"]), detail);
    }
    for (index, server) in servers.iter().enumerate() {
        let server = server.as_str().unwrap_or_default();
        check.faults(&servers_path.index(index), server, names::ip_address(server));
    }
    dns_searches(check, at(config, &["searches"]), &path.child("searches"));
    for (index, option) in list(config, &["options"]).iter().enumerate() {
        if text(option, &["name"]).is_empty() {
            check.required(path.child("options").index(index), "must not be empty");
        }
    }
}

fn dns_searches(check: &mut Check, searches: &Value, path: &Path) {
    let all: Vec<&str> = list(searches, &[]).iter().filter_map(Value::as_str).collect();
    if all.len() > SEARCH_PATHS_MAX {
        let detail = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        check.invalid(path.clone(), searches, detail);
    }
    if all.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let detail = format!(
            "must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list"
        );
        check.invalid(path.clone(), searches, detail);
    }
    for (index, search) in all.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        check.faults(
            &path.index(index),
            search,
            names::dns1123_subdomain_with_underscore(search),
        );
    }
}

/// Returns the fields that no two constraints of a pod may both have in common.
fn topology_pair(constraint: &Value) -> [&str; 2] {
    ["topologyKey", "whenUnsatisfiable"].map(|field| text(constraint, &[field]))
}

fn topology_spread(check: &mut Check, spec: &Value, path: &Path) {
    let constraints = list(spec, &["topologySpreadConstraints"]);
    let last: HashMap<[&str; 2], usize> = constraints.iter().map(topology_pair).zip(0..).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let skew = at(constraint, &["maxSkew"]);
        if skew.as_i64().unwrap_or(0) <= 0 {
            check.invalid(path.child("maxSkew"), skew, "must be greater than zero");
        }
        if text(constraint, &["topologyKey"]).is_empty() {
            check.required(path.child("topologyKey"), "can not be empty");
        }
        check.one_of(
            constraint,
            &path,
            "whenUnsatisfiable",
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        let pair = topology_pair(constraint);
        if last.get(&pair).is_some_and(|last| *last > index) {
            let shown = format!("{{{}, {}}}", pair[0], pair[1]);
            check.duplicate(path.child("{topologyKey, whenUnsatisfiable}"), &shown.into());
        }
        let domains = at(constraint, &["minDomains"]);
        if domains.as_i64().is_some_and(|domains| domains <= 0) {
            check.invalid(path.child("minDomains"), domains, "must be greater than zero");
        }
        let unsatisfiable = text(constraint, &["whenUnsatisfiable"]);
        if !domains.is_null() && unsatisfiable != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}");
            check.invalid(path.child("minDomains"), domains, why);
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            check.optional_one_of(constraint, &path, field, &["Honor", "Ignore"]);
        }
        match_label_keys(check, constraint, &path);
        check.label_selector(at(constraint, &["labelSelector"]), &path.child("labelSelector"));
    }
}

/// Validates the labels of the pod that are added to a selector; the server may have already added them.
fn match_label_keys(check: &mut Check, constraint: &Value, path: &Path) {
    let keys = list(constraint, &["matchLabelKeys"]);
    let path = path.child("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    if at(constraint, &["labelSelector"]).is_null() {
        return check.forbidden(path, "must not be specified when labelSelector is not set");
    }
    for (index, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        check.faults(&path.index(index), key, names::qualified_name(key));
    }
}

/// Formats a toleration as Go's struct.
pub(super) fn shown_toleration(toleration: &Value) -> String {
    let shown = |field: &str| render(&text(toleration, &[field]).into());
    format!(
        "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{}}}",
        shown("key"),
        shown("operator"),
        shown("value"),
        shown("effect"),
        render(at(toleration, &["tolerationSeconds"])),
    )
}

/// Checks the tolerations of a pod.
pub(super) fn tolerations(check: &mut Check, spec: &Value, path: &Path) {
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let path = path.index(index);
        let operator = text(toleration, &["operator"]);
        let key = text(toleration, &["key"]);
        let value = text(toleration, &["value"]);
        if !key.is_empty() {
            check.faults(&path.child("key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            check.invalid(
                path.child("operator"),
                &operator.into(),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        let seconds = at(toleration, &["tolerationSeconds"]);
        if !seconds.is_null() && text(toleration, &["effect"]) != "NoExecute" {
            check.invalid(
                path.child("effect"),
                &text(toleration, &["effect"]).into(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let faults = names::label_value(value);
                if !faults.is_empty() {
                    check.invalid(path.child("operator"), &value.into(), faults.join(";"));
                }
            }
            "Exists" if !value.is_empty() => check.invalid(
                path.child("operator"),
                &value.into(),
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            // Numeric comparison is a feature that is off by default.
            "Lt" | "Gt" => {
                let (path, supported) = (path.child("operator"), ["Equal", "Exists", "Lt", "Gt"]);
                let error = Error::not_supported(path, &operator.into(), &supported);
                check.errors.push(error);
            }
            _ => check.one_of(toleration, &path, "operator", &["Equal", "Exists"]),
        }
        if !text(toleration, &["effect"]).is_empty() {
            check.one_of(
                toleration,
                &path,
                "effect",
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}

fn host_aliases(check: &mut Check, spec: &Value, path: &Path) {
    for (index, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        let path = path.index(index);
        let ip = text(alias, &["ip"]);
        check.faults(&path.child("ip"), ip, names::ip_address(ip));
        for (index, name) in list(alias, &["hostnames"]).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let path = path.child("hostnames").index(index);
            check.faults(&path, name, names::dns1123_subdomain(name));
        }
    }
}
