//! [`Worker`], the running controller: starts the sources, waits for them, and reconciles until it is stopped.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use super::{Action, ControllerError, KeyContext, Reconcile, Request, Requeue, Settings, Source};
use crate::cache::skips::Origin;
use crate::client::{Client, Current, within};
use crate::error::{Error, Result, Retry, panic_text};
use crate::event_recorder::EventRecorder;
use crate::metrics::{ControllerMetrics, Outcome};
use crate::object::{Kind, ObjectKey};
use crate::queue::Requests;
use crate::queue::driver::{Next, WorkQueue};

/// Time that a cancelled reconcile has to end before it is reported.
const TO_ABORT: Duration = Duration::from_secs(1);

/// Creates the span of a reconcile with this id.
pub(super) type MakeSpan = Box<dyn Fn(&Request, &str) -> tracing::Span + Send + Sync>;

/// A controller that the manager can run.
pub(crate) struct Worker {
    sources: Vec<Source>,
    /// Sources that are added later.
    added: mpsc::UnboundedReceiver<Source>,
    begun: Option<Begun>,
    pub(crate) shared: Arc<Shared>,
}

/// The started sources of a controller.
struct Begun {
    /// Completes when all sources have been listed.
    synced: AbortOnDropHandle<()>,
    raw: JoinSet<Result<()>>,
    stop: CancellationToken,
}

/// The state that the worker tasks of a controller share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Option<Kind>,
    pub(crate) queue: Arc<WorkQueue>,
    pub(crate) reconcile: Reconcile,
    pub(crate) options: Settings,
    pub(crate) client: Client,
    /// Runs every reconcile of the manager.
    pub(crate) reconciles: TaskTracker,
    pub(crate) recorder: EventRecorder,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) span: Option<MakeSpan>,
}

// === impl Worker ===

impl Worker {
    pub(super) fn new(sources: Vec<Source>, added: mpsc::UnboundedReceiver<Source>, shared: Shared) -> Self {
        Self {
            sources,
            added,
            begun: None,
            shared: Arc::new(shared),
        }
    }

    /// Fills the queue before the controller runs, if warmup is enabled.
    pub(crate) fn warm_up(&mut self) {
        if self.shared.options.warmup {
            self.begun = Some(self.begin());
        }
    }

    fn begin(&mut self) -> Begun {
        tracing::info!(controller = %self.shared.name, "Starting EventSources");
        let (mut raw, stop) = (JoinSet::new(), CancellationToken::new());
        let mut synced = Vec::new();
        let early = std::iter::from_fn(|| self.added.try_recv().ok());
        for source in self.sources.drain(..).chain(early) {
            let requests = Requests::new(self.shared.queue.clone());
            match source {
                Source::Kind(start) => synced.push(start(requests)),
                Source::Raw(start) => {
                    // The result is not used during warmup.
                    let run = start(requests, stop.child_token());
                    raw.spawn(reported(self.shared.name.clone(), run));
                }
            }
        }
        let synced = AbortOnDropHandle::new(tokio::spawn(async move {
            join_all(synced).await;
        }));
        Begun { synced, raw, stop }
    }

    /// Reconciles until `stop`, and then waits for the running reconciles.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<()> {
        let span = self.shared.options.parent_span.clone();
        let run = self.run_in_span(stop);
        match span {
            Some(span) => run.instrument(span).await,
            None => run.await,
        }
    }

    async fn run_in_span(mut self, stop: CancellationToken) -> Result<()> {
        let shared = self.shared.clone();
        tracing::info!(controller = %shared.name, "Starting Controller");
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(),
        };
        let mut sources = Sources {
            shared: shared.clone(),
            raw: begun.raw,
            stop: begun.stop,
            added: self.added,
        };
        let mut synced = begun.synced;
        let is_synced = tokio::select! {
            biased;
            is_synced = shared.sync(&mut synced, &stop) => is_synced?,
            failed = sources.failure() => return failed,
        };
        if !is_synced {
            return Ok(());
        }
        let workers = shared.options.max_concurrent_reconciles;
        tracing::info!(controller = %shared.name, workers, "Starting workers");
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let shared = shared.clone();
            tasks.spawn(async move { shared.work().await }.in_current_span());
        }
        let failed = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            failed = sources.failure() => failed,
            // A worker ends early only after a panic that is not recovered.
            Some(Err(ended)) = tasks.join_next() => Err(Error::msg(ended_text(ended))),
            never = shared.queue.dump(&shared.name) => match never {},
        };
        tracing::info!(controller = %shared.name, "Shutdown signal received, waiting for all workers to finish");
        sources.stop.cancel();
        shared.queue.stop();
        failed?;
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|ended| Error::msg(ended_text(ended)))?;
        }
        tracing::info!(controller = %shared.name, "All workers finished");
        Ok(())
    }
}

