//! The status of a Deployment: counts, availability, and the progress of the rollout.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::controller::deployment::{Rollout, replicas, rollout};
use crate::kind::DEPLOYMENT;
use crate::object::{Object, counters, time, unset, with_status};
use crate::plan::{Action, Plan, World, until, update_status, update_subresource};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const FAILURE: &str = "ReplicaFailure";

const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const COMPLETE: &str = "NewReplicaSetAvailable";

/// The value that disables the deadline.
const NO_DEADLINE: i64 = i32::MAX as i64;

struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Returns the plan of a reconciliation without actions: the current status, and the time of its next change.
pub(super) fn report_status(world: &World<'_>, rollout: &Rollout<'_>) -> Plan {
    let deployment = rollout.deployment;
    let mut status = counted(world, rollout);
    let scaling =
        deployment.flag("/spec/paused") || deployment.is_terminating() || rollout::is_scaled(rollout);
    if !scaling {
        progress(world, rollout, &mut status);
    }
    let failure = rollout.sets().find_map(|set| set.condition(FAILURE));
    match failure {
        Some(failure) => {
            let message = failure.text("/message").to_owned();
            let reason = if failure.text("/reason") == "FailedDelete" {
                "FailedDelete"
            } else {
                "FailedCreate"
            };
            put(
                &mut status,
                world.now,
                Condition {
                    kind: FAILURE,
                    status: "True",
                    reason,
                    message,
                },
            );
        }
        None => drop_condition(&mut status, FAILURE),
    }
    let after = deadline(deployment, &status).filter(|at| *at >= world.now);
    let after = after.map(|at| until(world.now, at) + std::time::Duration::from_secs(1));
    Plan {
        actions: Vec::new(),
        status: update_status(&DEPLOYMENT, deployment, Value::Object(status)),
        after: after.filter(|_| !scaling),
    }
}

