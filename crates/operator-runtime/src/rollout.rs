//! [`conditions`] derives conditions from the rollout of a workload, as `kubectl rollout status` evaluates it.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use operator_runtime::rollout;
//!
//! let deployment: Deployment = serde_json::from_value(serde_json::json!({
//!     "metadata": {"generation": 2},
//!     "spec": {"replicas": 3, "selector": {}, "template": {}},
//!     "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3},
//! }))?;
//! let [available, progressing, degraded] = rollout::conditions(&deployment);
//! assert!(available.is_true() && !progressing.is_true() && !degraded.is_true());
//! assert_eq!(available.message, "3 of 3 replicas are available");
//! # Ok::<(), serde_json::Error>(())
//! ```

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;

use crate::condition::Condition;

/// Returns the conditions `Available`, `Progressing` and `Degraded` of the object that owns a workload.
///
/// * `Available`: the desired replicas of the current generation are available; for a Job, it has completed.
/// * `Progressing`: the rollout is not complete; for a Job, it is running.
/// * `Degraded`: the workload reports a failure, such as an exceeded deadline, a quota or a failed Job.
pub fn conditions(workload: &impl Workload) -> [Condition; 3] {
    let rollout = workload.rollout();
    let Rollout { counts, failure, .. } = &rollout;
    let available = match rollout.is_available {
        true => Condition::available(true, "Available", counts),
        false => Condition::available(false, "Unavailable", counts),
    };
    let progressing = match (failure, rollout.is_complete) {
        (Some(_), _) => Condition::progressing(false, "Failed", counts),
        (None, true) => Condition::progressing(false, "RolledOut", "the rollout is complete"),
        (None, false) => Condition::progressing(true, "RollingOut", counts),
    };
    let degraded = match failure {
        Some((reason, message)) => Condition::degraded(true, reason, message),
        None => Condition::degraded(false, "AsExpected", "no failure is reported"),
    };
    [available, progressing, degraded]
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rollout {
    /// True if the desired replicas are available.
    pub is_available: bool,
    /// True if all replicas belong to the current generation, and are available.
    pub is_complete: bool,
    /// A sentence with the numbers of replicas.
    pub counts: String,
    /// The reason and the message of a failure.
    pub failure: Option<(String, String)>,
}

/// A kind of workload that has a rollout.
pub trait Workload {
    /// Returns the state of the rollout.
    fn rollout(&self) -> Rollout;
}

impl Workload for Deployment {
    fn rollout(&self) -> Rollout {
        let status = self.status.clone().unwrap_or_default();
        let desired = self.spec.replicas.unwrap_or(1);
        let count = |count: Option<i32>| count.unwrap_or(0);
        let (updated, available) = (count(status.updated_replicas), count(status.available_replicas));
        let is_observed = status.observed_generation >= self.metadata.generation;
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        let failed = conditions.find(|condition| {
            let exceeded = condition.reason.as_deref() == Some("ProgressDeadlineExceeded");
            let failed = condition.type_.as_deref() == Some("ReplicaFailure");
            exceeded || (failed && condition.status.as_deref() == Some("True"))
        });
        Rollout {
            is_available: is_observed && available >= desired,
            is_complete: is_observed
                && updated == desired
                && count(status.replicas) == updated
                && available == updated,
            counts: replicas(available, desired),
            failure: failed.map(|condition| {
                let reason = condition.reason.or(condition.type_).unwrap_or_default();
                (reason, condition.message.unwrap_or_default())
            }),
        }
    }
}

impl Workload for StatefulSet {
    fn rollout(&self) -> Rollout {
        let status = self.status.clone().unwrap_or_default();
        let desired = self.spec.replicas.unwrap_or(1);
        let strategy = self.spec.update_strategy.as_ref();
        let update = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let partition = update.and_then(|update| update.partition);
        let ready = status.ready_replicas.unwrap_or(0);
        let updated = status.updated_replicas.unwrap_or(0);
        let is_observed = status.observed_generation >= self.metadata.generation;
        let is_updated = match partition {
            // A StatefulSet keeps the revision of the pods below the partition.
            Some(partition) if partition > 0 => updated >= desired - partition,
            _ => status.update_revision == status.current_revision,
        };
        Rollout {
            is_available: is_observed && status.available_replicas.unwrap_or(0) >= desired,
            is_complete: is_observed && ready >= desired && is_updated,
            counts: replicas(status.available_replicas.unwrap_or(0), desired),
            failure: None,
        }
    }
}

impl Workload for DaemonSet {
    fn rollout(&self) -> Rollout {
        let status = self.status.clone().unwrap_or_default();
        let desired = status.desired_number_scheduled;
        let (updated, available) = (
            status.updated_number_scheduled.unwrap_or(0),
            status.number_available.unwrap_or(0),
        );
        let is_observed = status.observed_generation >= self.metadata.generation;
        Rollout {
            is_available: is_observed && available >= desired,
            is_complete: is_observed && updated >= desired && available >= desired,
            counts: replicas(available, desired),
            failure: None,
        }
    }
}

impl Workload for Job {
    fn rollout(&self) -> Rollout {
        let status = self.status.clone().unwrap_or_default();
        let desired = self
            .spec
            .as_ref()
            .and_then(|spec| spec.completions.or(spec.parallelism));
        let conditions = status.conditions.unwrap_or_default();
        let is_true = |type_: &str| {
            let mut conditions = conditions.iter();
            conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
        };
        let is_complete = is_true("Complete").is_some();
        let failure = is_true("Failed").map(|condition| {
            let reason = condition.reason.clone().unwrap_or_else(|| "Failed".to_owned());
            (reason, condition.message.clone().unwrap_or_default())
        });
        let (succeeded, desired) = (status.succeeded.unwrap_or(0), desired.unwrap_or(1));
        Rollout {
            is_available: is_complete,
            is_complete,
            counts: format!("{succeeded} of {desired} pods have succeeded"),
            failure,
        }
    }
}

fn replicas(available: i32, desired: i32) -> String {
    format!("{available} of {desired} replicas are available")
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the values of the conditions `Available`, `Progressing` and `Degraded`.
    fn judged<W: Workload + DeserializeOwned>(workload: Value) -> [bool; 3] {
        let workload: W = serde_json::from_value(workload).unwrap();
        conditions(&workload).map(|condition| condition.is_true())
    }

    fn deployment(status: &Value) -> [bool; 3] {
        judged::<Deployment>(json!({
            "metadata": {"generation": 2},
            "spec": {"replicas": 3, "selector": {}, "template": {}},
            "status": status,
        }))
    }

    #[test]
    fn deployment_is_rolled_out_when_every_replica_is_new_and_available() {
        let done =
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        assert_eq!(deployment(&done), [true, false, false]);
        let mut of_before = done.clone();
        of_before["observedGeneration"] = json!(1);
        assert_eq!(deployment(&of_before), [false, true, false]);
        let mut surplus = done.clone();
        surplus["replicas"] = json!(4);
        assert_eq!(deployment(&surplus), [true, true, false]);
        let mut starting = done;
        starting["availableReplicas"] = json!(2);
        assert_eq!(deployment(&starting), [false, true, false]);
        assert_eq!(deployment(&json!({})), [false, true, false]);
    }

    #[test]
    fn deployment_that_exceeds_its_deadline_is_degraded() {
        let condition = |type_: &str, status: &str, reason: &str| {
            let condition = json!({"type": type_, "status": status, "reason": reason, "message": "why"});
            deployment(&json!({"observedGeneration": 2, "conditions": [condition]}))
        };
        assert_eq!(
            condition("Progressing", "False", "ProgressDeadlineExceeded"),
            [false, false, true]
        );
        assert_eq!(
            condition("ReplicaFailure", "True", "FailedCreate"),
            [false, false, true]
        );
        assert_eq!(condition("ReplicaFailure", "False", "Fine"), [false, true, false]);
    }

    #[test]
    fn stateful_set_may_keep_pods_before_its_partition() {
        let set = |partition: Option<i32>, updated: i32, current: &str| {
            judged::<StatefulSet>(json!({
                "metadata": {"generation": 1},
                "spec": {
                    "replicas": 3, "selector": {}, "template": {}, "serviceName": "web",
                    "updateStrategy": {"rollingUpdate": {"partition": partition}},
                },
                "status": {
                    "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
                    "updatedReplicas": updated, "currentRevision": current, "updateRevision": "new",
                },
            }))
        };
        assert_eq!(set(None, 3, "new"), [true, false, false]);
        assert_eq!(set(None, 1, "old"), [true, true, false]);
        assert_eq!(set(Some(2), 1, "old"), [true, false, false]);
        assert_eq!(set(Some(2), 0, "old"), [true, true, false]);
    }

    #[test]
    fn daemon_set_is_rolled_out_on_every_node() {
        let set = |updated: i32, available: i32| {
            judged::<DaemonSet>(json!({
                "metadata": {"generation": 1},
                "spec": {"selector": {}, "template": {}},
                "status": {
                    "observedGeneration": 1, "currentNumberScheduled": 2, "desiredNumberScheduled": 2,
                    "numberMisscheduled": 0, "numberReady": available, "updatedNumberScheduled": updated,
                    "numberAvailable": available,
                },
            }))
        };
        assert_eq!(set(2, 2), [true, false, false]);
        assert_eq!(set(1, 2), [true, true, false]);
        assert_eq!(set(2, 1), [false, true, false]);
    }

    #[test]
    fn job_is_available_when_it_is_complete() {
        let job = |conditions: Value| {
            judged::<Job>(json!({
                "metadata": {}, "spec": {"template": {}}, "status": {"conditions": conditions},
            }))
        };
        assert_eq!(job(json!([])), [false, true, false]);
        assert_eq!(
            job(json!([{"type": "Complete", "status": "True"}])),
            [true, false, false]
        );
        assert_eq!(
            job(json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}])),
            [false, false, true]
        );
    }
}
