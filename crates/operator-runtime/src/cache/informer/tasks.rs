//! The tasks of an informer: its watches, which fail and back off independently, and resyncs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kube::runtime::watcher::{self, Event as WatchEvent};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::backoff::Overdue;
use super::failure::{explain, is_expired, is_garbled, is_out_of_step, is_too_many_requests};
use super::{Health, Informer, WatchBackoff};
use crate::cache::breath::Breath;
use crate::cache::item::{FindOwnWrite, Incoming, Incomings, Representation};
use crate::cache::pace::paced;
use crate::cache::plan::Planned;
use crate::cache::store::Scope;
use crate::cache::watch_error::{WatchErrorHandler, WatchFailure};
use crate::error::{describe, panic_text};
use crate::event::Event;
use crate::metrics::RestClientLayer;

/// Time without watch events after which a watch counts as recovered from an error. A streamed list that ends after
/// this time without events did not end because the server does not support streaming.
const QUIET: Duration = Duration::from_secs(10);

/// Decoded objects are dropped one to two of these periods after their last read.
const HOT_FOR: Duration = Duration::from_secs(2);

/// Delay before a task of the cache that panicked is restarted.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// The failures of a watch since its last success.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    /// True if a watch event could not be read. A successful list then does not count as a recovery.
    is_garbled: bool,
    /// The time of the first failure.
    since: Option<Instant>,
    /// True if the earlier skipped writes were made due.
    skips_given_up: bool,
}

pub(crate) type BoxedRun = futures::future::BoxFuture<'static, ()>;

/// The connection of a watch.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) config: watcher::Config,
    /// Streams first lists if the server supports it.
    pub(crate) streaming_lists: bool,
    pub(crate) backoff: WatchBackoff,
    /// Called for each failure.
    pub(crate) errors: WatchErrorHandler,
    /// Records the delays of requests.
    pub(crate) requests: RestClientLayer,
}

// === impl Informer ===

impl Informer {
    /// Runs the watches, one future each, and the other tasks, until they are stopped.
    pub(crate) fn runs(self: &Arc<Self>, connection: &Connection) -> Vec<BoxedRun> {
        let watches = (0..self.watches.len()).map(|index| {
            let (informer, connection) = (self.clone(), connection.clone());
            self.clone()
                .supervise(Some(index), move || {
                    let (informer, connection) = (informer.clone(), connection.clone());
                    async move { informer.watch(index, connection).await }
                })
                .boxed()
        });
        let resync = self.watches.iter().filter_map(|(planned, _)| {
            let (informer, scope) = (self.clone(), planned.scope.clone());
            let period = planned.sync_period?;
            let resync = move || {
                let (informer, scope) = (informer.clone(), scope.clone());
                async move { informer.resync(&scope, period).await }
            };
            Some(self.clone().supervise(None, resync).boxed())
        });
        let informer = self.clone();
        let cool = async move { informer.cool().await }.boxed();
        watches.chain(resync).chain([cool]).collect()
    }

