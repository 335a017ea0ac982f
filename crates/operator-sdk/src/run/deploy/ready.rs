//! Readiness of workloads, and the reason if one is not ready.

use serde_json::Value;

use crate::process::api::Api;
use crate::process::objects::text;

#[derive(Debug, PartialEq)]
pub(super) enum Readiness {
    Ready,
    /// The workload is progressing, for this reason.
    Waiting(String),
    /// The workload will not become ready without a change.
    Failed(String),
}

pub(super) fn is_workload(object: &Value) -> bool {
    ["Deployment", "StatefulSet", "DaemonSet"].contains(&text(object, "/kind"))
}

pub(super) fn readiness(object: &Value) -> Readiness {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Readiness::Waiting("the change is not yet observed".to_owned());
    }
    if let Some(reason) = gave_up(object) {
        return Readiness::Failed(reason);
    }
    let (wanted, updated, available) = match text(object, "/kind") {
        "DaemonSet" => (
            number("/status/desiredNumberScheduled"),
            number("/status/updatedNumberScheduled"),
            number("/status/numberAvailable"),
        ),
        _ => (
            object
                .pointer("/spec/replicas")
                .and_then(Value::as_i64)
                .unwrap_or(1),
            number("/status/updatedReplicas"),
            number("/status/availableReplicas"),
        ),
    };
    let old = number("/status/replicas") - updated;
    if updated < wanted {
        Readiness::Waiting(format!("{updated} of {wanted} replicas are updated"))
    } else if available < wanted {
        Readiness::Waiting(format!("{available} of {wanted} replicas are available"))
    } else if old > 0 && text(object, "/kind") == "Deployment" {
        Readiness::Waiting(format!("{old} old replicas are pending termination"))
    } else {
        Readiness::Ready
    }
}

fn gave_up(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let exceeded = conditions.iter().find(|condition| {
        condition["type"] == "Progressing" && condition["reason"] == "ProgressDeadlineExceeded"
    })?;
    Some(text(exceeded, "/message").to_owned())
}

/// Returns the states of the pods of a workload that are not ready.
pub(super) async fn pods_of(api: &Api, workload: &Value) -> String {
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(key, value)| {
        let key = key.replace('/', "%2F");
        format!("{key}%3D{}", value.as_str().unwrap_or_default())
    });
    let selector = pairs.collect::<Vec<_>>().join(",");
    let namespace = text(workload, "/metadata/namespace");
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
    let pods = api.get(&path).await.ok().flatten().unwrap_or_default();
    let states = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(state_of);
    states.take(3).collect::<Vec<_>>().join("; ")
}

/// Returns one line about a pod that is not ready.
fn state_of(pod: &Value) -> Option<String> {
    let name = text(pod, "/metadata/name");
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses
        .iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten();
    for container in containers {
        let waiting = [
            text(container, "/state/waiting/reason"),
            text(container, "/state/waiting/message"),
        ];
        let ended = [
            text(container, "/lastState/terminated/reason"),
            text(container, "/lastState/terminated/message"),
        ];
        for [reason, message] in [waiting, ended] {
            if !reason.is_empty() {
                return Some(format!("pod {name}: {reason} {message}").trim_end().to_owned());
            }
        }
    }
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let unscheduled = conditions
        .iter()
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")?;
    Some(format!("pod {name}: {}", text(unscheduled, "/message")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(status: &Value) -> Readiness {
        readiness(&json!({
            "kind": "Deployment",
            "metadata": {"generation": 2},
            "spec": {"replicas": 2},
            "status": status,
        }))
    }

    #[test]
    fn a_deployment_is_ready_when_only_new_pods_are_there_and_available() {
        let waiting = |text: &str| Readiness::Waiting(text.to_owned());
        let cases = [
            (
                json!({"observedGeneration": 1}),
                waiting("the change is not yet observed"),
            ),
            (
                json!({"observedGeneration": 2}),
                waiting("0 of 2 replicas are updated"),
            ),
            (
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 1}),
                waiting("1 of 2 replicas are available"),
            ),
            (
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}),
                waiting("1 old replicas are pending termination"),
            ),
            (
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}),
                Readiness::Ready,
            ),
            (
                json!({"observedGeneration": 2, "conditions": [
                    {"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "it took too long"},
                ]}),
                Readiness::Failed("it took too long".to_owned()),
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(deployment(&status), expected, "{status}");
        }
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let pod = json!({
            "metadata": {"name": "p"},
            "status": {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
        });
        assert_eq!(state_of(&pod).unwrap(), "pod p: ImagePullBackOff no such image");
    }
}
