//! The cache: one store per kind, filled by one watch per kind and namespace. The main type is [`Cache`].
//!
//! The first read of a kind starts its watch and waits for the first list. The cache drops `metadata.managedFields`,
//! and never writes to the server.
//!
//! # Memory of an object
//! Objects are kept packed, in hundreds of bytes instead of thousands, and decoded when they are read. Objects that
//! changed or were read recently stay decoded for some seconds, up to 32 objects or 32 kB of packed objects per kind.
//! Readers of the same object share one `Arc<K>`, which is never copied. Lists decode the other objects that they
//! return. [`KindOptions::unpacked`] keeps a kind decoded.
//!
//! # One kind, several types
//! A kind has one watch, whatever the number and the types of its readers. Its objects are decoded as the narrowest
//! type that serves all readers, and omitted if they cannot be decoded as that type:
//!
//! | read as | decoded as |
//! |---|---|
//! | `PartialObjectMeta<K>` only | the metadata; the server sends nothing else |
//! | one type `K`, and metadata | `K` |
//! | `DynamicObject`, or two types of one kind | `DynamicObject`; typed readers get errors for objects that cannot be decoded |
//!
//! If a reader of a watched kind needs more than is kept, the kind is listed again; other readers are not affected. For
//! kinds that are watched metadata-only, every [apply](crate::Client::apply) is sent.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event_recorder::EventRecorder;
use crate::metrics::{CacheMetrics, RestClientLayer};
use crate::object::{Kind, Object, ObjectKey, View};

mod breath;
mod candidates;
pub(crate) mod decode;
mod field_selector;
mod handlers;
mod hot;
mod index;
pub(crate) mod informer;
pub(crate) mod item;
mod keyed;
pub(crate) mod noop;
mod own_writes;
mod pace;
mod packed;
mod plan;
mod quarantine;
mod selection;
pub(crate) mod skips;
pub(crate) mod store;
mod table;
mod transforms;
mod watch_error;
mod watch_options;

use decode::Malformed;
pub use field_selector::FieldSelector;
pub use informer::WatchBackoff;
use informer::{Connection, Informer};
use item::Representation;
pub use selection::{KindOptions, ListOptions};
pub(crate) use store::Consistency;
pub use transforms::Transforms;
pub use watch_error::{WatchErrorHandler, WatchFailure};
pub use watch_options::{Namespaces, SyncPeriod, WatchOptions};

/// Options of the cache: the kinds, namespaces and objects to watch, and the behavior of the watches.
///
/// ```no_run
/// use std::time::Duration;
/// use operator_runtime::cache::CacheOptions;
/// use operator_runtime::manager::ManagerOptions;
/// use operator_runtime::prelude::*;
///
/// # async fn example() -> Result<()> {
/// let options = CacheOptions {
///     namespaces: ["team-a", "team-b"].into(),
///     sync_period: Some(Duration::from_secs(3600)),
///     ..CacheOptions::default()
/// };
/// let options = ManagerOptions { cache_options: options, ..ManagerOptions::default() };
/// let manager = Manager::new("example-operator", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The namespaces to watch, with their options. Empty means all. Cluster-scoped kinds are not affected. Default:
    /// empty.
    pub namespaces: Namespaces,
    /// Options of single kinds: selectors, namespaces, transforms.
    pub kinds: BTreeMap<Kind, KindOptions>,
    /// The label selector of kinds that have none in `kinds`, in the form of `kubectl get -l`. Default: all objects.
    pub labels: Option<String>,
    /// The field selector of kinds that have none in `kinds`, in the form of `kubectl get --field-selector`. Default:
    /// all objects.
    pub fields: Option<String>,
    /// Changes objects before they are kept. `metadata.managedFields` is removed in any case.
    pub transforms: Transforms,
    /// The interval, plus or minus 10 %, at which controllers receive each object as an update without a change, at low
    /// priority. `None` means never. A resync sends no request. Default: 10 h.
    pub sync_period: Option<Duration>,
    /// The number of objects per page of a list. Larger pages make the lists of tens of thousands of objects faster,
    /// but increase the peak memory, which the process does not release. Default: 100.
    pub page_size: u32,
    /// Requests the first list as a stream of events (`sendInitialEvents`): one request, and less memory on the server.
    /// If the server rejects this, as those before Kubernetes 1.32 do, the list is requested in pages. Default: true.
    pub streaming_lists: bool,
    /// Requests bookmarks, so that the watch of a kind with few changes can be resumed. Without them the kind is listed
    /// again. Default: true.
    pub watch_bookmarks: bool,
    /// The backoff between failed attempts of a watch.
    pub watch_backoff: WatchBackoff,
    /// Receives the errors of watches. Default: logs the first failure after a success.
    pub watch_errors: WatchErrorHandler,
    /// If true, a read of a kind that is not watched starts its watch, which needs the permissions to list and watch,
    /// and memory for all objects. If false, such a read is an error, and only controllers, indexes and
    /// [`Cache::watch`] start watches. Default: true.
    pub start_on_read: bool,
    /// The time that a read waits for the first list of its kind. Default: 30 s.
    pub read_timeout: Duration,
}

