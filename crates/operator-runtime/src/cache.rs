//! The cache: what the operator knows of the cluster, one store per kind, fed by one watch per kind and namespace.
//!
//! Reads cost a lock and a pointer: objects are handed out as `Arc<K>` and never copied. A kind that is read first by
//! a reconciler starts its watch then; the read waits for the first list. `metadata.managedFields` is not kept.
//! It never writes to the server.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::CacheMetrics;
use crate::object::{Kind, Object, ObjectKey};

pub(crate) mod decode;
pub(crate) mod informer;
mod pace;
mod selection;
pub(crate) mod store;

use decode::Malformed;
pub use informer::WatchBackoff;
use informer::{Connection, Informer, Watched};
pub use selection::{ListOptions, Selectors};
use store::Stored;

/// How the cache watches.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The namespaces to watch; all when empty. Cluster-scoped kinds are watched as a whole in any case.
    pub namespaces: Vec<String>,
    /// Which objects of which kind are kept; all unless said otherwise.
    pub selectors: Selectors,
    /// Ask for the first list as a stream of events instead of pages (Kubernetes 1.32 and newer): less memory on the
    /// server. Off unless said otherwise.
    pub streaming_lists: bool,
    /// How the waits between failed attempts of a watch grow.
    pub watch_backoff: WatchBackoff,
    /// How long a read waits for the first list of its kind; 30 s unless said otherwise.
    pub read_timeout: Duration,
}

