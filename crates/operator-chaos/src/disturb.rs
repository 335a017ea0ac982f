//! Faults of the environment at the end of a workload step: restarts, pods, nodes, volumes, clocks, and users.

use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::{DeleteOptions, Gvr, Patch};
use serde_json::{Value, json};

use crate::plan::Action;
use crate::session::Session;
use crate::trace::Actor;
use crate::world::World;

/// Injects a fault. Faults with a duration end by themselves.
pub(crate) async fn carry_out(world: &World, session: &Arc<Session>, action: Action) {
    match action {
        Action::Restart => session.crash(),
        Action::RestartStale {
            resource,
            missing,
            seconds,
        } => session.restart_stale(resource, missing, seconds),
        Action::LoseLease { seconds } => session.lose_lease(Duration::from_secs(seconds.into())),
        Action::ClockJump { seconds } => world.set_clock(seconds),
        Action::EvictPod { object } => evict(session, &object).await,
        Action::CrashPod { object, seconds } => crash_pod(session, object, seconds).await,
        Action::HoldPods { seconds } => {
            world.holds.hold_pods(true);
            let holds = world.holds.clone();
            lasting(session, seconds, async move { holds.hold_pods(false) });
        }
        Action::HoldVolumes { seconds } => {
            world.holds.hold_claims(true);
            let holds = world.holds.clone();
            lasting(session, seconds, async move { holds.hold_claims(false) });
        }
        Action::LoseNode { node, seconds } => lose_node(session, node, seconds).await,
        Action::DeleteChild { object } => {
            if let Some((gvr, object)) = session.find(&object) {
                let (namespace, name) = names(&object);
                let client = session.server.client().with_manager("third-party");
                let _gone = client
                    .delete(&gvr, namespace, name, DeleteOptions::default())
                    .await;
                session.drain(Actor::ThirdParty, None);
            }
        }
        Action::EditChild { object, patch } => {
            if let (Some((gvr, object)), Ok(patch)) = (session.find(&object), serde_json::from_str(&patch)) {
                let (namespace, name) = names(&object);
                let client = session.server.client().with_manager("third-party");
                // The server may reject the change. The fault then has no effect.
                let _refused = client
                    .patch(&gvr, namespace, name, None, Patch::Merge(patch))
                    .await;
                session.drain(Actor::ThirdParty, None);
            }
        }
        // Faults of requests and watches have other positions.
        _ => {}
    }
}

fn names(object: &Value) -> (&str, &str) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    (
        text("/metadata/namespace").unwrap_or_default(),
        text("/metadata/name").unwrap_or_default(),
    )
}

/// Ends a fault after some time. The run waits until then.
fn lasting(session: &Arc<Session>, seconds: u32, end: impl Future<Output = ()> + Send + 'static) {
    session.hold(true);
    let session = session.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        end.await;
        session.touch();
        session.hold(false);
    });
}

/// Deletes a pod, as `kubectl drain` does.
async fn evict(session: &Session, key: &str) {
    let Some((gvr, pod)) = session.find(key) else {
        return;
    };
    let (namespace, name) = names(&pod);
    let client = session.server.client().with_manager("third-party");
    // The pod may already be deleted.
    let _gone = client
        .delete(&gvr, namespace, name, DeleteOptions::default())
        .await;
    session.drain(Actor::Cluster, None);
}

/// Makes the containers of a pod crash. They run again after some time.
async fn crash_pod(session: &Arc<Session>, key: String, seconds: u32) {
    set_pod(session, &key, false).await;
    let later = session.clone();
    lasting(session, seconds, async move { set_pod(&later, &key, true).await });
}

async fn set_pod(session: &Session, key: &str, runs: bool) {
    let Some((gvr, pod)) = session.find(key) else {
        return;
    };
    if pod.pointer("/status/phase").and_then(Value::as_str) != Some("Running") {
        return;
    }
    let mut statuses = pod
        .pointer("/status/containerStatuses")
        .cloned()
        .unwrap_or_else(|| json!([]));
    for status in statuses.as_array_mut().into_iter().flatten() {
        let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        let started = pod.pointer("/status/startTime").cloned().unwrap_or_default();
        status["ready"] = runs.into();
        status["started"] = runs.into();
        match runs {
            true => status["state"] = json!({"running": {"startedAt": started}}),
            false => {
                status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
                status["restartCount"] = (restarts + 1).into();
            }
        }
    }
    let is_ready = if runs { "True" } else { "False" };
    let mut status = json!({"conditions": conditions(&pod, &["Ready", "ContainersReady"], is_ready)});
    status["containerStatuses"] = statuses;
    patch_status(session, &gvr, &pod, status).await;
}

/// Makes a node unreachable. Its pods get the status that the node lifecycle controller of Kubernetes sets: not ready.
async fn lose_node(session: &Arc<Session>, node: String, seconds: u32) {
    set_node(session, &node, false).await;
    let later = session.clone();
    lasting(
        session,
        seconds,
        async move { set_node(&later, &node, true).await },
    );
}

async fn set_node(session: &Session, name: &str, is_ready: bool) {
    let Some((gvr, node)) = session.find(&format!("nodes {name}")) else {
        return;
    };
    let (of_node, of_pods) = match is_ready {
        true => ("True", "True"),
        false => ("Unknown", "False"),
    };
    let status = json!({"conditions": conditions(&node, &["Ready"], of_node)});
    patch_status(session, &gvr, &node, status).await;
    let pods = Gvr::new("", "v1", "pods");
    for pod in session.pods_on(name) {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        if phase == Some("Running") && pod.pointer("/metadata/deletionTimestamp").is_none() {
            let status = json!({"conditions": conditions(&pod, &["Ready"], of_pods)});
            patch_status(session, &pods, &pod, status).await;
        }
    }
}

/// Returns the conditions of an object, with a different status of the given types.
fn conditions(object: &Value, kinds: &[&str], status: &str) -> Value {
    let mut conditions = object
        .pointer("/status/conditions")
        .cloned()
        .unwrap_or_else(|| json!([]));
    for condition in conditions.as_array_mut().into_iter().flatten() {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        if kinds.contains(&kind) {
            condition["status"] = status.into();
        }
    }
    conditions
}

async fn patch_status(session: &Session, gvr: &Gvr, object: &Value, status: Value) {
    let (namespace, name) = names(object);
    let client = session.server.client().with_manager("kubelet");
    let patch = Patch::Merge(json!({"status": status}));
    // The object may already be deleted.
    let _gone = client.patch(gvr, namespace, name, Some("status"), patch).await;
    session.drain(Actor::Cluster, None);
}
