//! Deployment: a ReplicaSet for each version of the template, and the rollout between them.
//!
//! [`revision`] finds the new ReplicaSet and computes its annotations, [`rollout`] the replicas of each ReplicaSet, and
//! [`progress`] the status.

mod progress;
mod revision;
mod rollout;

use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::Value;

use crate::claim::claim;
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{DEPLOYMENT, POD, REPLICA_SET};
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::owner::controller_of;
use crate::plan::{Action, Note, Plan, World, delete, update, update_subresource};
use crate::selector::selects;

pub(crate) use rollout::scaled;

pub(crate) const COMPONENT: &str = "deployment-controller";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&DEPLOYMENT, event, keys);
    if REPLICA_SET.is(&event.gvr) {
        keys_of_controller(&DEPLOYMENT, event, keys);
        if controller_of(&event.object).is_none() {
            let owners = objects.list(&DEPLOYMENT, event.object.namespace());
            let labels = event.object.texts("/metadata/labels");
            let selected = owners.filter(|owner| selects(owner.pointer("/spec/selector"), &labels));
            keys.extend(selected.map(|owner| Key::of(owner)));
        }
    }
    if POD.is(&event.gvr) {
        keys_of_recreation(objects, event, keys);
    }
}

/// Adds the keys of Deployments with the strategy Recreate, which wait until the last old pod has terminated.
fn keys_of_recreation(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let pod = &event.object;
    let set = controller_of(pod).filter(|controller| controller.text("/kind") == REPLICA_SET.name);
    let set = set.and_then(|set| objects.get(&REPLICA_SET, pod.namespace(), set.text("/name")));
    let deployment = set.and_then(|set| controller_of(set));
    let deployment =
        deployment.and_then(|owner| objects.get(&DEPLOYMENT, pod.namespace(), owner.text("/name")));
    if let Some(deployment) = deployment.filter(|deployment| is_recreate(deployment)) {
        keys.push(Key::of(deployment));
    }
}

fn is_recreate(deployment: &Value) -> bool {
    deployment.text("/spec/strategy/type") == "Recreate"
}

/// A Deployment with its ReplicaSets, oldest first.
pub(crate) struct Rollout<'a> {
    pub(crate) deployment: &'a Value,
    /// The ReplicaSet of the current template.
    pub(crate) new: Option<Arc<Value>>,
    pub(crate) old: Vec<Arc<Value>>,
}

impl Rollout<'_> {
    /// Returns `spec.replicas`.
    pub(crate) fn wanted(&self) -> i64 {
        self.deployment.int("/spec/replicas").unwrap_or(1)
    }

    /// Returns all ReplicaSets, the old ones first.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.old.iter().chain(&self.new)
    }
}

/// Returns `spec.replicas` of a ReplicaSet.
pub(crate) fn replicas(set: &Value) -> i64 {
    set.int("/spec/replicas").unwrap_or(1)
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(deployment) = world.objects.get(&DEPLOYMENT, &key.namespace, &key.name) else {
        return Plan::done();
    };
    let selector = deployment.pointer("/spec/selector");
    let claim = claim(world.objects, &DEPLOYMENT, deployment, &REPLICA_SET, |set| {
        selects(selector, &set.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Plan::actions(claim.actions);
    }
    let rollout = revision::sort(deployment, claim.owned);
    if !deployment.is_terminating() {
        let actions = steps(world, &rollout);
        if !actions.is_empty() {
            return Plan::actions(actions);
        }
    }
    progress::report_status(world, &rollout)
}

/// Returns the next step of a rollout.
fn steps(world: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let paused = progress::pause(world, rollout);
    if !paused.is_empty() {
        return paused;
    }
    let is_paused = rollout.deployment.flag("/spec/paused");
    let annotated = revision::annotate(world, rollout);
    if !annotated.is_empty() {
        return annotated;
    }
    if is_paused || rollout::is_scaled(rollout) {
        return rollout::scale(rollout);
    }
    let moved = if is_recreate(rollout.deployment) {
        recreate(world, rollout)
    } else {
        rolling(world, rollout)
    };
    if !moved.is_empty() || !progress::is_complete(rollout, rollout.deployment.pointer("/status")) {
        return moved;
    }
    revision::surplus(rollout)
        .iter()
        .map(|set| delete(&REPLICA_SET, set, None))
        .collect()
}

fn rolling(world: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let Some(new) = &rollout.new else {
        return make(world, rollout);
    };
    let target = rollout::new_replicas(rollout);
    if target != replicas(new) {
        return vec![resize(rollout, new, target)];
    }
    let shrunk = rollout::shrink(rollout).into_iter();
    shrunk
        .map(|(set, target)| resize(rollout, &set, target))
        .collect()
}

fn recreate(world: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let running = rollout.old.iter().filter(|set| replicas(set) > 0);
    let stopped: Vec<Action> = running.map(|set| resize(rollout, set, 0)).collect();
    if !stopped.is_empty() {
        return stopped;
    }
    if rollout.old.iter().any(|set| has_pods(world, set)) {
        return Vec::new();
    }
    match &rollout.new {
        None => make(world, rollout),
        Some(new) if replicas(new) != rollout.wanted() => vec![resize(rollout, new, rollout.wanted())],
        Some(_) => Vec::new(),
    }
}

fn has_pods(world: &World<'_>, set: &Value) -> bool {
    let mut pods = world.objects.owned(&POD, set.uid());
    pods.any(|pod| !crate::pod::is_finished(pod))
}

/// Creates the ReplicaSet of the current template, or counts a collision if its name exists.
fn make(world: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    let target = rollout::new_replicas(rollout);
    let set = revision::new_set(rollout, target);
    if world
        .objects
        .get(&REPLICA_SET, set.namespace(), set.name())
        .is_some()
    {
        let collisions = deployment.int("/status/collisionCount").unwrap_or(0) + 1;
        let mut counted = deployment.clone();
        crate::object::set(&mut counted, &["status", "collisionCount"], collisions.into());
        return vec![update_subresource(&DEPLOYMENT, "status", counted)];
    }
    let message = format!("Scaled up replica set {} from 0 to {target}", set.name());
    let note = Note::normal(COMPONENT, &DEPLOYMENT, deployment, "ScalingReplicaSet", message);
    let note = Some(note.or("ReplicaSetCreateError")).filter(|_| target > 0);
    let told = progress::created(world, rollout, &set);
    let mut actions = vec![crate::plan::create(&REPLICA_SET, set, note)];
    actions.extend(told);
    actions
}

/// Scales a ReplicaSet.
fn resize(rollout: &Rollout<'_>, replica_set: &Value, target: i64) -> Action {
    let before = replicas(replica_set);
    let mut resized = replica_set.clone();
    set(&mut resized, &["spec", "replicas"], target.into());
    revision::annotate_replicas(&mut resized, rollout);
    let direction = if target > before { "up" } else { "down" };
    let message = format!(
        "Scaled {direction} replica set {} from {before} to {target}",
        replica_set.name()
    );
    let note = Note::normal(
        COMPONENT,
        &DEPLOYMENT,
        rollout.deployment,
        "ScalingReplicaSet",
        message,
    );
    update(&REPLICA_SET, resized, Some(note).filter(|_| target != before))
}

#[cfg(test)]
mod tests;