    /// Runs a task, and restarts it after a panic. Until then the watch with this index counts as failing.
    async fn supervise<R: Future<Output = ()> + Send>(
        self: Arc<Self>,
        index: Option<usize>,
        run: impl Fn() -> R + Send,
    ) {
        while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
            let panic = panic_text(&*panic);
            tracing::error!(kind = %self.kind(), error = panic, "Task of the cache panicked, restarting");
            if let Some((planned, health)) = index.and_then(|index| self.watches.get(index)) {
                *health.lock() = Health::Failing(panic);
                self.set_live(&planned.scope, false);
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(AFTER_PANIC) => {}
            }
        }
    }

    /// Drops decoded objects that are no longer read.
    async fn cool(&self) {
        let cool = async {
            loop {
                self.intake.hot.filled().await;
                tokio::time::sleep(HOT_FOR).await;
                while self.intake.hot.cool() {
                    tokio::time::sleep(HOT_FOR).await;
                }
            }
        };
        self.stop.run_until_cancelled(cool).await;
    }

    /// Sends every object to the handlers at intervals, in case one of them missed or forgot something.
    async fn resync(&self, scope: &Scope, period: Duration) {
        loop {
            // Spreads the resyncs of kinds that were started together.
            let wait = period.mul_f64(0.9 + 0.2 * crate::clock::jitter());
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let objects = self.store.read().objects();
            let mut breath = Breath::new();
            for stored in objects {
                let is_of = self.store.read().is_of(scope, &stored);
                if let Some(object) = is_of.then(|| self.intake.unpack(&stored)).flatten() {
                    let mut handlers = self.handlers.lock();
                    // An object that changed in the meantime has had its own event.
                    if self.store.read().is_current(&stored) {
                        let old = object.clone();
                        let event = Event::Update { old, new: object };
                        for handler in handlers.take(&event) {
                            self.call(handler, &event);
                        }
                    }
                }
                breath.pause().await;
            }
        }
    }

    async fn watch(&self, index: usize, connection: Connection) {
        let Some((planned, health)) = self.watches.get(index) else {
            return;
        };
        self.set_live(&planned.scope, false);
        let client = connection.client.clone();
        let client = paced(client, connection.backoff.min, connection.requests.clone());
        let config = planned.apply(connection.config);
        let may_stream = connection.streaming_lists && planned.bookmarks;
        let watch = Watch {
            scope: &planned.scope,
            health,
            backoff: connection.backoff,
            errors: &connection.errors,
        };
        let mut attempt = Attempt {
            streams: may_stream,
            trouble: Trouble::default(),
        };
        let mut representation = self.representation.subscribe();
        loop {
            let current = *representation.borrow_and_update();
            let config = match attempt.streams {
                true => config.clone().streaming_lists(),
                false => config.clone(),
            };
            let store = self.store.clone();
            let own_write: FindOwnWrite = Box::new(move |metadata| store.read().own_write(metadata).cloned());
            let (client, intake) = (client.clone(), self.intake.clone());
            let stream = (current.open)(client, &planned.scope, config, intake, own_write);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                next = self.follow(stream, &watch, current, &mut attempt) => match next {
                    Then::ListInPages => attempt.streams = false,
                    Then::ListAgain => attempt.streams = may_stream,
                },
                // The sender lives as long as `self`.
                _ = representation.changed() => attempt.streams = may_stream,
            }
        }
    }

    /// Processes the events of a watch until a new list is needed.
    async fn follow(
        &self,
        mut stream: Incomings,
        watch: &Watch<'_>,
        representation: Representation,
        attempt: &mut Attempt,
    ) -> Then {
        let mut is_streaming = attempt.streams;
        if is_streaming {
            // The stream reports the start of a list only after the response. A write that was answered between the
            // server's read and that response would count as listed.
            self.handle(watch.scope, representation, WatchEvent::Init);
        }
        let mut inits = 0;
        let mut overdue = Overdue::new(watch.backoff);
        let mut breath = Breath::new();
        loop {
            breath.pause().await;
            let is_suspicious = is_streaming || attempt.trouble.failures > 0;
            let patience = if is_suspicious {
                QUIET
            } else {
                watch.backoff.overdue()
            };
            match next_or_quiet(&mut stream, patience).await {
                Next::Event(WatchEvent::Init) if is_streaming => {
                    inits += 1;
                    if inits > 1 {
                        return Then::ListInPages;
                    }
                }
                Next::Event(event) => {
                    let heals = attempt.trouble.heals(&event);
                    match event {
                        WatchEvent::InitDone => {
                            is_streaming = false;
                            self.end_list(watch.scope, representation).await;
                        }
                        event => self.handle(watch.scope, representation, event),
                    }
                    if heals {
                        attempt.trouble = Trouble::default();
                        self.is_live(watch);
                    }
                    if !is_streaming && overdue.is_over(|| self.store.read().oldest_write(watch.scope)) {
                        return Then::ListAgain;
                    }
                }
                Next::Quiet if is_streaming => return Then::ListInPages,
                Next::Quiet => {
                    attempt.trouble = Trouble::default();
                    self.is_live(watch);
                    if overdue.is_over(|| self.store.read().oldest_write(watch.scope)) {
                        return Then::ListAgain;
                    }
                }
                Next::Failed(error) if is_streaming && !is_too_many_requests(&error) => {
                    tracing::debug!(kind = %self.kind(), error = %describe(&error), "Streaming list not supported");
                    return Then::ListInPages;
                }
                Next::Failed(error) => {
                    self.is_failing(watch, &error);
                    let trouble = &mut attempt.trouble;
                    let since = *trouble.since.get_or_insert_with(Instant::now);
                    if !trouble.skips_given_up && since.elapsed() >= watch.backoff.overdue() {
                        trouble.skips_given_up = true;
                        self.give_up_skips_of(watch.scope);
                    }
                    if !(is_expired(&error) && trouble.failures == 0) {
                        tokio::time::sleep(watch.backoff.wait(trouble.failures)).await;
                    }
                    trouble.failures += 1;
                    trouble.is_garbled |= is_garbled(&error);
                    if is_streaming || is_out_of_step(&error) {
                        return Then::ListAgain;
                    }
                }
                Next::Ended => {
                    *watch.health.lock() = Health::Failing("the watch ended".to_owned());
                    self.set_live(watch.scope, false);
                    tokio::time::sleep(watch.backoff.wait(attempt.trouble.failures)).await;
                    attempt.trouble.failures += 1;
                    return Then::ListAgain;
                }
            }
        }
    }

    fn is_live(&self, Watch { scope, health, .. }: &Watch<'_>) {
        if !self.store.read().has_listed(scope) {
            return;
        }
        let mut health = health.lock();
        if *health == Health::Live {
            return;
        }
        if matches!(*health, Health::Failing(_)) {
            tracing::info!(kind = %self.kind(), namespace = scope.as_deref(), "Watch recovered");
        } else if *health == Health::Starting {
            tracing::info!(kind = %self.kind(), namespace = scope.as_deref(), "Cache synced");
        }
        *health = Health::Live;
        self.set_live(scope, true);
    }

    /// Reports a failure once, not at each attempt.
    fn is_failing(&self, watch: &Watch<'_>, error: &watcher::Error) {
        let (scope, text) = (watch.scope, explain(self.kind(), error));
        let is_handled = watch.errors.call(&WatchFailure {
            kind: self.kind(),
            namespace: scope.as_deref(),
            message: &text,
            error,
        });
        let mut health = watch.health.lock();
        let failing = Health::Failing(text);
        if is_handled {
            // It was already reported.
        } else if is_expired(error) || *health == failing {
            tracing::debug!(kind = %self.kind(), namespace = scope.as_deref(), error = %describe(error), "Watch failed");
        } else if let Health::Failing(text) = &failing {
            tracing::warn!(kind = %self.kind(), namespace = scope.as_deref(), error = %text, "Watch failed, retrying");
        }
        if *health == Health::Live {
            self.set_live(scope, false);
        }
        *health = failing;
    }

    /// Returns the watches that are not live, with their errors.
    pub(crate) fn unhealthy(&self) -> Vec<String> {
        let watches = self.watches.iter();
        let describe = |(planned, health): &(Planned, Mutex<Health>)| {
            let covered = match &planned.scope {
                Some(namespace) => format!("{} in namespace {namespace}", self.kind()),
                None => self.kind().to_string(),
            };
            match &*health.lock() {
                Health::Live => None,
                Health::Starting => Some(format!("{covered}: not listed yet")),
                Health::Failing(error) => Some(format!("{covered}: {error}")),
            }
        };
        watches.filter_map(describe).collect()
    }
}

