//! The cache: what the operator knows of the cluster, one store per kind, fed by one watch per kind and namespace.
//!
//! A kind that is read first by a reconciler starts its watch then; the read waits for the first list.
//! `metadata.managedFields` is not kept. The cache never writes to the server.
//!
//! # What an object costs
//! Objects are kept packed, in some hundred bytes where they would take some thousand, and decoded when they are read.
//! What changed or was read lately stays decoded for some seconds, up to 32 objects or 32 kB of packed ones of a kind:
//! readers of the same object share one `Arc<K>`, which is never copied. Lists decode what they list, unless it is
//! there. [`KindOptions::unpacked`] keeps a kind decoded.
//!
//! # One kind, several types
//! A kind has one watch, whoever reads it and as what. Its objects come in as the narrowest type from which all readers
//! can be served, and are left out if they do not fit it:
//!
//! | read as | comes in as |
//! |---|---|
//! | `PartialObjectMeta<K>` alone | the metadata; the server sends no more than that |
//! | one type `K`, and metadata | `K` |
//! | `DynamicObject`, or two types of one kind | `DynamicObject`; readers of a type get errors for what does not fit |
//!
//! If a kind that is watched is read as something that needs more, it is listed once more; other readers go on
//! meanwhile. For kinds that are watched metadata-only, every [apply](crate::Client::apply) is sent.

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

/// How the cache watches.
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
    /// The namespaces to watch, and how each; all when empty. Cluster-scoped kinds are watched as a whole in any case.
    pub namespaces: Namespaces,
    /// The options of single kinds: selectors, namespaces, transforms.
    pub kinds: BTreeMap<Kind, KindOptions>,
    /// Of all kinds for which nothing else is said, keeps the objects whose labels match, in the form of
    /// `kubectl get -l`; all unless said otherwise.
    pub labels: Option<String>,
    /// The same with fields, in the form of `kubectl get --field-selector`.
    pub fields: Option<String>,
    /// What is done to objects before they are kept; `metadata.managedFields` is removed in any case.
    pub transforms: Transforms,
    /// How often, give or take a tenth, every object is told again to every controller as an update without a change,
    /// at low priority; 10 h unless said otherwise, never if `None`. It costs no request, and no write at rest.
    pub sync_period: Option<Duration>,
    /// How many objects are asked for at once when a kind is listed; 100 unless said otherwise. What a page takes while
    /// it is read is memory that the process keeps afterwards; where there are tens of thousands of objects, larger
    /// pages are there sooner.
    pub page_size: u32,
    /// Ask for the first list as a stream of events (`sendInitialEvents`) instead of pages: one request, and less memory on
    /// the server. A server that refuses, as those before Kubernetes 1.32 do, is asked for pages. True unless said
    /// otherwise.
    pub streaming_lists: bool,
    /// Whether the server tells each watch now and then how far it has come, so that a watch of a quiet kind can go on
    /// where it was; true unless said otherwise. What is watched without is listed in pages.
    pub watch_bookmarks: bool,
    /// How the waits between failed attempts of a watch grow.
    pub watch_backoff: WatchBackoff,
    /// Who hears of each failure of a watch; the log, once for each failure after a success, unless said otherwise.
    pub watch_errors: WatchErrorHandler,
    /// Whether the first read of a kind starts watching it, which needs the permission to list and watch, and memory
    /// for all its objects; true unless said otherwise. Otherwise it is an error, and kinds are watched because a
    /// controller or an index needs them, or [`Cache::watch`] names them.
    pub start_on_read: bool,
    /// How long a read waits for the first list of its kind; 30 s unless said otherwise.
    pub read_timeout: Duration,
}

/// Why the cache has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The cache was not started in time: its manager does not run.
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
        /// What its watches say.
        reason: String,
    },
    /// Nobody watches the kind, and a read may not start it.
    #[error("{kind} is not cached, and reads start no watch (start_on_read): name it with Cache::watch")]
    NotCached {
        /// The kind.
        kind: String,
    },
    /// The object is there, but it is none of its type.
    #[error("{kind} {key} does not fit its type: {error}; repair the object or the type")]
    Malformed {
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// Where it does not fit.
        error: String,
    },
    /// A list names an index that nobody added.
    #[error("{kind} has no index {name:?}: add it with Cache::add_index before the manager runs")]
    NoIndex {
        /// The kind.
        kind: String,
        /// The name of the index.
        name: String,
    },
    /// There is an index of that name already.
    #[error("{kind} has an index {name:?} already: give one of the two another name")]
    IndexExists {
        /// The kind.
        kind: String,
        /// The name of the index.
        name: String,
    },
    /// The object lives in a namespace that is not watched.
    #[error(
        "unable to get: {key} because of unknown namespace for the cache: {kind} is not watched there (WATCH_NAMESPACE)"
    )]
    NotWatched {
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// The objects of a namespace were asked for that is not watched.
    #[error(
        "unable to list: {namespace} because of unknown namespace for the cache: {kind} is not watched there (WATCH_NAMESPACE)"
    )]
    NamespaceNotWatched {
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
    },
    /// The field selector of a list is none that the cache can answer.
    #[error("cannot list {kind} from the cache: {error}")]
    FieldSelector {
        /// The kind.
        kind: String,
        /// Why not.
        error: String,
    },
    /// A kind that lives in no namespace was given some to be watched in.
    #[error(
        "type {kind} is not namespaced, but its namespaces setting is not empty: take it out of KindOptions::namespaces"
    )]
    ClusterScoped {
        /// The kind.
        kind: String,
    },
}

