//! [`Oracle`]: the checks of every run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{Recovered, Run};
use crate::session::Objects;
use crate::state::{Difference, Mask, State, differences};
use crate::trace::{Actor, Counts, Event, Kind, Trace, line, shown};

/// A check of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Oracle {
    /// No part of the operator panics.
    Panic,
    /// The operator does not exit by itself.
    Ended,
    /// No request is forbidden (403).
    Forbidden,
    /// Every workload step succeeds.
    Workload,
    /// Writes stop after users and faults have stopped.
    Quiescence,
    /// The operator sends a bounded number of requests.
    Calls,
    /// The state after each step equals that of a run without faults.
    StepState,
    /// The end state equals that of a run without faults.
    EndState,
    /// Only objects that are also deleted without faults are deleted.
    Deletion,
    /// The operator does not create an object more often than without faults.
    Addition,
    /// Objects that are created at once lead to the same state as the steps of the workload.
    FreshDeploy,
    /// Only the instance that holds the lease writes.
    Leadership,
    /// Objects of the operator do not outlive their custom resources.
    Orphan,
    /// A restart of an idle operator changes nothing.
    Idempotence,
    /// The status describes the newest generation, and `Ready` means that the children are ready.
    Status,
    /// Changes of other clients are not overwritten.
    LostUpdate,
    /// A predicate of the user.
    Predicate,
}

/// A violated check of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The check.
    pub oracle: Oracle,
    /// True if data may be lost.
    pub severe: bool,
    /// The object or the predicate.
    pub subject: String,
    /// The explanation.
    pub message: String,
}

/// The results of runs without faults, with which other runs are compared.
pub(crate) struct Reference {
    pub(crate) state: State,
    /// The states after the steps of the workload, by number.
    pub(crate) step_states: BTreeMap<u32, State>,
    /// The hashes of these states.
    pub(crate) recovered: BTreeSet<Recovered>,
    /// The changes until the end of each step, by number, and those of the whole run.
    changes: BTreeMap<Option<u32>, Changes>,
    pub(crate) mask: Mask,
}

/// The numbers of additions and deletions by object.
#[derive(Default)]
struct Changes {
    additions: BTreeMap<String, Counts>,
    deletions: BTreeMap<String, Counts>,
}

// === impl Reference ===

impl Reference {
    /// Returns the results of a run without faults.
    pub(crate) fn new(run: &mut Run, mask: Mask) -> Self {
        let last = run.trace.last_step().unwrap_or_default();
        let ends = (1..=last).map(Some).chain([None]);
        Self {
            changes: ends.map(|end| (end, Changes::until(&run.trace, end))).collect(),
            state: std::mem::take(&mut run.state),
            step_states: std::mem::take(&mut run.step_states),
            recovered: run.recovered.iter().copied().collect(),
            mask,
        }
    }
}

// === impl Changes ===

impl Changes {
    fn until(trace: &Trace, step: Option<u32>) -> Self {
        Self {
            additions: trace.counts(Kind::Added, step),
            deletions: trace.counts(Kind::Deleted, step),
        }
    }
}

fn count_of(counts: &BTreeMap<String, Counts>, key: &str) -> Counts {
    counts.get(key).copied().unwrap_or_default()
}

/// Resources whose objects contain data or other objects.
const SEVERE: [&str; 4] = [
    "persistentvolumeclaims",
    "secrets",
    "statefulsets.apps",
    "namespaces",
];
/// Maximum number of listed differences per object.
const DIFFERENCES_MAX: usize = 6;

impl Violation {
    fn new(oracle: Oracle, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            oracle,
            severe: false,
            subject: subject.into(),
            message: message.into(),
        }
    }

    /// Returns a text that is the same for equal violations of several plans, so that they become one finding.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:?} {}", self.oracle, self.subject)
    }
}

