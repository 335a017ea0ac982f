//! One kind: its watches, its store and the handlers that hear of changes. Each watch fails and backs off alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kube::runtime::watcher::{self, Event as WatchEvent};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CacheOptions;
use super::decode::Malformed;
use super::item::{Arrived, Incoming, Incomings, Intake, Item, Representation, Stored, view};
use super::pace::paced;
use super::plan::Planned;
use super::quarantine::{Quarantine, Read};
use super::selection::ListOptions;
use super::store::{Consistency, Scope, Store};
use super::watch_error::{WatchErrorHandler, WatchFailure};
use crate::error::describe;
use crate::event::Event;
use crate::event_recorder::EventRecorder;
use crate::metrics::{CacheMetrics, RestClientLayer};
use crate::object::{Kind, ObjectKey, View};

/// A watch that has been quiet for this long after an error has recovered: the server is just silent. A list that is
/// streamed and has been quiet for this long does not end: the server does not know how.
const QUIET: Duration = Duration::from_secs(10);

/// Objects that nobody reads for this long, or for twice as long, are not kept decoded.
const HOT_FOR: Duration = Duration::from_secs(2);

/// An object, and what the operator applied to it, as [`Stored::applied`].
pub(crate) type Known<K> = (Arc<K>, Option<Arc<str>>);

type Handler = Box<dyn Fn(&Event<dyn Item>) + Send + Sync>;

/// One kind in the cache.
pub(crate) struct Informer {
    intake: Arc<Intake>,
    store: RwLock<Store>,
    /// Held while an event is stored and told, so that each handler hears all events, in order and once.
    handlers: Mutex<Vec<Handler>>,
    watches: Vec<(Planned, Mutex<Health>)>,
    /// As what the objects are kept; it becomes wider as readers come, and then everything is listed anew.
    representation: watch::Sender<Representation>,
    /// As what all watches have brought their objects.
    listed: watch::Sender<Option<Representation>>,
    quarantine: Arc<Quarantine>,
    metrics: CacheMetrics,
    stop: CancellationToken,
}

/// How a watch is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// The first list is under way.
    #[default]
    Starting,
    /// It follows the server.
    Live,
    /// It failed, and will try again.
    Failing(String),
}

/// What went wrong with a watch since it was well.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    /// The watch brought what is no event, so that a list which succeeds is no recovery.
    is_garbled: bool,
}

/// How the waits between failed attempts of a watch grow: doubling, with up to as much again at random.
///
/// ```
/// use std::time::Duration;
/// use operator_runtime::cache::{CacheOptions, WatchBackoff};
///
/// // Ask a server that is away less often: 800 ms, doubling up to five minutes.
/// let watch_backoff = WatchBackoff { max: Duration::from_secs(300), ..WatchBackoff::default() };
/// assert_eq!(watch_backoff.min, Duration::from_millis(800));
/// let options = CacheOptions { watch_backoff, ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WatchBackoff {
    /// After the first failure; 800 ms unless said otherwise.
    pub min: Duration,
    /// The longest; 30 s unless said otherwise.
    pub max: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self {
            min: Duration::from_millis(800),
            max: Duration::from_secs(30),
        }
    }
}

pub(crate) type BoxedRun = futures::future::BoxFuture<'static, ()>;

/// What a watch needs to reach the server.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) config: watcher::Config,
    /// Whether first lists are streamed, where the server can.
    pub(crate) streaming_lists: bool,
    pub(crate) backoff: WatchBackoff,
    /// Who hears of failures.
    pub(crate) errors: WatchErrorHandler,
    /// Who is told how long requests are held back.
    pub(crate) requests: RestClientLayer,
}

// === impl Informer ===

