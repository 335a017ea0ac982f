//! PersistentVolumes: binds claims to volumes, provisions volumes, and protects both while they are in use.
//!
//! A key with a namespace is a claim; a key without a namespace is a volume. Every StorageClass provisions volumes,
//! because nothing is stored. A class with WaitForFirstConsumer waits until a pod with the claim is scheduled.

mod binding;

use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::Value;

use crate::controller::key_of;
use crate::engine::Controller;
use crate::hold::{Holds, RETRY};
use crate::kind::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS};
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, delete, remove_finalizer};
use crate::pod;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The key that creates the default StorageClass.
const CLASS_KEY: &str = "";

/// Returns the controller. If `has_class` is true, it creates the default StorageClass `standard` when it starts.
pub(crate) fn controller(has_class: bool, holds: Holds) -> Controller {
    let initial = if has_class {
        vec![Key::new("", CLASS_KEY)]
    } else {
        Vec::new()
    };
    Controller {
        name: "persistentvolume-controller",
        keys,
        plan: Box::new(
            move |world, key| match holds.holds_claims() && is_unbound(world, key) {
                true => Plan {
                    after: Some(RETRY),
                    ..Plan::default()
                },
                false => plan(world, key),
            },
        ),
        initial,
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    key_of(&PERSISTENT_VOLUME, event, keys);
    key_of(&PERSISTENT_VOLUME_CLAIM, event, keys);
    if PERSISTENT_VOLUME.is(&event.gvr) {
        let claim = Key::new(
            object.text("/spec/claimRef/namespace"),
            object.text("/spec/claimRef/name"),
        );
        keys.extend(Some(claim).filter(|claim| !claim.name.is_empty()));
    }
    if PERSISTENT_VOLUME_CLAIM.is(&event.gvr) && !object.text("/spec/volumeName").is_empty() {
        keys.push(Key::new("", object.text("/spec/volumeName")));
    }
    if POD.is(&event.gvr) {
        keys.extend(claims_of(object).map(|name| Key::new(object.namespace(), name)));
    }
    let is_supply = STORAGE_CLASS.is(&event.gvr) || PERSISTENT_VOLUME.is(&event.gvr);
    if is_supply {
        let claims = objects.list(&PERSISTENT_VOLUME_CLAIM, "");
        let waiting = claims.filter(|claim| claim.text("/spec/volumeName").is_empty());
        keys.extend(waiting.map(|claim| Key::of(claim)));
    }
}

/// Returns the names of the claims that a pod uses.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod.items("/spec/volumes").iter();
    volumes
        .map(|volume| volume.text("/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Returns true for a claim that waits for a volume.
fn is_unbound(world: &World<'_>, key: &Key) -> bool {
    let claim = world
        .objects
        .get(&PERSISTENT_VOLUME_CLAIM, &key.namespace, &key.name);
    !key.namespace.is_empty()
        && claim.is_some_and(|claim| !claim.is_terminating() && claim.text("/spec/volumeName").is_empty())
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    if key.name == CLASS_KEY {
        return Plan::actions(class(world).into_iter().collect());
    }
    if key.namespace.is_empty() {
        return match world.objects.get(&PERSISTENT_VOLUME, "", &key.name) {
            Some(volume) => plan_volume(world, volume),
            None => Plan::done(),
        };
    }
    match world
        .objects
        .get(&PERSISTENT_VOLUME_CLAIM, &key.namespace, &key.name)
    {
        Some(claim) => plan_claim(world, claim),
        None => Plan::done(),
    }
}

/// Creates the default StorageClass, unless it exists.
fn class(world: &World<'_>) -> Option<Action> {
    const NAME: &str = "standard";
    if world.objects.get(&STORAGE_CLASS, "", NAME).is_some() {
        return None;
    }
    let class = serde_json::json!({
        "metadata": {"name": NAME, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "simulated",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    });
    Some(create(&STORAGE_CLASS, class, None))
}

/// Returns the unfinished pods that use a claim.
fn users<'a>(world: &World<'a>, claim: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    let pods = world.objects.list(&POD, claim.namespace());
    pods.filter(|pod| !pod::is_finished(pod) && claims_of(pod).any(|name| name == claim.name()))
}

fn plan_claim(world: &World<'_>, claim: &Value) -> Plan {
    if claim.is_terminating() {
        let is_used = users(world, claim).next().is_some();
        let release = claim.has_finalizer(CLAIM_PROTECTION) && !is_used;
        let release =
            release.then(|| remove_finalizer(&PERSISTENT_VOLUME_CLAIM.gvr, claim, CLAIM_PROTECTION));
        return Plan::actions(release.into_iter().collect());
    }
    let volume = world
        .objects
        .get(&PERSISTENT_VOLUME, "", claim.text("/spec/volumeName"));
    match volume {
        Some(volume) => binding::bound(claim, volume),
        None if !claim.text("/spec/volumeName").is_empty() => Plan::done(),
        None => Plan::actions(binding::bind(world, claim)),
    }
}

fn plan_volume(world: &World<'_>, volume: &Value) -> Plan {
    let claim = binding::claim_of(world, volume);
    let is_bound = claim.is_some_and(|claim| claim.text("/spec/volumeName") == volume.name());
    if volume.is_terminating() {
        let release = volume.has_finalizer(VOLUME_PROTECTION) && !is_bound;
        let release = release.then(|| remove_finalizer(&PERSISTENT_VOLUME.gvr, volume, VOLUME_PROTECTION));
        return Plan::actions(release.into_iter().collect());
    }
    let has_claim = !volume.text("/spec/claimRef/uid").is_empty();
    if has_claim && claim.is_none() && volume.text("/spec/persistentVolumeReclaimPolicy") == "Delete" {
        return Plan::act(delete(&PERSISTENT_VOLUME, volume, None));
    }
    let phase = match (is_bound, has_claim, claim.is_some()) {
        (true, ..) => "Bound",
        (false, true, false) => "Released",
        _ => "Available",
    };
    Plan {
        status: binding::phase(volume, phase),
        ..Plan::default()
    }
}

#[cfg(test)]
mod tests;
