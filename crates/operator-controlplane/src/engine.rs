//! Runs controllers: one feed maintains the shared index, and one task for each controller processes its keys and
//! executes its plans.

mod execute;
mod feed;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use operator_apiserver::client::{Client, Event};
use parking_lot::RwLock;
use tokio::sync::Notify;

pub(crate) use feed::{Subscriber, feed};

use crate::clock::Clock;
use crate::engine::execute::{Executor, Refusal, is_namespace_terminating};
use crate::objects::{Key, Objects};
use crate::plan::{Failure, Plan, World};
use crate::queue::Queue;
use crate::recorder::Recorder;

/// The maximum number of consecutive plans of a key; then it has to wait, so that an unstable plan cannot spin.
const ROUNDS_MAX: usize = 32;

/// The maximum number of keys of a controller whose plans are reported as never settling.
const UNSETTLED_MAX: usize = 1000;

/// The time limit for the index to receive the engine's own writes. The server runs in the same process, so the limit
/// is never reached while the server runs.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// Plans the actions for a key from the current state.
type Decide = dyn FnMut(&World<'_>, &Key) -> Plan + Send;

/// A controller: maps events to keys, and keys to plans.
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    pub(crate) keys: fn(&Objects, &Event, &mut Vec<Key>),
    pub(crate) plan: Box<Decide>,
    /// Keys that are reconciled once at the start.
    pub(crate) initial: Vec<Key>,
}

/// The shared index and its revision.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) objects: RwLock<Objects>,
    revision: AtomicU64,
    /// Wakes those who wait in the order in which they began, so that a simulation can be repeated.
    changed: Notify,
}

impl Cache {
    /// Creates an index that begins with these objects. The feed updates it to the current ones first.
    pub(crate) fn new(objects: Objects) -> Arc<Self> {
        Arc::new(Self {
            objects: RwLock::new(objects),
            revision: AtomicU64::new(0),
            changed: Notify::new(),
        })
    }

    /// Sets the revision of the index.
    fn reach(&self, revision: u64) {
        self.revision.store(revision, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until `seen` returns true for the index.
    async fn wait(&self, seen: impl Fn(&Objects, u64) -> bool) {
        let reached = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                // From here on, a change wakes this task.
                changed.as_mut().enable();
                if seen(&self.objects.read(), self.revision.load(Ordering::Acquire)) {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(CATCH_UP_MAX, reached).await.is_err() {
            tracing::warn!("the index lags behind the server");
        }
    }
}

/// Runs one controller until its task is dropped.
pub(crate) struct Runner {
    controller: Controller,
    queue: Arc<Queue>,
    cache: Arc<Cache>,
    client: Client,
    clock: Clock,
    executor: Executor,
    failures: HashMap<Key, Failure>,
    /// The keys whose plan did not settle: each is reported once.
    unsettled: HashSet<Key>,
}

impl Runner {
    pub(crate) fn new(
        controller: Controller,
        queue: Arc<Queue>,
        cache: &Arc<Cache>,
        client: &Client,
        clock: &Clock,
        recorder: &Arc<Recorder>,
        max_pods: usize,
    ) -> Self {
        Self {
            controller,
            queue,
            cache: cache.clone(),
            client: client.clone(),
            clock: clock.clone(),
            executor: Executor::new(client.clone(), cache.clone(), recorder.clone(), max_pods),
            failures: HashMap::new(),
            unsettled: HashSet::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        self.cache.wait(|_, revision| revision > 0).await;
        loop {
            let key = self.queue.next().await;
            self.reconcile(&key).await;
        }
    }

    async fn reconcile(&mut self, key: &Key) {
        for _ in 0..ROUNDS_MAX {
            let plan = self.plan(key);
            if plan.actions.is_empty() {
                self.failures.remove(key);
                return self.settle(key, plan).await;
            }
            let refused = self.executor.all(plan.actions).await;
            if let Err(refusal) = refused {
                return self.refused(key, refusal).await;
            }
        }
        self.report_unsettled(key);
        self.queue.retry(key.clone());
    }

    fn report_unsettled(&mut self, key: &Key) {
        if self.unsettled.len() >= UNSETTLED_MAX || !self.unsettled.insert(key.clone()) {
            return;
        }
        let Key { namespace, name } = key;
        tracing::warn!(
            controller = self.controller.name,
            namespace,
            name,
            "the controller still wants to change objects after {ROUNDS_MAX} rounds and retries later: something else may revert its changes"
        );
    }

    fn plan(&mut self, key: &Key) -> Plan {
        let objects = self.cache.objects.read();
        let world = World {
            objects: &objects,
            now: self.clock.now(),
            failure: self.failures.get(key),
            resources: &|| self.client.resources(),
        };
        (self.controller.plan)(&world, key)
    }

    /// Completes a plan without actions: writes the status, and schedules the next plan.
    async fn settle(&mut self, key: &Key, plan: Plan) {
        if let Some(delay) = plan.after {
            self.queue.add_after(key.clone(), delay);
        }
        match plan.status {
            None => self.queue.forget(key),
            Some(status) => match self.executor.one(status).await {
                Ok(()) => self.queue.forget(key),
                Err(refusal) => {
                    self.log(key, &refusal);
                    self.queue.retry(key.clone());
                }
            },
        }
    }

    /// Handles a rejected action: the status reports the reason, and the key is retried later.
    async fn refused(&mut self, key: &Key, refusal: Refusal) {
        self.log(key, &refusal);
        if let Refusal::Failed(failure) = refusal {
            self.failures.insert(key.clone(), failure);
            if let Some(status) = self.plan(key).status {
                let _ = self.executor.one(status).await;
            }
        }
        self.queue.retry(key.clone());
    }

    fn log(&self, key: &Key, refusal: &Refusal) {
        let Key { namespace, name } = key;
        let controller = self.controller.name;
        match refusal {
            Refusal::Stale(status)
                if matches!(status.code, 404 | 409) || is_namespace_terminating(status) =>
            {
                tracing::debug!(controller, namespace, name, %status, "planning again");
            }
            Refusal::Pending(why) => {
                tracing::debug!(controller, namespace, name, why, "planning again");
            }
            Refusal::Stale(status) => {
                tracing::warn!(controller, namespace, name, %status, "the server rejected a write");
            }
            Refusal::Failed(failure) => {
                tracing::warn!(
                    controller,
                    namespace,
                    name,
                    error = failure.message,
                    "{}",
                    failure.reason
                );
            }
        }
    }
}
