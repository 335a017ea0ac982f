//! Pods and pod templates.

use serde_json::Value;
use structural_schema::field::Path;

use super::check::Check;
use super::{container, security, volume};
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::tree::{Object, at, entries, is_zero, list, objects_in, text};

pub(super) fn validate_create(check: &mut Check, pod: &Value) {
    let path = Path::new("spec");
    let spec = at(pod, &["spec"]);
    spec_rules(check, spec, &path);
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        check.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
}

/// A pod template: the labels, the annotations and the spec.
pub(super) fn template(check: &mut Check, template: &Value, path: &Path) {
    let metadata = path.child("metadata");
    check.labels(at(template, &["metadata", "labels"]), &metadata.child("labels"));
    annotations(
        check,
        at(template, &["metadata", "annotations"]),
        &metadata.child("annotations"),
    );
    let spec = at(template, &["spec"]);
    spec_rules(check, spec, &path.child("spec"));
    if !list(spec, &["ephemeralContainers"]).is_empty() {
        check.forbidden(
            path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Keys of annotations are written like those of labels, in any case.
pub(super) fn annotations(check: &mut Check, annotations: &Value, path: &Path) {
    for (key, _) in entries(annotations, &[]) {
        check.faults(path, key, names::qualified_name(&key.to_lowercase()));
    }
}

/// The spec of a pod.
pub(super) fn spec_rules(check: &mut Check, spec: &Value, path: &Path) {
    let volumes = volume::volumes(check, spec, &path.child("volumes"));
    container::containers(check, spec, path, &volumes);
    container::init_containers(check, spec, path, &volumes);
    container::ephemeral_containers(check, spec, path, &volumes);
    if !at(spec, &["resources"]).is_null() {
        container::resources(check, at(spec, &["resources"]), &path.child("resources"));
    }
    if text(spec, &["restartPolicy"]).is_empty() {
        check.required(path.child("restartPolicy"), "");
    } else {
        check.one_of(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"]);
    }
    dns(check, spec, path);
    check.labels(at(spec, &["nodeSelector"]), &path.child("nodeSelector"));
    security::pod(check, spec, path);
    for (index, secret) in list(spec, &["imagePullSecrets"]).iter().enumerate() {
        check.required_text(secret, &path.child("imagePullSecrets").index(index), "name");
    }
    affinity(check, at(spec, &["affinity"]), &path.child("affinity"));
    for (index, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let path = path.child("readinessGates").index(index);
        let condition = text(gate, &["conditionType"]);
        check.faults(
            &path.child("conditionType"),
            condition,
            names::qualified_name(condition),
        );
    }
    topology_spread(check, spec, &path.child("topologySpreadConstraints"));
    check.optional_form(spec, path, "serviceAccountName", names::dns_subdomain);
    check.optional_form(spec, path, "nodeName", names::dns_subdomain);
    active_deadline(check, spec, path);
    check.optional_form(spec, path, "hostname", names::dns_label);
    check.optional_form(spec, path, "subdomain", names::dns_label);
    tolerations(check, spec, &path.child("tolerations"));
    host_aliases(check, spec, &path.child("hostAliases"));
    check.optional_form(spec, path, "priorityClassName", names::dns_subdomain);
    check.optional_form(spec, path, "runtimeClassName", names::dns_subdomain);
    check.optional_one_of(spec, path, "preemptionPolicy", &["Never", "PreemptLowerPriority"]);
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

fn dns(check: &mut Check, spec: &Value, path: &Path) {
    let policy = text(spec, &["dnsPolicy"]);
    let servers = list(spec, &["dnsConfig", "nameservers"]);
    if policy.is_empty() {
        check.required(path.child("dnsPolicy"), "");
    } else {
        check.one_of(
            spec,
            path,
            "dnsPolicy",
            &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        );
    }
    let config = path.child("dnsConfig");
    if policy == "None" && at(spec, &["dnsConfig"]).is_null() {
        check.required(config, "must provide `dnsConfig` when `dnsPolicy` is None");
    } else if policy == "None" && servers.is_empty() {
        check.required(
            config.child("nameservers"),
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        );
    } else {
        for (index, server) in servers.iter().enumerate() {
            let server = server.as_str().unwrap_or_default();
            let path = config.child("nameservers").index(index);
            check.faults(&path, server, names::ip_address(server));
        }
    }
}

fn affinity(check: &mut Check, affinity: &Value, path: &Path) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = at(affinity, &["nodeAffinity", required]);
    if node.is_object() {
        node_selector(check, node, &path.child("nodeAffinity").child(required));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in list(affinity, &[kind, required]).iter().enumerate() {
            let path = path.child(kind).child(required).index(index);
            pod_affinity_term(check, term, &path);
        }
        for (index, weighted) in list(affinity, &[kind, preferred]).iter().enumerate() {
            let path = path.child(kind).child(preferred).index(index);
            let weight = at(weighted, &["weight"]);
            if !weight.as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
                check.invalid(path.child("weight"), weight, "must be in the range 1-100");
            }
            let term = at(weighted, &["podAffinityTerm"]);
            pod_affinity_term(check, term, &path.child("podAffinityTerm"));
        }
    }
}

fn pod_affinity_term(check: &mut Check, term: &Value, path: &Path) {
    check.label_selector(at(term, &["labelSelector"]), &path.child("labelSelector"));
    let key = text(term, &["topologyKey"]);
    if key.is_empty() {
        check.required(path.child("topologyKey"), "can not be empty");
    } else {
        check.faults(&path.child("topologyKey"), key, names::qualified_name(key));
    }
}

/// A selector of nodes, as in node affinity.
pub(super) fn node_selector(check: &mut Check, selector: &Value, path: &Path) {
    let terms = list(selector, &["nodeSelectorTerms"]);
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        check.required(path.clone(), "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index).child("matchExpressions");
        for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
            node_requirement(check, expression, &path.index(index));
        }
    }
}

fn node_requirement(check: &mut Check, expression: &Value, path: &Path) {
    let values = list(expression, &["values"]);
    match text(expression, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => check.required(
            path.child("values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => check.forbidden(
            path.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => check.required(
            path.child("values"),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => check.invalid(
            path.child("operator"),
            at(expression, &["operator"]),
            "not a valid selector operator",
        ),
    }
    let key = text(expression, &["key"]);
    check.faults(&path.child("key"), key, names::qualified_name(key));
}

fn topology_spread(check: &mut Check, spec: &Value, path: &Path) {
    for (index, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
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
        check.label_selector(at(constraint, &["labelSelector"]), &path.child("labelSelector"));
    }
}

/// What a pod tolerates.
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
                at(toleration, &["effect"]),
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
                toleration,
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
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
            check.faults(&path, name, names::dns_subdomain(name));
        }
    }
}

// === updates ===

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate_update(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec");
    let (spec, old_spec) = (at(pod, &["spec"]), at(old, &["spec"]));
    spec_rules(check, spec, &path);
    for field in ["containers", "initContainers"] {
        if list(spec, &[field]).len() != list(old_spec, &[field]).len()
            || names_of(spec, field) != names_of(old_spec, field)
        {
            check.forbidden(path.child(field), "pod updates may not add or remove containers");
            return;
        }
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            container::image(check, container, &path.child(field).index(index));
        }
    }
    updated_deadline(check, spec, old_spec, &path);
    if !keeps_tolerations(spec, old_spec) {
        check.forbidden(
            path.child("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    if without_updatable(spec, old_spec) != *old_spec {
        check.forbidden(path, UPDATABLE);
    }
}

fn names_of<'a>(spec: &'a Value, field: &str) -> Vec<&'a str> {
    let containers = list(spec, &[field]).iter();
    containers.map(|container| text(container, &["name"])).collect()
}

fn updated_deadline(check: &mut Check, spec: &Value, old: &Value, path: &Path) {
    let deadline = at(spec, &["activeDeadlineSeconds"]);
    let path = path.child("activeDeadlineSeconds");
    match (deadline.as_i64(), at(old, &["activeDeadlineSeconds"]).as_i64()) {
        (Some(new), Some(old)) if new > old => {
            check.invalid(path, deadline, "must be less than or equal to previous value");
        }
        (None, Some(_)) => check.invalid(
            path,
            deadline,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
}

/// Whether every toleration of the old spec is still there, apart from its seconds.
fn keeps_tolerations(spec: &Value, old: &Value) -> bool {
    let same = |left: &Value, right: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|field| at(left, &[field]) == at(right, &[field]))
    };
    let new = list(spec, &["tolerations"]);
    list(old, &["tolerations"])
        .iter()
        .all(|old| new.iter().any(|new| same(new, old)))
}

/// The new spec with the old values of everything that an update may change.
fn without_updatable(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(root) = spec.as_object_mut() else {
        return spec;
    };
    for field in ["activeDeadlineSeconds", "tolerations"] {
        copy(root, old, field);
    }
    let grace = at(old, &["terminationGracePeriodSeconds"]).as_i64();
    if grace.is_some_and(|seconds| seconds < 0)
        && root.get("terminationGracePeriodSeconds").and_then(Value::as_i64) == Some(1)
    {
        copy(root, old, "terminationGracePeriodSeconds");
    }
    for field in ["containers", "initContainers"] {
        let images = list(old, &[field]).iter().map(|c| at(c, &["image"]).clone());
        for (container, image) in objects_in(root, field).zip(images) {
            container.insert("image".to_owned(), image);
        }
    }
    spec
}

fn copy(root: &mut Object, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => root.insert(field.to_owned(), value.clone()),
        None => root.remove(field),
    };
}

