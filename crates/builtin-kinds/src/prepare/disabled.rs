//! Drops fields of features that are off by default, before an object is written.

use apimachinery::gvk::Gvk;
use serde_json::Value;

use crate::resource_v1beta1::change_device;
use crate::tree::{Object, existing_object_in, objects_in};

/// Drops the fields of features that are off.
pub(super) fn drop_disabled(gvk: &Gvk, root: &mut Object) {
    match (gvk.group, gvk.kind) {
        ("", "Pod") => {
            in_spec(root, pod_spec);
            if let Some(status) = existing_object_in(root, "status") {
                status.remove("nodeAllocatableResourceClaimStatuses");
            }
        }
        ("", "PodTemplate") => template(root),
        ("", "ReplicationController") | ("batch", "Job") => in_spec(root, template),
        ("apps", "StatefulSet") => in_spec(root, |spec| {
            template(spec);
            let strategy = existing_object_in(spec, "updateStrategy");
            if let Some(update) = strategy.and_then(|strategy| existing_object_in(strategy, "rollingUpdate"))
            {
                update.remove("maxUnavailable");
            }
        }),
        ("apps", _) => in_spec(root, template),
        ("batch", "CronJob") => in_spec(root, |spec| {
            if let Some(job) = existing_object_in(spec, "jobTemplate") {
                in_spec(job, template);
            }
        }),
        ("", "Node") => {
            in_spec(root, |spec| {
                spec.remove("configSource");
            });
            if let Some(status) = existing_object_in(root, "status") {
                status.remove("config");
            }
        }
        ("resource.k8s.io", "ResourceSlice") => in_spec(root, |spec| {
            for device in objects_in(spec, "devices") {
                change_device(device, |fields| {
                    fields.remove("nodeAllocatableResourceMappings");
                    let attributes = existing_object_in(fields, "attributes").into_iter();
                    for attribute in attributes.flat_map(Object::values_mut) {
                        attribute_lists(attribute);
                    }
                });
            }
        }),
        ("storage.k8s.io", "CSIDriver") => in_spec(root, |spec| {
            spec.remove("preventPodSchedulingIfMissing");
        }),
        _ => {}
    }
}

/// Drops the fields of the attribute of a device that are lists.
fn attribute_lists(attribute: &mut Value) {
    for name in ["bools", "ints", "strings", "versions"] {
        attribute.as_object_mut().and_then(|fields| fields.remove(name));
    }
}

fn in_spec(object: &mut Object, change: impl FnOnce(&mut Object)) {
    if let Some(spec) = existing_object_in(object, "spec") {
        change(spec);
    }
}

fn template(owner: &mut Object) {
    if let Some(template) = existing_object_in(owner, "template") {
        in_spec(template, pod_spec);
    }
}

fn pod_spec(spec: &mut Object) {
    spec.remove("schedulingGroup");
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in objects_in(spec, field) {
            stop_signal(container);
        }
    }
    for volume in objects_in(spec, "volumes") {
        if let Some(projected) = existing_object_in(volume, "projected") {
            for source in objects_in(projected, "sources") {
                source.remove("clusterTrustBundle");
                source.remove("podCertificate");
            }
        }
    }
}

/// Drops the stop signal; a lifecycle without other fields is dropped as a whole.
fn stop_signal(container: &mut Object) {
    let lifecycle = existing_object_in(container, "lifecycle");
    let dropped = lifecycle.is_some_and(|lifecycle| {
        let signal = lifecycle.remove("stopSignal").filter(|signal| !signal.is_null());
        signal.is_some() && lifecycle.values().all(Value::is_null)
    });
    if dropped {
        container.remove("lifecycle");
    }
}
