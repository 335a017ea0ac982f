//! Adds fields that the Go program always writes, because their types have no absent value.

use serde_json::{Value, json};

use super::collect::kind;

fn fill(value: &mut Value, name: &str, default: impl FnOnce() -> Value) {
    if let Some(fields) = value.as_object_mut() {
        let field = fields.entry(name).or_insert(Value::Null);
        if field.is_null() {
            *field = default();
        }
    }
}

fn items<'a>(value: &'a mut Value, pointer: &str) -> impl Iterator<Item = &'a mut Value> {
    let items = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    items.into_iter().flatten()
}

/// Completes the specification of a Deployment.
pub(super) fn complete_deployment(spec: &mut Value) {
    fill(spec, "strategy", || json!({}));
    fill(spec, "template", || json!({}));
    let Some(template) = spec.get_mut("template") else {
        return;
    };
    fill(template, "metadata", || json!({}));
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
    }
    for pointer in ["/spec/containers", "/spec/initContainers"] {
        for container in items(template, pointer) {
            fill(container, "resources", || json!({}));
        }
    }
    for volume in items(template, "/spec/volumes") {
        if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
            fill(claim, "metadata", || json!({}));
            fill(claim, "spec", || json!({}));
            claim.get_mut("spec").into_iter().for_each(|spec| {
                fill(spec, "resources", || json!({}));
            });
        }
    }
}

/// Completes a manifest whose kind the Go program decodes into a type.
pub(super) fn complete_manifest(object: &mut Value) {
    match kind(object) {
        "CustomResourceDefinition" => {
            fill(object, "status", || json!({}));
            if let Some(status) = object.get_mut("status") {
                fill(status, "acceptedNames", || json!({"kind": "", "plural": ""}));
                if let Some(fields) = status.as_object_mut() {
                    fields.entry("conditions").or_insert(Value::Null);
                    fields.entry("storedVersions").or_insert(Value::Null);
                }
            }
        }
        "Service" => {
            fill(object, "spec", || json!({}));
            for port in items(object, "/spec/ports") {
                fill(port, "targetPort", || json!(0));
            }
            fill(object, "status", || json!({}));
            if let Some(status) = object.get_mut("status") {
                fill(status, "loadBalancer", || json!({}));
            }
        }
        "Role" | "ClusterRole" => {
            if let Some(fields) = object.as_object_mut() {
                fields.entry("rules").or_insert(Value::Null);
            }
        }
        _ => {}
    }
}