/// Ephemeral containers can be added, and that is all.
pub(super) fn validate_ephemeral_update(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec").child("ephemeralContainers");
    let spec = at(pod, &["spec"]);
    spec_rules(check, spec, &Path::new("spec"));
    for existing in list(old, &["spec", "ephemeralContainers"]) {
        let name = text(existing, &["name"]);
        let new = list(spec, &["ephemeralContainers"]).iter();
        match new.clone().find(|new| text(new, &["name"]) == name) {
            None => check.forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            ),
            Some(new) if new != existing => check.forbidden(
                path.clone(),
                format!("existing ephemeral containers {name:?} may not be changed\n"),
            ),
            Some(_) => {}
        }
    }
}

/// Resizing keeps the quality-of-service class.
pub(super) fn validate_resize(check: &mut Check, pod: &Value, old: &Value) {
    let path = Path::new("spec");
    spec_rules(check, at(pod, &["spec"]), &path);
    let old_class = text(old, &["status", "qosClass"]);
    let class = super::super::qos_class(at(pod, &["spec"]));
    if !old_class.is_empty() && class != old_class {
        check.invalid(
            Path::new("status").child("qosClass"),
            &class.into(),
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    for (index, container) in list(pod, &["spec", "containers"]).iter().enumerate() {
        let previous = list(old, &["spec", "containers"]).get(index);
        let previous = previous.unwrap_or(&Value::Null);
        let limit = |of: &Value| Quantity::from_json(at(of, &["resources", "limits", "memory"]));
        let removed = |field: &str| {
            is_zero(at(container, &["resources", field])) && !is_zero(at(previous, &["resources", field]))
        };
        if removed("limits") && limit(previous).is_ok() {
            check.forbidden(
                path.child("containers")
                    .index(index)
                    .child("resources")
                    .child("limits"),
                "resource limits cannot be removed",
            );
        }
    }
}