/// The sources that are added to a running controller.
struct Sources {
    shared: Arc<Shared>,
    raw: JoinSet<Result<()>>,
    stop: CancellationToken,
    added: mpsc::UnboundedReceiver<Source>,
}

impl Sources {
    /// Starts added sources until one fails. Sources that end are removed.
    async fn failure(&mut self) -> Result<()> {
        loop {
            tokio::select! {
                biased;
                Some(source) = self.added.recv() => self.start(source),
                Some(ended) = self.raw.join_next() => match ended {
                    Ok(outcome) => outcome?,
                    Err(ended) => return Err(Error::msg(ended_text(ended))),
                },
                else => return std::future::pending().await,
            }
        }
    }

    fn start(&mut self, source: Source) {
        tracing::info!(controller = %self.shared.name, "Starting EventSource");
        let requests = Requests::new(self.shared.queue.clone());
        match source {
            Source::Kind(start) => {
                let start = start(requests);
                self.raw.spawn(async move {
                    start.await;
                    Ok(())
                });
            }
            Source::Raw(start) => {
                self.raw.spawn(start(requests, self.stop.child_token()));
            }
        }
    }
}

/// Logs the failure or the panic of a source immediately.
async fn reported(controller: Arc<str>, run: BoxFuture<'static, Result<()>>) -> Result<()> {
    let ended = AssertUnwindSafe(run).catch_unwind().await;
    let ended = ended.unwrap_or_else(|panic| Err(Error::msg(panic_text(&*panic))));
    if let Err(error) = &ended {
        tracing::error!(%controller, %error, "Source failed");
    }
    ended
}

fn ended_text(ended: JoinError) -> String {
    match ended.try_into_panic() {
        Ok(panic) => panic_text(&*panic),
        Err(cancelled) => cancelled.to_string(),
    }
}

// === impl Shared ===

impl Shared {
    /// Waits for the first lists. Returns `false` if the controller is stopped first.
    async fn sync(&self, synced: &mut AbortOnDropHandle<()>, stop: &CancellationToken) -> Result<bool> {
        let limit = async {
            match self.options.cache_sync_timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = synced => match ended {
                Ok(()) => Ok(true),
                Err(ended) => Err(Error::msg(ended_text(ended))),
            },
            () = stop.cancelled() => Ok(false),
            () = limit => Err(ControllerError::CacheSync {
                name: self.name.to_string(),
                reason: self.client.cache().unhealthy().join("; "),
            }
            .into()),
        }
    }

