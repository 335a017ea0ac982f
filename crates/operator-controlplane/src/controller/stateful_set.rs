//! StatefulSet: pods with ordinals and their own claims, created and deleted in order.

mod identity;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::claim::claim;
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::history::{self, HASH, History};
use crate::kind::{POD, STATEFUL_SET};
use crate::object::{Object, counters};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Note, Plan, World, delete, sooner, until, update_status};
use crate::pod;
use crate::selector::selects;

pub(crate) const COMPONENT: &str = "statefulset-controller";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&STATEFUL_SET, event, keys);
    keys_of_controller(&STATEFUL_SET, event, keys);
}

/// A StatefulSet with its pods and revisions.
struct Run<'a> {
    set: &'a Value,
    history: History,
    current: Arc<Value>,
    /// The ordinals of the set. There can be billions, so only existing pods are stored.
    ordinals: Range<i64>,
    /// The existing pods of these ordinals.
    replicas: BTreeMap<i64, Arc<Value>>,
    /// The surplus pods, highest ordinal first.
    condemned: Vec<Arc<Value>>,
}

impl<'a> Run<'a> {
    fn sort(set: &'a Value, history: History, pods: Vec<Arc<Value>>) -> Self {
        let first = set.int("/spec/ordinals/start").unwrap_or(0);
        let count = set.int("/spec/replicas").unwrap_or(1);
        let ordinals = first..first.saturating_add(count);
        let mut replicas = BTreeMap::new();
        let mut condemned = Vec::new();
        for pod in pods {
            let Some(ordinal) = identity::ordinal(set, &pod) else {
                continue;
            };
            if ordinals.contains(&ordinal) {
                replicas.insert(ordinal, pod);
            } else {
                condemned.push((ordinal, pod));
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Self {
            current: history.named(set.text("/status/currentRevision")),
            set,
            history,
            ordinals,
            replicas,
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.replicas.values().chain(&self.condemned)
    }

    fn is_ordered(&self) -> bool {
        self.set.text("/spec/podManagementPolicy") != "Parallel"
    }

    fn is_rolling(&self) -> bool {
        self.set.text("/spec/updateStrategy/type") != "OnDelete"
    }

    /// Returns the first ordinal of the new revision.
    fn partition(&self) -> i64 {
        let first = self.set.int("/spec/ordinals/start").unwrap_or(0);
        first
            + self
                .set
                .int("/spec/updateStrategy/rollingUpdate/partition")
                .unwrap_or(0)
    }

    fn min_ready(&self) -> i64 {
        self.set.int("/spec/minReadySeconds").unwrap_or(0)
    }

    fn is_healthy(&self, pod: &Value, world: &World<'_>) -> bool {
        pod::phase(pod) == "Running"
            && !pod.is_terminating()
            && pod::is_available(pod, self.min_ready(), world.now)
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(set) = world.objects.get(&STATEFUL_SET, &key.namespace, &key.name) else {
        return Plan::done();
    };
    let selector = set.pointer("/spec/selector");
    let claim = claim(world.objects, &STATEFUL_SET, set, &POD, |pod| {
        identity::ordinal(set, pod).is_some() && selects(selector, &pod.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Plan::actions(claim.actions);
    }
    let history = match history::history(world.objects, &STATEFUL_SET, set) {
        Ok(history) => history,
        Err(_) if set.is_terminating() => return Plan::done(),
        Err(actions) => return Plan::actions(actions),
    };
    let run = Run::sort(set, history, claim.owned);
    let status = status(world, &run);
    let mut plan = Plan {
        actions: Vec::new(),
        status: update_status(&STATEFUL_SET, set, status),
        after: next_available(world, &run),
    };
    if !set.is_terminating() {
        plan.actions = steps(world, &run);
    }
    plan
}

/// Returns the next step: create missing pods, delete surplus pods, or replace old pods.
fn steps(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    let burst = pod::burst(&history::template(&run.history.latest));
    for ordinal in run.ordinals.clone() {
        let pod = run.replicas.get(&ordinal);
        let step = fill(world, run, ordinal, pod.map(|pod| &**pod));
        let is_waiting = run.is_ordered() && !pod.is_some_and(|pod| run.is_healthy(pod, world));
        actions.extend(step);
        if is_waiting || actions.len() >= burst {
            return actions;
        }
    }
    if actions.is_empty() {
        actions = stop(world, run);
    }
    if actions.is_empty() && run.condemned.is_empty() && run.is_rolling() {
        actions = replace(world, run);
    }
    if actions.is_empty() {
        let mut live: BTreeSet<String> = run
            .pods()
            .filter_map(|pod| Some(pod.label(HASH)?.to_owned()))
            .collect();
        live.insert(run.current.name().to_owned());
        actions = history::surplus(&run.history, run.set, &live);
    }
    actions
}

/// Creates the pod of an ordinal. A finished pod is deleted first.
fn fill(world: &World<'_>, run: &Run<'_>, ordinal: i64, pod: Option<&Value>) -> Vec<Action> {
    match pod {
        Some(pod) if pod::is_finished(pod) && !pod.is_terminating() => vec![kill(run.set, pod)],
        Some(_) => Vec::new(),
        None => {
            let is_current = run.is_rolling() && ordinal < run.partition();
            let revision = if is_current {
                &run.current
            } else {
                &run.history.latest
            };
            let mut actions = identity::claims(world, run.set, ordinal);
            actions.push(identity::pod(run.set, revision, ordinal));
            actions
        }
    }
}

fn stop(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    if !run.is_ordered() {
        let alive = run.condemned.iter().filter(|pod| !pod.is_terminating());
        return alive.flat_map(|pod| condemn(world, run.set, pod)).collect();
    }
    match run.condemned.first() {
        Some(pod) if !pod.is_terminating() => condemn(world, run.set, pod),
        _ => Vec::new(),
    }
}

fn condemn(world: &World<'_>, set: &Value, pod: &Value) -> Vec<Action> {
    let mut actions = identity::hand_over(world, set, pod);
    actions.push(kill(set, pod));
    actions
}

/// Replaces pods of an old revision one at a time, starting with the highest ordinal.
fn replace(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    let latest = run.history.latest.name();
    for ordinal in run.ordinals.clone().rev() {
        let Some(pod) = run.replicas.get(&ordinal).filter(|_| ordinal >= run.partition()) else {
            return Vec::new();
        };
        if pod.label(HASH) != Some(latest) && !pod.is_terminating() {
            return vec![kill(run.set, pod)];
        }
        if !run.is_healthy(pod, world) {
            return Vec::new();
        }
    }
    Vec::new()
}

fn kill(set: &Value, pod: &Value) -> Action {
    let message = format!(
        "delete Pod {} in StatefulSet {} successful",
        pod.name(),
        set.name()
    );
    let note = Note::normal(COMPONENT, &STATEFUL_SET, set, "SuccessfulDelete", message);
    delete(&POD, pod, Some(note.or("FailedDelete")))
}

fn status(world: &World<'_>, run: &Run<'_>) -> Value {
    let latest = run.history.latest.name();
    let count = |counted: &dyn Fn(&Value) -> bool| {
        let count = run.pods().filter(|pod| counted(pod)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    };
    let is_of = |pod: &Value, revision: &str| !pod.is_terminating() && pod.label(HASH) == Some(revision);
    let replicas = count(&|pod| !pod::is_finished(pod));
    let ready = count(&|pod| pod::phase(pod) == "Running" && pod::is_ready(pod));
    let updated = count(&|pod| is_of(pod, latest));
    let wanted = run.set.int("/spec/replicas").unwrap_or(1);
    let is_complete =
        run.is_rolling() && updated == wanted && ready == wanted && replicas == wanted && wanted > 0;
    let current = if is_complete { latest } else { run.current.name() };
    let mut status = counters(&[
        ("observedGeneration", run.set.generation()),
        ("readyReplicas", ready),
        ("currentReplicas", count(&|pod| is_of(pod, current))),
        ("updatedReplicas", updated),
    ]);
    let available =
        count(&|pod| pod::phase(pod) == "Running" && pod::is_available(pod, run.min_ready(), world.now));
    status.insert("replicas".to_owned(), json!(replicas));
    status.insert("availableReplicas".to_owned(), json!(available));
    status.insert("currentRevision".to_owned(), json!(current));
    status.insert("updateRevision".to_owned(), json!(latest));
    let collisions = run.set.int("/status/collisionCount").unwrap_or(0);
    status.insert("collisionCount".to_owned(), json!(collisions));
    if let Some(conditions) = run.set.pointer("/status/conditions") {
        status.insert("conditions".to_owned(), conditions.clone());
    }
    Value::Object(status)
}

fn next_available(world: &World<'_>, run: &Run<'_>) -> Option<Duration> {
    let waiting = run
        .pods()
        .filter_map(|pod| pod::available_at(pod, run.min_ready()));
    let waits = waiting
        .filter(|at| *at > world.now)
        .map(|at| Some(until(world.now, at)));
    waits.fold(None, sooner)
}

#[cfg(test)]
mod tests;