/// An error of a read from the cache, or of its configuration.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The cache was not started in time because its manager does not run.
    #[error("the cache is not started, can not read objects: {kind} is read before the manager runs")]
    NotStarted {
        /// The kind.
        kind: String,
    },
    /// The kind could not be listed in time.
    #[error("{kind} is not in the cache yet: {reason}")]
    NotSynced {
        /// The kind.
        kind: String,
        /// The states of its watches.
        reason: String,
    },
    /// The kind is not watched, and [`CacheOptions::start_on_read`] is false.
    #[error("{kind} is not cached, and reads start no watch (start_on_read): name it with Cache::watch")]
    NotCached {
        /// The kind.
        kind: String,
    },
    /// The object exists but cannot be decoded as its type.
    #[error("{kind} {key} does not fit its type: {error}; repair the object or the type")]
    Malformed {
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The field and the reason.
        error: String,
    },
    /// The index that a list names does not exist.
    #[error("{kind} has no index {name:?}: add it with Cache::add_index before the manager runs")]
    NoIndex {
        /// The kind.
        kind: String,
        /// The name of the index.
        name: String,
    },
    /// The kind already has an index with this name.
    #[error("{kind} already has an index {name:?}: choose another name")]
    IndexExists {
        /// The kind.
        kind: String,
        /// The name of the index.
        name: String,
    },
    /// The namespace of the object is not watched.
    #[error(
        "unable to get: {key} because of unknown namespace for the cache: {kind} is not watched there (WATCH_NAMESPACE)"
    )]
    NotWatched {
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// The namespace of the list is not watched.
    #[error(
        "unable to list: {namespace} because of unknown namespace for the cache: {kind} is not watched there (WATCH_NAMESPACE)"
    )]
    NamespaceNotWatched {
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
    },
    /// The cache cannot evaluate the field selector of a list.
    #[error("cannot list {kind} from the cache: {error}")]
    FieldSelector {
        /// The kind.
        kind: String,
        /// The reason.
        error: String,
    },
    /// The options of a cluster-scoped kind contain namespaces.
    #[error(
        "type {kind} is not namespaced, but its namespaces setting is not empty: remove it from KindOptions::namespaces"
    )]
    ClusterScoped {
        /// The kind.
        kind: String,
    },
}

/// The cache of a manager. Clones share it. Reconcilers read from it through their [`Client`](crate::Client).
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    options: CacheOptions,
    /// The field manager of the operator, whose applied fields are recorded.
    manager: Arc<str>,
    metrics: CacheMetrics,
    recorder: EventRecorder,
    registry: Mutex<Registry>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The watched kinds.
#[derive(Default)]
struct Registry {
    by_kind: BTreeMap<String, Arc<Informer>>,
    /// The same informers, by the types of their readers: a shortcut for static types.
    by_type: HashMap<TypeId, Arc<Informer>>,
    started: bool,
}

