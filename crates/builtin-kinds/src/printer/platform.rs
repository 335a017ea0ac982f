//! The rows of kinds that configure the API server, service networks, storage drivers and devices.

use serde_json::Value;

use super::{NONE, Row, UNSET, or};
use crate::tree::text;

/// Returns the status and the reason of the condition of a type.
fn condition<'a>(row: &Row<'a>, kind: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = row.list(&["status", "conditions"]).iter();
    let found = conditions.find(|condition| text(condition, &["type"]) == kind)?;
    Some((text(found, &["status"]), text(found, &["reason"])))
}

/// Joins strings with commas.
fn texts(values: &[Value]) -> String {
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    texts.join(",")
}

/// Returns a number, or `<none>` where it is absent.
fn number_or_none(value: &Value) -> Value {
    if value.is_null() {
        NONE.into()
    } else {
        value.clone()
    }
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Value> {
    let service = row.at(&["spec", "service"]);
    let service = if service.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", text(service, &["namespace"]), text(service, &["name"]))
    };
    let available = match condition(row, "Available") {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    };
    vec![row.name(), service.into(), available.into(), row.age()]
}

pub(super) fn flow_schema(row: &Row<'_>) -> Vec<Value> {
    let missing = condition(row, "Dangling").map_or("?", |(status, _)| status);
    vec![
        row.name(),
        row.text(&["spec", "priorityLevelConfiguration", "name"]).into(),
        row.number(&["spec", "matchingPrecedence"]).into(),
        or(row.text(&["spec", "distinguisherMethod", "type"]), NONE).into(),
        row.age(),
        missing.into(),
    ]
}

pub(super) fn priority_level(row: &Row<'_>) -> Vec<Value> {
    let limited = |path: &[&str]| {
        let path = [&["spec", "limited"], path].concat();
        number_or_none(row.at(&path))
    };
    let queuing = |field: &str| limited(&["limitResponse", "queuing", field]);
    vec![
        row.name(),
        row.text(&["spec", "type"]).into(),
        limited(&["nominalConcurrencyShares"]),
        queuing("queues"),
        queuing("handSize"),
        queuing("queueLengthLimit"),
        row.age(),
    ]
}

/// Returns the row of an IPAddress. It has a third cell, the age, for which the API server declares no column.
pub(super) fn ip_address(row: &Row<'_>) -> Vec<Value> {
    let parent = row.at(&["spec", "parentRef"]);
    let field = |name: &str| text(parent, &[name]);
    let mut shown = field("resource").to_owned();
    if !field("group").is_empty() {
        shown = format!("{shown}.{}", field("group"));
    }
    if !field("namespace").is_empty() {
        shown = format!("{shown}/{}", field("namespace"));
    }
    let shown = format!("{shown}/{}", field("name"));
    vec![row.name(), shown.into(), row.age()]
}

pub(super) fn service_cidr(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), texts(row.list(&["spec", "cidrs"])).into(), row.age()]
}

pub(super) fn csi_driver(row: &Row<'_>) -> Vec<Value> {
    let requests = row.list(&["spec", "tokenRequests"]);
    let audiences: Vec<&str> = requests
        .iter()
        .map(|request| text(request, &["audience"]))
        .collect();
    let audiences = if requests.is_empty() {
        UNSET.to_owned()
    } else {
        audiences.join(",")
    };
    let flag =
        |field: &str, default: bool| Value::Bool(row.at(&["spec", field]).as_bool().unwrap_or(default));
    let modes = texts(row.list(&["spec", "volumeLifecycleModes"]));
    vec![
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences.into(),
        flag("requiresRepublish", false),
        or(&modes, NONE).into(),
        row.age(),
    ]
}

pub(super) fn csi_node(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.list(&["spec", "drivers"]).len().into(), row.age()]
}

pub(super) fn volume_attributes_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["driverName"]).into(), row.age()]
}

