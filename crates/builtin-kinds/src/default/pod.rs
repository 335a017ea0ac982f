//! The defaults of pods and pod templates.

use serde_json::{Value, json};

use super::Rule::{self, Code, FilledText, Flag, Number, PositiveNumber, Struct, Text};
use super::TypeRules;
use crate::image;
use crate::pod_resources;
use crate::tree::Object;
use crate::tree::{at, existing_object_in, is_zero, object_in, objects_in, set_if_nil, set_if_zero};

const CONTAINER: &[Rule] = &[
    FilledText("terminationMessagePath", "/dev/termination-log"),
    FilledText("terminationMessagePolicy", "File"),
    Code(container_pull_policy),
];

pub(super) const RULES: &[TypeRules] = &[
    ("api.core.v1.Pod", &[Code(pod)]),
    (
        "api.core.v1.PodSpec",
        &[
            FilledText("dnsPolicy", "ClusterFirst"),
            FilledText("restartPolicy", "Always"),
            FilledText("schedulerName", "default-scheduler"),
            Struct("securityContext"),
            Number("terminationGracePeriodSeconds", 30),
            Code(service_account),
        ],
    ),
    ("api.core.v1.Container", CONTAINER),
    ("api.core.v1.EphemeralContainer", CONTAINER),
    ("api.core.v1.ContainerPort", &[FilledText("protocol", "TCP")]),
    (
        "api.core.v1.Probe",
        &[
            PositiveNumber("timeoutSeconds", 1),
            PositiveNumber("periodSeconds", 10),
            PositiveNumber("successThreshold", 1),
            PositiveNumber("failureThreshold", 3),
        ],
    ),
    (
        "api.core.v1.HTTPGetAction",
        &[FilledText("path", "/"), FilledText("scheme", "HTTP")],
    ),
    ("api.core.v1.GRPCAction", &[Text("service", "")]),
    (
        "api.core.v1.ObjectFieldSelector",
        &[FilledText("apiVersion", "v1")],
    ),
    ("api.core.v1.FileKeySelector", &[Flag("optional", false)]),
    ("api.core.v1.Volume", &[Code(volume_source)]),
    ("api.core.v1.SecretVolumeSource", &[Number("defaultMode", 420)]),
    ("api.core.v1.ConfigMapVolumeSource", &[Number("defaultMode", 420)]),
    (
        "api.core.v1.DownwardAPIVolumeSource",
        &[Number("defaultMode", 420)],
    ),
    ("api.core.v1.ProjectedVolumeSource", &[Number("defaultMode", 420)]),
    (
        "api.core.v1.ServiceAccountTokenProjection",
        &[Number("expirationSeconds", 3600)],
    ),
    ("api.core.v1.ImageVolumeSource", &[Code(image_volume)]),
    ("api.core.v1.HostPathVolumeSource", &[Text("type", "")]),
    ("api.core.v1.ISCSIVolumeSource", ISCSI),
    ("api.core.v1.ISCSIPersistentVolumeSource", ISCSI),
    ("api.core.v1.RBDVolumeSource", RBD),
    ("api.core.v1.RBDPersistentVolumeSource", RBD),
    ("api.core.v1.ScaleIOVolumeSource", SCALE_IO),
    ("api.core.v1.ScaleIOPersistentVolumeSource", SCALE_IO),
    (
        "api.core.v1.AzureDiskVolumeSource",
        &[
            Text("cachingMode", "ReadWrite"),
            Text("kind", "Shared"),
            Text("fsType", "ext4"),
            Flag("readOnly", false),
        ],
    ),
];

const ISCSI: &[Rule] = &[FilledText("iscsiInterface", "default")];
const RBD: &[Rule] = &[
    FilledText("pool", "rbd"),
    FilledText("user", "admin"),
    FilledText("keyring", "/etc/ceph/keyring"),
];
const SCALE_IO: &[Rule] = &[
    FilledText("storageMode", "ThinProvisioned"),
    FilledText("fsType", "xfs"),
];

