//! The status of a pod on a simulated node in each phase.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::{Object, time};

/// Returns the status of a pod whose containers are being created.
pub(super) fn creating(pod: &Value, host: &str, now: Timestamp) -> Value {
    let mut status = base(pod, host, now);
    status.insert("phase".to_owned(), "Pending".into());
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    let names: Vec<&str> = containers(pod, "containers")
        .map(|container| container.text("/name"))
        .collect();
    let reason = format!("containers with unready status: [{}]", names.join(" "));
    let not_ready = |kind| (kind, "False", "ContainersNotReady", reason.as_str());
    let conditions = [
        ("PodReadyToStartContainers", "False", "", ""),
        ("Initialized", "True", "", ""),
        not_ready("Ready"),
        not_ready("ContainersReady"),
        ("PodScheduled", "True", "", ""),
    ];
    finish(pod, status, &conditions, now, |container| {
        container_status(container, &waiting, false)
    })
}

/// Returns the status of a pod whose containers all run.
pub(super) fn running(pod: &Value, host: &str, address: &str, now: Timestamp) -> Value {
    let mut status = base(pod, host, now);
    let is_on_host = pod.flag("/spec/hostNetwork");
    let address = if is_on_host { host } else { address };
    status.insert("phase".to_owned(), "Running".into());
    status.insert("podIP".to_owned(), address.into());
    status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    let running = json!({"running": {"startedAt": time(now)}});
    let conditions = [
        ("PodReadyToStartContainers", "True", "", ""),
        ("Initialized", "True", "", ""),
        readiness(pod),
        ("ContainersReady", "True", "", ""),
        ("PodScheduled", "True", "", ""),
    ];
    let mut status = finish(pod, status, &conditions, now, |container| {
        container_status(container, &running, true)
    });
    let initialized = initialized(pod, now);
    if !initialized.is_empty() {
        status["initContainerStatuses"] = Value::Array(initialized);
    }
    status
}

/// A container in the status of its pod.
pub(crate) struct ContainerView {
    pub(crate) status: Value,
    pub(crate) is_ready: bool,
    /// True if the container has started.
    pub(crate) has_run: bool,
    /// The exit code, if the container has terminated and will not be restarted.
    pub(crate) exit_code: Option<i64>,
}

impl ContainerView {
    /// Returns the view of a simulated container in a pod with local processes.
    pub(crate) fn simulated(pod: &Value, container: &Value, now: Timestamp) -> Self {
        let mut statuses = pod.items("/status/containerStatuses").iter();
        let known = statuses.find(|status| status.text("/name") == container.text("/name"));
        let known = known.and_then(|status| status.pointer("/state/running/startedAt").cloned());
        let since = known.unwrap_or_else(|| time(now));
        Self {
            status: container_status(container, &json!({"running": {"startedAt": since}}), true),
            is_ready: true,
            has_run: true,
            exit_code: None,
        }
    }
}

/// Returns the status of a pod with at least one local process.
pub(crate) fn of_containers(
    pod: &Value,
    host: &str,
    address: &str,
    containers: &[ContainerView],
    now: Timestamp,
) -> Value {
    let mut status = base(pod, host, now);
    let codes: Option<Vec<i64>> = containers.iter().map(|container| container.exit_code).collect();
    let phase = match codes {
        Some(codes) if codes.iter().all(|code| *code == 0) => "Succeeded",
        Some(_) => "Failed",
        None if containers.iter().all(|container| container.has_run) => "Running",
        None => "Pending",
    };
    status.insert("phase".to_owned(), phase.into());
    status.insert("podIP".to_owned(), address.into());
    status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    let unready: Vec<&str> = containers
        .iter()
        .filter(|container| !container.is_ready)
        .map(|container| container.status.text("/name"))
        .collect();
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    let (ready, containers_ready) = match phase {
        "Succeeded" => (
            ("Ready", "False", "PodCompleted", ""),
            ("ContainersReady", "False", "PodCompleted", ""),
        ),
        "Failed" => (
            ("Ready", "False", "PodFailed", ""),
            ("ContainersReady", "False", "PodFailed", ""),
        ),
        _ if unready.is_empty() => (readiness(pod), ("ContainersReady", "True", "", "")),
        _ => (
            ("Ready", "False", "ContainersNotReady", message.as_str()),
            ("ContainersReady", "False", "ContainersNotReady", message.as_str()),
        ),
    };
    let conditions = [
        ("PodReadyToStartContainers", "True", "", ""),
        ("Initialized", "True", "", ""),
        ready,
        containers_ready,
        ("PodScheduled", "True", "", ""),
    ];
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| container.status.clone())
        .collect();
    status.insert("containerStatuses".to_owned(), Value::Array(statuses));
    let initialized = initialized(pod, now);
    if !initialized.is_empty() && !status.contains_key("initContainerStatuses") {
        status.insert("initContainerStatuses".to_owned(), Value::Array(initialized));
    }
    status.insert(
        "conditions".to_owned(),
        Value::Array(merge(pod, &conditions, now)),
    );
    status.insert("observedGeneration".to_owned(), pod.generation().into());
    Value::Object(status)
}