/// Returns the status with the current counts, the previous conditions, and the condition Available.
fn counted(world: &World<'_>, rollout: &Rollout<'_>) -> Map<String, Value> {
    let deployment = rollout.deployment;
    let sum = |field: &str| -> i64 { rollout.sets().filter_map(|set| set.int(field)).sum() };
    let available = sum("/status/availableReplicas");
    let asked: i64 = rollout.sets().map(|set| replicas(set)).sum();
    let updated = rollout.new.as_ref().and_then(|new| new.int("/status/replicas"));
    let mut status = counters(&[
        ("observedGeneration", deployment.generation()),
        ("replicas", sum("/status/replicas")),
        ("updatedReplicas", updated.unwrap_or(0)),
        ("readyReplicas", sum("/status/readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (asked - available).max(0)),
    ]);
    status.insert(
        "terminatingReplicas".to_owned(),
        json!(sum("/status/terminatingReplicas")),
    );
    if let Some(collisions) = deployment.pointer("/status/collisionCount") {
        status.insert("collisionCount".to_owned(), collisions.clone());
    }
    let conditions = deployment.items("/status/conditions").to_vec();
    status.insert("conditions".to_owned(), Value::Array(conditions));
    let (_, unavailable) = rollout::bounds(deployment, rollout.wanted());
    let condition = if available >= rollout.wanted() - unavailable {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let (value, reason, message) = condition;
    put(
        &mut status,
        world.now,
        Condition {
            kind: AVAILABLE,
            status: value,
            reason,
            message: message.to_owned(),
        },
    );
    status
}

/// Returns true if all replicas have the current template and are available, and there are no old replicas.
pub(super) fn is_complete(rollout: &Rollout<'_>, status: Option<&Value>) -> bool {
    let Some(status) = status else { return false };
    let wanted = rollout.wanted();
    let all = |field: &str| status.int(field).unwrap_or(0) == wanted;
    all("/updatedReplicas")
        && all("/replicas")
        && all("/availableReplicas")
        && status.int("/observedGeneration").unwrap_or(0) >= rollout.deployment.generation()
}

/// Sets the condition Progressing.
fn progress(world: &World<'_>, rollout: &Rollout<'_>, status: &mut Map<String, Value>) {
    let deployment = rollout.deployment;
    if !has_deadline(deployment) {
        return drop_condition(status, PROGRESSING);
    }
    let before = deployment.condition(PROGRESSING);
    let count = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    let was_complete = before.is_some_and(|before| before.text("/reason") == COMPLETE);
    if was_complete && count("replicas") == count("updatedReplicas") {
        return;
    }
    let snapshot = Value::Object(status.clone());
    let subject = match &rollout.new {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", deployment.name()),
    };
    if before.is_none() && rollout.new.is_some() {
        let message = format!("Found new {}", subject.replacen("ReplicaSet", "replica set", 1));
        put(
            status,
            world.now,
            progressing("True", "FoundNewReplicaSet", message),
        );
    }
    if is_complete(rollout, Some(&snapshot)) {
        put(
            status,
            world.now,
            progressing(
                "True",
                COMPLETE,
                format!("{subject} has successfully progressed."),
            ),
        );
    } else if has_progressed(deployment, &snapshot) {
        let mut condition = build(
            world.now,
            progressing("True", "ReplicaSetUpdated", format!("{subject} is progressing.")),
        );
        if let Some(before) = before.filter(|before| before.text("/status") == "True") {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
        }
        drop_condition(status, PROGRESSING);
        push(status, condition);
    } else if has_timed_out(deployment, &Value::Object(status.clone()), world.now) {
        put(
            status,
            world.now,
            progressing(
                "False",
                TIMED_OUT,
                format!("{subject} has timed out progressing."),
            ),
        );
    }
}

fn progressing(status: &'static str, reason: &'static str, message: String) -> Condition {
    Condition {
        kind: PROGRESSING,
        status,
        reason,
        message,
    }
}

fn has_deadline(deployment: &Value) -> bool {
    deployment
        .int("/spec/progressDeadlineSeconds")
        .is_some_and(|seconds| seconds != NO_DEADLINE)
}

/// Returns true if the counts of a status are closer to completion than the previous counts.
fn has_progressed(deployment: &Value, status: &Value) -> bool {
    let (new, old) = (
        |field: &str| status.int(&format!("/{field}")).unwrap_or(0),
        |field: &str| deployment.int(&format!("/status/{field}")).unwrap_or(0),
    );
    new("updatedReplicas") > old("updatedReplicas")
        || new("replicas") - new("updatedReplicas") < old("replicas") - old("updatedReplicas")
        || new("readyReplicas") > old("readyReplicas")
        || new("availableReplicas") > old("availableReplicas")
}

fn has_timed_out(deployment: &Value, status: &Value, now: Timestamp) -> bool {
    let condition = condition_of(status);
    match condition.map(|condition| condition.text("/reason")) {
        None | Some(COMPLETE) => false,
        Some(TIMED_OUT) => true,
        Some(_) => deadline_from(deployment, condition).is_some_and(|at| at < now),
    }
}

fn condition_of(status: &Value) -> Option<&Value> {
    let mut conditions = status.items("/conditions").iter();
    conditions.find(|condition| condition.text("/type") == PROGRESSING)
}

/// Returns the time at which the rollout exceeds its progress deadline.
fn deadline(deployment: &Value, status: &Map<String, Value>) -> Option<Timestamp> {
    let status = json!({"conditions": status.get("conditions")});
    let condition = condition_of(&status)?;
    if matches!(condition.text("/reason"), COMPLETE | TIMED_OUT) {
        return None;
    }
    deadline_from(deployment, Some(condition))
}

fn deadline_from(deployment: &Value, condition: Option<&Value>) -> Option<Timestamp> {
    if !has_deadline(deployment) {
        return None;
    }
    let seconds = deployment.int("/spec/progressDeadlineSeconds")?;
    let since = condition?.time("/lastUpdateTime")?;
    since.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Records that a Deployment was paused or resumed, so that a pause does not count towards the deadline.
pub(super) fn pause(world: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    let before = deployment
        .condition(PROGRESSING)
        .map_or("", |condition| condition.text("/reason"));
    if !has_deadline(deployment) || before == TIMED_OUT {
        return Vec::new();
    }
    let is_paused = deployment.flag("/spec/paused");
    let told = match (is_paused, before == PAUSED) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return Vec::new(),
    };
    vec![with_condition(
        world,
        deployment,
        progressing("Unknown", told.0, told.1.to_owned()),
    )]
}

/// Records that the new ReplicaSet was created without replicas; progress is measured from then on.
pub(super) fn created(world: &World<'_>, rollout: &Rollout<'_>, set: &Value) -> Option<Action> {
    if !has_deadline(rollout.deployment) {
        return None;
    }
    let message = format!("Created new replica set {:?}", set.name());
    let condition = progressing("True", "NewReplicaSetCreated", message);
    let mut deployment = rollout.deployment.clone();
    unset(&mut deployment, &["status", "updatedReplicas"]);
    Some(with_condition(world, &deployment, condition))
}

fn with_condition(world: &World<'_>, deployment: &Value, condition: Condition) -> Action {
    let mut status = deployment
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    put(&mut status, world.now, condition);
    update_subresource(
        &DEPLOYMENT,
        "status",
        with_status(deployment, Value::Object(status)),
    )
}

fn build(now: Timestamp, condition: Condition) -> Value {
    json!({
        "type": condition.kind,
        "status": condition.status,
        "lastUpdateTime": time(now),
        "lastTransitionTime": time(now),
        "reason": condition.reason,
        "message": Value::String(condition.message),
    })
}

/// Sets a condition. If the status and the reason are equal, nothing changes; a changed condition moves to the end.
fn put(status: &mut Map<String, Value>, now: Timestamp, condition: Condition) {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let before = conditions.and_then(|all| all.iter().find(|before| before.text("/type") == condition.kind));
    let same_status = before.filter(|before| before.text("/status") == condition.status);
    if same_status.is_some_and(|before| before.text("/reason") == condition.reason) {
        return;
    }
    let since = same_status.map(|before| before["lastTransitionTime"].clone());
    let kind = condition.kind;
    let mut condition = build(now, condition);
    if let Some(since) = since {
        condition["lastTransitionTime"] = since;
    }
    drop_condition(status, kind);
    push(status, condition);
}

fn push(status: &mut Map<String, Value>, condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        conditions.push(condition);
    }
}

fn drop_condition(status: &mut Map<String, Value>, kind: &str) {
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.retain(|condition| condition.text("/type") != kind);
    }
}
