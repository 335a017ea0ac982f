//! [`LeaderForLife`]: leader election for life. The lock is a `ConfigMap` that the leader's pod owns, and the garbage
//! collector deletes it with the pod. The lock is never renewed, so a leader that loses its connection stays the
//! leader.
//!
//! It is for operators that must never run twice. The price is a slower failover.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use tokio::sync::watch;

use operator_runtime::election::{Election, ElectionError, Leadership, namespace};
use operator_runtime::metrics::LeaderMetrics;
use operator_runtime::{Error, Result};

/// The first wait, and the relative variation of waits.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const JITTER: f64 = 0.2;
/// The reasons of failed pods that will not run again although they exist.
const EVICTIONS: [&str; 2] = ["Evicted", "Preempting"];

/// A candidate for a lock that is held for life.
///
/// It needs permission to get pods, nodes and config maps, to create and delete config maps, and to delete pods. Its
/// pod needs the environment variable `POD_NAME`, from the field `metadata.name`.
///
/// ```no_run
/// use operator_lib::leader::LeaderForLife;
/// use operator_runtime::manager::ManagerOptions;
/// use operator_runtime::prelude::*;
///
/// # async fn example(client: kube::Client) -> Result<()> {
/// let election = LeaderForLife::builder(client, "memcached-operator-lock").build()?;
/// let options = ManagerOptions { election: Some(Box::new(election)), ..ManagerOptions::default() };
/// let manager = Manager::new("memcached-operator", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "pass it to a manager"]
pub struct LeaderForLife {
    locks: Api<ConfigMap>,
    pods: Api<Pod>,
    nodes: Api<Node>,
    name: String,
    pod_name: String,
    max_wait: Duration,
    leadership: watch::Sender<Leadership>,
    metrics: LeaderMetrics,
}

/// Options of a [`LeaderForLife`]; see [`LeaderForLife::builder`].
#[must_use = "call `build`"]
pub struct LeaderForLifeBuilder {
    client: kube::Client,
    name: String,
    namespace: Option<String>,
    pod_name: Option<String>,
    max_wait: Duration,
    metrics: LeaderMetrics,
}

/// The state of an existing lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// This pod holds it: the container was restarted.
    Mine,
    /// Its holder runs, or the garbage collector will delete the lock.
    Wait,
    /// Its holder will never run again: delete the pod, and the garbage collector deletes the lock.
    DeletePod,
    /// The node of its holder is not ready, so the pod may never be deleted: delete the pod and the lock.
    DeletePodAndLock,
}

/// Returns the state of a lock. `pod` is its owner and `node` that of the pod; `None` if they do not exist.
fn judge(owner: &OwnerReference, me: &OwnerReference, pod: Option<&Pod>, node: Option<&Node>) -> Verdict {
    if owner.name == me.name && owner.uid == me.uid {
        return Verdict::Mine;
    }
    let Some(pod) = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&owner.uid)) else {
        return Verdict::Wait;
    };
    if evicted(pod) {
        return Verdict::DeletePod;
    }
    match node {
        Some(node) if !ready(node) => Verdict::DeletePodAndLock,
        _ => Verdict::Wait,
    }
}

fn evicted(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let failed = status.and_then(|status| status.phase.as_deref()) == Some("Failed");
    let reason = status
        .and_then(|status| status.reason.as_deref())
        .unwrap_or_default();
    failed && EVICTIONS.contains(&reason) && pod.metadata.deletion_timestamp.is_none()
}

/// A node without conditions counts as ready, so that its pods are not deleted.
fn ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready =
        conditions.and_then(|conditions| conditions.iter().find(|condition| condition.type_ == "Ready"));
    ready.is_none_or(|condition| condition.status == "True")
}

// === impl LeaderForLifeBuilder ===

impl LeaderForLifeBuilder {
    /// Sets the namespace of the lock and of the pod. Default: that of the pod's service account.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the name of this pod. Default: the environment variable `POD_NAME`.
    pub fn pod_name(mut self, name: &str) -> Self {
        self.pod_name = Some(name.to_owned());
        self
    }