/// Returns the status with the current readiness gates; otherwise unchanged.
pub(super) fn ready(pod: &Value, now: Timestamp) -> Value {
    let status = pod.get("status").cloned().unwrap_or_default();
    let Value::Object(mut status) = status else {
        return status;
    };
    if !pod.items("/spec/readinessGates").is_empty() {
        let conditions = merge(pod, &[readiness(pod)], now);
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Value::Object(status)
}

/// Returns the status in which every container has terminated with an exit code.
pub(super) fn ended(pod: &Value, code: i64, now: Timestamp) -> Value {
    let mut status = pod
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let is_success = code == 0;
    let reason = if is_success { "Completed" } else { "Error" };
    let started = pod
        .pointer("/status/containerStatuses/0/state/running/startedAt")
        .cloned();
    let terminated = json!({"terminated": {
        "exitCode": code,
        "reason": reason,
        "startedAt": started.unwrap_or_else(|| time(now)),
        "finishedAt": time(now),
    }});
    status.insert(
        "phase".to_owned(),
        if is_success { "Succeeded" } else { "Failed" }.into(),
    );
    let reason = if is_success { "PodCompleted" } else { "PodFailed" };
    let conditions = [
        ("Ready", "False", reason, ""),
        ("ContainersReady", "False", reason, ""),
    ];
    finish(pod, status, &conditions, now, |container| {
        let mut status = container_status(container, &terminated, false);
        status["started"] = false.into();
        status
    })
}

type Condition<'a> = (&'a str, &'a str, &'a str, &'a str);

fn base(pod: &Value, host: &str, now: Timestamp) -> Map<String, Value> {
    let mut status = pod
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    status.insert("hostIP".to_owned(), host.into());
    status.insert("hostIPs".to_owned(), json!([{"ip": host}]));
    status.entry("startTime").or_insert_with(|| time(now));
    status
}

fn finish(
    pod: &Value,
    mut status: Map<String, Value>,
    conditions: &[Condition<'_>],
    now: Timestamp,
    container: impl Fn(&Value) -> Value,
) -> Value {
    let statuses: Vec<Value> = containers(pod, "containers").map(container).collect();
    status.insert("containerStatuses".to_owned(), Value::Array(statuses));
    status.insert("conditions".to_owned(), Value::Array(merge(pod, conditions, now)));
    status.insert("observedGeneration".to_owned(), pod.generation().into());
    Value::Object(status)
}

fn containers<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    pod.items(&format!("/spec/{field}")).iter()
}

fn container_status(container: &Value, state: &Value, is_ready: bool) -> Value {
    let image = container.text("/image");
    let mut status = json!({
        "name": container.text("/name"),
        "image": image,
        "imageID": "",
        "state": state,
        "lastState": {},
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
    });
    if state.get("waiting").is_none() {
        status["imageID"] = format!("simulated://{image}").into();
        status["containerID"] = format!("simulated://{}", container.text("/name")).into();
    }
    status
}

fn initialized(pod: &Value, now: Timestamp) -> Vec<Value> {
    let done = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": time(now), "finishedAt": time(now),
    }});
    let running = json!({"running": {"startedAt": time(now)}});
    let status = |container: &Value| match container.text("/restartPolicy") {
        "Always" => container_status(container, &running, true),
        _ => {
            let mut status = container_status(container, &done, true);
            status["started"] = false.into();
            status
        }
    };
    containers(pod, "initContainers").map(status).collect()
}

fn readiness(pod: &Value) -> Condition<'static> {
    let gates = pod.items("/spec/readinessGates").iter();
    let mut closed = gates.filter(|gate| !pod.is_condition_true(gate.text("/conditionType")));
    match closed.next() {
        None => ("Ready", "True", "", ""),
        Some(_) => (
            "Ready",
            "False",
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate does not exist.",
        ),
    }
}

/// Returns the conditions of a pod with some of them replaced. A transition time changes only with the status.
fn merge(pod: &Value, set: &[Condition<'_>], now: Timestamp) -> Vec<Value> {
    let mut conditions: Vec<Value> = set.iter().map(|condition| build(pod, *condition, now)).collect();
    let others = pod.items("/status/conditions").iter();
    let others = others.filter(|other| !set.iter().any(|(kind, ..)| other.text("/type") == *kind));
    conditions.extend(others.cloned());
    conditions
}

fn build(pod: &Value, (kind, status, reason, message): Condition<'_>, now: Timestamp) -> Value {
    let before = pod
        .condition(kind)
        .filter(|before| before.text("/status") == status);
    let since = before.and_then(|before| before.get("lastTransitionTime").cloned());
    let mut condition = json!({
        "type": kind,
        "status": status,
        "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or_else(|| time(now)),
        "observedGeneration": pod.generation(),
    });
    if !reason.is_empty() {
        condition["reason"] = reason.into();
    }
    if !message.is_empty() {
        condition["message"] = message.into();
    }
    condition
}
