//! [`Runnable`], and the members of a manager.

use std::fmt;
use std::future::Future;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::webhooks::Serving;
use crate::cluster;
use crate::controller::Worker;
use crate::error::Result;

/// A task in addition to the controllers, such as a server or a poller, that runs while the manager runs.
///
/// ```no_run
/// use std::time::Duration;
/// use operator_runtime::manager::Runnable;
/// use operator_runtime::prelude::*;
///
/// # fn example(manager: &Manager) -> Result<()> {
/// let poller = Runnable::new("poller", |stop| async move {
///     let mut minute = tokio::time::interval(Duration::from_secs(60));
///     while stop.run_until_cancelled(minute.tick()).await.is_some() {
///         tracing::info!("still here");
///     }
///     Ok(())
/// });
/// manager.add(poller)?;
/// # Ok(())
/// # }
/// ```
pub struct Runnable {
    name: String,
    group: Group,
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<()>> + Send>,
}

/// Members that are started and stopped together, in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Servers that must answer while the caches are filled.
    Servers,
    Webhooks,
    /// The caches of other clusters.
    Caches,
    /// Members of every instance.
    Others,
    /// Members of the leader.
    Leader,
}

/// A part of the manager that waits for its start.
pub(super) enum Member {
    Runnable(Runnable),
    Controller(Worker),
    Cluster(Box<cluster::Running>),
    Webhooks(Box<Serving>),
}

// === impl Runnable ===

impl Runnable {
    /// Creates a runnable that runs on the leader until its token is cancelled, after which it should end soon. It may
    /// end early; an error or a panic stops the manager. `name` is used in the log.
    pub fn new<F, R>(name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            group: Group::Leader,
            run: Box::new(|stop| Box::pin(run(stop))),
        }
    }

    /// Runs the task on every instance, after the caches have been started.
    #[must_use]
    pub fn on_every_instance(mut self) -> Self {
        self.group = Group::Others;
        self
    }

    /// Runs the task on every instance, from before the caches are filled until after the last reconcile. Use it for
    /// servers that the API server calls, such as webhooks.
    #[must_use]
    pub fn before_caches(mut self) -> Self {
        self.group = Group::Servers;
        self
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runnable")
            .field("name", &self.name)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

// === impl Member ===

impl Member {
    pub(super) fn group(&self) -> Group {
        match self {
            Self::Runnable(runnable) => runnable.group,
            Self::Controller(worker) if worker.shared.options.needs_leader_election => Group::Leader,
            Self::Controller(_) => Group::Others,
            Self::Cluster(_) => Group::Caches,
            Self::Webhooks(_) => Group::Webhooks,
        }
    }

    /// Returns the name for errors.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Runnable(runnable) => format!("runnable {}", runnable.name),
            Self::Controller(worker) => format!("controller {}", worker.shared.name),
            Self::Cluster(_) => "cluster".to_owned(),
            Self::Webhooks(_) => "webhooks".to_owned(),
        }
    }

    /// Starts the sources of a controller that warms up before this instance leads.
    pub(super) fn warm_up(&mut self) {
        if let Self::Controller(worker) = self {
            worker.warm_up();
        }
    }

    pub(super) fn run(self, stop: CancellationToken) -> BoxFuture<'static, Result<()>> {
        match self {
            Self::Runnable(runnable) => {
                tracing::debug!(runnable = runnable.name, "Starting runnable");
                (runnable.run)(stop)
            }
            Self::Controller(worker) => Box::pin(worker.run(stop)),
            Self::Cluster(cluster) => Box::pin(cluster.run(stop)),
            Self::Webhooks(server) => Box::pin(server.run(stop)),
        }
    }
}
