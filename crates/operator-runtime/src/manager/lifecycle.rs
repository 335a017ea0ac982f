//! What runs when: groups in the order of their start, and how they end.

use std::future::Future;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Inner, ManagerError, Place, Runnable, Setup};
use crate::cache::Cache;
use crate::controller::Worker;
use crate::election::Election;
use crate::error::{Error, Result};

/// What runs, in the order in which it is started.
struct Groups {
    /// Servers that must answer while the caches are filled.
    before_caches: Group,
    webhooks: Group,
    events: Group,
    /// What runs on every instance.
    others: Group,
    /// What runs on the leader.
    leader: Group,
}

/// Tasks that are stopped together. The first error of one ends the manager.
struct Group {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    failures: mpsc::UnboundedSender<Error>,
}

/// What waits to be started in a group.
struct Pending {
    workers: Vec<Worker>,
    runnables: Vec<Runnable>,
}

/// Runs the manager from start to end.
pub(super) async fn run(inner: &Inner, mut setup: Setup, shutdown: impl Future<Output = ()>) -> Result<()> {
    let (failures, mut failed) = mpsc::unbounded_channel();
    let mut groups = Groups::new(&failures);
    let cache = inner.client.cache();
    let mut election = setup.election.take();
    tracing::info!(manager = inner.options.name, "Starting manager");
    let of_leader = groups.start(inner, setup);

    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        Some(error) = failed.recv() => Err(error),
        error = lead(&mut election, &mut groups.leader, of_leader, &inner.elected) => {
            // Another instance may act already: nothing here may go on.
            groups.leader.tasks.abort_all();
            Err(error)
        }
    };
    if let Err(error) = &outcome {
        tracing::error!(%error, "Stopping manager");
    }
    let leads = *inner.elected.borrow();
    let grace = inner.options.graceful_shutdown_timeout;
    let stopped = tokio::select! {
        stopped = groups.stop(cache, grace) => stopped,
        error = keep(&mut election), if leads && outcome.is_ok() => Err(error),
    };
    // Whatever has not ended is aborted before the next leader may act.
    drop(groups);
    if let Some(election) = election.as_mut().filter(|_| leads) {
        election.release().await;
    }
    tracing::info!(manager = inner.options.name, "Manager stopped");
    outcome.and(stopped)
}

/// Starts what the leader runs once this instance leads; ends when it does not any more.
async fn lead(
    election: &mut Option<Box<dyn Election>>,
    group: &mut Group,
    pending: Pending,
    elected: &watch::Sender<bool>,
) -> Error {
    if let Some(election) = election
        && let Err(error) = election.acquire().await
    {
        return error;
    }
    elected.send_replace(true);
    group.start(pending);
    keep(election).await
}

/// Ends when leadership is lost: never without an election.
async fn keep(election: &mut Option<Box<dyn Election>>) -> Error {
    match election {
        Some(election) => election.keep().await,
        None => std::future::pending().await,
    }
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
            before_caches: group(),
            webhooks: group(),
            events: group(),
            others: group(),
            leader: group(),
        }
    }

    /// Starts what needs no leader, in order, and returns what does.
    fn start(&mut self, inner: &Inner, setup: Setup) -> Pending {
        let of = |place| move |runnable: &mut Runnable| runnable.place == place;
        let mut runnables = setup.runnables;
        let before_caches = runnables.extract_if(.., of(Place::BeforeCaches)).collect();
        let recorder = setup.recorder;
        self.events.spawn(move |stop| async move {
            recorder.run(stop).await;
            Ok(())
        });
        self.before_caches.start(Pending::of(before_caches));
        if setup.webhooks.is_needed() {
            let (name, kube) = (inner.options.name.clone(), inner.kube.clone());
            let (metrics, checks) = (inner.metrics.clone(), inner.checks.clone());
            self.webhooks
                .spawn(move |stop| setup.webhooks.run(name, kube, metrics, checks, stop));
        }
        inner.client.cache().start();
        let (workers, mut of_leader): (Vec<_>, Vec<_>) = setup
            .workers
            .into_iter()
            .partition(|worker| !worker.shared.options.needs_leader_election);
        of_leader.iter_mut().for_each(Worker::warm_up);
        let others = runnables.extract_if(.., of(Place::OnEveryInstance)).collect();
        self.others.start(Pending {
            workers,
            runnables: others,
        });
        Pending {
            workers: of_leader,
            runnables,
        }
    }

    /// Stops one group after the other; what has not ended after `grace` is aborted.
    async fn stop(&mut self, cache: &Cache, grace: Duration) -> Result<()> {
        let in_order = async {
            self.others.stop().await;
            self.leader.stop().await;
            cache.stop().await;
            self.webhooks.stop().await;
            self.before_caches.stop().await;
            self.events.stop().await;
        };
        let in_time = tokio::time::timeout(grace, in_order).await;
        in_time.map_err(|_| ManagerError::GracePeriod(grace).into())
    }
}

// === impl Pending ===

impl Pending {
    fn of(runnables: Vec<Runnable>) -> Self {
        let workers = Vec::new();
        Self { workers, runnables }
    }
}

// === impl Group ===

impl Group {
    fn start(&mut self, pending: Pending) {
        for runnable in pending.runnables {
            tracing::debug!(runnable = runnable.name, "Starting runnable");
            self.spawn(runnable.run);
        }
        for worker in pending.workers {
            self.spawn(move |stop| worker.run(stop));
        }
    }

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

    async fn stop(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