impl Informer {
    pub(crate) fn new(
        kind: Kind,
        representation: Representation,
        manager: &Arc<str>,
        options: &CacheOptions,
        (metrics, recorder): (CacheMetrics, EventRecorder),
        stop: CancellationToken,
    ) -> Self {
        let plan = options.plan(&kind);
        let keeps_decoded = options.unpacked.contains(&kind);
        let intake = Arc::new(Intake::new(
            kind,
            manager.clone(),
            &plan.transforms,
            keeps_decoded,
        ));
        let watches = plan.watches.into_iter();
        let watches: Vec<_> = watches.map(|planned| (planned, Mutex::default())).collect();
        let scopes = watches.iter().map(|(planned, _)| planned.scope.clone());
        Self {
            quarantine: Arc::new(Quarantine::new(intake.clone(), metrics.clone(), recorder)),
            metrics,
            store: RwLock::new(Store::new(intake.clone(), scopes)),
            intake,
            handlers: Mutex::default(),
            watches,
            representation: watch::Sender::new(representation),
            listed: watch::Sender::new(None),
            stop,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.intake.kind
    }

    /// Reports the state of a watch as a metric.
    fn report(&self, scope: &Scope, is_live: bool) {
        let kind = self.kind().to_string();
        self.metrics.watch_live(&kind, scope.as_deref(), is_live);
    }

    /// Removes the metrics of watches that have ended.
    pub(crate) fn remove_metrics(&self) {
        let kind = self.kind().to_string();
        for (planned, _) in &self.watches {
            self.metrics.watch_removed(&kind, planned.scope.as_deref());
        }
    }

    /// What ends its watches.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Makes sure that objects are kept so that they can be read as `K`; if they are not yet, they are listed again.
    pub(crate) fn widen<K: View>(&self) {
        let wanted = Representation::of::<K>();
        self.representation.send_if_modified(|current| {
            let is_enough = current.serves(&wanted);
            *current = current.join(wanted);
            !is_enough
        });
    }

    /// The object as the store has it.
    pub(crate) fn stored(
        &self,
        key: &ObjectKey,
        consistency: Consistency,
    ) -> Result<Option<Stored>, Malformed> {
        self.store.read().get(key, consistency)
    }

    /// The object as a `K`, and what the operator applied to it.
    pub(crate) fn get<K: View>(
        &self,
        key: &ObjectKey,
        consistency: Consistency,
    ) -> Result<Option<Known<K>>, Malformed> {
        let Some(stored) = self.stored(key, consistency)? else {
            return Ok(None);
        };
        let object = self.view(&stored, Intake::read).map_err(|error| Malformed {
            metadata: Box::new(stored.packed.metadata()),
            error,
        })?;
        Ok(Some((object, stored.applied)))
    }

    /// The object as a `K`; one that is none stays in quarantine only while it is there.
    fn view<K: View>(&self, stored: &Stored, read: Read<K>) -> Result<Arc<K>, String> {
        let seen = self.quarantine.read(stored, read);
        if seen.is_err() {
            let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
            let stored = self.stored(&key, Consistency::OwnWrites);
            if !matches!(stored, Ok(Some(_))) {
                self.quarantine.forget(&key);
            }
        }
        seen
    }

    /// The objects as `K`, without those that do not fit.
    ///
    /// # Errors
    /// The name of an index that does not exist.
    pub(crate) fn list<K: View>(
        &self,
        options: &ListOptions,
        consistency: Consistency,
    ) -> Result<Vec<Arc<K>>, String> {
        let objects = self.store.read().list(options, consistency)?;
        let views = objects
            .iter()
            .filter_map(|stored| self.view(stored, Intake::look_at).ok());
        Ok(views.collect())
    }

    /// Whether everything was listed and nothing of it is what `options` name.
    pub(crate) fn knows_of_none(&self, options: &ListOptions) -> bool {
        let is_listed = self.listed.borrow().is_some();
        let covers_all = self.watches.iter().all(|(planned, _)| planned.is_all());
        let objects = self.store.read().list(options, Consistency::OwnWrites);
        is_listed && covers_all && objects.is_ok_and(|objects| objects.is_empty())
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        let objects = self
            .store
            .read()
            .list(&ListOptions::all(), Consistency::OwnWrites)
            .unwrap_or_default();
        objects
            .iter()
            .map(|stored| ObjectKey::new(stored.packed.namespace(), stored.packed.name()))
            .collect()
    }

    /// Adds an index of the values that a function makes of each object; `false` if there is one of that name.
    pub(crate) fn add_index<K: View>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> bool {
        let intake = self.intake.clone();
        let index = name.to_owned();
        let values = move |object: &Arc<dyn Item>| {
            match view::<K>(object, &intake) {
            // It runs while the store is being changed, which must not be left half done.
            Ok(object) => catch_unwind(AssertUnwindSafe(|| values(&object))).unwrap_or_else(|_| {
                tracing::error!(kind = %intake.kind, index = index.as_str(), "The function of an index panicked");
                Vec::new()
            }),
            Err(_) => Vec::new(),
        }
        };
        self.store.write().add_index(name, Arc::new(values))
    }

    /// Takes the answer to a write: the object as the server has it now.
    pub(crate) fn write(&self, answer: Value) {
        let take = self.representation.borrow().take;
        // What does not fit the type will come with the watch, which says so.
        if let Ok(Ok(written)) = take(answer, &self.intake) {
            self.store.write().write(written);
        }
    }

    /// Takes an answer that came in as what the store keeps.
    pub(crate) fn write_arrived(&self, written: Arrived) {
        self.store.write().write(written);
    }

    /// Whether objects are kept as `K` itself.
    pub(crate) fn keeps<K: View>(&self) -> bool {
        *self.representation.borrow() == Representation::of::<K>()
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Takes note of a deletion that left nothing of the object: of the one with this uid, or of the one that is known.
    pub(crate) fn deleted(&self, key: &ObjectKey, uid: Option<&str>) {
        let mut store = self.store.write();
        let known = || store.get(key, Consistency::OwnWrites).ok().flatten();
        let uid = uid.map(str::to_owned).or_else(|| known()?.packed.uid());
        if let Some(uid) = uid {
            store.deleted(key, &uid);
        }
    }

    /// Whether one of the watches covers objects of this namespace.
    pub(crate) fn covers(&self, namespace: Option<&str>) -> bool {
        let covers = |scope: &Scope| scope.is_none() || scope.as_deref() == namespace;
        self.watches.iter().any(|(planned, _)| covers(&planned.scope))
    }

    /// Whether every object is there, as something that can be read as `K`.
    pub(crate) fn is_synced<K: View>(&self) -> bool {
        let wanted = Representation::of::<K>();
        self.listed.borrow().is_some_and(|listed| listed.serves(&wanted))
    }

    /// Waits until every watch has brought its first list, and each handler has heard of it.
    pub(crate) async fn synced<K: View>(&self) {
        let wanted = Representation::of::<K>();
        let mut listed = self.listed.subscribe();
        let serves = |listed: &Option<Representation>| listed.is_some_and(|listed| listed.serves(&wanted));
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = listed.wait_for(serves).await;
    }

    /// Waits until every watch has brought its first list, as whatever.
    pub(crate) async fn listed(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = listed.wait_for(Option::is_some).await;
    }

    /// Adds a handler of events of `K`; it hears of the objects that are there already as if they came with the first
    /// list.
    pub(crate) fn add_handler<K: View>(&self, handler: impl Fn(&Event<K>) + Send + Sync + 'static) {
        let quarantine = self.quarantine.clone();
        let handler: Handler = Box::new(move |event| {
            if let Some(event) = event_as(event, &quarantine) {
                handler(&event);
            }
        });
        let mut handlers = self.handlers.lock();
        for object in self.objects() {
            let initial = true;
            self.tell(&handler, &Event::Create { object, initial });
        }
        handlers.push(handler);
    }

    /// Forgets all handlers.
    pub(crate) fn remove_handlers(&self) {
        // They are dropped after the lock: what they hold may be anything.
        let handlers = std::mem::take(&mut *self.handlers.lock());
        drop(handlers);
    }

    /// The objects that the watches brought, decoded one by one.
    fn objects(&self) -> impl Iterator<Item = Arc<dyn Item>> {
        let objects = self.store.read().objects().into_iter();
        objects.filter_map(|stored| self.intake.unpack(&stored))
    }

    fn handle(&self, scope: &Scope, representation: Representation, event: WatchEvent<Incoming>) {
        let handlers = self.handlers.lock();
        if let WatchEvent::InitApply(Err(malformed)) | WatchEvent::Apply(Err(malformed)) = &event {
            self.leave_out(malformed);
        }
        let (events, malformed, is_listed) = {
            let mut store = self.store.write();
            let before = store.malformed();
            let events = store.step(scope, representation, event);
            let malformed = Some(store.malformed()).filter(|after| *after != before);
            (events, malformed, store.is_listed_as(&representation))
        };
        if let Some(malformed) = malformed {
            self.quarantine.count_left_out(malformed);
        }
        self.quarantine.follow(&events);
        for event in &events {
            for handler in handlers.iter() {
                self.tell(handler, event);
            }
        }
        if is_listed {
            self.listed.send_if_modified(|listed| {
                let is_new = *listed != Some(representation);
                *listed = Some(representation);
                is_new
            });
        }
    }

    /// Says that an object is left out, once for each complaint.
    fn leave_out(&self, malformed: &Malformed) {
        let (metadata, error) = (&malformed.metadata, &malformed.error);
        let name = metadata.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(metadata.namespace.as_deref(), name);
        if self.store.read().complaint(&key) != Some(error) {
            self.quarantine.leave_out(malformed);
        }
    }

    /// A handler that panics loses this event; the watch and the other handlers go on.
    fn tell(&self, handler: &Handler, event: &Event<dyn Item>) {
        if catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
            let key = ObjectKey::of(event.object().as_ref());
            tracing::error!(kind = %self.kind(), object = %key, "A predicate or an event handler panicked");
        }
    }

    /// Runs its watches, one future each, and what else it needs, until it is stopped.
    pub(crate) fn runs(self: &Arc<Self>, connection: &Connection) -> Vec<BoxedRun> {
        let watches = (0..self.watches.len()).map(|index| {
            let (informer, connection) = (self.clone(), connection.clone());
            async move { informer.watch(index, connection).await }.boxed()
        });
        let resync = self.watches.iter().filter_map(|(planned, _)| {
            let (informer, scope) = (self.clone(), planned.scope.clone());
            let period = planned.sync_period?;
            Some(async move { informer.resync(&scope, period).await }.boxed())
        });
        let informer = self.clone();
        let cool = async move { informer.cool().await }.boxed();
        watches.chain(resync).chain([cool]).collect()
    }

    /// Lets go of decoded objects that nobody reads any more.
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

    /// Tells the handlers again and again what is there, should one of them have missed or forgotten something.
    async fn resync(&self, scope: &Scope, period: Duration) {
        loop {
            // Kinds that were started together need not be told together.
            let wait = period.mul_f64(0.9 + 0.2 * crate::clock::jitter());
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let handlers = self.handlers.lock();
            let objects = self.store.read().objects_of(scope).into_iter();
            for object in objects.filter_map(|stored| self.intake.unpack(&stored)) {
                let old = object.clone();
                let event = Event::Update { old, new: object };
                handlers.iter().for_each(|handler| self.tell(handler, &event));
            }
        }
    }

    async fn watch(&self, index: usize, connection: Connection) {
        let Some((planned, health)) = self.watches.get(index) else {
            return;
        };
        self.report(&planned.scope, false);
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
            let stream = (current.open)(client.clone(), &planned.scope, config, self.intake.clone());
            tokio::select! {
                () = self.stop.cancelled() => return,
                next = self.follow(stream, &watch, current, &mut attempt) => match next {
                    Then::ListInPages => attempt.streams = false,
                    Then::ListAnew => attempt.streams = may_stream,
                },
                // The sender lives as long as `self`.
                _ = representation.changed() => attempt.streams = may_stream,
            }
        }
    }

