//! The row of a pod, which summarizes the states of its containers in one word.

use serde_json::Value;

use super::{NONE, Row, or};
use crate::tree::{at, by_name, list, text};

pub(super) fn pod(row: &Row<'_>) -> Vec<Value> {
    let summary = Summary::of(row);
    let ready = format!("{}/{}", summary.ready, summary.containers);
    let gates = row.list(&["spec", "readinessGates"]);
    vec![
        row.name(),
        ready.into(),
        summary.reason.clone().into(),
        summary.restarts(row).into(),
        row.age(),
        or(row.text(&["status", "podIP"]), NONE).into(),
        or(row.text(&["spec", "nodeName"]), NONE).into(),
        or(row.text(&["status", "nominatedNodeName"]), NONE).into(),
        readiness_gates(row, gates).into(),
    ]
}

fn readiness_gates(row: &Row<'_>, gates: &[Value]) -> String {
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let is_true = |gate: &&Value| condition(row, text(gate, &["conditionType"])) == Some("True");
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

/// Returns the status of a condition of the pod.
fn condition<'a>(row: &Row<'a>, kind: &str) -> Option<&'a str> {
    let conditions = row.list(&["status", "conditions"]).iter();
    let mut found = conditions.filter(|condition| text(condition, &["type"]) == kind);
    found.next().map(|condition| text(condition, &["status"]))
}

/// The summary of the statuses of a pod's containers.
#[derive(Default)]
struct Summary {
    containers: usize,
    ready: usize,
    reason: String,
    restarts: i64,
    /// The time when the last container terminated; empty if none did.
    last_restart: String,
    sidecar_restarts: i64,
    last_sidecar_restart: String,
}

impl Summary {
    fn of(row: &Row<'_>) -> Self {
        let phase = row.text(&["status", "phase"]);
        let mut summary = Self {
            containers: row.list(&["spec", "containers"]).len(),
            reason: or(row.text(&["status", "reason"]), phase).to_owned(),
            ..Self::default()
        };
        let gated = |condition: &Value| {
            text(condition, &["type"]) == "PodScheduled" && text(condition, &["reason"]) == "SchedulingGated"
        };
        if row.list(&["status", "conditions"]).iter().any(gated) {
            summary.reason = "SchedulingGated".to_owned();
        }
        let initializing = summary.add_init_containers(row);
        if !initializing || condition(row, "Initialized") == Some("True") {
            summary.add_containers(row);
        }
        let ended = matches!(phase, "Succeeded" | "Failed");
        if row.is_deleted() && row.text(&["status", "reason"]) == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if row.is_deleted() && !ended {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Adds the init containers, up to the first one that has not completed; returns true if there is one.
    fn add_init_containers(&mut self, row: &Row<'_>) -> bool {
        let specs = row.list(&["spec", "initContainers"]);
        let is_sidecar = |spec: &&Value| text(spec, &["restartPolicy"]) == "Always";
        self.containers += specs.iter().filter(is_sidecar).count();
        let statuses = row.list(&["status", "initContainerStatuses"]);
        let known = by_name(specs);
        for (index, status) in statuses.iter().enumerate() {
            let spec = known.get(text(status, &["name"]));
            let sidecar = spec.is_some_and(is_sidecar);
            let restarts = at(status, &["restartCount"]).as_i64().unwrap_or(0);
            let ended = text(status, &["lastState", "terminated", "finishedAt"]);
            self.restarts += restarts;
            keep_latest(&mut self.last_restart, ended);
            if sidecar {
                self.sidecar_restarts += restarts;
                keep_latest(&mut self.last_sidecar_restart, ended);
            }
            let terminated = at(status, &["state", "terminated"]);
            let code = at(terminated, &["exitCode"]).as_i64().unwrap_or(0);
            if terminated.is_object() && code == 0 {
                continue;
            }
            if sidecar && at(status, &["started"]) == &Value::Bool(true) {
                self.ready += usize::from(at(status, &["ready"]) == &Value::Bool(true));
                continue;
            }
            let waiting = text(status, &["state", "waiting", "reason"]);
            self.reason = if terminated.is_object() {
                format!("Init:{}", end_of(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, row: &Row<'_>) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.last_sidecar_restart.clone();
        let mut running = false;
        for status in list(row.object, &["status", "containerStatuses"]).iter().rev() {
            self.restarts += at(status, &["restartCount"]).as_i64().unwrap_or(0);
            let ended = text(status, &["lastState", "terminated", "finishedAt"]);
            keep_latest(&mut self.last_restart, ended);
            let waiting = text(status, &["state", "waiting", "reason"]);
            let terminated = at(status, &["state", "terminated"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if terminated.is_object() {
                self.reason = end_of(terminated);
            } else if at(status, &["ready"]) == &Value::Bool(true)
                && at(status, &["state", "running"]).is_object()
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            let ready = condition(row, "Ready") == Some("True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn restarts(&self, row: &Row<'_>) -> String {
        if self.restarts == 0 || self.last_restart.is_empty() {
            self.restarts.to_string()
        } else {
            format!("{} ({} ago)", self.restarts, row.since(&self.last_restart))
        }
    }
}

/// Keeps the later of two times. Times in canonical form are compared as strings.
fn keep_latest(latest: &mut String, time: &str) {
    if time > latest.as_str() {
        time.clone_into(latest);
    }
}

/// Returns the reason why a container terminated.
fn end_of(terminated: &Value) -> String {
    let reason = text(terminated, &["reason"]);
    let signal = at(terminated, &["signal"]).as_i64().unwrap_or(0);
    let code = at(terminated, &["exitCode"]).as_i64().unwrap_or(0);
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{code}"),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
