//! Binds claims to volumes.

use std::sync::Arc;

use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::controller::volume::{DEFAULT_CLASS, users};
use crate::kind::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS};
use crate::object::{Object, set};
use crate::plan::{Action, Plan, World, create, update, update_status};

const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Returns the claim of a volume if it still has the recorded uid.
pub(super) fn claim_of<'a>(world: &World<'a>, volume: &Value) -> Option<&'a Arc<Value>> {
    let reference = volume.pointer("/spec/claimRef")?;
    let (namespace, name) = (reference.text("/namespace"), reference.text("/name"));
    let claim = world.objects.get(&PERSISTENT_VOLUME_CLAIM, namespace, name)?;
    let uid = reference.text("/uid");
    Some(claim).filter(|claim| uid.is_empty() || claim.uid() == uid)
}

/// Returns the next write that binds a claim.
pub(super) fn bind(world: &World<'_>, claim: &Value) -> Vec<Action> {
    if let Some(volume) = matching(world, claim) {
        return tie(claim, volume);
    }
    let Some(class) = class(world, claim) else {
        return Vec::new();
    };
    if claim.pointer("/spec/storageClassName").is_none() {
        let mut classified = claim.clone();
        set(
            &mut classified,
            &["spec", "storageClassName"],
            json!(class.name()),
        );
        return vec![update(&PERSISTENT_VOLUME_CLAIM, classified, None)];
    }
    let is_waiting = class.text("/volumeBindingMode") == "WaitForFirstConsumer";
    let is_placed = users(world, claim).any(|pod| !pod.text("/spec/nodeName").is_empty());
    if is_waiting && !is_placed {
        return Vec::new();
    }
    vec![create(&PERSISTENT_VOLUME, volume(claim, class), None)]
}

/// Returns the class of a claim, or the default class if the field is absent. The value `""` means no class.
fn class<'a>(world: &World<'a>, claim: &Value) -> Option<&'a Arc<Value>> {
    match claim.pointer("/spec/storageClassName") {
        Some(name) => world.objects.get(&STORAGE_CLASS, "", name.as_str()?),
        None => {
            let mut classes = world.objects.list(&STORAGE_CLASS, "");
            classes.find(|class| class.annotation(DEFAULT_CLASS) == Some("true"))
        }
    }
}

/// Returns the smallest volume that a claim can be bound to: one that is reserved for it, or a free one.
fn matching<'a>(world: &World<'a>, claim: &Value) -> Option<&'a Arc<Value>> {
    let volumes = world
        .objects
        .list(&PERSISTENT_VOLUME, "")
        .filter(|volume| !volume.is_terminating());
    let fitting = volumes.filter(|volume| match volume.pointer("/spec/claimRef") {
        Some(_) => claim_of(world, volume).is_some_and(|found| found.uid() == claim.uid()),
        None => fits(claim, volume),
    });
    fitting.min_by_key(|volume| {
        (
            volume.pointer("/spec/claimRef").is_none(),
            size(volume, "/spec/capacity/storage"),
        )
    })
}

fn fits(claim: &Value, volume: &Value) -> bool {
    let modes = volume.items("/spec/accessModes");
    let field = |name: &str, missing: &str| {
        let of = |object: &Value| match object.text(name) {
            "" => missing.to_owned(),
            text => text.to_owned(),
        };
        of(claim) == of(volume)
    };
    claim.pointer("/spec/selector").is_none()
        && field("/spec/storageClassName", "")
        && field("/spec/volumeMode", "Filesystem")
        && claim
            .items("/spec/accessModes")
            .iter()
            .all(|mode| modes.contains(mode))
        && size(volume, "/spec/capacity/storage") >= size(claim, "/spec/resources/requests/storage")
}

fn size(object: &Value, pointer: &str) -> Quantity {
    let quantity = object.pointer(pointer).map(Quantity::from_json);
    quantity.and_then(Result::ok).unwrap_or_default()
}

/// Binds a volume to a claim. The volume is written first, so that no other claim is bound to it.
fn tie(claim: &Value, volume: &Value) -> Vec<Action> {
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(),
        "uid": claim.uid(), "resourceVersion": claim.version(),
    });
    if volume.text("/spec/claimRef/uid") != claim.uid() {
        let mut tied = volume.clone();
        set(&mut tied, &["spec", "claimRef"], reference);
        set(
            &mut tied,
            &["metadata", "annotations", BY_CONTROLLER],
            json!("yes"),
        );
        return vec![update(&PERSISTENT_VOLUME, tied, None)];
    }
    let mut tied = claim.clone();
    set(&mut tied, &["spec", "volumeName"], json!(volume.name()));
    set(&mut tied, &["metadata", "annotations", COMPLETED], json!("yes"));
    set(
        &mut tied,
        &["metadata", "annotations", BY_CONTROLLER],
        json!("yes"),
    );
    vec![update(&PERSISTENT_VOLUME_CLAIM, tied, None)]
}

/// Returns a new volume for a claim.
fn volume(claim: &Value, class: &Value) -> Value {
    let policy = match class.text("/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let name = format!("pvc-{}", claim.uid());
    json!({
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: class.text("/provisioner")},
        },
        "spec": {
            "accessModes": claim.pointer("/spec/accessModes"),
            "capacity": {"storage": claim.pointer("/spec/resources/requests/storage")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
                "name": claim.name(), "uid": claim.uid(), "resourceVersion": claim.version(),
            },
            "hostPath": {"path": format!("/simulated/{name}"), "type": ""},
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class.name(),
            "volumeMode": claim.pointer("/spec/volumeMode").cloned().unwrap_or_else(|| json!("Filesystem")),
        },
    })
}

/// Updates a bound claim: the volume grows if the claim requests more, and the status of the claim reports the size.
pub(super) fn bound(claim: &Value, volume: &Value) -> Plan {
    let wanted = claim.pointer("/spec/resources/requests/storage");
    if size(volume, "/spec/capacity/storage") < size(claim, "/spec/resources/requests/storage") {
        let mut grown = volume.clone();
        set(
            &mut grown,
            &["spec", "capacity", "storage"],
            wanted.cloned().unwrap_or_default(),
        );
        return Plan::act(update(&PERSISTENT_VOLUME, grown, None));
    }
    let mut status = claim.get("status").cloned().unwrap_or_else(|| json!({}));
    set(&mut status, &["phase"], json!("Bound"));
    for field in ["accessModes", "capacity"] {
        if let Some(value) = volume.pointer(&format!("/spec/{field}")) {
            set(&mut status, &[field], value.clone());
        }
    }
    Plan {
        status: update_status(&PERSISTENT_VOLUME_CLAIM, claim, status),
        ..Plan::default()
    }
}

/// Sets the phase of a volume.
pub(super) fn phase(volume: &Value, phase: &str) -> Option<Action> {
    let mut status = volume.get("status").cloned().unwrap_or_else(|| json!({}));
    if status.text("/phase") == phase {
        return None;
    }
    set(&mut status, &["phase"], json!(phase));
    update_status(&PERSISTENT_VOLUME, volume, status)
}