/// The cache of a manager; clones share it. Reconcilers read through their [`Client`](crate::Client), which reads here.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    options: CacheOptions,
    /// The field manager of the operator, whose applied fields are remembered.
    manager: Arc<str>,
    metrics: CacheMetrics,
    recorder: EventRecorder,
    registry: Mutex<Registry>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The kinds that are watched.
#[derive(Default)]
struct Registry {
    by_kind: HashMap<String, Arc<Informer>>,
    /// The same ones, by the types that they are read as, for those who know the kind by the type.
    by_type: HashMap<TypeId, Arc<Informer>>,
    started: bool,
}

/// A cache that nobody has any more watches nothing, however its manager ended.
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

    /// Adds an index: the objects of `K` by the values that `values` makes of each, of which there may be none or
    /// several. [`ListOptions::indexes`] looks them up. The kind is watched from now on, or from the start of the
    /// manager.
    ///
    /// An index is best added before the manager runs; later ones know the objects that are there.
    ///
    /// # Errors
    /// If the kind has an index of that name.
    pub fn add_index<K: Object>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError> {
        self.index(&self.informer::<K>(), name, values)
    }

    /// [`Cache::add_index`] of a kind that is read as `K`, such as `DynamicObject`.
    ///
    /// # Errors
    /// As [`Cache::add_index`].
    pub fn add_index_of<K: View>(
        &self,
        kind: &Kind,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), CacheError> {
        self.index(&self.informer_of::<K>(kind), name, values)
    }

    /// Watches a kind, whose objects are read as `K`, from now on, or from the start of the manager, as the first read would:
    /// so that the first read need not wait, or where reads may not start watches ([`CacheOptions::start_on_read`]).
    pub fn watch<K: View>(&self, kind: &Kind) {
        self.informer_of::<K>(kind);
    }

    /// Stops watching a kind and forgets its objects. Returns false if it was not watched. Controllers get no more events of
    /// it. A later read starts watching it again.
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

    /// The kinds that are watched, as `Deployment.apps`, sorted.
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

    /// What of the kinds that are watched is not in order, in a line each: first lists that are under way, and watches
    /// that failed and will be tried again. Empty when everything is. `/readyz` says the same.
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

    /// The objects of a kind that do not fit their type, of a namespace or of all.
    pub(crate) fn malformed(&self, kind: &Kind, namespace: Option<&str>) -> Option<CacheError> {
        let informer = self.existing(kind)?;
        let (key, malformed) = informer.malformed(namespace).into_iter().next()?;
        Some(malformed_error(kind, &key, malformed))
    }

    /// The object as the cache knows it, without waiting and without starting a watch.
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

    /// The field manager of the operator.
    pub(crate) fn manager(&self) -> &str {
        &self.inner.manager
    }

    /// The informer for a reader, who may not start one if the options say so.
    pub(crate) fn reader<K: Object>(&self) -> Result<Arc<Informer>, CacheError> {
        if let Some(informer) = self.inner.registry.lock().by_type.get(&TypeId::of::<K>()) {
            return Ok(informer.clone());
        }
        self.may_read(&Kind::of::<K>())?;
        Ok(self.informer::<K>())
    }

    /// [`Cache::reader`] of a kind that is read as `K`.
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

    /// The informer of a kind; the first call makes it, and starts it if the cache is running.
    pub(crate) fn informer<K: Object>(&self) -> Arc<Informer> {
        if let Some(informer) = self.inner.registry.lock().by_type.get(&TypeId::of::<K>()) {
            return informer.clone();
        }
        let mut registry = self.inner.registry.lock();
        let informer = self.informer_in::<K>(&mut registry, &Kind::of::<K>());
        registry.by_type.insert(TypeId::of::<K>(), informer.clone());
        informer
    }

    /// The informer of a kind, whose objects can be read as `K`.
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

    /// Starts the watches of the kinds that were asked for; later ones start when they are asked for.
    pub(crate) fn start(&self) {
        let mut registry = self.inner.registry.lock();
        if !std::mem::replace(&mut registry.started, true) {
            registry.by_kind.values().for_each(|informer| self.run(informer));
        }
    }

    /// Ends every watch.
    pub(crate) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        // Handlers may hold the client, and so the cache.
        let informers: Vec<_> = self.inner.registry.lock().by_kind.values().cloned().collect();
        informers.iter().for_each(|informer| informer.remove_handlers());
    }

    fn run(&self, informer: &Arc<Informer>) {
        for run in informer.runs(&self.inner.connection) {
            self.inner.tasks.spawn(run);
        }
    }

    /// The informer of a kind that somebody reads already.
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
