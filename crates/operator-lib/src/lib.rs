//! Helpers that some operators need: the counterpart of Go's `operator-lib`.
//!
//! * [`prune`] deletes old objects, such as finished Jobs.
//! * [`LeaderForLife`](leader::LeaderForLife) is a leader election whose leader stays until its pod is deleted.
//! * [`OperatorCondition`](operator_condition::OperatorCondition) reports to OLM whether the operator can be upgraded.
//! * [`authentication`] answers token reviews of the API server.
//! * [`CreationTimes`](creation_times::CreationTimes) is a metric of the creation times of objects.
//! * [`proxy`] passes the proxy variables of the operator on to the containers that it creates.
//!
//! ```no_run
//! use k8s_openapi::api::batch::v1::Job;
//! use operator_lib::prune::Pruner;
//!
//! # async fn example(client: kube::Client) -> operator_runtime::Result<()> {
//! let deleted = Pruner::of::<Job>(client).labels("app=backup").keep_newest(3).run().await?;
//! tracing::info!(count = deleted.len(), "old backups are deleted");
//! # Ok(())
//! # }
//! ```

pub mod authentication;
pub mod creation_times;
pub mod leader;
pub mod operator_condition;
pub mod proxy;
pub mod prune;
