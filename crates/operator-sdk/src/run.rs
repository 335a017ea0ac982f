//! The commands, from their arguments to their report.

pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod chaos;
pub(crate) mod cluster;
pub(crate) mod crd;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod docs;
pub(crate) mod envtest;
pub(crate) mod generate_bundle;
pub(crate) mod legacy;
pub(crate) mod local;
pub(crate) mod man;
pub(crate) mod manifests;
pub(crate) mod olm;
pub(crate) mod plugin;
pub(crate) mod prompt;
pub(crate) mod quickstart;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod scaffold;
pub(crate) mod scorecard;
pub(crate) mod texts;
pub(crate) mod upgrade;
pub(crate) mod webhooks;

use crate::failure::Failure;
use crate::process::cluster::ClusterError;

/// Runs the asynchronous part of a command.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(ClusterError::from)?.block_on(work)
}
