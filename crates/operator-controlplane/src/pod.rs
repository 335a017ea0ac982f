//! Properties of Pods, and Pods from templates.

use std::collections::HashMap;

use apimachinery::json;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::owner::controller_reference;

/// Returns the phase, such as `Running`.
pub(crate) fn phase(pod: &Value) -> &str {
    pod.text("/status/phase")
}

/// Returns true if the pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns true if the pod counts as a replica.
pub(crate) fn is_active(pod: &Value) -> bool {
    !is_finished(pod) && !pod.is_terminating()
}

/// Returns true if the pod is terminating but still runs.
pub(crate) fn is_ending(pod: &Value) -> bool {
    !is_finished(pod) && pod.is_terminating()
}

/// Returns true if the pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    pod.is_condition_true("Ready")
}

/// Returns the time from which a ready pod is available: `min_ready_seconds` after it became ready. Returns `None` if
/// it is not ready.
pub(crate) fn available_at(pod: &Value, min_ready_seconds: i64) -> Option<Timestamp> {
    let ready = pod
        .condition("Ready")
        .filter(|ready| ready.text("/status") == "True")?;
    if min_ready_seconds == 0 {
        return Some(Timestamp::MIN);
    }
    let since = ready.time("/lastTransitionTime")?;
    since
        .checked_add(SignedDuration::from_secs(min_ready_seconds))
        .ok()
}

/// Returns true if the pod is available now.
pub(crate) fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| at <= now)
}

/// Returns a pod from the template of its controller.
pub(crate) fn from_template(kind: &Kind, owner: &Value, template: &Value, generate_name: &str) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("generateName".to_owned(), generate_name.into());
    metadata.insert("namespace".to_owned(), owner.namespace().into());
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([controller_reference(kind, owner)]),
    );
    json!({"metadata": metadata, "spec": template.get("spec").cloned().unwrap_or_default()})
}

/// The maximum number of pods that a controller creates or deletes in one plan.
pub(crate) const BURST: usize = 500;
/// The memory limit of the pods in one plan, as counted by [`memory`](json::memory).
const BURST_WEIGHT: usize = 32 << 20;

/// Returns the maximum number of pods of a template that a controller creates in one plan.
pub(crate) fn burst(template: &Value) -> usize {
    (BURST_WEIGHT / json::memory(template).max(1)).clamp(1, BURST)
}

/// Sorts pods in the order in which they are deleted: not scheduled, not running, not ready, low deletion cost, many on
/// one node, ready for a shorter time, restarted more often, younger.
pub(crate) fn by_usefulness(pods: &mut [std::sync::Arc<Value>]) {
    let mut by_node: HashMap<&str, usize> = HashMap::new();
    for pod in pods.iter() {
        *by_node.entry(pod.text("/spec/nodeName")).or_default() += 1;
    }
    let crowd = |pod: &Value| by_node.get(pod.text("/spec/nodeName")).copied().unwrap_or(0);
    let crowds: Vec<usize> = pods.iter().map(|pod| crowd(pod)).collect();
    let mut ranked: Vec<_> = pods.iter().cloned().zip(crowds).collect();
    ranked.sort_by_cached_key(|(pod, crowd)| {
        let ready_since = pod
            .condition("Ready")
            .and_then(|ready| ready.time("/lastTransitionTime"));
        (
            !pod.text("/spec/nodeName").is_empty(),
            phase_rank(phase(pod)),
            is_ready(pod),
            deletion_cost(pod),
            std::cmp::Reverse(*crowd),
            std::cmp::Reverse(ready_since.filter(|_| is_ready(pod))),
            std::cmp::Reverse(restarts(pod)),
            std::cmp::Reverse(pod.time("/metadata/creationTimestamp")),
            pod.name().to_owned(),
        )
    });
    for (slot, (pod, _)) in pods.iter_mut().zip(ranked) {
        *slot = pod;
    }
}

fn phase_rank(phase: &str) -> u8 {
    match phase {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    }
}

fn deletion_cost(pod: &Value) -> i64 {
    let cost = pod.annotation("controller.kubernetes.io/pod-deletion-cost");
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Value) -> i64 {
    let statuses = pod.items("/status/containerStatuses");
    statuses
        .iter()
        .filter_map(|status| status.int("/restartCount"))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready: &str, created: &str) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-01T00:00:00Z"}]},
        }))
    }

    #[test]
    fn the_least_useful_pods_go_first() {
        let mut pods = vec![
            pod("old", "n", "Running", "True", "2024-01-01T00:00:00Z"),
            pod("young", "n", "Running", "True", "2024-01-02T00:00:00Z"),
            pod("unready", "n", "Running", "False", "2024-01-01T00:00:00Z"),
            pod("pending", "n", "Pending", "False", "2024-01-01T00:00:00Z"),
            pod("unscheduled", "", "Pending", "False", "2024-01-01T00:00:00Z"),
        ];
        by_usefulness(&mut pods);
        let order: Vec<_> = pods.iter().map(|pod| pod.name()).collect();
        assert_eq!(order, ["unscheduled", "pending", "unready", "young", "old"]);
    }

    #[test]
    fn a_pod_is_available_after_its_minimum_ready_time() {
        let pod = pod("a", "n", "Running", "True", "2024-01-01T00:00:00Z");
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_available(&pod, 0, at("2023-01-01T00:00:00Z")));
        assert!(!is_available(&pod, 60, at("2024-01-01T00:00:59Z")));
        assert!(is_available(&pod, 60, at("2024-01-01T00:01:00Z")));
    }
}
