//! The defaults of the core group, except pods.

use serde_json::{Value, json};

use super::Rule::{Code, FilledText, Number, Text};
use super::TypeRules;
use super::pod::copy_missing;
use crate::tree::{
    Object, existing_object_in, is_nil, is_zero, object_in, objects_in, set_if_nil, set_if_zero,
};

pub(super) const RULES: &[TypeRules] = &[
    ("api.resource.v1.ResourceSliceSpec", &[Code(slice)]),
    ("api.resource.v1beta1.ResourceSliceSpec", &[Code(slice)]),
    ("api.core.v1.Namespace", &[Code(namespace)]),
    (
        "api.core.v1.Secret",
        &[Code(string_data), FilledText("type", "Opaque")],
    ),
    ("api.core.v1.Service", &[Code(service)]),
    (
        "api.core.v1.ServicePort",
        &[FilledText("protocol", "TCP"), Code(target_port)],
    ),
    ("api.core.v1.EndpointPort", &[FilledText("protocol", "TCP")]),
    ("api.core.v1.LimitRangeItem", &[Code(limit_range_item)]),
    ("api.core.v1.NodeSpec", &[Code(pod_cidrs)]),
    ("api.core.v1.NodeStatus", &[Code(allocatable)]),
    (
        "api.core.v1.PersistentVolumeSpec",
        &[
            FilledText("persistentVolumeReclaimPolicy", "Retain"),
            Text("volumeMode", "Filesystem"),
        ],
    ),
    ("api.core.v1.PersistentVolume", &[Code(pending)]),
    ("api.core.v1.PersistentVolumeClaim", &[Code(pending)]),
    (
        "api.core.v1.PersistentVolumeClaimSpec",
        &[Text("volumeMode", "Filesystem")],
    ),
    (
        "api.core.v1.ReplicationController",
        &[Code(replication_controller)],
    ),
    ("api.core.v1.ReplicationControllerSpec", &[Number("replicas", 1)]),
    (
        "api.authentication.v1.TokenRequestSpec",
        &[Number("expirationSeconds", 3600)],
    ),
];

/// Removes an empty list of devices, unless counters are set: validation refuses both together.
fn slice(spec: &mut Object) {
    let is_empty = |devices: &Value| devices.as_array().is_some_and(Vec::is_empty);
    if spec.get("devices").is_some_and(is_empty) && is_nil(spec, "sharedCounters") {
        spec.remove("devices");
    }
}

/// Adds the name of a namespace as a label.
fn namespace(namespace: &mut Object) {
    let name = namespace.get("metadata").and_then(|m| m.get("name"));
    if let Some(name) = name.filter(|name| !is_zero(name)).cloned() {
        let labels = object_in(namespace, "metadata").and_then(|m| object_in(m, "labels"));
        if let Some(labels) = labels {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name);
        }
    }
    if let Some(status) = object_in(namespace, "status") {
        set_if_zero(status, "phase", "Active");
    }
}

/// Merges `stringData` into `data`; it takes precedence.
fn string_data(secret: &mut Object) {
    use base64::Engine;
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let Some(data) = object_in(secret, "data") else {
        return;
    };
    for (key, text) in texts {
        let text = text.as_str().unwrap_or_default();
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        data.insert(key, encoded.into());
    }
}

fn service(service: &mut Object) {
    if let Some(spec) = object_in(service, "spec") {
        set_if_zero(spec, "sessionAffinity", "None");
        session_affinity(spec);
        set_if_zero(spec, "type", "ClusterIP");
        traffic_policies(spec);
    }
    let load_balancer =
        existing_object_in(service, "status").and_then(|status| existing_object_in(status, "loadBalancer"));
    if let Some(load_balancer) = load_balancer {
        for ingress in objects_in(load_balancer, "ingress") {
            if !is_nil(ingress, "ip") {
                set_if_nil(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// Sets the timeout of client affinity to three hours, or removes the configuration of the affinity None.
fn session_affinity(spec: &mut Object) {
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let client_ip =
                object_in(spec, "sessionAffinityConfig").and_then(|config| object_in(config, "clientIP"));
            if let Some(client_ip) = client_ip {
                set_if_nil(client_ip, "timeoutSeconds", 10800);
            }
        }
        _ => {}
    }
}

fn traffic_policies(spec: &mut Object) {
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default();
    let balanced = kind == "LoadBalancer";
    let in_cluster = matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer");
    let has_external_ips = spec.get("externalIPs").is_some_and(|ips| !is_zero(ips));
    let external = balanced || kind == "NodePort" || kind == "ClusterIP" && has_external_ips;
    if external {
        set_if_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if in_cluster {
        set_if_nil(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        set_if_nil(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn target_port(port: &mut Object) {
    if let Some(number) = port.get("port").cloned() {
        set_if_zero(port, "targetPort", number);
    }
}

/// For containers, sets the default limit to the maximum, and the default request to the limit or else the minimum.
fn limit_range_item(item: &mut Object) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    copy_missing(item, "max", "default", |_| true);
    copy_missing(item, "default", "defaultRequest", |_| true);
    copy_missing(item, "min", "defaultRequest", |_| true);
}

/// Synchronizes `podCIDR` with the first of `podCIDRs`.
fn pod_cidrs(spec: &mut Object) {
    let single = spec.get("podCIDR").filter(|cidr| !is_zero(cidr)).cloned();
    let first = spec.get("podCIDRs").and_then(|all| all.get(0)).cloned();
    match (single, first) {
        // The older field takes precedence.
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".to_owned(), first);
        }
        _ => {}
    }
}

/// Sets the allocatable resources of a node to its capacity.
fn allocatable(status: &mut Object) {
    let capacity = status.get("capacity").filter(|all| !is_zero(all)).cloned();
    if let Some(capacity) = capacity {
        set_if_nil(status, "allocatable", capacity);
    }
}

fn pending(object: &mut Object) {
    if let Some(status) = object_in(object, "status") {
        set_if_zero(status, "phase", "Pending");
    }
}

/// Sets the selector and the labels of a replication controller from its template.
fn replication_controller(controller: &mut Object) {
    let template = controller.get("spec").and_then(|spec| spec.get("template"));
    let labels = template.and_then(|t| t.get("metadata")?.get("labels"));
    let Some(labels) = labels.filter(|labels| !is_zero(labels)).cloned() else {
        return;
    };
    if let Some(spec) = object_in(controller, "spec") {
        set_if_zero(spec, "selector", labels.clone());
    }
    if let Some(metadata) = object_in(controller, "metadata") {
        set_if_zero(metadata, "labels", labels);
    }
}