pub(super) fn resource_claim(row: &Row<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if row.is_deleted() {
        states.push("deleted");
    }
    if !row.at(&["status", "allocation"]).is_null() {
        states.push("allocated");
        if !row.list(&["status", "reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if states.is_empty() {
        states.push("pending");
    }
    vec![row.name(), states.join(",").into(), row.age()]
}

pub(super) fn resource_slice(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text(&["spec", "nodeName"]).into(),
        row.text(&["spec", "driver"]).into(),
        row.text(&["spec", "pool", "name"]).into(),
        row.age(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::printer::cells;
    use crate::resource::resources;

    /// Returns the cells between the name and the age of an object without a creation time.
    fn row(kind: &str, object: &Value) -> Vec<Value> {
        let found = resources().iter().find(|resource| resource.gvk.kind == kind);
        let cells = cells(&found.unwrap().gvk, object, 0);
        cells[1..]
            .iter()
            .filter(|cell| **cell != "<unknown>")
            .cloned()
            .collect()
    }

    #[test]
    fn rows_are_those_of_a_real_server() {
        let claim = |status: Value| json!({ "status": status });
        let available = |status: &str| {
            json!({
                "spec": { "service": { "namespace": "n", "name": "s" } },
                "status": { "conditions": [
                    { "type": "Available", "status": status, "reason": "ServiceNotFound" },
                ] },
            })
        };
        let cases = [
            ("APIService", json!({}), json!(["Local", "Unknown"])),
            ("APIService", available("True"), json!(["n/s", "True"])),
            (
                "APIService",
                available("False"),
                json!(["n/s", "False (ServiceNotFound)"]),
            ),
            (
                "FlowSchema",
                json!({ "spec": {
                    "priorityLevelConfiguration": { "name": "p" },
                    "matchingPrecedence": 9000,
                    "distinguisherMethod": { "type": "ByUser" },
                } }),
                json!(["p", 9000, "ByUser", "?"]),
            ),
            (
                "PriorityLevelConfiguration",
                json!({ "spec": { "type": "Exempt", "exempt": { "nominalConcurrencyShares": 0 } } }),
                json!(["Exempt", "<none>", "<none>", "<none>", "<none>"]),
            ),
            (
                "PriorityLevelConfiguration",
                json!({ "spec": { "type": "Limited", "limited": {
                    "nominalConcurrencyShares": 7,
                    "limitResponse": { "type": "Queue", "queuing": {
                        "queues": 8, "handSize": 3, "queueLengthLimit": 9,
                    } },
                } } }),
                json!(["Limited", 7, 8, 3, 9]),
            ),
            (
                "IPAddress",
                json!({ "spec": { "parentRef": { "resource": "services", "namespace": "n", "name": "s" } } }),
                json!(["services/n/s"]),
            ),
            (
                "IPAddress",
                json!({ "spec": { "parentRef": { "group": "g.example.com", "resource": "nodes", "name": "s" } } }),
                json!(["nodes.g.example.com/s"]),
            ),
            (
                "ServiceCIDR",
                json!({ "spec": { "cidrs": ["10.9.0.0/24", "fd00::/64"] } }),
                json!(["10.9.0.0/24,fd00::/64"]),
            ),
            (
                "CSIDriver",
                json!({ "spec": { "volumeLifecycleModes": ["Persistent"] } }),
                json!([true, false, false, "<unset>", false, "Persistent"]),
            ),
            (
                "CSIDriver",
                json!({ "spec": {
                    "attachRequired": false,
                    "podInfoOnMount": true,
                    "storageCapacity": true,
                    "requiresRepublish": true,
                    "tokenRequests": [{ "audience": "a" }, { "audience": "b" }],
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                } }),
                json!([false, true, true, "a,b", true, "Persistent,Ephemeral"]),
            ),
            (
                "CSINode",
                json!({ "spec": { "drivers": [{ "name": "d" }] } }),
                json!([1]),
            ),
            (
                "VolumeAttributesClass",
                json!({ "driverName": "d" }),
                json!(["d"]),
            ),
            ("ResourceClaim", claim(json!({})), json!(["pending"])),
            (
                "ResourceClaim",
                claim(json!({ "allocation": {} })),
                json!(["allocated"]),
            ),
            (
                "ResourceClaim",
                claim(json!({ "allocation": {}, "reservedFor": [{ "name": "p" }] })),
                json!(["allocated,reserved"]),
            ),
            (
                "ResourceClaim",
                json!({ "metadata": { "deletionTimestamp": "2024-01-01T00:00:00Z" } }),
                json!(["deleted"]),
            ),
            (
                "ResourceSlice",
                json!({ "spec": { "driver": "d", "pool": { "name": "p" }, "allNodes": true } }),
                json!(["", "d", "p"]),
            ),
            (
                "MutatingAdmissionPolicy",
                json!({ "spec": { "mutations": [{}] } }),
                json!([1, "<unset>"]),
            ),
            (
                "MutatingAdmissionPolicyBinding",
                json!({ "spec": { "policyName": "p", "paramRef": { "name": "x" } } }),
                json!(["p", "*/x"]),
            ),
            (
                "ServiceAccount",
                json!({ "secrets": [{ "name": "a" }] }),
                json!([]),
            ),
        ];
        for (kind, object, expected) in cases {
            assert_eq!(Value::Array(row(kind, &object)), expected, "{kind} {object}");
        }
    }
}
