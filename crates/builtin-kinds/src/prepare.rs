//! Prepares objects before they are written: resets fields that clients cannot set, keeps immutable fields, and
//! increments generations. Also lists the fields that clients therefore never own.
//!
//! The functions are pure. The registry sets the system metadata (uid, creation time) first, and decides when to call
//! them.

mod certificate;
mod disabled;
mod job;
mod pod;
mod service;
mod time;

use certificate::stamp_conditions;
pub use pod::qos_class;
pub use time::stamp_times;

use serde_json::{Value, json};
use structured_merge::builtin::{FieldKind, types};

use crate::app_armor;
use crate::decode::decode_type;
use crate::horizontal_pod_autoscaler;
use crate::strategy::strategy;
use crate::tree::{Object, at, copy_entry, existing_object_in, object_in, objects_in, set_if_nil, text};
use apimachinery::gvk::Gvk;

/// Prepares an object for a create: resets the status, and sets for example the initial generation, `spec.finalizers`
/// of a Namespace, and the selector of a Job. Requires `metadata.uid` and `metadata.creationTimestamp`. Returns
/// warnings.
pub fn prepare_for_create(gvk: &Gvk, object: &mut Value) -> Vec<String> {
    let behavior = strategy(gvk);
    let given_class = text(object, &["status", "qosClass"]).to_owned();
    if behavior.has_status && gvk.kind != "Node" {
        reset_status(gvk, object);
    }
    let mut warnings = Vec::new();
    let Some(root) = object.as_object_mut() else {
        return warnings;
    };
    disabled::drop_disabled(gvk, root);
    if behavior.has_generation {
        set_generation(root, 1);
    }
    match (gvk.group, gvk.kind) {
        ("", "Pod") => {
            pod::prepare_for_create(root, &given_class);
            warnings = app_armor::sync(root);
        }
        ("", "Namespace") => namespace(root),
        ("", "PersistentVolume") => persistent_volume(root),
        ("", "PersistentVolumeClaim") => claim(root),
        ("", "Service") => service::prepare_for_create(root),
        ("", "ServiceAccount") => secret_references(root),
        ("apps", "DaemonSet") => set_template_generation(root, 1),
        ("batch", "Job") => job::generate_selector(root),
        ("coordination.k8s.io", "Lease") => lease(root),
        _ => {}
    }
    if gvk.kind == "EndpointSlice" {
        drop_topology(object);
    }
    forget_empty_lists(gvk, object);
    warnings
}

/// Prepares an object for an update of the resource (`subresource` is empty) or of a subresource: copies the fields
/// that the request must not change from `old`.
pub fn prepare_for_update(gvk: &Gvk, subresource: &str, object: &mut Value, old: &Value) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    disabled::drop_disabled(gvk, root);
    match subresource {
        "" => prepare_main(gvk, root, old),
        "status" => prepare_status(gvk, root, old),
        "finalize" => copy_entry(root, old, "status"),
        "approval" => {
            copy_entry(root, old, "spec");
            keep_certificate(root, old);
        }
        "ephemeralcontainers" => pod::keep_all_but_ephemeral_containers(root, old),
        "resize" => pod::keep_all_but_resources(root, old),
        _ => {}
    }
    if gvk.kind == "EndpointSlice" && at(object, &["endpoints"]) != at(old, &["endpoints"]) {
        drop_topology(object);
    }
    forget_empty_lists(gvk, object);
}

/// Lists that are always written and may be empty. The store does not distinguish an empty list from a missing one.
const EMPTY_LISTS: &[(&str, &[&str])] = &[
    ("CSINode", &["spec", "drivers"]),
    ("CSINode", &["spec", "drivers", "*", "topologyKeys"]),
    ("ClusterRole", &["rules"]),
    (
        "CronJob",
        &["spec", "jobTemplate", "spec", "podFailurePolicy", "rules"],
    ),
    ("EndpointSlice", &["endpoints"]),
    ("EndpointSlice", &["ports"]),
    ("HorizontalPodAutoscaler", &["status", "currentMetrics"]),
    ("Job", &["spec", "podFailurePolicy", "rules"]),
    ("LimitRange", &["spec", "limits"]),
    ("Node", &["status", "images", "*", "names"]),
    ("ResourceClaim", &["spec", "devices", "requests"]),
    ("ResourceClaimTemplate", &["spec", "spec", "devices", "requests"]),
    ("Role", &["rules"]),
];