    /// Takes what a watch brings, until everything has to be listed anew.
    async fn follow(
        &self,
        mut stream: Incomings,
        watch: &Watch<'_>,
        representation: Representation,
        attempt: &mut Attempt,
    ) -> Then {
        let mut is_streaming = attempt.streams;
        if is_streaming {
            // The stream says so only when the server has answered. A write that was answered by then and after the
            // server looked would be taken for one that the list has.
            self.handle(watch.scope, representation, WatchEvent::Init);
        }
        let (mut inits, mut overdue) = (0, None);
        loop {
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
                    is_streaming &= !matches!(event, WatchEvent::InitDone);
                    self.handle(watch.scope, representation, event);
                    if heals {
                        attempt.trouble = Trouble::default();
                        self.is_live(watch);
                    }
                }
                Next::Quiet if is_streaming => return Then::ListInPages,
                Next::Quiet => {
                    attempt.trouble = Trouble::default();
                    self.is_live(watch);
                    let oldest = self.store.read().oldest_write(watch.scope);
                    if oldest.is_some() && oldest == overdue {
                        return Then::ListAnew;
                    }
                    overdue = oldest;
                }
                Next::Failed(error) if is_streaming && !is_too_many_requests(&error) => {
                    tracing::debug!(kind = %self.kind(), error = %describe(&error), "List cannot be streamed");
                    return Then::ListInPages;
                }
                Next::Failed(error) => {
                    self.is_failing(watch, &error);
                    let trouble = &mut attempt.trouble;
                    if !(is_expired(&error) && trouble.failures == 0) {
                        tokio::time::sleep(watch.backoff.wait(trouble.failures)).await;
                    }
                    trouble.failures += 1;
                    trouble.is_garbled |= is_garbled(&error);
                    if is_streaming || is_out_of_step(&error) {
                        return Then::ListAnew;
                    }
                }
                Next::Ended => {
                    tokio::time::sleep(watch.backoff.wait(attempt.trouble.failures)).await;
                    attempt.trouble.failures += 1;
                    return Then::ListAnew;
                }
            }
        }
    }

    fn is_live(&self, Watch { scope, health, .. }: &Watch<'_>) {
        if !self.store.read().has_listed(scope) {
            return;
        }
        let mut health = health.lock();
        if matches!(*health, Health::Failing(_)) {
            tracing::info!(kind = %self.kind(), namespace = scope.as_deref(), "Watch recovered");
        } else if *health == Health::Starting {
            tracing::info!(kind = %self.kind(), namespace = scope.as_deref(), "Cache synced");
        }
        if *health != Health::Live {
            *health = Health::Live;
            self.report(scope, true);
        }
    }

    /// Says so once, not at each attempt.
    fn is_failing(&self, watch: &Watch<'_>, error: &watcher::Error) {
        let (scope, text) = (watch.scope, explain(self.kind(), error));
        let is_told = watch.errors.tell(&WatchFailure {
            kind: self.kind(),
            namespace: scope.as_deref(),
            message: &text,
            error,
        });
        let mut health = watch.health.lock();
        let failing = Health::Failing(text);
        if is_told {
            // Whoever wants to know it knows it.
        } else if is_expired(error) || *health == failing {
            tracing::debug!(kind = %self.kind(), namespace = scope.as_deref(), error = %describe(error), "Watch failed");
        } else if let Health::Failing(text) = &failing {
            tracing::warn!(kind = %self.kind(), namespace = scope.as_deref(), error = %text, "Watch failed, retrying");
        }
        if *health == Health::Live {
            self.report(scope, false);
        }
        *health = failing;
    }

    /// The watches that are not live: what they cover and what is wrong.
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

