//! Times that the server sets when an object is written.

use serde_json::Value;

use crate::resource_v1beta1::change_device;
use crate::tree::{at, object_in, objects_in, text};
use apimachinery::gvk::Gvk;

/// Sets the times that the client omitted; `old` is the live object of an update.
pub fn stamp_times(gvk: &Gvk, object: &mut Value, old: Option<&Value>, now: &str) {
    match (gvk.group, gvk.kind, old) {
        ("", "Pod", None) => stamp_conditions(object, now),
        ("resource.k8s.io", "ResourceSlice", _) => stamp_taints(object, now),
        ("", "PersistentVolume", Some(old)) => stamp_phase(object, old, now),
        ("certificates.k8s.io", "CertificateSigningRequest", Some(old)) => {
            super::stamp_conditions(object, old, now);
        }
        _ => {}
    }
}

/// Sets the times of the conditions of a new pod.
fn stamp_conditions(pod: &mut Value, now: &str) {
    let Some(status) = pod.as_object_mut().and_then(|root| object_in(root, "status")) else {
        return;
    };
    for condition in objects_in(status, "conditions") {
        condition.insert("lastTransitionTime".to_owned(), now.into());
    }
}

fn stamp_taints(slice: &mut Value, now: &str) {
    let Some(spec) = slice.as_object_mut().and_then(|root| object_in(root, "spec")) else {
        return;
    };
    for device in objects_in(spec, "devices") {
        change_device(device, |fields| {
            for taint in objects_in(fields, "taints") {
                if taint.get("timeAdded").is_none_or(Value::is_null) {
                    taint.insert("timeAdded".to_owned(), now.into());
                }
            }
        });
    }
}

fn stamp_phase(volume: &mut Value, old: &Value, now: &str) {
    let time = ["status", "lastPhaseTransitionTime"];
    let phase = ["status", "phase"];
    let is_set = !at(volume, &time).is_null() && at(volume, &time) != at(old, &time);
    let keeps_phase = text(volume, &phase) == text(old, &phase);
    if is_set || keeps_phase && !at(volume, &time).is_null() {
        return;
    }
    let now = if keeps_phase {
        at(old, &time).clone()
    } else {
        now.into()
    };
    if let Some(status) = volume.as_object_mut().and_then(|root| object_in(root, "status")) {
        status.insert("lastPhaseTransitionTime".to_owned(), now);
    }
}