/// Applies the rules of a Pod that do not apply to a pod template.
fn pod(pod: &mut Object) {
    let Some(spec) = object_in(pod, "spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        objects_in(spec, list).for_each(requests_from_limits);
    }
    pod_level_requests(spec);
    set_if_nil(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        host_ports(spec);
    }
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    if let Some(status) = existing_object_in(pod, "status") {
        pod_ips(status);
    }
}

/// Sets missing requests to the limits.
fn requests_from_limits(container: &mut Object) {
    if let Some(resources) = existing_object_in(container, "resources") {
        copy_missing(resources, "limits", "requests", |_| true);
    }
}

/// Copies the missing entries of a quantity map from another one.
pub(super) fn copy_missing(object: &mut Object, from: &str, to: &str, accept: impl Fn(&str) -> bool) {
    let Some(Value::Object(source)) = object.get(from).cloned() else {
        return;
    };
    if source.is_empty() {
        return;
    }
    let Some(target) = object_in(object, to) else {
        return;
    };
    for (name, quantity) in source {
        if accept(&name) {
            target.entry(name).or_insert(quantity);
        }
    }
}

/// Sets pod-level requests to the sum of the containers' requests, or else to the limit.
fn pod_level_requests(spec: &mut Object) {
    let limits = spec.get("resources").and_then(|r| r.get("limits"));
    if limits.is_none_or(is_zero) {
        return;
    }
    let of = |container: &Value| pod_resources::amounts(at(container, &["resources", "requests"]));
    let containers = |field: &str| {
        spec.get(field)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let mut total = pod_resources::of_containers(containers("containers"), containers("initContainers"), of);
    let requested = ["cpu", "memory"].map(|name| (name, total.remove(name)));
    let Some(resources) = existing_object_in(spec, "resources") else {
        return;
    };
    if let Some(requests) = object_in(resources, "requests") {
        for (name, quantity) in requested {
            if let Some(quantity) = quantity {
                set_if_nil(requests, name, quantity.to_string());
            }
        }
    }
    copy_missing(resources, "limits", "requests", pod_resources::is_pod_level);
}

/// Sets the host ports to the container ports on the host's network.
fn host_ports(spec: &mut Object) {
    for list in ["containers", "initContainers"] {
        for container in objects_in(spec, list) {
            for port in objects_in(container, "ports") {
                if let Some(number) = port.get("containerPort").cloned() {
                    set_if_zero(port, "hostPort", number);
                }
            }
        }
    }
}

/// Synchronizes `podIP` with the first of `podIPs`.
fn pod_ips(status: &mut Object) {
    let single = status.get("podIP").filter(|ip| !is_zero(ip)).cloned();
    let first = status.get("podIPs").and_then(|ips| ips.get(0)?.get("ip"));
    match (single, first.cloned()) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            status.insert("podIPs".to_owned(), json!([{ "ip": single }]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

/// Synchronizes `serviceAccount`, the deprecated name, with `serviceAccountName`.
fn service_account(spec: &mut Object) {
    for (from, to) in [
        ("serviceAccountName", "serviceAccount"),
        ("serviceAccount", "serviceAccountName"),
    ] {
        let name = spec.get(from).filter(|name| !is_zero(name)).cloned();
        if let Some(name) = name {
            spec.insert(to.to_owned(), name);
        }
    }
}

fn container_pull_policy(container: &mut Object) {
    pull_policy(container, "image", "imagePullPolicy");
}

fn image_volume(source: &mut Object) {
    pull_policy(source, "reference", "pullPolicy");
}

fn pull_policy(object: &mut Object, image: &str, policy: &str) {
    let image = object.get(image).and_then(Value::as_str).unwrap_or("");
    let value = if image::is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set_if_zero(object, policy, value);
}

/// Sets the source of a volume to `emptyDir` if it has none.
fn volume_source(volume: &mut Object) {
    let has_source = volume
        .iter()
        .any(|(name, value)| name != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}
