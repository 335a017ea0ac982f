//! One kind: its watches, its store and the handlers that hear of changes. Each watch fails and backs off alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{self, Event as WatchEvent, watcher};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CacheOptions;
use super::decode::{Decoded, Malformed};
use super::pace::paced;
use super::selection::{ListOptions, Selectors};
use super::store::{Scope, Store, Stored};
use crate::error::describe;
use crate::event::Event;
use crate::metrics::CacheMetrics;
use crate::object::{Kind, Object, ObjectKey};

/// A watch that has been quiet for this long after an error has recovered: the server is just silent.
const QUIET_IS_HEALTHY: Duration = Duration::from_secs(10);

type Handler<K> = Box<dyn Fn(&Event<K>) + Send + Sync>;

/// One kind in the cache.
pub(crate) struct Informer<K> {
    kind: Kind,
    store: RwLock<Store<K>>,
    /// Held while an event is stored and told, so that each handler hears all events, in order and once.
    handlers: Mutex<Vec<Handler<K>>>,
    watches: Vec<(Scope, Mutex<Health>)>,
    selectors: Selectors,
    synced: watch::Sender<bool>,
    metrics: CacheMetrics,
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

/// How the waits between failed attempts of a watch grow: doubling, with up to as much again at random.
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

/// What the cache asks of an informer whose type it does not know.
pub(crate) trait Watched: Send + Sync {
    fn kind(&self) -> &Kind;
    /// The watches that are not live: what they cover and what is wrong.
    fn unhealthy(&self) -> Vec<String>;
    /// Runs a watch until `stop`.
    fn run(self: Arc<Self>, index: usize, connection: Connection, stop: CancellationToken) -> BoxedRun;
    fn watches(&self) -> usize;
}

pub(crate) type BoxedRun = futures::future::BoxFuture<'static, ()>;

/// What a watch needs to reach the server.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    pub(crate) config: watcher::Config,
    pub(crate) backoff: WatchBackoff,
}

// === impl Informer ===

