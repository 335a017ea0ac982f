//! [`Requests`] adds keys to the queue of a controller, for handlers and sources.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::driver::WorkQueue;
use super::state;
use crate::error::{Error, Result, panic_text};
use crate::object::ObjectKey;

/// Maximum attempts of a failing function of a handler, and the first delay, which doubles: half a minute in total.
const TRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Options for adding a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Add {
    /// The priority; higher ones are served first. Default: that of the event, which is 0, and -100 for objects of the first
    /// list and of resyncs.
    pub priority: Option<i32>,
    /// Delay before the key becomes ready.
    pub after: Duration,
    /// Delays the key by the backoff of its failures, and counts one more failure. With `after`, the shorter delay counts.
    pub rate_limited: bool,
}

/// Adds requests to the queue of a controller. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Requests {
    queue: Arc<WorkQueue>,
    /// The default priority.
    priority: i32,
    later: Weak<Later>,
}

/// Deferred work of the handlers of one source. It runs in sequence, and is dropped with the source.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) tasks: TaskTracker,
    turn: Arc<Semaphore>,
    stop: CancellationToken,
}

// === impl Requests ===

impl Requests {
    pub(crate) fn new(queue: Arc<WorkQueue>) -> Self {
        Self {
            queue,
            priority: 0,
            later: Weak::new(),
        }
    }

    pub(crate) fn until(mut self, later: &Arc<Later>) -> Self {
        self.later = Arc::downgrade(later);
        self
    }

    pub(crate) fn of_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Adds a key. A key that is already queued is not added twice: it keeps the higher priority and the earlier time.
    pub fn add(&self, key: impl Into<ObjectKey>, options: Add) {
        let add = state::Add {
            priority: options.priority.unwrap_or(self.priority),
            after: options.after,
            rate_limited: options.rate_limited,
        };
        self.queue.add(key.into(), add);
    }

    /// Runs an asynchronous function after the previous ones and then adds its keys. A failure is retried a few times,
    /// while other functions run.
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
            keys.into_iter().for_each(|key| requests.add(key, Add::default()));
        });
    }
}

/// Returns the keys of a function of a handler, with retries.
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
        tracing::error!(%error, "Handler failed to map an event to objects");
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Vec::new()
}

// === impl Later ===

impl Later {
    pub(crate) fn new() -> Arc<Self> {
        let tasks = TaskTracker::new();
        // More tasks can be added to a closed tracker. Closing it allows others to wait until it is empty.
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