    async fn work(&self) {
        while let Some(job) = self.queue.next().await {
            let outcome = self.reconcile(job.key.clone()).await;
            let (next, priority) = follow_up(&outcome, job.priority);
            self.queue.finish(job, next, priority);
        }
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Action> {
        let id = crate::clock::uuid();
        let span = self.span(&key, &id);
        let ctx = KeyContext {
            client: self.client.clone(),
            recorder: self.recorder.clone(),
            controller: self.name.clone(),
            reconcile_id: id.into(),
        };
        let current = Current {
            origin: Origin::new(self.queue.clone(), key.clone()),
            always_send: self.options.always_send,
        };
        let reconcile = within(current, (self.reconcile)(key, ctx));
        let (active, begin) = (self.metrics.worker(), Instant::now());
        let outcome = self.limited(reconcile.instrument(span.clone())).await;
        drop(active);
        let outcome = outcome.or_else(|error| match error.retry() {
            Retry::Wait(after) => {
                span.in_scope(|| tracing::info!(reason = %error, "Waiting"));
                Ok(Action::requeue_after(after))
            }
            _ => Err(error),
        });
        self.metrics.finished(counted(&outcome), begin.elapsed());
        if let Err(error) = &outcome {
            let terminal = error.is_terminal();
            span.in_scope(|| tracing::error!(%error, terminal, "Reconciler error"));
        }
        outcome
    }

    /// Runs a reconcile with the time limit, in its own task, so that a panic ends only that task.
    async fn limited(
        &self,
        reconcile: impl Future<Output = Result<Action>> + Send + 'static,
    ) -> Result<Action> {
        // Aborted with the worker when the lease is lost or the grace period is over.
        let mut task = AbortOnDropHandle::new(self.reconciles.spawn(reconcile));
        let Some(limit) = self.options.reconciliation_timeout else {
            return self.joined(task.await);
        };
        match tokio::time::timeout(limit, &mut task).await {
            Ok(outcome) => self.joined(outcome),
            Err(_) => {
                // The key stays locked until the task has ended.
                task.abort();
                match self.aborted(task).await {
                    Err(error) if error.is_cancelled() => {
                        self.metrics.timed_out();
                        Err(Error::msg(format!(
                            "reconcile was cancelled: it took longer than {limit:?}"
                        )))
                    }
                    outcome => self.joined(outcome),
                }
            }
        }
    }

    /// Waits until an aborted task has ended at its next `await`. A task that does not end is reported, because it
    /// occupies a worker of its controller.
    async fn aborted(
        &self,
        mut task: AbortOnDropHandle<Result<Action>>,
    ) -> Result<Result<Action>, JoinError> {
        if let Ok(ended) = tokio::time::timeout(TO_ABORT, &mut task).await {
            return ended;
        }
        tracing::error!(controller = %self.name, "Cancelled reconcile blocks its thread without awaiting");
        task.await
    }

    fn joined(&self, outcome: Result<Result<Action>, JoinError>) -> Result<Action> {
        match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => {
                self.metrics.panicked();
                let panic = error.into_panic();
                if !self.options.recover_panic {
                    resume_unwind(panic);
                }
                Err(Error::msg(format!("{} [recovered]", panic_text(&*panic))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the span in which the worker runs, a child of the manager's span.
    fn span(&self, key: &ObjectKey, id: &str) -> tracing::Span {
        if let Some(span) = &self.span {
            return span(key, id);
        }
        let (namespace, name) = (key.namespace(), key.name());
        let controller = self.name.as_ref();
        let group = self.kind.as_ref().map(|kind| kind.group.as_str());
        let kind = self.kind.as_ref().map(|kind| kind.kind.as_str());
        tracing::info_span!(
            "reconcile",
            controller,
            controllerGroup = group,
            controllerKind = kind,
            namespace,
            name,
            reconcileID = id
        )
    }
}

/// Returns the queue operation after a reconcile, and its priority.
fn follow_up(outcome: &Result<Action>, priority: i32) -> (Next, i32) {
    match outcome {
        Err(error) => match error.retry() {
            Retry::Backoff => (Next::Backoff, priority),
            Retry::After(after) | Retry::Wait(after) => (Next::After(after), priority),
            Retry::Never => (Next::Terminal, priority),
        },
        Ok(action) => {
            let next = match action.requeue {
                Requeue::Never => Next::Done,
                Requeue::After(after) => Next::After(after),
                Requeue::Backoff => Next::Backoff,
            };
            (next, action.priority.unwrap_or(priority))
        }
    }
}

/// Returns the metric label of a reconcile.
fn counted(outcome: &Result<Action>) -> Outcome {
    match outcome {
        Err(error) if error.is_terminal() => Outcome::TerminalError,
        Err(_) => Outcome::Error,
        Ok(action) => match action.requeue {
            Requeue::Never => Outcome::Success,
            Requeue::After(_) => Outcome::RequeueAfter,
            Requeue::Backoff => Outcome::Requeue,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_decides_the_continuation() {
        let after = Duration::from_secs(5);
        let next = |outcome| follow_up(&outcome, 7);
        assert_eq!(next(Ok(Action::done())), (Next::Done, 7));
        assert_eq!(next(Ok(Action::requeue_after(after))), (Next::After(after), 7));
        assert_eq!(next(Ok(Action::requeue_after(Duration::ZERO))), (Next::Done, 7));
        assert_eq!(next(Ok(Action::requeue().with_priority(-5))), (Next::Backoff, -5));
        assert_eq!(next(Err(Error::msg("no"))), (Next::Backoff, 7));
        assert_eq!(next(Err(Error::terminal("no"))), (Next::Terminal, 7));
        assert_eq!(
            next(Err(Error::retry_after("no", after))),
            (Next::After(after), 7)
        );
    }
}