/// Stops the watches when the last clone is dropped, even if the manager was never stopped.
impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl CacheOptions ===

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            namespaces: Namespaces::default(),
            kinds: BTreeMap::new(),
            labels: None,
            fields: None,
            transforms: Transforms::default(),
            sync_period: Some(Duration::from_secs(10 * 60 * 60)),
            page_size: 100,
            streaming_lists: true,
            watch_bookmarks: true,
            watch_backoff: WatchBackoff::default(),
            watch_errors: WatchErrorHandler::default(),
            start_on_read: true,
            read_timeout: Duration::from_secs(30),
        }
    }
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(
        client: kube::Client,
        manager: &str,
        options: CacheOptions,
        (metrics, requests): (CacheMetrics, RestClientLayer),
        recorder: EventRecorder,
    ) -> Self {
        let connection = Connection {
            client,
            config: watcher::Config::default().page_size(options.page_size.max(1)),
            streaming_lists: options.streaming_lists,
            backoff: options.watch_backoff,
            errors: options.watch_errors.clone(),
            requests,
        };
        Self {
            inner: Arc::new(Inner {
                connection,
                options,
                manager: manager.into(),
                metrics,
                recorder,
                registry: Mutex::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// Adds an index of the objects of `K` by the values that `values` returns for each, for [`ListOptions::indexes`].
    /// Starts to watch the kind now, or when the manager starts.
    ///
    /// Indexes can be added while the manager runs. They include the objects that are already in the cache.
    ///
    /// # Errors
    /// Returns an error if the kind already has an index with this name.
    pub fn add_index<K: Object>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError> {
        self.index(&self.informer::<K>(), name, values)
    }

    /// Adds an index for a kind that is read as `K`, such as `DynamicObject`; see [`Cache::add_index`].
    ///
    /// # Errors
    /// See [`Cache::add_index`].
    pub fn add_index_of<K: View>(
        &self,
        kind: &Kind,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError> {
        self.index(&self.informer_of::<K>(kind), name, values)
    }

    /// Starts to watch a kind whose objects are read as `K`, immediately or when the manager starts. The first read
    /// then need not wait, and succeeds even if [`CacheOptions::start_on_read`] is false.
    pub fn watch<K: View>(&self, kind: &Kind) {
        self.informer_of::<K>(kind);
    }

    /// Stops watching a kind and removes its objects. Returns false if it was not watched. Controllers receive no more
    /// events of the kind. A later read starts the watch again.
    pub fn remove(&self, kind: impl Into<Kind>) -> bool {
        let kind = &kind.into();
        let mut registry = self.inner.registry.lock();
        let Some(informer) = registry.by_kind.remove(&kind.path()) else {
            return false;
        };
        registry.by_type.retain(|_, other| !Arc::ptr_eq(other, &informer));
        drop(registry);
        informer.token().cancel();
        informer.remove_metrics();
        informer.give_up_skips();
        true
    }

    /// Returns the watched kinds in the form `Deployment.apps`, sorted.
    pub fn kinds(&self) -> Vec<String> {
        let registry = self.inner.registry.lock();
        let mut kinds: Vec<_> = registry
            .by_kind
            .values()
            .map(|informer| informer.kind().to_string())
            .collect();
        kinds.sort();
        kinds
    }

    /// Returns one line for each watched kind whose first list is not complete or whose watch is failing.
    pub fn unhealthy(&self) -> Vec<String> {
        let registry = self.inner.registry.lock();
        let mut unhealthy: Vec<_> = registry
            .by_kind
            .values()
            .flat_map(|informer| informer.unhealthy())
            .collect();
        unhealthy.sort();
        unhealthy
    }

    pub(crate) async fn read<K: View>(
        &self,
        informer: &Informer,
        key: &ObjectKey,
        consistency: Consistency,
    ) -> Result<Option<Arc<K>>, CacheError> {
        self.synced::<K>(informer).await?;
        if !informer.covers(key.namespace()) {
            let (kind, key) = (informer.kind().to_string(), key.clone());
            return Err(CacheError::NotWatched { kind, key });
        }
        let found = informer
            .get(key, consistency)
            .map_err(|malformed| malformed_error(informer.kind(), key, malformed))?;
        Ok(found)
    }

    pub(crate) async fn select<K: View>(
        &self,
        informer: &Informer,
        options: &ListOptions,
        consistency: Consistency,
    ) -> Result<Vec<Arc<K>>, CacheError> {
        let kind = || informer.kind().to_string();
        let unanswerable = |error| CacheError::FieldSelector { kind: kind(), error };
        options.check().map_err(unanswerable)?;
        self.synced::<K>(informer).await?;
        if let Some(namespace) = options.namespace().filter(|_| informer.kind().namespaced)
            && !informer.covers(Some(namespace))
        {
            let (kind, namespace) = (kind(), namespace.to_owned());
            return Err(CacheError::NamespaceNotWatched { kind, namespace });
        }
        let objects = informer.list(options, consistency).await;
        objects.map_err(|name| CacheError::NoIndex { kind: kind(), name })
    }

    /// Returns an error if objects of a kind, in a namespace or in all, cannot be decoded as their type.
    pub(crate) fn malformed(&self, kind: &Kind, namespace: Option<&str>) -> Option<CacheError> {
        let informer = self.existing(kind)?;
        let (key, malformed) = informer.malformed(namespace).into_iter().next()?;
        Some(malformed_error(kind, &key, malformed))
    }

    /// Returns the object in the cache, without waiting and without starting a watch.
    pub(crate) fn peek<K: View>(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<K>> {
        let informer = self.existing(kind).filter(|informer| informer.is_synced::<K>())?;
        informer.get(key, Consistency::OwnWrites).ok().flatten()
    }

    fn index<K: View>(
        &self,
        informer: &Arc<Informer>,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError> {
        let Some(fill) = informer.add_index(name, values) else {
            return Err(CacheError::IndexExists {
                kind: informer.kind().to_string(),
                name: name.to_owned(),
            });
        };
        if let Some(fill) = fill {
            self.inner.tasks.spawn(fill);
        }
        Ok(())
    }

    /// Returns the field manager of the operator.
    pub(crate) fn manager(&self) -> &str {
        &self.inner.manager
    }

    /// Returns the informer for a reader, or an error if it would have to be started and `start_on_read` is false.
    pub(crate) fn reader<K: Object>(&self) -> Result<Arc<Informer>, CacheError> {
        if let Some(informer) = self.inner.registry.lock().by_type.get(&TypeId::of::<K>()) {
            return Ok(informer.clone());
        }
        self.may_read(&Kind::of::<K>())?;
        Ok(self.informer::<K>())
    }

    /// Returns the informer for a reader of a kind as `K`; see [`Cache::reader`].
    pub(crate) fn reader_of<K: View>(&self, kind: &Kind) -> Result<Arc<Informer>, CacheError> {
        self.may_read(kind)?;
        Ok(self.informer_of::<K>(kind))
    }

    fn may_read(&self, kind: &Kind) -> Result<(), CacheError> {
        if self.inner.options.start_on_read || self.existing(kind).is_some() {
            return Ok(());
        }
        let kind = kind.to_string();
        Err(CacheError::NotCached { kind })
    }

    /// Returns the informer of a kind. The first call creates it, and starts it if the cache runs.
    pub(crate) fn informer<K: Object>(&self) -> Arc<Informer> {
        if let Some(informer) = self.inner.registry.lock().by_type.get(&TypeId::of::<K>()) {
            return informer.clone();
        }
        let mut registry = self.inner.registry.lock();
        let informer = self.informer_in::<K>(&mut registry, &Kind::of::<K>());
        registry.by_type.insert(TypeId::of::<K>(), informer.clone());
        informer
    }

    /// Returns the informer of a kind whose objects can be read as `K`.
    pub(crate) fn informer_of<K: View>(&self, kind: &Kind) -> Arc<Informer> {
        self.informer_in::<K>(&mut self.inner.registry.lock(), kind)
    }

    fn informer_in<K: View>(&self, registry: &mut Registry, kind: &Kind) -> Arc<Informer> {
        if let Some(informer) = registry.by_kind.get(&kind.path()) {
            informer.widen::<K>();
            return informer.clone();
        }
        let informer = Arc::new(Informer::new(
            kind.clone(),
            Representation::of::<K>(),
            &self.inner.manager,
            &self.inner.options,
            (self.inner.metrics.clone(), self.inner.recorder.clone()),
            self.inner.stop.child_token(),
        ));
        if registry.started {
            self.run(&informer);
        }
        registry.by_kind.insert(kind.path(), informer.clone());
        informer
    }

    /// Starts the watches of the kinds that have an informer. Later informers start immediately.
    pub(crate) fn start(&self) {
        let mut registry = self.inner.registry.lock();
        if !std::mem::replace(&mut registry.started, true) {
            registry.by_kind.values().for_each(|informer| self.run(informer));
        }
    }

    /// Stops all watches.
    pub(crate) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        // Handlers may hold the client, which holds the cache.
        let informers: Vec<_> = self.inner.registry.lock().by_kind.values().cloned().collect();
        informers.iter().for_each(|informer| informer.remove_handlers());
    }

    fn run(&self, informer: &Arc<Informer>) {
        for run in informer.runs(&self.inner.connection) {
            self.inner.tasks.spawn(run);
        }
    }

    /// Returns the informer of a kind that already has one.
    pub(crate) fn existing(&self, kind: &Kind) -> Option<Arc<Informer>> {
        self.inner.registry.lock().by_kind.get(&kind.path()).cloned()
    }

    async fn synced<K: View>(&self, informer: &Informer) -> Result<(), CacheError> {
        if !informer.is_synced::<K>() {
            let synced = tokio::time::timeout(self.inner.options.read_timeout, informer.synced::<K>());
            let kind = || informer.kind().to_string();
            synced
                .await
                .map_err(|_| match self.inner.registry.lock().started {
                    true => CacheError::NotSynced {
                        kind: kind(),
                        reason: informer.unhealthy().join("; "),
                    },
                    false => CacheError::NotStarted { kind: kind() },
                })?;
        }
        Ok(())
    }
}

fn malformed_error(kind: &Kind, key: &ObjectKey, malformed: Malformed) -> CacheError {
    CacheError::Malformed {
        kind: kind.to_string(),
        key: key.clone(),
        error: malformed.error,
    }
}