/// Returns the violations of a run. Without a reference, only those that are possible in a run without faults are
/// checked.
pub(crate) fn check(run: &Run, reference: Option<&Reference>) -> Vec<Violation> {
    let mut all = Vec::new();
    for text in run.panics.iter().collect::<BTreeSet<_>>() {
        all.push(Violation::new(Oracle::Panic, "operator", text.as_str()));
    }
    if let Some(step) = &run.failed_step {
        all.push(Violation::new(Oracle::Workload, "workload", step.as_str()));
    }
    all.extend(forbidden(run));
    if run.overran {
        let message = format!("more than {} requests. {}", run.trace.calls(), last_writes(run));
        all.push(Violation::new(Oracle::Calls, "operator", message));
    } else if !run.is_quiet {
        let message = format!("writes continue at rest. {}", last_writes(run));
        all.push(Violation::new(Oracle::Quiescence, "operator", message));
    }
    match reference {
        Some(reference) => {
            // A run that ended early was compared with the state of another run.
            let end = match run.pruned.is_some() {
                true => Vec::new(),
                false => end_state(run, reference),
            };
            let mut step = step_state(run, reference);
            step.retain(|violation| end.iter().all(|other| other.subject != violation.subject));
            all.extend(step);
            all.extend(end);
            // A run that ended early is compared with the same steps.
            let end = run.pruned.and_then(|_| run.trace.last_step());
            if let Some(expected) = reference.changes.get(&end) {
                let found = Changes::until(&run.trace, None);
                all.extend(deletions(&found, expected));
                all.extend(additions(&found, expected));
            }
        }
        None => {
            all.extend(ended(run));
            all.extend(orphans(run));
        }
    }
    for write in &run.writes_at_rest {
        all.push(Violation::new(
            Oracle::Idempotence,
            write.split(' ').skip(3).take(2).collect::<Vec<_>>().join(" "),
            format!("a restart at rest changes the cluster: {write}"),
        ));
    }
    if run.is_quiet && run.pruned.is_none() {
        all.extend(status(run));
    }
    for object in run.lost.iter().collect::<BTreeSet<_>>() {
        let message = "a change of another client was overwritten";
        all.push(Violation::new(Oracle::LostUpdate, object.as_str(), message));
    }
    if let Some((subject, message)) = run.leadership.first() {
        all.push(Violation::new(
            Oracle::Leadership,
            subject.as_str(),
            message.as_str(),
        ));
    }
    for (name, message) in &run.violations {
        all.push(Violation::new(Oracle::Predicate, name.as_str(), message.as_str()));
    }
    all
}

fn forbidden(run: &Run) -> Vec<Violation> {
    let refused = run.trace.iter().filter_map(|event| match event {
        Event::Call {
            signature,
            code: 403,
            is_refused: false,
            ..
        } => Some(signature.as_str()),
        _ => None,
    });
    let refused: BTreeSet<&str> = refused.collect();
    let violation =
        |signature| Violation::new(Oracle::Forbidden, signature, "the request is forbidden (403)");
    refused.into_iter().map(violation).collect()
}

fn ended(run: &Run) -> Option<Violation> {
    let reason = run.trace.iter().find_map(|event| match event {
        Event::Ended { reason } => Some(reason),
        _ => None,
    })?;
    let message = format!("the operator ended by itself: {reason}");
    Some(Violation::new(Oracle::Ended, "operator", message))
}

/// Compares the state after the first step that led to an unexpected one.
fn step_state(run: &Run, reference: &Reference) -> Vec<Violation> {
    let Some((step, state)) = run.step_states.first_key_value() else {
        return Vec::new();
    };
    let Some(expected) = reference.step_states.get(step) else {
        return Vec::new();
    };
    compared(
        Oracle::StepState,
        (&format!("after step {step}"), "not without faults"),
        &differences(expected, state, &reference.mask),
    )
}