/// The event as one of `K`; `None` if its newest state does not fit.
fn event_as<K: View>(event: &Event<dyn Item>, quarantine: &Quarantine) -> Option<Event<K>> {
    let view = |object: &Arc<dyn Item>| quarantine.view::<K>(object).ok();
    match event {
        Event::Create { object, initial } => view(object).map(|object| Event::Create {
            object,
            initial: *initial,
        }),
        Event::Update { old, new } => view(new).map(|new| match quarantine.peek(old) {
            Some(old) => Event::Update { old, new },
            None => Event::Create {
                object: new,
                initial: false,
            },
        }),
        Event::Delete { object, stale } => quarantine.peek(object).map(|object| Event::Delete {
            object,
            stale: *stale,
        }),
        Event::Generic { object } => view(object).map(|object| Event::Generic { object }),
    }
}

impl Trouble {
    /// Whether an event shows that all is well again.
    fn heals(&self, event: &WatchEvent<Incoming>) -> bool {
        match event {
            // It comes before the server was asked.
            WatchEvent::Init => false,
            WatchEvent::InitApply(_) | WatchEvent::InitDone => !self.is_garbled,
            WatchEvent::Apply(_) | WatchEvent::Delete(_) => true,
        }
    }
}

/// One watch, for what is said of it.
struct Watch<'a> {
    scope: &'a Scope,
    health: &'a Mutex<Health>,
    backoff: WatchBackoff,
    errors: &'a WatchErrorHandler,
}

