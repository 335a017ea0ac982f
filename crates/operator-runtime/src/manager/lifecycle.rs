//! What runs when: groups in the order of their start, and how they end.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Inner, ManagerError, Runnable, Setup};
use crate::cache::Cache;
use crate::error::{Error, Result};

/// What runs, in the order in which it is started.
struct Groups {
    servers: Group,
    events: Group,
    others: Group,
    leader: Group,
}

/// Tasks that are stopped together. The first error of one ends the manager.
struct Group {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    failures: mpsc::UnboundedSender<Error>,
}

/// Runs the manager from start to end.
pub(super) async fn run(inner: &Inner, setup: Setup, shutdown: impl Future<Output = ()>) -> Result<()> {
    let (failures, mut failed) = mpsc::unbounded_channel();
    let mut groups = Groups::new(&failures);
    tracing::info!(manager = inner.options.name, "Starting manager");

    if let Some(listener) = setup.health {
        let checks = inner.checks.clone();
        groups
            .servers
            .spawn(move |stop| crate::health::serve(listener, checks, stop));
    }
    let recorder = setup.recorder;
    groups.events.spawn(move |stop| async move {
        recorder.run(stop).await;
        Ok(())
    });
    inner.client.cache().start();
    let (of_leader, others): (Vec<_>, Vec<_>) = setup
        .runnables
        .into_iter()
        .partition(|runnable| runnable.needs_leader_election);
    groups.others.spawn_all(others);
    let (workers, eager): (Vec<_>, Vec<_>) = setup
        .workers
        .into_iter()
        .partition(|worker| worker.options.needs_leader_election);
    for worker in eager {
        groups.others.spawn(move |stop| worker.run(stop));
    }
    for worker in workers {
        groups.leader.spawn(move |stop| worker.run(stop));
    }
    groups.leader.spawn_all(of_leader);
    inner.elected.send_replace(true);

    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        Some(error) = failed.recv() => Err(error),
    };
    if let Err(error) = &outcome {
        tracing::error!(%error, "Stopping manager");
    }
    let stopped = groups
        .stop(inner.client.cache(), inner.options.graceful_shutdown_timeout)
        .await;
    tracing::info!(manager = inner.options.name, "Manager stopped");
    outcome.and(stopped)
}

// === impl Groups ===

impl Groups {
    fn new(failures: &mpsc::UnboundedSender<Error>) -> Self {
        let group = || Group {
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            failures: failures.clone(),
        };
        Self {
            servers: group(),
            events: group(),
            others: group(),
            leader: group(),
        }
    }

    /// Stops one group after the other; what has not ended after `grace` is aborted.
    async fn stop(mut self, cache: &Cache, grace: Duration) -> Result<()> {
        let in_order = async {
            self.others.stop().await;
            self.leader.stop().await;
            cache.stop().await;
            self.servers.stop().await;
            self.events.stop().await;
        };
        let in_time = tokio::time::timeout(grace, in_order).await;
        in_time.map_err(|_| ManagerError::GracePeriod(grace).into())
    }
}

// === impl Group ===

impl Group {
    fn spawn<R>(&mut self, run: impl FnOnce(CancellationToken) -> R)
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let (running, failures) = (run(self.stop.clone()), self.failures.clone());
        self.tasks.spawn(async move {
            if let Err(error) = running.await {
                // Nobody listens once the manager stops: the first error is the one that it returns.
                let _ = failures.send(error);
            }
        });
    }

    fn spawn_all(&mut self, runnables: Vec<Runnable>) {
        for runnable in runnables {
            tracing::debug!(runnable = runnable.name, "Starting runnable");
            self.spawn(runnable.run);
        }
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