fn end_state(run: &Run, reference: &Reference) -> Vec<Violation> {
    let mut found = differences(&reference.state, &run.state, &reference.mask);
    // If the user deletes an object before the operator could create everything for it, less is left, such as claims.
    let users = created_by(run, Actor::User);
    if users.iter().all(|key| !reference.state.contains_key(*key)) {
        let added = run.trace.counts(Kind::Added, None);
        found.retain(|it| !it.field.is_empty() || it.found.is_some() || added.contains_key(&it.object));
    }
    compared(
        Oracle::EndState,
        ("in the end state", "not without faults"),
        &found,
    )
}

/// Returns the keys of the objects that an actor created.
fn created_by(run: &Run, wanted: Actor) -> BTreeSet<&str> {
    let keys = run.trace.iter().filter_map(move |event| match event {
        Event::Commit {
            actor,
            kind: Kind::Added,
            key,
            ..
        } if *actor == wanted => Some(key.as_str()),
        _ => None,
    });
    keys.collect()
}

/// Returns the violations of the end state of a workload, compared with the same objects created at once. The claims of
/// a StatefulSet may outlive their pods.
pub(crate) fn fresh_deploy(fresh: &State, state: &State, mask: &Mask) -> Vec<Violation> {
    let mut found = differences(fresh, state, mask);
    found.retain(|it| {
        let is_left = it.field.is_empty() && it.expected.is_none();
        !(is_left && it.object.starts_with("persistentvolumeclaims "))
    });
    compared(
        Oracle::FreshDeploy,
        (
            "after the steps of the workload",
            "not if everything is created at once",
        ),
        &found,
    )
}

/// Returns one violation for each object that differs.
fn compared(oracle: Oracle, (place, otherwise): (&str, &str), found: &[Difference]) -> Vec<Violation> {
    let mut by_object: BTreeMap<&str, Vec<&Difference>> = BTreeMap::new();
    for difference in found {
        by_object.entry(&difference.object).or_default().push(difference);
    }
    let violation = |(object, differences): (&str, Vec<&Difference>)| {
        let is_missing = differences
            .iter()
            .any(|it| it.field.is_empty() && it.found.is_none());
        let is_extra = differences
            .iter()
            .any(|it| it.field.is_empty() && it.expected.is_none());
        let message = match (is_missing, is_extra) {
            (true, _) => format!("the object is missing {place}"),
            (_, true) => format!("the object exists {place}, but {otherwise}"),
            _ => {
                let listed = differences.iter().take(DIFFERENCES_MAX).map(|it| shown(it));
                format!(
                    "the state differs {place}: {}",
                    listed.collect::<Vec<_>>().join("; ")
                )
            }
        };
        Violation {
            severe: is_missing && is_severe(object),
            ..Violation::new(oracle, object, message)
        }
    };
    by_object.into_iter().map(violation).collect()
}

fn is_severe(key: &str) -> bool {
    let resource = key.split(' ').next().unwrap_or_default();
    SEVERE.contains(&resource)
}

fn deletions(found: &Changes, expected: &Changes) -> Vec<Violation> {
    // A deletion by a user can cause further deletions by the cluster.
    let is_by_users = found.deletions.values().any(|counts| counts.third_party > 0);
    let mut all = Vec::new();
    for (key, counts) in &found.deletions {
        let expected = count_of(&expected.deletions, key).all();
        let count = match is_by_users {
            true => counts.operator,
            false => counts.operator + counts.others,
        };
        let severe = is_severe(key);
        if count <= expected || !(severe || (counts.operator > 0 && expected == 0)) {
            continue;
        }
        let message = format!("deleted {count} times, and {expected} times without faults");
        all.push(Violation {
            severe,
            ..Violation::new(Oracle::Deletion, key, message)
        });
    }
    all
}

/// Returns the objects that the operator created too often. Objects that others deleted may be created again.
fn additions(found: &Changes, expected: &Changes) -> Vec<Violation> {
    let deleted_by_others = |changes: &Changes, key: &str| {
        let counts = count_of(&changes.deletions, key);
        counts.third_party + counts.others
    };
    let mut all = Vec::new();
    for (key, counts) in &found.additions {
        let lost = deleted_by_others(found, key).saturating_sub(deleted_by_others(expected, key));
        let expected = count_of(&expected.additions, key).all();
        if counts.operator > expected + lost {
            let message = format!(
                "created {} times, and {expected} times without faults",
                counts.operator
            );
            all.push(Violation::new(Oracle::Addition, key, message));
        }
    }
    all
}

