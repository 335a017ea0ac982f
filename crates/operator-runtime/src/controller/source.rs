//! Where the requests of a controller come from: kinds in the cache, and whatever else the operator listens to.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Watch;
use crate::cache::Cache;
use crate::error::{Error, Result, panic_text};
use crate::event::Event;
use crate::handler::EventHandler;
use crate::object::{Meta, ObjectKey, View};
use crate::predicate::Predicate;
use crate::queue::driver::WorkQueue;
use crate::queue::{Add, LOW_PRIORITY};

/// How often a function of a handler is called that fails, and the first of the pauses, which double: half a minute in all.
const TRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

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
    /// Of what is added without one.
    priority: i32,
    later: Weak<Later>,
}

/// What handlers of one source do later: one after the other, and not at all when the source is gone.
#[derive(Debug)]
struct Later {
    tasks: TaskTracker,
    turn: Arc<Semaphore>,
    stop: CancellationToken,
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
        Self {
            queue,
            priority: 0,
            later: Weak::new(),
        }
    }

    fn until(mut self, later: &Arc<Later>) -> Self {
        self.later = Arc::downgrade(later);
        self
    }

    fn of_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Reconciles the key as soon as a worker is free. A key that waits already waits once.
    ///
    /// Events have priority 0; given to a handler, what it adds because of an object of the first list or of a resync
    /// has -100.
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
        self.add_with_priority(key, self.priority);
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
        let add = Add {
            priority,
            ..Add::default()
        };
        self.add_with(key, add);
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
        let add = Add {
            priority: self.priority,
            after,
            ..Add::default()
        };
        self.add_with(key, add);
    }

    /// Reconciles the key after the backoff, as if a reconcile of it had failed.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// let source = async |requests: operator_runtime::controller::Requests, _stop| {
    ///     requests.add_rate_limited(Request::cluster("flapping"));
    ///     Ok(())
    /// };
    /// # Controller::managed_by(manager).named("raw").watches_raw(source).complete(mine)?;
    /// # assert_eq!(seen.recv().await, Some(Request::cluster("flapping")));
    /// # Ok(()) }) }
    /// ```
    pub fn add_rate_limited(&self, key: impl Into<ObjectKey>) {
        let add = Add {
            priority: self.priority,
            rate_limited: true,
            ..Add::default()
        };
        self.add_with(key, add);
    }

    /// Reconciles the key with a priority of its own, and after whatever wait.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// use std::time::Duration;
    /// use operator_runtime::queue::Add;
    ///
    /// let source = async |requests: operator_runtime::controller::Requests, _stop| {
    ///     let add = Add { priority: 10, after: Duration::from_millis(5), ..Add::default() };
    ///     requests.add_with(Request::cluster("urgent"), add);
    ///     Ok(())
    /// };
    /// # Controller::managed_by(manager).named("raw").watches_raw(source).complete(mine)?;
    /// # assert_eq!(seen.recv().await, Some(Request::cluster("urgent")));
    /// # Ok(()) }) }
    /// ```
    pub fn add_with(&self, key: impl Into<ObjectKey>, add: Add) {
        self.queue.add(key.into(), add);
    }

    /// Does something that takes its time and then adds requests, when what was given before is done. A failure is tried
    /// again some times, while others go on.
    pub(crate) fn add_later<F, R>(&self, what: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<ObjectKey>>> + Send + 'static,
    {
        let Some(later) = self.later.upgrade() else {
            return;
        };
        let (turn, stop, requests) = (later.turn.clone(), later.stop.clone(), self.clone());
        later.tasks.spawn(async move {
            let work = stop.run_until_cancelled(in_turn(&turn, what));
            let keys = work.await.unwrap_or_default();
            keys.into_iter().for_each(|key| requests.add(key));
        });
    }
}

/// The keys that a function of a handler finds at last.
async fn in_turn<R>(turn: &Semaphore, what: impl Fn() -> R) -> Vec<ObjectKey>
where
    R: Future<Output = Result<Vec<ObjectKey>>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 0..TRIES {
        // It is never closed.
        let permit = turn.acquire().await;
        let answer = AssertUnwindSafe(async { what().await }).catch_unwind().await;
        let error = match answer.unwrap_or_else(|panic| Err(Error::msg(panic_text(&*panic)))) {
            Ok(keys) => return keys,
            Err(error) => error,
        };
        drop(permit);
        tracing::error!(%error, "A handler cannot say which objects an event is about");
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Vec::new()
}

// === impl Later ===

impl Later {
    fn new() -> Arc<Self> {
        let tasks = TaskTracker::new();
        // There may be more nevertheless; it lets others wait until there is nothing to do.
        tasks.close();
        Arc::new(Self {
            tasks,
            turn: Arc::new(Semaphore::new(1)),
            stop: CancellationToken::new(),
        })
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.stop.cancel();
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
                let later = Later::new();
                let (tasks, fresh) = (later.tasks.clone(), requests.until(&later));
                let unchanged = fresh.clone().of_priority(LOW_PRIORITY);
                let handle = move |event: &Event<K>| {
                    // It lives as long as the handler does.
                    let _later = &later;
                    if passes(&filters, event) && watch.passes(event) {
                        let is_unchanged = event.is_initial() || event.is_resync();
                        handler.enqueue(event, if is_unchanged { &unchanged } else { &fresh });
                    }
                };
                informer.add_handler(handle).await;
                tasks.wait().await;
            })
        }))
    }

    /// The keys that a stream brings, until it ends.
    pub(super) fn keys(stream: impl Stream<Item = ObjectKey> + Send + 'static) -> Self {
        Self::stream(stream, |key, requests| requests.add(key))
    }

    /// What a handler makes of the events that a stream brings, until it ends.
    pub(super) fn events<K: Send + Sync + 'static>(
        stream: impl Stream<Item = Event<K>> + Send + 'static,
        handler: impl EventHandler<K>,
    ) -> Self {
        Self::stream(stream, move |event, requests| handler.enqueue(&event, requests))
    }

    fn stream<T: Send + 'static>(
        stream: impl Stream<Item = T> + Send + 'static,
        add: impl Fn(T, &Requests) + Send + Sync + 'static,
    ) -> Self {
        Self::raw(async move |requests: Requests, stop: CancellationToken| {
            let later = Later::new();
            let requests = requests.until(&later);
            let mut stream = std::pin::pin!(stream.take_until(stop.clone().cancelled_owned()));
            while let Some(value) = stream.next().await {
                add(value, &requests);
            }
            // The stream may have run dry before what it brought is done.
            stop.run_until_cancelled(later.tasks.wait()).await;
            Ok(())
        })
    }

    pub(super) fn raw<R>(run: impl FnOnce(Requests, CancellationToken) -> R + Send + 'static) -> Self
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        Self::Raw(Box::new(move |requests, stop| {
            Box::pin(async move { run(requests, stop).await })
        }))
    }
}

fn passes<K: View>(filters: &Filters, event: &Event<K>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let event = event.map(|object| -> Arc<dyn Meta> { object.clone() });
    filters.iter().all(|predicate| predicate.test(&event))
}