/// Removes the topology of endpoints, which older versions had.
fn drop_topology(object: &mut Value) {
    let endpoints = object.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

fn forget_empty_lists(gvk: &Gvk, object: &mut Value) {
    for (kind, path) in EMPTY_LISTS {
        if *kind == gvk.kind {
            forget_empty_list(object, path);
        }
    }
}

/// Replaces the empty lists at a path; `*` in the path matches the items of a list.
fn forget_empty_list(value: &mut Value, path: &[&str]) {
    match path {
        ["*", rest @ ..] => {
            for item in value.as_array_mut().into_iter().flatten() {
                forget_empty_list(item, rest);
            }
        }
        [step, rest @ ..] => {
            if let Some(value) = value.get_mut(*step) {
                forget_empty_list(value, rest);
            }
        }
        [] if value.as_array().is_some_and(Vec::is_empty) => *value = Value::Null,
        [] => {}
    }
}

/// Returns true if the difference between two versions of an object increments `metadata.generation`.
pub fn generation_changed(gvk: &Gvk, old: &Value, new: &Value) -> bool {
    let differs = |path: &[&str]| at(old, path) != at(new, path);
    match gvk.kind {
        // The generation of a driver is not set when it is created.
        "CSIDriver" => differs(&["spec"]),
        _ if !strategy(gvk).has_generation => false,
        "Deployment" => differs(&["spec"]) || differs(&["metadata", "annotations"]),
        "PodTemplate" => differs(&["template"]),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => differs(&["webhooks"]),
        "EndpointSlice" => {
            differs(&["metadata", "labels"])
                || ["addressType", "endpoints", "ports"]
                    .iter()
                    .any(|field| differs(&[field]))
        }
        "PriorityClass" => false,
        _ => differs(&["spec"]),
    }
}

/// Returns the fields that a client of the resource or subresource never owns, as FieldsV1 JSON.
pub fn reset_fields(gvk: &Gvk, subresource: &str) -> Value {
    match (subresource, gvk.kind) {
        ("", "CertificateSigningRequest") => json!({ "f:spec": {}, "f:status": {} }),
        ("" | "finalize", _) if strategy(gvk).has_status => json!({ "f:status": {} }),
        ("approval", _) => json!({ "f:spec": {}, "f:status": { "f:certificate": {} } }),
        ("status", "Pod") => json!({
            "f:metadata": { "f:deletionTimestamp": {}, "f:ownerReferences": {} },
            "f:spec": {},
        }),
        ("status", "Deployment") => json!({ "f:metadata": { "f:labels": {} }, "f:spec": {} }),
        ("status", kind) if STATUS_KEEPS_METADATA.contains(&kind) => {
            json!({ "f:metadata": {}, "f:spec": {} })
        }
        ("status", _) => json!({ "f:spec": {} }),
        _ => json!({}),
    }
}

/// The kinds whose metadata does not change with the status.
const STATUS_KEEPS_METADATA: &[&str] = &[
    "APIService",
    "CustomResourceDefinition",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

fn prepare_main(gvk: &Gvk, root: &mut Object, old: &Value) {
    if strategy(gvk).has_status {
        copy_entry(root, old, "status");
    }
    if is_older_autoscaler(gvk) {
        horizontal_pod_autoscaler::keep_annotations(root, old, true);
    }
    match (gvk.group, gvk.kind) {
        ("", "Namespace") => {
            if let Some(spec) = object_in(root, "spec") {
                copy_entry(spec, at(old, &["spec"]), "finalizers");
            }
        }
        ("", "Service") => service::prepare_for_update(root, old),
        ("", "ServiceAccount") => secret_references(root),
        ("", "PersistentVolumeClaim") => {
            normalize_data_sources(root, old);
        }
        ("apps", "DaemonSet") => bump_template_generation(root, old),
        ("certificates.k8s.io", _) => copy_entry(root, old, "spec"),
        ("coordination.k8s.io", "Lease") => lease(root),
        _ => {}
    }
}

/// Returns true for the version of autoscalers that has parts of the object in annotations.
fn is_older_autoscaler(gvk: &Gvk) -> bool {
    (gvk.group, gvk.version, gvk.kind) == ("autoscaling", "v1", "HorizontalPodAutoscaler")
}

fn prepare_status(gvk: &Gvk, root: &mut Object, old: &Value) {
    copy_entry(root, old, "spec");
    if is_older_autoscaler(gvk) {
        horizontal_pod_autoscaler::keep_annotations(root, old, false);
    }
    match gvk.kind {
        "Pod" => pod::prepare_status(root, old),
        "DaemonSet" => {
            let generation = text(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
            if let Ok(generation) = generation.parse() {
                set_template_generation(root, generation);
            }
        }
        "Deployment" => {
            if let Some(metadata) = object_in(root, "metadata") {
                copy_entry(metadata, at(old, &["metadata"]), "labels");
            }
        }
        kind if STATUS_KEEPS_METADATA.contains(&kind) => keep_metadata(root, old),
        _ => {}
    }
}

/// Keeps all metadata except managedFields.
fn keep_metadata(root: &mut Object, old: &Value) {
    let managed = existing_object_in(root, "metadata").and_then(|m| m.remove("managedFields"));
    copy_entry(root, old, "metadata");
    let Some(metadata) = existing_object_in(root, "metadata") else {
        return;
    };
    match managed {
        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
        None => metadata.remove("managedFields"),
    };
}

/// Keeps the certificate when a request is approved.
fn keep_certificate(root: &mut Object, old: &Value) {
    if let Some(status) = object_in(root, "status") {
        copy_entry(status, at(old, &["status"]), "certificate");
    }
}

/// Sets the status of an object to the encoding of an empty Go struct.
fn reset_status(gvk: &Gvk, object: &mut Value) {
    let kind = types().for_kind(gvk.group, gvk.version, gvk.kind);
    let field = kind.and_then(|kind| kind.field("status"));
    let Some(root) = object.as_object_mut() else {
        return;
    };
    root.remove("status");
    if let Some(FieldKind::Ref(id)) = field.map(|field| &field.kind) {
        let mut status = Value::Null;
        // The zero value of a struct always decodes.
        if decode_type(&id.resolve().name, &mut status).is_ok() {
            root.insert("status".to_owned(), status);
        }
    }
}

fn set_generation(root: &mut Object, generation: i64) {
    if let Some(metadata) = object_in(root, "metadata") {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(root: &mut Object, generation: i64) {
    let annotations = object_in(root, "metadata").and_then(|m| object_in(m, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}

/// Counts the changes of a DaemonSet's template in an annotation.
fn bump_template_generation(root: &mut Object, old: &Value) {
    let generation = text(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    let generation: i64 = generation.parse().unwrap_or(0);
    let template = root.get("spec").map(|spec| at(spec, &["template"]));
    let changed = template.is_some_and(|template| template != at(old, &["spec", "template"]));
    if generation > 0 || changed {
        set_template_generation(root, generation + i64::from(changed));
    }
}

fn namespace(root: &mut Object) {
    if let Some(status) = object_in(root, "status") {
        status.insert("phase".to_owned(), "Active".into());
    }
    let Some(spec) = object_in(root, "spec") else {
        return;
    };
    set_if_nil(spec, "finalizers", Value::Array(Vec::new()));
    let finalizers = spec.get_mut("finalizers").and_then(Value::as_array_mut);
    if let Some(finalizers) = finalizers
        && !finalizers.contains(&"kubernetes".into())
    {
        finalizers.push("kubernetes".into());
    }
}

/// Sets the phase of a new volume to Pending.
fn persistent_volume(root: &mut Object) {
    let created = root.get("metadata").map(|m| at(m, &["creationTimestamp"]));
    let created = created.filter(|time| !time.is_null()).cloned();
    if let Some(status) = object_in(root, "status") {
        status.insert("phase".to_owned(), "Pending".into());
        if let Some(created) = created {
            status.insert("lastPhaseTransitionTime".to_owned(), created);
        }
    }
}

fn claim(root: &mut Object) {
    if let Some(status) = object_in(root, "status") {
        status.insert("phase".to_owned(), "Pending".into());
    }
    normalize_data_sources(root, &Value::Null);
}

/// Synchronizes `dataSource` and `dataSourceRef`, unless the reference is to another namespace.
fn normalize_data_sources(root: &mut Object, old: &Value) {
    let had = |field: &str| !at(old, &["spec", field]).is_null();
    let Some(spec) = existing_object_in(root, "spec") else {
        return;
    };
    // References to other namespaces are a feature that is off by default.
    let is_elsewhere = spec
        .get("dataSourceRef")
        .is_some_and(|source| !text(source, &["namespace"]).is_empty());
    if is_elsewhere && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    // The older field accepts only claims and snapshots; any other reference is dropped.
    let is_alone = !had("dataSource") && !spec.get("dataSourceRef").is_some_and(Value::is_object);
    if is_alone
        && spec
            .get("dataSource")
            .is_some_and(|source| !is_known_source(source))
    {
        spec.remove("dataSource");
    }
    let source = spec.get("dataSource").filter(|s| s.is_object()).cloned();
    let reference = spec.get("dataSourceRef").filter(|s| s.is_object()).cloned();
    match (source, reference) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(mut reference)) if !is_elsewhere => {
            if let Some(fields) = reference.as_object_mut() {
                fields.remove("namespace");
            }
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
}

/// Returns true for references to a claim or to a snapshot of a volume.
fn is_known_source(source: &Value) -> bool {
    let group = text(source, &["apiGroup"]);
    let kind = text(source, &["kind"]);
    (group.is_empty() && kind == "PersistentVolumeClaim")
        || (group == "snapshot.storage.k8s.io" && kind == "VolumeSnapshot")
}

/// Reduces the references of a service account to secrets to their names.
fn secret_references(root: &mut Object) {
    for secret in objects_in(root, "secrets") {
        secret.retain(|name, _| name == "name");
    }
}

/// Removes the fields of leader election that require a feature gate.
fn lease(root: &mut Object) {
    if let Some(spec) = existing_object_in(root, "spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}
