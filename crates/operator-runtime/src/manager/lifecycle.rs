//! [`run`] starts and stops the groups of a manager in order.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::runnable::{Group, Member};
use super::{Inner, ManagerError, Phase, Setup};
use crate::cache::Cache;
use crate::election::{Election, Leadership};
use crate::error::{Error, Result, panic_text};

/// Time for an aborted task to reach its next `await`.
const TO_ABORT: Duration = Duration::from_secs(1);

/// The running parts of a manager, in the order of their start.
struct Groups {
    events: Tasks,
    /// Servers that must answer while the caches are filled.
    servers: Tasks,
    webhooks: Tasks,
    /// The caches of other clusters.
    caches: Tasks,
    /// Runnables and controllers of every instance.
    others: Tasks,
    /// Runnables and controllers of the leader.
    leader: Tasks,
    /// The members to start when this instance becomes the leader. `None` once it is the leader.
    of_leader: Option<Vec<Member>>,
}

/// Tasks that are stopped together. The first error of one stops the manager.
struct Tasks {
    stop: CancellationToken,
    /// Aborts them at their next `await`.
    abort: CancellationToken,
    tasks: JoinSet<()>,
    failures: mpsc::UnboundedSender<Error>,
}

/// Runs the manager from start to end.
pub(super) async fn run(
    inner: &Inner,
    mut setup: Setup,
    mut added: mpsc::UnboundedReceiver<Member>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let (failures, mut failed) = mpsc::unbounded_channel();
    let mut groups = Groups::new(&failures);
    let mut election = setup.election.take();
    tracing::info!(manager = inner.options.name, "Starting manager");
    groups.start(inner, setup);

    let mut shutdown = pin!(shutdown);
    let mut is_lost = false;
    let outcome = loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break Ok(()),
            Some(error) = failed.recv() => break Err(error),
            Some(member) = added.recv() => groups.add(member),
            campaign = campaign(&mut election, groups.leads()) => match campaign {
                Ok(()) => {
                    inner.is_leader.send_replace(Leadership::Leader { until: None });
                    groups.lead();
                    inner.elected.send_replace(true);
                }
                Err(error) => {
                    is_lost = true;
                    break Err(error);
                }
            },
        }
    };
    *inner.phase.lock() = Phase::Stopping;
    if let Err(error) = &outcome {
        tracing::error!(%error, "Stopping manager");
    }
    let leads = groups.leads();
    let late = |error: Error| tracing::error!(%error, "Error received after stop sequence was engaged");
    let mut ended = Ok(());
    let abort_leader = groups.leader.abort.clone();
    let lose = || {
        // Another instance may already lead, so everything that needs leadership must end.
        inner.is_leader.send_replace(Leadership::Lost);
        abort_leader.cancel();
    };
    if is_lost {
        lose();
    }
    let has_ended = {
        let grace = inner.options.graceful_shutdown_timeout;
        let mut stopping = pin!(groups.end(inner, grace));
        loop {
            tokio::select! {
                biased;
                (stopped, has_ended) = &mut stopping => {
                    ended = ended.and(stopped);
                    break has_ended;
                }
                // After any other reason to stop.
                error = keep(&mut election), if leads && !is_lost => {
                    is_lost = true;
                    lose();
                    ended = Err(error);
                }
                Some(error) = failed.recv() => late(error),
            }
        }
    };
    while let Ok(error) = failed.try_recv() {
        late(error);
    }
    inner.is_leader.send_replace(Leadership::Lost);
    // While tasks of the leader still run, the lease must expire instead of being released.
    if let Some(election) = election.as_mut().filter(|_| leads && has_ended) {
        election.release().await;
    }
    tracing::info!(manager = inner.options.name, "Manager stopped");
    outcome.and(ended)
}

/// Completes when this instance becomes the leader, or fails if it can no longer become the leader.
async fn campaign(election: &mut Option<Box<dyn Election>>, leads: bool) -> Result<()> {
    match election {
        Some(election) if !leads => {
            let acquired = AssertUnwindSafe(election.acquire()).catch_unwind().await;
            acquired.unwrap_or_else(|panic| Err(election_panic(&*panic)))
        }
        None if !leads => Ok(()),
        election => Err(keep(election).await),
    }
}

/// Completes when leadership is lost. Never completes without an election.
async fn keep(election: &mut Option<Box<dyn Election>>) -> Error {
    match election {
        Some(election) => {
            let lost = AssertUnwindSafe(election.keep()).catch_unwind().await;
            lost.unwrap_or_else(|panic| election_panic(&*panic))
        }
        None => std::future::pending().await,
    }
}

fn election_panic(panic: &(dyn Any + Send)) -> Error {
    let (name, message) = ("leader election".to_owned(), panic_text(panic));
    ManagerError::Panic { name, message }.into()
}

// === impl Groups ===