/// Why the cache has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The kind could not be listed in time.
    #[error("{kind} is not in the cache yet: {reason}")]
    NotSynced {
        /// The kind.
        kind: String,
        /// What its watches say.
        reason: String,
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
    /// The object lives in a namespace that is not watched.
    #[error("{kind} {key} is not watched: the operator watches other namespaces only (WATCH_NAMESPACE)")]
    NotWatched {
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
}

/// The cache of a manager; clones share it.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    options: CacheOptions,
    /// The field manager of the operator, whose applied fields are remembered.
    manager: String,
    metrics: CacheMetrics,
    registry: Mutex<Registry>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct Registry {
    informers: HashMap<TypeId, Entry>,
    started: bool,
}

/// One informer, once as what it is and once as what it can do.
struct Entry {
    typed: Arc<dyn Any + Send + Sync>,
    watched: Arc<dyn Watched>,
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
            namespaces: Vec::new(),
            selectors: Selectors::default(),
            streaming_lists: false,
            watch_backoff: WatchBackoff::default(),
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
        metrics: CacheMetrics,
    ) -> Self {
        let config = watcher::Config::default();
        let config = if options.streaming_lists {
            config.streaming_lists()
        } else {
            config
        };
        let backoff = options.watch_backoff;
        let connection = Connection {
            client,
            config,
            backoff,
        };
        let manager = manager.to_owned();
        Self {
            inner: Arc::new(Inner {
                connection,
                options,
                manager,
                metrics,
                registry: Mutex::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// The object, or `None` if there is none.
    ///
    /// A write of this operator is seen by every read that comes after its answer.
    ///
    /// # Errors
    /// If the kind cannot be listed in time, the namespace is not watched, or the object does not fit its type.
    pub async fn get<K: Object>(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, CacheError> {
        let key = key.into();
        let stored = self.stored::<K>(&key).await?;
        Ok(stored.map(|stored| stored.object))
    }

    /// The objects that `options` name, sorted by namespace and name: `None` for all, `Some(namespace)`, or
    /// [`ListOptions`].
    ///
    /// # Errors
    /// If the kind cannot be listed in time.
    pub async fn list<K: Object>(&self, options: impl Into<ListOptions>) -> Result<Vec<Arc<K>>, CacheError> {
        let options = options.into();
        Ok(self.synced::<K>().await?.list(&options))
    }

    /// What of the kinds that are watched is not in order; empty when everything is.
    pub fn unhealthy(&self) -> Vec<String> {
        let registry = self.inner.registry.lock();
        let mut unhealthy: Vec<_> = registry
            .informers
            .values()
            .flat_map(|entry| entry.watched.unhealthy())
            .collect();
        unhealthy.sort();
        unhealthy
    }

    pub(crate) async fn stored<K: Object>(&self, key: &ObjectKey) -> Result<Option<Stored<K>>, CacheError> {
        let informer = self.synced::<K>().await?;
        if !informer.covers(key) {
            let (kind, key) = (informer.kind().to_string(), key.clone());
            return Err(CacheError::NotWatched { kind, key });
        }
        informer
            .get(key)
            .map_err(|malformed| malformed_error::<K>(key, malformed))
    }

    /// What is known of the object without waiting and without starting a watch.
    pub(crate) fn known<K: Object>(&self, key: &ObjectKey) -> Option<Stored<K>> {
        let informer = self.existing::<K>().filter(|informer| informer.is_synced())?;
        informer.get(key).ok().flatten()
    }

    /// Takes the answer to a write.
    pub(crate) fn write<K: Object>(&self, written: Stored<K>) {
        if let Some(informer) = self.existing::<K>() {
            informer.write(written);
        }
    }

    /// Takes note of a deletion that left nothing.
    pub(crate) fn deleted<K: Object>(&self, key: &ObjectKey, uid: &str) {
        if let Some(informer) = self.existing::<K>() {
            informer.deleted(key, uid);
        }
    }

    /// The field manager of the operator.
    pub(crate) fn manager(&self) -> &str {
        &self.inner.manager
    }

    /// The informer of a kind; the first call makes it, and starts it if the cache is running.
    pub(crate) fn informer<K: Object>(&self) -> Arc<Informer<K>> {
        let mut registry = self.inner.registry.lock();
        if let Some(informer) = registry.find::<K>() {
            return informer;
        }
        let informer = Arc::new(Informer::<K>::new(
            &self.inner.manager,
            &self.inner.options,
            self.inner.metrics.clone(),
        ));
        let (typed, watched) = (informer.clone(), informer.clone());
        if registry.started {
            self.run(&watched_as(&informer));
        }
        registry
            .informers
            .insert(TypeId::of::<K>(), Entry { typed, watched });
        informer
    }

    /// Starts the watches of the kinds that were asked for; later ones start when they are asked for.
    pub(crate) fn start(&self) {
        let mut registry = self.inner.registry.lock();
        if !std::mem::replace(&mut registry.started, true) {
            for entry in registry.informers.values() {
                self.run(&entry.watched);
            }
        }
    }

    /// Ends every watch.
    pub(crate) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    fn run(&self, informer: &Arc<dyn Watched>) {
        for index in 0..informer.watches() {
            let stop = self.inner.stop.child_token();
            let watch = informer.clone().run(index, self.inner.connection.clone(), stop);
            self.inner.tasks.spawn(watch);
        }
    }

    /// The informer of a kind that somebody reads already.
    pub(crate) fn existing<K: Object>(&self) -> Option<Arc<Informer<K>>> {
        self.inner.registry.lock().find::<K>()
    }

    async fn synced<K: Object>(&self) -> Result<Arc<Informer<K>>, CacheError> {
        let informer = self.informer::<K>();
        if !informer.is_synced() {
            let synced = tokio::time::timeout(self.inner.options.read_timeout, informer.synced());
            synced.await.map_err(|_| CacheError::NotSynced {
                kind: informer.kind().to_string(),
                reason: informer.unhealthy().join("; "),
            })?;
        }
        Ok(informer)
    }
}

fn watched_as<K: Object>(informer: &Arc<Informer<K>>) -> Arc<dyn Watched> {
    informer.clone()
}

fn malformed_error<K: Object>(key: &ObjectKey, malformed: Malformed) -> CacheError {
    CacheError::Malformed {
        kind: Kind::of::<K>().to_string(),
        key: key.clone(),
        error: malformed.error,
    }
}

impl Registry {
    fn find<K: Object>(&self) -> Option<Arc<Informer<K>>> {
        let entry = self.informers.get(&TypeId::of::<K>())?;
        entry.typed.clone().downcast().ok()
    }
}