/// How a watch is opened next.
struct Attempt {
    /// Whether its list is streamed.
    streams: bool,
    trouble: Trouble,
}

/// What follows when a stream is of no use any more.
enum Then {
    /// The server does not stream lists, or not now: making progress is better.
    ListInPages,
    ListAnew,
}

/// What a watch brought next.
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

impl WatchBackoff {
    /// What a watch has not brought of the operator's own writes while it was quiet twice for this long, it never will:
    /// the object was written so that it is not selected any more, or it was gone before a list that began before the
    /// write. A watch that failed is back by then.
    fn overdue(self) -> Duration {
        self.max.saturating_mul(2)
    }

    fn wait(self, failures: u32) -> Duration {
        let doubled = self
            .min
            .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
            .min(self.max);
        // Watches that failed together must not come back together.
        doubled.mul_f64(1.0 + crate::clock::jitter())
    }
}

/// The status with which the server refused, if it did.
fn refusal(error: &watcher::Error) -> Option<&kube::core::Status> {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => Some(status),
        _ => None,
    }
}

fn is_too_many_requests(error: &watcher::Error) -> bool {
    refusal(error).is_some_and(|status| status.code == 429)
}

fn is_expired(error: &watcher::Error) -> bool {
    refusal(error).is_some_and(|status| status.code == 410)
}