impl Groups {
    fn new(failures: &mpsc::UnboundedSender<Error>) -> Self {
        let tasks = || Tasks {
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: JoinSet::new(),
            failures: failures.clone(),
        };
        Self {
            events: tasks(),
            servers: tasks(),
            webhooks: tasks(),
            caches: tasks(),
            others: tasks(),
            leader: tasks(),
            of_leader: Some(Vec::new()),
        }
    }

    /// Starts the members that do not need leadership, in order, and keeps the others.
    fn start(&mut self, inner: &Inner, setup: Setup) {
        let recorder = setup.recorder;
        self.events.spawn("event recorder", move |stop| async move {
            recorder.run(stop).await;
            Ok(())
        });
        let mut members = setup.members;
        members.sort_by_key(Member::group);
        let of_servers = members.partition_point(|member| member.group() == Group::Servers);
        let others = members.split_off(of_servers);
        members.into_iter().for_each(|member| self.add(member));
        if let Some((server, listener)) = setup.metrics_server {
            self.servers.spawn("metrics", move |stop| async move {
                Ok(server.serve(listener, stop).await?)
            });
        }
        if let Some(server) = inner.webhooks.lock().start() {
            self.webhooks.spawn("webhooks", |stop| server.run(stop));
        }
        inner.client.cache().start();
        others.into_iter().for_each(|member| self.add(member));
    }

    /// Starts a member with its group: immediately, or when this instance becomes the leader.
    fn add(&mut self, mut member: Member) {
        let tasks = match member.group() {
            Group::Servers => &mut self.servers,
            Group::Webhooks => &mut self.webhooks,
            Group::Caches => &mut self.caches,
            Group::Others => &mut self.others,
            Group::Leader => match &mut self.of_leader {
                Some(waiting) => {
                    member.warm_up();
                    return waiting.push(member);
                }
                None => &mut self.leader,
            },
        };
        tasks.spawn(&member.name(), |stop| member.run(stop));
    }

    fn leads(&self) -> bool {
        self.of_leader.is_none()
    }

    /// Starts the members of the leader.
    fn lead(&mut self) {
        for member in self.of_leader.take().into_iter().flatten() {
            self.leader.spawn(&member.name(), |stop| member.run(stop));
        }
    }

    /// Stops everything, and aborts the tasks that have not ended in time. The result also shows whether all reconciles
    /// and all runnables of the leader have ended.
    async fn end(mut self, inner: &Inner, grace: Option<Duration>) -> (Result<()>, bool) {
        let stopped = self.stop_within(inner.client.cache(), grace).await;
        let Self {
            events,
            servers,
            webhooks,
            caches,
            others,
            mut leader,
            of_leader: _,
        } = self;
        // Dropping a group aborts it.
        drop((events, servers, webhooks, caches, others));
        leader.abort.cancel();
        inner.reconciles.close();
        let acting = async { tokio::join!(leader.ended(), inner.reconciles.wait()) };
        let has_ended = tokio::time::timeout(TO_ABORT, acting).await.is_ok();
        if !has_ended {
            tracing::error!("Aborted reconcile or runnable blocks its thread without awaiting");
            inner.is_blocked.store(true, Ordering::Relaxed);
        }
        (stopped, has_ended)
    }

    /// Stops everything, with the grace period.
    async fn stop_within(&mut self, cache: &Cache, grace: Option<Duration>) -> Result<()> {
        let in_order = self.stop(cache);
        let Some(grace) = grace else {
            in_order.await;
            return Ok(());
        };
        if grace.is_zero() {
            // Polled once: asks the tasks to stop without waiting.
            let _ = in_order.now_or_never();
            return Ok(());
        }
        let in_time = tokio::time::timeout(grace, in_order).await;
        in_time.map_err(|_| ManagerError::GracePeriod(grace).into())
    }

    /// Stops one group after the other.
    async fn stop(&mut self, cache: &Cache) {
        // This instance will no longer become the leader.
        self.of_leader = None;
        self.others.stop().await;
        self.leader.stop().await;
        tokio::join!(cache.stop(), self.caches.stop());
        self.webhooks.stop().await;
        self.servers.stop().await;
        self.events.stop().await;
    }
}

// === impl Tasks ===

impl Tasks {
    /// Starts a task. Its error or panic stops the manager.
    fn spawn<R>(&mut self, name: &str, run: impl FnOnce(CancellationToken) -> R + Send + 'static)
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let (stop, abort, failures) = (self.stop.clone(), self.abort.clone(), self.failures.clone());
        let name = name.to_owned();
        let task = async move {
            let running = AssertUnwindSafe(async { run(stop).await }).catch_unwind();
            let ended = tokio::select! {
                biased;
                () = abort.cancelled() => return,
                ended = running => ended,
            };
            let ended = ended.unwrap_or_else(|panic| {
                let message = panic_text(&*panic);
                Err(ManagerError::Panic { name, message }.into())
            });
            if let Err(error) = ended {
                // The manager returns the first error and logs the others.
                let _ = failures.send(error);
            }
        };
        self.tasks.spawn(task);
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        self.ended().await;
    }

    async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
