//! The rows of the remaining kinds: nodes, events, configuration, storage, access and admission.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{NONE, Row, UNSET, joined, or, plain};
use crate::tree::{at, entries, list, text};

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let info = |field: &str| row.text(&["status", "nodeInfo", field]);
    vec![
        row.name(),
        node_status(row).into(),
        node_roles(row).into(),
        row.age(),
        info("kubeletVersion").into(),
        node_address(row, "InternalIP").into(),
        node_address(row, "ExternalIP").into(),
        or(info("osImage"), "<unknown>").into(),
        or(info("kernelVersion"), "<unknown>").into(),
        or(info("containerRuntimeVersion"), "<unknown>").into(),
    ]
}

fn node_status(row: &Row<'_>) -> String {
    let conditions = row.list(&["status", "conditions"]).iter();
    let mut ready = conditions.filter(|condition| text(condition, &["type"]) == "Ready");
    let status = match ready.next().map(|condition| text(condition, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if row.at(&["spec", "unschedulable"]) == &Value::Bool(true) {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_owned()
    }
}

fn node_roles(row: &Row<'_>) -> String {
    let mut roles: Vec<&str> = entries(row.object, &["metadata", "labels"])
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    joined(roles.into_iter())
}

fn node_address(row: &Row<'_>, kind: &str) -> String {
    let addresses = row.list(&["status", "addresses"]).iter();
    let mut found = addresses.filter(|address| text(address, &["type"]) == kind);
    let found = found.next().map(|address| text(address, &["address"]));
    found.unwrap_or(NONE).to_owned()
}

pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    // The two groups use different names for the same fields.
    let either = |one: &str, other: &str| match row.at(&[one]) {
        Value::Null => row.at(&[other]),
        value => value,
    };
    let when = |legacy: &str, current: &str| {
        let time = either(legacy, current).as_str();
        row.since(time.unwrap_or_else(|| row.text(&["eventTime"])))
    };
    let first = when("firstTimestamp", "deprecatedFirstTimestamp");
    let observed = row.text(&["series", "lastObservedTime"]);
    let last = if observed.is_empty() {
        match either("lastTimestamp", "deprecatedLastTimestamp").as_str() {
            Some(time) => row.since(time),
            None => first.clone(),
        }
    } else {
        row.since(observed)
    };
    let subject = either("involvedObject", "regarding");
    let kind = text(subject, &["kind"]).to_lowercase();
    let target = format!("{kind}/{}", text(subject, &["name"]));
    let count = either("count", "deprecatedCount").as_i64().unwrap_or(0);
    let count = row.at(&["series", "count"]).as_i64().unwrap_or(count);
    let message = either("message", "note").as_str().unwrap_or_default();
    vec![
        last.into(),
        row.text(&["type"]).into(),
        row.text(&["reason"]).into(),
        target.into(),
        text(subject, &["fieldPath"]).into(),
        event_source(row, either("source", "deprecatedSource")).into(),
        message.trim().into(),
        first.into(),
        count.max(1).into(),
        row.name(),
    ]
}

fn event_source(row: &Row<'_>, source: &Value) -> String {
    let (component, host) = (text(source, &["component"]), text(source, &["host"]));
    let reporter = or(
        row.text(&["reportingComponent"]),
        row.text(&["reportingController"]),
    );
    let (component, host) = if component.is_empty() && host.is_empty() {
        (reporter, row.text(&["reportingInstance"]))
    } else {
        (component, host)
    };
    if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    }
}

pub(super) fn namespace(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["status", "phase"]).into(), row.age()]
}

/// Returns the number of entries of an object.
fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

pub(super) fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text(&["type"]).into(),
        count(row.at(&["data"])).into(),
        row.age(),
    ]
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    let entries = count(row.at(&["data"])) + count(row.at(&["binaryData"]));
    vec![row.name(), entries.into(), row.age()]
}

/// Formats access modes as abbreviations, without duplicates.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = known.iter().filter(|(mode, _)| modes.contains(&(*mode).into()));
    let given: Vec<&str> = given.map(|(_, short)| *short).collect();
    given.join(",")
}

