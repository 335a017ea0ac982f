//! Where the requests of a controller come from: kinds in the cache, and whatever else the operator listens to.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Watch;
use crate::cache::Cache;
use crate::error::Result;
use crate::event::Event;
use crate::handler::EventHandler;
use crate::object::{Meta, ObjectKey, View};
use crate::predicate::Predicate;
use crate::queue::LOW_PRIORITY;
use crate::queue::driver::WorkQueue;

/// Predicates of every event of every kind.
pub(super) type Filters = Arc<[Box<dyn Predicate<dyn Meta>>]>;

/// Feeds the queue of a controller.
pub(crate) enum Source {
    /// A kind: the future ends when it is in the cache and its objects in the queue.
    Kind(Box<dyn FnOnce(Requests) -> BoxFuture<'static, ()> + Send>),
    /// Anything else: the future ends when the source has run dry, or is told to stop.
    Raw(Box<dyn FnOnce(Requests, CancellationToken) -> BoxFuture<'static, Result<()>> + Send>),
}

/// Adds requests to the queue of a controller; what it is given is reconciled. Clones share the queue.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
/// # fn main() -> Result<()> { cluster(async |manager, _| {
/// let (mine, mut seen) = recorder();
/// Controller::managed_by(manager)
///     .named("reports")
///     .watches_raw(async |requests, _stop| Ok(requests.add(("default", "daily"))))
///     .complete(mine)?;
/// assert_eq!(seen.recv().await, Some(Request::namespaced("default", "daily")));
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug)]
pub struct Requests {
    queue: Arc<WorkQueue>,
}

/// Sends values into a controller, from wherever the operator hears of them; made by [`channel`].
///
/// ```
/// use operator_runtime::Request;
/// use operator_runtime::controller::{self, Sender};
///
/// let (sender, _requests) = controller::channel::<Request>(1024);
/// // Hand a clone to whoever hears of something.
/// let webhook: Sender<Request> = sender.clone();
/// assert!(webhook.try_send(Request::cluster("ticket-7")).is_ok());
/// ```
pub type Sender<T> = mpsc::Sender<T>;

/// A channel into a controller: for [`Controller::requests_from`](super::Controller::requests_from) with keys, or for
/// [`Controller::events_from`](super::Controller::events_from) with events. Sending waits while `capacity` values wait;
/// controller-runtime's channel sources have a capacity of 1024.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
/// # fn main() -> Result<()> { cluster(async |manager, _| {
/// use operator_runtime::controller;
///
/// let (mine, mut seen) = recorder();
/// let (sender, requests) = controller::channel::<Request>(1024);
/// Controller::managed_by(manager).named("tickets").requests_from(requests).complete(mine)?;
/// // Later, in the task that hears of tickets:
/// sender.send(Request::namespaced("default", "ticket-7")).await?;
/// assert_eq!(seen.recv().await, Some(Request::namespaced("default", "ticket-7")));
/// # Ok(()) }) }
/// ```
pub fn channel<T: Send + 'static>(capacity: usize) -> (Sender<T>, impl Stream<Item = T> + Send + 'static) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    let received = futures::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<T>| {
        receiver.recv().await.map(|value| (value, receiver))
    });
    (sender, received)
}

// === impl Requests ===

impl Requests {
    pub(super) fn new(queue: Arc<WorkQueue>) -> Self {
        Self { queue }
    }

    /// Reconciles the key as soon as a worker is free. A key that waits already waits once.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// let source = async |requests: operator_runtime::controller::Requests, _stop| {
    ///     requests.add(Request::cluster("worker-1"));
    ///     requests.add(("default", "web"));
    ///     Ok(())
    /// };
    /// # Controller::managed_by(manager).named("raw").watches_raw(source).complete(mine)?;
    /// # let both = [seen.recv().await, seen.recv().await];
    /// # assert!(both.contains(&Some(Request::cluster("worker-1"))));
    /// # Ok(()) }) }
    /// ```
    pub fn add(&self, key: impl Into<ObjectKey>) {
        self.queue.add(key.into(), 0);
    }

    /// Reconciles the key with a priority: higher ones go first. Events have 0, the first list and resyncs have -100. A
    /// key that waits already keeps the higher of the two.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// let source = async |requests: operator_runtime::controller::Requests, _stop| {
    ///     requests.add_with_priority(("default", "housekeeping"), -50);
    ///     Ok(())
    /// };
    /// # Controller::managed_by(manager).named("raw").watches_raw(source).complete(mine)?;
    /// # assert!(seen.recv().await.is_some());
    /// # Ok(()) }) }
    /// ```
    pub fn add_with_priority(&self, key: impl Into<ObjectKey>, priority: i32) {
        self.queue.add(key.into(), priority);
    }

    /// Reconciles the key not before this time has passed, unless something else asks for it earlier.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// use std::time::Duration;
    ///
    /// let source = async |requests: operator_runtime::controller::Requests, _stop| {
    ///     requests.add_after(("default", "web"), Duration::from_millis(20));
    ///     Ok(())
    /// };
    /// # Controller::managed_by(manager).named("raw").watches_raw(source).complete(mine)?;
    /// # assert!(seen.recv().await.is_some());
    /// # Ok(()) }) }
    /// ```
    pub fn add_after(&self, key: impl Into<ObjectKey>, after: Duration) {
        self.queue.add_after(key.into(), 0, after);
    }
}

// === impl Source ===

impl Source {
    /// The events of a kind that the predicates let pass, through a handler.
    pub(super) fn kind<K: View>(
        cache: &Cache,
        watch: Watch<K>,
        handler: impl EventHandler<K>,
        filters: Filters,
    ) -> Self {
        // The informer exists from now on, so that its watch starts with the cache.
        let informer = cache.informer_of::<K>(&watch.kind);
        Self::Kind(Box::new(move |requests| {
            Box::pin(async move {
                informer.synced::<K>().await;
                informer.add_handler(move |event: &Event<K>| {
                    if passes(&filters, event) && watch.passes(event) {
                        let is_unchanged = event.is_initial() || event.is_resync();
                        let priority = if is_unchanged { LOW_PRIORITY } else { 0 };
                        for key in handler.requests(event) {
                            requests.add_with_priority(key, priority);
                        }
                    }
                });
            })
        }))
    }

    /// What a stream makes, until it ends.
    pub(super) fn stream<T: Send + 'static>(
        stream: impl Stream<Item = T> + Send + 'static,
        keys: impl Fn(T) -> Vec<ObjectKey> + Send + 'static,
    ) -> Self {
        Self::raw(async move |requests: Requests, stop: CancellationToken| {
            let mut stream = std::pin::pin!(stream.take_until(stop.cancelled_owned()));
            while let Some(value) = stream.next().await {
                keys(value).into_iter().for_each(|key| requests.add(key));
            }
            Ok(())
        })
    }

    pub(super) fn raw<R>(run: impl FnOnce(Requests, CancellationToken) -> R + Send + 'static) -> Self
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        Self::Raw(Box::new(move |requests, stop| Box::pin(run(requests, stop))))
    }
}

fn passes<K: View>(filters: &Filters, event: &Event<K>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let event = event.map(|object| -> Arc<dyn Meta> { object.clone() });
    filters.iter().all(|predicate| predicate.test(&event))
}