    /// Sets the maximum wait between two attempts. The first is 1 s, and each doubles. Default: 16 s.
    pub fn max_backoff_interval(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the metric `leader_election_master_status`. Default: not reported.
    pub fn metrics(mut self, metrics: LeaderMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Checks the options. No request is sent yet.
    ///
    /// # Errors
    /// Returns an error if the name is empty, or if the namespace or the pod is unknown.
    pub fn build(self) -> Result<LeaderForLife, ElectionError> {
        if self.name.is_empty() {
            return Err(ElectionError::NoName);
        }
        let namespace = self.namespace.map_or_else(namespace, Ok)?;
        let pod_name = self.pod_name.or_else(|| std::env::var("POD_NAME").ok());
        Ok(LeaderForLife {
            locks: Api::namespaced(self.client.clone(), &namespace),
            pods: Api::namespaced(self.client.clone(), &namespace),
            nodes: Api::all(self.client),
            name: self.name,
            pod_name: pod_name
                .filter(|name| !name.is_empty())
                .ok_or(ElectionError::NoPodName)?,
            max_wait: self.max_wait,
            leadership: watch::Sender::new(Leadership::Standby),
            metrics: self.metrics,
        })
    }
}

// === impl LeaderForLife ===

impl LeaderForLife {
    /// Returns a builder of an election. `name` is the name of the `ConfigMap`, which must be unique to the operator.
    pub fn builder(client: kube::Client, name: &str) -> LeaderForLifeBuilder {
        LeaderForLifeBuilder {
            client,
            name: name.to_owned(),
            namespace: None,
            pod_name: None,
            max_wait: Duration::from_secs(16),
            metrics: LeaderMetrics::default(),
        }
    }

    async fn lock(&self) -> Result<(), ElectionError> {
        let me = self.me().await?;
        let mut wait = FIRST_WAIT.min(self.max_wait);
        loop {
            if self.create(&me).await? {
                return Ok(());
            }
            let lock = self.locks.get_opt(&self.name).await;
            let Some(lock) =
                lock.map_err(|source| failed(format!("read ConfigMap {:?}", self.name), source))?
            else {
                // It was deleted between the two requests.
                continue;
            };
            if self.challenge(&lock, &me).await? {
                return Ok(());
            }
            tokio::time::sleep(wait.mul_f64(1.0 + JITTER * random())).await;
            wait = (wait * 2).min(self.max_wait);
        }
    }

    /// Returns the owner reference to this pod for the lock.
    async fn me(&self) -> Result<OwnerReference, ElectionError> {
        let pod = self.pods.get(&self.pod_name).await;
        let pod = pod.map_err(|source| {
            failed(
                format!("read Pod {:?}, which should be this one", self.pod_name),
                source,
            )
        })?;
        Ok(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.pod_name.clone(),
            uid: pod.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        })
    }

    /// Returns true if the lock was free and this pod has acquired it.
    async fn create(&self, me: &OwnerReference) -> Result<bool, ElectionError> {
        let lock = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                owner_references: Some(vec![me.clone()]),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        match self.locks.create(&PostParams::default(), &lock).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(source) => Err(failed(format!("create ConfigMap {:?}", self.name), source)),
        }
    }

    /// Returns true if this pod holds the lock. Deletes a holder that will never run again.
    async fn challenge(&self, lock: &ConfigMap, me: &OwnerReference) -> Result<bool, ElectionError> {
        let owners = lock.metadata.owner_references.as_deref().unwrap_or_default();
        let [owner] = owners else {
            tracing::warn!(
                lock = self.name,
                owners = owners.len(),
                "Leader lock should have exactly one owner"
            );
            return Ok(false);
        };
        if owner.kind != "Pod" {
            tracing::warn!(
                lock = self.name,
                kind = owner.kind,
                "Leader lock should be owned by a Pod"
            );
            return Ok(false);
        }
        // A pod that cannot be read counts as running.
        let pod = self.pods.get_opt(&owner.name).await.ok().flatten();
        let node = self.node_of(pod.as_ref()).await;
        let verdict = judge(owner, me, pod.as_ref(), node.as_ref());
        tracing::debug!(lock = self.name, holder = owner.name, ?verdict, "Not the leader");
        if matches!(verdict, Verdict::DeletePod | Verdict::DeletePodAndLock) {
            self.delete_pod(owner).await;
        }
        if verdict == Verdict::DeletePodAndLock {
            self.delete_lock(lock).await;
        }
        Ok(verdict == Verdict::Mine)
    }