pub(super) fn persistent_volume(row: &Row<'_>) -> Vec<Value> {
    let claim = row.at(&["spec", "claimRef"]);
    let claim = if claim.is_null() {
        String::new()
    } else {
        format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"]))
    };
    let phase = if row.is_deleted() {
        "Terminating"
    } else {
        row.text(&["status", "phase"])
    };
    vec![
        row.name(),
        row.text(&["spec", "capacity", "storage"]).into(),
        access_modes(row.list(&["spec", "accessModes"])).into(),
        row.text(&["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase.into(),
        claim.into(),
        row.text(&["spec", "storageClassName"]).into(),
        or(row.text(&["spec", "volumeAttributesClassName"]), UNSET).into(),
        row.text(&["status", "reason"]).into(),
        row.age(),
        or(row.text(&["spec", "volumeMode"]), UNSET).into(),
    ]
}

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let volume = row.text(&["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        ("", String::new())
    } else {
        (
            row.text(&["status", "capacity", "storage"]),
            access_modes(row.list(&["status", "accessModes"])),
        )
    };
    let phase = if row.is_deleted() {
        "Terminating"
    } else {
        row.text(&["status", "phase"])
    };
    vec![
        row.name(),
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        row.text(&["spec", "storageClassName"]).into(),
        or(row.text(&["spec", "volumeAttributesClassName"]), UNSET).into(),
        row.age(),
        or(row.text(&["spec", "volumeMode"]), UNSET).into(),
    ]
}

pub(super) fn quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in entries(row.object, &["status", "hard"]) {
        let used = match row.at(&["status", "used", name]) {
            Value::Null => "0".to_owned(),
            used => plain(used),
        };
        let shown = format!("{name}: {used}/{}", plain(hard));
        if name.starts_with("limits") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    vec![
        row.name(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        row.age(),
    ]
}

pub(super) fn binding(row: &Row<'_>) -> Vec<Value> {
    let reference = row.at(&["roleRef"]);
    let role = format!("{}/{}", text(reference, &["kind"]), text(reference, &["name"]));
    let subjects = |kind: &str| {
        let of_kind = row
            .list(&["subjects"])
            .iter()
            .filter(|subject| text(subject, &["kind"]) == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match text(subject, &["namespace"]) {
                namespace if kind == "ServiceAccount" => {
                    format!("{namespace}/{}", text(subject, &["name"]))
                }
                _ => text(subject, &["name"]).to_owned(),
            })
            .collect();
        names.join(", ")
    };
    vec![
        row.name(),
        role.into(),
        row.age(),
        subjects("User").into(),
        subjects("Group").into(),
        subjects("ServiceAccount").into(),
    ]
}

pub(super) fn signing_request(row: &Row<'_>) -> Vec<Value> {
    let seconds = row.at(&["spec", "expirationSeconds"]).as_i64();
    let duration = seconds.map_or(NONE.to_owned(), super::human_duration);
    let has = |kind: &str| {
        row.list(&["status", "conditions"])
            .iter()
            .any(|condition| text(condition, &["type"]) == kind)
    };
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let mut status = decision.to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text(&["status", "certificate"]).is_empty() {
        status.push_str(",Issued");
    }
    vec![
        row.name(),
        row.age(),
        or(row.text(&["spec", "signerName"]), NONE).into(),
        row.text(&["spec", "username"]).into(),
        duration.into(),
        status.into(),
    ]
}

pub(super) fn lease(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text(&["spec", "holderIdentity"]).into(),
        row.age(),
    ]
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let annotation = "storageclass.kubernetes.io/is-default-class";
    let is_default = row.text(&["metadata", "annotations", annotation]) == "true";
    let name = row.text(&["metadata", "name"]);
    let name = if is_default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    };
    let expands = row.at(&["allowVolumeExpansion"]) == &Value::Bool(true);
    vec![
        name.into(),
        row.text(&["provisioner"]).into(),
        or(row.text(&["reclaimPolicy"]), "Delete").into(),
        or(row.text(&["volumeBindingMode"]), "Immediate").into(),
        expands.into(),
        row.age(),
    ]
}

pub(super) fn volume_attachment(row: &Row<'_>) -> Vec<Value> {
    let attached = row.at(&["status", "attached"]) == &Value::Bool(true);
    vec![
        row.name(),
        row.text(&["spec", "attacher"]).into(),
        row.text(&["spec", "source", "persistentVolumeName"]).into(),
        row.text(&["spec", "nodeName"]).into(),
        attached.into(),
        row.age(),
    ]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Value> {
    let is_default = row.at(&["globalDefault"]) == &Value::Bool(true);
    vec![
        row.name(),
        row.number(&["value"]).into(),
        is_default.into(),
        row.age(),
        row.text(&["preemptionPolicy"]).into(),
    ]
}

pub(super) fn runtime_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["handler"]).into(), row.age()]
}

pub(super) fn webhooks(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.list(&["webhooks"]).len().into(), row.age()]
}

/// Returns the row of a policy whose rules are in the given field.
pub(super) fn policy(row: &Row<'_>, rules: &str) -> Vec<Value> {
    let kind = row.at(&["spec", "paramKind"]);
    let kind = if kind.is_null() {
        UNSET.to_owned()
    } else {
        format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"]))
    };
    vec![
        row.name(),
        row.list(&["spec", rules]).len().into(),
        kind.into(),
        row.age(),
    ]
}

/// Formats a label selector as Go prints it, as the API server does.
fn selector_in_go(selector: &Value) -> String {
    let labels: String = entries(selector, &["matchLabels"])
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let requirements: String = list(selector, &["matchExpressions"])
        .iter()
        .map(|requirement| {
            let values = list(requirement, &["values"]).iter();
            let values: Vec<&str> = values.filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(requirement, &["key"]),
                text(requirement, &["operator"]),
                values.join(" "),
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:\
         []LabelSelectorRequirement{{{requirements}}},}}"
    )
}

pub(super) fn policy_binding(row: &Row<'_>) -> Vec<Value> {
    let reference = row.at(&["spec", "paramRef"]);
    let (namespace, name) = (text(reference, &["namespace"]), text(reference, &["name"]));
    let shown = match (reference.is_null(), namespace.is_empty(), name.is_empty()) {
        (true, ..) => UNSET.to_owned(),
        (false, _, true) => selector_in_go(at(reference, &["selector"])),
        (false, false, false) => format!("{namespace}/{name}"),
        (false, true, false) => format!("*/{name}"),
    };
    vec![
        row.name(),
        row.text(&["spec", "policyName"]).into(),
        shown.into(),
        row.age(),
    ]
}