impl Trouble {
    /// Returns true if an event shows that the watch works again.
    fn heals(&self, event: &WatchEvent<Incoming>) -> bool {
        match event {
            // It precedes the request.
            WatchEvent::Init => false,
            WatchEvent::InitApply(_) | WatchEvent::InitDone => !self.is_garbled,
            WatchEvent::Apply(_) | WatchEvent::Delete(_) => true,
        }
    }
}

/// One watch, for its reports.
struct Watch<'a> {
    scope: &'a Scope,
    health: &'a Mutex<Health>,
    backoff: WatchBackoff,
    errors: &'a WatchErrorHandler,
}

/// The next attempt to open a watch.
struct Attempt {
    /// True if the list is streamed.
    streams: bool,
    trouble: Trouble,
}

/// The next step after a stream has ended.
enum Then {
    /// Repeat the list in pages, because the server cannot stream it now.
    ListInPages,
    ListAgain,
}

/// The next item of a watch.
enum Next {
    Event(WatchEvent<Incoming>),
    Failed(watcher::Error),
    Quiet,
    Ended,
}

async fn next_or_quiet(stream: &mut Incomings, patience: Duration) -> Next {
    match tokio::time::timeout(patience, stream.next()).await {
        Err(_) => Next::Quiet,
        Ok(Some(Ok(event))) => Next::Event(event),
        Ok(Some(Err(error))) => Next::Failed(error),
        Ok(None) => Next::Ended,
    }
}
