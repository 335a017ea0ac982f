//! Field labels: the fields that `fieldSelector` supports, such as `status.phase=Running`.

use serde_json::Value;

use crate::tree::{at, list, text};
use apimachinery::gvk::Gvk;

/// The labels of a kind in addition to `metadata.name` and `metadata.namespace`: group, kind, labels.
const LABELS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "Event",
        &[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "Event",
        &[
            "reason",
            "regarding.apiVersion",
            "regarding.fieldPath",
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.resourceVersion",
            "regarding.uid",
            "reportingController",
            "type",
        ],
    ),
    ("", "Namespace", &["status.phase"]),
    ("", "Node", &["spec.unschedulable"]),
    (
        "",
        "Pod",
        &[
            "spec.host",
            "spec.hostNetwork",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.nominatedNodeName",
            "status.phase",
            "status.podIP",
            "status.podIPs",
        ],
    ),
    ("", "ReplicationController", &["status.replicas"]),
    ("", "Secret", &["type"]),
    ("", "Service", &["spec.clusterIP", "spec.type"]),
    ("batch", "Job", &["status.successful"]),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &["spec.signerName"],
    ),
    (
        "resource.k8s.io",
        "ResourceSlice",
        &["spec.driver", "spec.nodeName"],
    ),
];

/// Returns the value of a field label such as `status.phase`.
///
/// # Errors
/// Returns an error if the kind does not have the label.
pub fn field_label(gvk: &Gvk, object: &Value, label: &str) -> Result<String, String> {
    if matches!(label, "metadata.name" | "metadata.namespace") {
        return Ok(value_at(object, label));
    }
    let own = LABELS
        .iter()
        .find(|(group, kind, _)| (*group, *kind) == (gvk.group, gvk.kind));
    let Some((_, _, labels)) = own else {
        return Err(format!(
            "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ));
    };
    if !labels.contains(&label) {
        return Err(match gvk.kind {
            "Job" => format!("field label {label:?} not supported for Job"),
            "ResourceSlice" => {
                let version = gvk.version;
                format!(
                    "field label not supported for resource.k8s.io/{version}, Kind=ResourceSlice: {label}"
                )
            }
            _ => format!("field label not supported: {label}"),
        });
    }
    Ok(match label {
        "spec.host" => value_at(object, "spec.nodeName"),
        "spec.hostNetwork" | "spec.unschedulable" => flag_at(object, label),
        "status.replicas" => number(at(object, &["status", "replicas"])),
        "status.successful" => number(at(object, &["status", "succeeded"])),
        "status.podIP" => pod_ip(object),
        "status.podIPs" => pod_ips(object),
        "source" => source(object),
        "reportingController" => value_at(object, "reportingComponent"),
        // Events are stored with the field names of the core group.
        label => match label.strip_prefix("regarding.") {
            Some(field) => value_at(object, &format!("involvedObject.{field}")),
            None => value_at(object, label),
        },
    })
}

fn value_at(object: &Value, label: &str) -> String {
    let path: Vec<&str> = label.split('.').collect();
    text(object, &path).to_owned()
}

fn flag_at(object: &Value, label: &str) -> String {
    let path: Vec<&str> = label.split('.').collect();
    (at(object, &path) == &Value::Bool(true)).to_string()
}

fn number(value: &Value) -> String {
    value.as_i64().unwrap_or(0).to_string()
}

fn pod_ip(pod: &Value) -> String {
    let first = list(pod, &["status", "podIPs"]).first();
    let first = first.map_or("", |ip| text(ip, &["ip"]));
    if first.is_empty() {
        value_at(pod, "status.podIP")
    } else {
        first.to_owned()
    }
}

fn pod_ips(pod: &Value) -> String {
    let ips = list(pod, &["status", "podIPs"]).iter();
    let ips: Vec<&str> = ips.map(|ip| text(ip, &["ip"])).collect();
    ips.join(",")
}

/// Returns the component that reported an event, from its old or its new field.
fn source(event: &Value) -> String {
    match text(event, &["source", "component"]) {
        "" => value_at(event, "reportingComponent"),
        component => component.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::field_label;
    use apimachinery::gvk::Gvk;

    const PODS: Gvk = Gvk {
        group: "",
        version: "v1",
        kind: "Pod",
    };
    const CONFIG_MAPS: Gvk = Gvk {
        group: "",
        version: "v1",
        kind: "ConfigMap",
    };

    #[test]
    fn labels_of_a_kind_have_values_and_others_are_refused() {
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n" } });
        let value = |label| field_label(&PODS, &pod, label);
        assert_eq!(value("metadata.name").as_deref(), Ok("a"));
        assert_eq!(value("spec.nodeName").as_deref(), Ok("n"));
        assert_eq!(value("spec.hostNetwork").as_deref(), Ok("false"));
        assert_eq!(value("status.phase").as_deref(), Ok(""));
        assert_eq!(
            value("spec.priority"),
            Err("field label not supported: spec.priority".to_owned())
        );
        assert_eq!(
            field_label(&CONFIG_MAPS, &pod, "data.x"),
            Err(
                r#""data.x" is not a known field selector: only "metadata.name", "metadata.namespace""#
                    .to_owned()
            )
        );
    }
}