    async fn node_of(&self, pod: Option<&Pod>) -> Option<Node> {
        let name = pod?.spec.as_ref()?.node_name.as_deref()?;
        self.nodes.get_opt(name).await.ok().flatten()
    }

    async fn delete_pod(&self, owner: &OwnerReference) {
        let params = only(Some(owner.uid.clone()), None);
        tracing::info!(
            pod = owner.name,
            "Deleting the pod of a leader that will not run again"
        );
        if let Err(error) = self.pods.delete(&owner.name, &params).await {
            tracing::warn!(pod = owner.name, %error, "Failed to delete the pod of the leader");
        }
    }

    async fn delete_lock(&self, lock: &ConfigMap) {
        let params = only(lock.metadata.uid.clone(), lock.metadata.resource_version.clone());
        if let Err(error) = self.locks.delete(&self.name, &params).await {
            tracing::warn!(lock = self.name, %error, "Failed to delete the lock of the leader");
        }
    }
}

/// Returns the preconditions that limit a deletion to this object.
fn only(uid: Option<String>, resource_version: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version,
    })
}

fn failed(doing: String, source: kube::Error) -> ElectionError {
    let source = Box::new(source);
    ElectionError::Api { doing, source }
}

impl Election for LeaderForLife {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.metrics.leading(false);
            self.lock().await?;
            tracing::info!(lock = self.name, pod = self.pod_name, "Became the leader");
            self.metrics.leading(true);
            self.leadership.send_replace(Leadership::Leader { until: None });
            Ok(())
        })
    }

    /// Leadership is never lost.
    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(std::future::pending())
    }

    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        Some(self.leadership.subscribe())
    }

    /// Stops leading. The lock stays until the pod is deleted.
    fn release(&mut self) -> BoxFuture<'_, ()> {
        self.metrics.leading(false);
        self.leadership.send_replace(Leadership::Standby);
        Box::pin(std::future::ready(()))
    }
}

/// Returns a random number in `0.0..1.0`.
fn random() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owner(name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            kind: "Pod".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "old", "uid": "1"}, "status": status})).unwrap()
    }

    fn node(ready: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    #[track_caller]
    fn assert_judged(pod: Option<&Pod>, node: Option<&Node>, verdict: Verdict) {
        assert_eq!(judge(&owner("old", "1"), &owner("new", "2"), pod, node), verdict);
    }

    #[test]
    fn only_a_holder_that_will_not_run_again_is_deleted() {
        let running = pod(&json!({"phase": "Running"}));
        let evicted = pod(&json!({"phase": "Failed", "reason": "Evicted"}));
        let failed = pod(&json!({"phase": "Failed", "reason": "Error"}));
        assert_judged(Some(&running), Some(&node("True")), Verdict::Wait);
        assert_judged(Some(&running), None, Verdict::Wait);
        assert_judged(Some(&failed), Some(&node("True")), Verdict::Wait);
        assert_judged(None, None, Verdict::Wait);
        assert_judged(Some(&evicted), Some(&node("True")), Verdict::DeletePod);
        assert_judged(Some(&running), Some(&node("Unknown")), Verdict::DeletePodAndLock);
        let mut going = evicted.clone();
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            jiff::Timestamp::UNIX_EPOCH,
        ));
        assert_judged(Some(&going), Some(&node("True")), Verdict::Wait);
    }

    #[test]
    fn pod_with_the_same_name_is_another_one() {
        let running = pod(&json!({"phase": "Running"}));
        let (before, after) = (owner("old", "0"), owner("old", "1"));
        assert_eq!(
            judge(&before, &after, Some(&running), Some(&node("False"))),
            Verdict::Wait
        );
        assert_eq!(judge(&after, &after, Some(&running), None), Verdict::Mine);
    }
}