impl<K: Object> Informer<K> {
    pub(crate) fn new(manager: &str, options: &CacheOptions, metrics: CacheMetrics) -> Self {
        let namespaces = &options.namespaces;
        let kind = Kind::of::<K>();
        let scopes: Vec<Scope> = if kind.namespaced && !namespaces.is_empty() {
            namespaces
                .iter()
                .map(|namespace| Some(Arc::from(namespace.as_str())))
                .collect()
        } else {
            vec![None]
        };
        Self {
            kind,
            store: RwLock::new(Store::new(manager, scopes.iter().cloned())),
            handlers: Mutex::default(),
            selectors: options.selectors.clone(),
            watches: scopes
                .into_iter()
                .map(|scope| (scope, Mutex::default()))
                .collect(),
            synced: watch::Sender::new(false),
            metrics,
        }
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Result<Option<Stored<K>>, Malformed> {
        self.store.read().get(key)
    }

    pub(crate) fn list(&self, options: &ListOptions) -> Vec<Arc<K>> {
        self.store.read().list(options)
    }

    pub(crate) fn write(&self, written: Stored<K>) {
        self.store.write().write(written);
    }

    pub(crate) fn deleted(&self, key: &ObjectKey, uid: &str) {
        self.store.write().deleted(key, uid);
    }

    /// Whether one of the watches covers objects of this key.
    pub(crate) fn covers(&self, key: &ObjectKey) -> bool {
        self.watches
            .iter()
            .any(|(scope, _)| scope.is_none() || scope.as_deref() == key.namespace())
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until every watch has brought its first list, and each handler has heard of it.
    pub(crate) async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Adds a handler; it hears of the objects that are there already as if they came with the first list.
    pub(crate) fn add_handler(&self, handler: impl Fn(&Event<K>) + Send + Sync + 'static) {
        let mut handlers = self.handlers.lock();
        let replay = self.store.read().replay();
        let handler: Handler<K> = Box::new(handler);
        for event in &replay {
            self.tell(&handler, event);
        }
        handlers.push(handler);
    }

    fn handle(&self, scope: &Scope, event: WatchEvent<Decoded<K>>) {
        let handlers = self.handlers.lock();
        if let WatchEvent::InitApply(object) | WatchEvent::Apply(object) = &event
            && let Err(malformed) = &object.object
        {
            self.quarantine(malformed);
        }
        let (events, malformed) = {
            let mut store = self.store.write();
            let before = store.malformed();
            let events = store.step(scope, event);
            (events, Some(store.malformed()).filter(|after| *after != before))
        };
        if let Some(malformed) = malformed {
            self.metrics.quarantined(&self.kind.to_string(), malformed);
        }
        for event in &events {
            for handler in handlers.iter() {
                self.tell(handler, event);
            }
        }
        if self.store.read().is_synced() {
            self.synced
                .send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    fn quarantine(&self, malformed: &Malformed) {
        let name = malformed.metadata.name.as_deref().unwrap_or_default();
        let namespace = malformed.metadata.namespace.as_deref().unwrap_or_default();
        tracing::error!(kind = %self.kind, namespace, name, error = %malformed.error,
            "Object does not fit its type and is left out until it changes");
    }

    /// A handler that panics loses this event; the watch and the other handlers go on.
    fn tell(&self, handler: &Handler<K>, event: &Event<K>) {
        if catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
            let key = ObjectKey::of(event.object().as_ref());
            tracing::error!(kind = %self.kind, object = %key, "A predicate or an event handler panicked");
        }
    }

    async fn watch(&self, index: usize, connection: Connection, stop: CancellationToken) {
        let Some((scope, health)) = self.watches.get(index) else {
            return;
        };
        let dynamic = K::DynamicType::default();
        let client = paced(connection.client, connection.backoff.min);
        let api: Api<Decoded<K>> = match scope {
            Some(namespace) => Api::namespaced_with(client, namespace, &dynamic),
            None => Api::all_with(client, &dynamic),
        };
        let config = self.selectors.apply::<K>(connection.config);
        let mut stream = pin!(watcher(api, config));
        let mut failures = 0;
        loop {
            let next = tokio::select! {
                () = stop.cancelled() => return,
                next = next_or_quiet(&mut stream, failures > 0) => next,
            };
            match next {
                Next::Event(event) => {
                    // A list begins with `Init` before the server was asked, so it is no sign of life.
                    let is_answer = !matches!(event, WatchEvent::Init);
                    self.handle(scope, event);
                    if is_answer {
                        failures = 0;
                        self.is_live(scope, health);
                    }
                }
                Next::Quiet => {
                    failures = 0;
                    self.is_live(scope, health);
                }
                Next::Failed(error) => {
                    self.is_failing(scope, health, &error);
                    let wait = if is_expired(&error) && failures == 0 {
                        Duration::ZERO
                    } else {
                        connection.backoff.wait(failures)
                    };
                    failures += 1;
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                Next::Ended => return,
            }
        }
    }

    fn is_live(&self, scope: &Scope, health: &Mutex<Health>) {
        if !self.store.read().has_listed(scope) {
            return;
        }
        let mut health = health.lock();
        if matches!(*health, Health::Failing(_)) {
            tracing::info!(kind = %self.kind, namespace = scope.as_deref(), "Watch recovered");
        }
        *health = Health::Live;
    }

    /// Says so once, not at each attempt.
    fn is_failing(&self, scope: &Scope, health: &Mutex<Health>, error: &watcher::Error) {
        let text = explain(&self.kind, error);
        let mut health = health.lock();
        let failing = Health::Failing(text);
        if is_expired(error) || *health == failing {
            tracing::debug!(kind = %self.kind, namespace = scope.as_deref(), error = %describe(error), "Watch failed");
        } else if let Health::Failing(text) = &failing {
            tracing::warn!(kind = %self.kind, namespace = scope.as_deref(), error = %text, "Watch failed, retrying");
        }
        *health = failing;
    }
}

impl<K: Object> Watched for Informer<K> {
    fn kind(&self) -> &Kind {
        &self.kind
    }

    fn unhealthy(&self) -> Vec<String> {
        let watches = self.watches.iter();
        let describe = |(scope, health): &(Scope, Mutex<Health>)| {
            let covered = match scope {
                Some(namespace) => format!("{} in namespace {namespace}", self.kind),
                None => self.kind.to_string(),
            };
            match &*health.lock() {
                Health::Live => None,
                Health::Starting => Some(format!("{covered}: not listed yet")),
                Health::Failing(error) => Some(format!("{covered}: {error}")),
            }
        };
        watches.filter_map(describe).collect()
    }

    fn run(self: Arc<Self>, index: usize, connection: Connection, stop: CancellationToken) -> BoxedRun {
        Box::pin(async move { self.watch(index, connection, stop).await })
    }

    fn watches(&self) -> usize {
        self.watches.len()
    }
}

/// What a watch brought next.
enum Next<K> {
    Event(WatchEvent<Decoded<K>>),
    Failed(watcher::Error),
    Quiet,
    Ended,
}

async fn next_or_quiet<K>(
    stream: &mut (impl futures::Stream<Item = watcher::Result<WatchEvent<Decoded<K>>>> + Unpin),
    suspicious: bool,
) -> Next<K> {
    let next = if suspicious {
        match tokio::time::timeout(QUIET_IS_HEALTHY, stream.next()).await {
            Ok(next) => next,
            Err(_) => return Next::Quiet,
        }
    } else {
        stream.next().await
    };
    match next {
        Some(Ok(event)) => Next::Event(event),
        Some(Err(error)) => Next::Failed(error),
        None => Next::Ended,
    }
}

impl WatchBackoff {
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

fn is_expired(error: &watcher::Error) -> bool {
    refusal(error).is_some_and(|status| status.code == 410)
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