/// Whether going on where the watch was would lose events, or get nowhere: everything has to be listed anew. kube's
/// `watcher` does that by itself only if the server says in the midst of a watch that its revision has expired.
fn is_out_of_step(error: &watcher::Error) -> bool {
    is_expired(error) || is_garbled(error)
}

/// What came is no event, and there is no telling which one is missing for it.
fn is_garbled(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_)))
}

/// The failure in the words of the server, with what to do about it where that is known.
fn explain(kind: &Kind, error: &watcher::Error) -> String {
    match refusal(error) {
        Some(status) if status.code == 404 => {
            format!(
                "the server does not serve {}.{}: install its CRD",
                kind.plural, kind.group
            )
        }
        Some(status) if status.code == 403 => {
            format!(
                "{} (the operator's role needs get, list and watch on {})",
                status.message, kind.plural
            )
        }
        Some(status) => status.message.clone(),
        None => describe(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ() {
        let backoff = WatchBackoff::default();
        let seconds = |failures| backoff.wait(failures).as_secs_f64();
        for (failures, least) in [(0, 0.8), (1, 1.6), (5, 25.6), (6, 30.0), (40, 30.0)] {
            let waits: Vec<_> = (0..20).map(|_| seconds(failures)).collect();
            assert!(
                waits.iter().all(|wait| (least..=2.0 * least).contains(wait)),
                "{failures}: {waits:?}"
            );
            assert!(
                waits.iter().any(|wait| (wait - waits[0]).abs() > f64::EPSILON),
                "no jitter"
            );
        }
    }
}