/// Returns the objects of the operator that remain after all objects of the user are deleted.
fn orphans(run: &Run) -> Vec<Violation> {
    let users = created_by(run, Actor::User);
    if users.is_empty() || users.iter().any(|key| run.state.contains_key(*key)) {
        return Vec::new();
    }
    let left = created_by(run, Actor::Operator)
        .into_iter()
        .filter(|key| run.state.contains_key(*key));
    let message = "the operator created the object, and it outlives the objects of the user";
    left.map(|key| Violation::new(Oracle::Orphan, key, message))
        .collect()
}

/// Returns the objects of the user whose status is wrong at the end.
fn status(run: &Run) -> Vec<Violation> {
    let mut all = Vec::new();
    let applied = run.trace.iter().filter_map(|event| match event {
        Event::Commit {
            actor: Actor::User,
            object,
            ..
        } => object.pointer("/metadata/uid").and_then(Value::as_str),
        _ => None,
    });
    let applied: BTreeSet<&str> = applied.collect();
    for ((resource, ..), object) in &run.objects {
        let uid = object
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        // Built-in kinds have controllers of their own.
        if !applied.contains(uid) || !crate::state::is_custom(resource) {
            continue;
        }
        let key = crate::state::key_of(resource, object, &run.names);
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.into_iter().flatten();
        let observed = object.pointer("/status/observedGeneration").into_iter();
        let mut observed = observed
            .chain(
                conditions
                    .clone()
                    .filter_map(|condition| condition.get("observedGeneration")),
            )
            .filter_map(Value::as_i64);
        if observed.any(|observed| Some(observed) != generation) {
            let message = "at rest, status.observedGeneration is not metadata.generation";
            all.push(Violation::new(Oracle::Status, key.clone(), message));
        }
        let is_true = |condition: &Value| {
            let has = |field: &str, wanted: &str| condition.get(field).is_some_and(|value| value == wanted);
            (has("type", "Ready") || has("type", "Available")) && has("status", "True")
        };
        if conditions.clone().any(is_true)
            && let Some(child) = unready_child(&run.objects, uid)
        {
            let message = format!("the object is ready, but {child} is not");
            all.push(Violation::new(Oracle::Status, key, message));
        }
    }
    all
}

/// Returns a workload object that is owned by an object and not ready.
fn unready_child(objects: &Objects, owner: &str) -> Option<String> {
    let is_unready = |object: &Value| {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        let wanted = number("/spec/replicas").unwrap_or(1);
        number("/status/readyReplicas").unwrap_or(0) < wanted
    };
    let is_owned = |object: &Value| {
        let owners = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        owners
            .into_iter()
            .flatten()
            .any(|it| it.get("uid").is_some_and(|uid| uid == owner))
    };
    let found = objects.iter().find(|((resource, ..), object)| {
        matches!(resource.as_str(), "deployments.apps" | "statefulsets.apps")
            && is_owned(object)
            && is_unready(object)
    });
    found.map(|((resource, namespace, name), _)| format!("{resource} {namespace}/{name}"))
}

/// Returns the last changes of the operator, which show the fields that it changes back and forth.
fn last_writes(run: &Run) -> String {
    let own = run.trace.events.iter().rev();
    let own = own.filter(|(_, event)| {
        matches!(
            event,
            Event::Commit {
                actor: Actor::Operator,
                ..
            }
        )
    });
    let mut last: Vec<String> = own.take(3).filter_map(|(_, event)| line(event)).collect();
    last.reverse();
    let last: Vec<&str> = last.iter().map(|line| line.trim()).collect();
    match last.is_empty() {
        true => "the operator changed nothing".to_owned(),
        false => format!("The last changes: {}", last.join("; ")),
    }
}
