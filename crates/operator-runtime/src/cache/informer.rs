//! An [`Informer`] is one kind: its watches, its store and its event handlers. Each watch has its own backoff.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event as WatchEvent;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CacheOptions;
use super::breath::Breath;
use super::decode::Malformed;
use super::handlers::{Handler, Handlers};
use super::item::{Arrived, Incoming, Intake, Item, Representation, Stored, view};
use super::plan::Planned;
use super::quarantine::{Quarantine, Read};
use super::selection::ListOptions;
use super::skips::{Interest, Origin};
use super::store::{Consistency, Gone, Scope, Store};
use super::table::SHARDS;
use crate::error::panic_text;
use crate::event::Event;
use crate::event_recorder::EventRecorder;
use crate::metrics::CacheMetrics;
use crate::object::{Kind, ObjectKey, View};

mod backoff;
mod failure;
mod tasks;

pub use backoff::WatchBackoff;
pub(crate) use tasks::{BoxedRun, Connection};

/// The newest known state of an object. It is used to decide whether a write changes the object.
pub(crate) struct CachedState<K> {
    /// The object.
    pub(crate) object: Arc<K>,
    /// The complete object as the server has it.
    pub(crate) value: Value,
    /// The fields that the operator applied, as [`Stored::applied`].
    pub(crate) applied: Option<Arc<str>>,
    /// Its revision.
    pub(crate) revision: u64,
}

/// One kind in the cache.
pub(crate) struct Informer {
    intake: Arc<Intake>,
    store: Arc<RwLock<Store>>,
    /// Locked while an event is stored and handled, so that each handler gets all events exactly once and in order.
    handlers: Mutex<Handlers>,
    watches: Vec<(Planned, Mutex<Health>)>,
    /// The representation of the objects. New readers may widen it, which lists everything again.
    representation: watch::Sender<Representation>,
    /// The representation that all watches have listed.
    listed: watch::Sender<Option<Representation>>,
    quarantine: Arc<Quarantine>,
    metrics: CacheMetrics,
    /// The number of indexes that are being filled with existing objects.
    indexing: watch::Sender<usize>,
    stop: CancellationToken,
}

/// The health of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// The first list is not complete.
    #[default]
    Starting,
    /// The watch is running.
    Live,
    /// The watch failed and will be retried.
    Failing(String),
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
        let keeps_decoded = options.kinds.get(&kind).is_some_and(|options| options.unpacked);
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
            indexing: watch::Sender::new(0),
            store: Arc::new(RwLock::new(Store::new(intake.clone(), scopes))),
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

    /// Records whether a watch is live, in the store and as a metric.
    fn set_live(&self, scope: &Scope, is_live: bool) {
        let kind = self.kind().to_string();
        self.metrics.watch_live(&kind, scope.as_deref(), is_live);
        self.store.write().set_live(scope, is_live);
    }

    /// Removes the metrics of the watches.
    pub(crate) fn remove_metrics(&self) {
        let kind = self.kind().to_string();
        for (planned, _) in &self.watches {
            self.metrics.watch_removed(&kind, planned.scope.as_deref());
        }
    }

    /// Returns the token that stops the watches.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Ensures that objects can be read as `K`, by listing them again if necessary.
    pub(crate) fn widen<K: View>(&self) {
        let wanted = Representation::of::<K>();
        self.representation.send_if_modified(|current| {
            let is_enough = current.serves(&wanted);
            *current = current.join(wanted);
            !is_enough
        });
    }

    /// Returns the object in the store.
    pub(crate) fn stored(
        &self,
        key: &ObjectKey,
        consistency: Consistency,
    ) -> Result<Option<Stored>, Malformed> {
        self.store.read().get(key, consistency)
    }

    /// Returns the object as a `K`.
    pub(crate) fn get<K: View>(
        &self,
        key: &ObjectKey,
        consistency: Consistency,
    ) -> Result<Option<Arc<K>>, Malformed> {
        let Some(stored) = self.stored(key, consistency)? else {
            return Ok(None);
        };
        let object = self.view(&stored, Intake::read).map_err(|error| Malformed {
            metadata: Box::new(stored.packed.metadata()),
            error,
        })?;
        Ok(Some(object))
    }

    /// Returns the newest known state of the object if it can decide whether a write changes it: the watch is live, the
    /// whole object is kept as the server has it, and its revision is a number.
    pub(crate) fn known<K: View>(&self, key: &ObjectKey) -> Option<CachedState<K>> {
        let stored = {
            let store = self.store.read();
            let is_live = store.is_live(key);
            store
                .get(key, Consistency::OwnWrites)
                .ok()
                .flatten()
                .filter(|_| is_live)?
        };
        let revision = stored.packed.revision();
        let value = self.intake.whole::<K>(&stored).filter(|_| revision > 0)?;
        Some(CachedState {
            object: self.view(&stored, Intake::read).ok()?,
            value,
            applied: stored.applied,
            revision,
        })
    }

    /// Records a write that was skipped because of the state with this revision. Returns `false` if the write must be
    /// sent.
    pub(crate) fn skip(&self, key: &ObjectKey, revision: u64, origin: Origin, interest: Interest) -> bool {
        self.store.write().skip(key, revision, origin, interest)
    }

    /// Removes the skips that a sent write of the same request supersedes.
    pub(crate) fn sent(&self, key: &ObjectKey, origin: &Origin, interest: &Interest) {
        self.store.write().sent(key, origin, interest);
    }

    /// Reconciles the requests of all skipped writes again, because no more events will arrive.
    pub(crate) fn give_up_skips(&self) {
        self.watches
            .iter()
            .for_each(|(planned, _)| self.give_up_skips_of(&planned.scope));
    }

    fn give_up_skips_of(&self, scope: &Scope) {
        let due = {
            let mut store = self.store.write();
            store.give_up_skips(scope);
            store.take_due()
        };
        self.requeue(due);
    }

    fn requeue(&self, due: Vec<Origin>) {
        if !due.is_empty() {
            self.metrics
                .skipped_writes_requeued(&self.kind().to_string(), due.len());
        }
        due.into_iter().for_each(Origin::requeue);
    }

    /// Returns the object as a `K`. An object that cannot be decoded is in quarantine only while it exists.
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

    /// Returns the objects as `K`, without those that cannot be decoded.
    ///
    /// # Errors
    /// Returns the name of an index that does not exist.
    pub(crate) async fn list<K: View>(
        &self,
        options: &ListOptions,
        consistency: Consistency,
    ) -> Result<Vec<Arc<K>>, String> {
        if options.has_lookups() {
            let mut indexing = self.indexing.subscribe();
            // The sender lives as long as `self`, so waiting cannot fail.
            let _ = indexing.wait_for(|indexing| *indexing == 0).await;
        }
        let mut breath = Breath::new();
        let mut candidates = self.store.read().candidates(options, consistency)?;
        // Inserted one by one, because sorting many at once would block for long.
        let mut wanted = BTreeMap::new();
        while let Some(stored) = candidates.next().or_else(|| {
            let has_more = self.store.read().find_more(&mut candidates);
            has_more.then_some(None)
        }) {
            if let Some(stored) = stored.filter(|stored| self.intake.is_wanted(stored, options)) {
                let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
                wanted.insert(key, stored);
                if wanted.len() > options.at_most() {
                    wanted.pop_last();
                }
            }
            breath.pause().await;
        }
        let mut objects = Vec::new();
        for stored in wanted.into_values() {
            objects.extend(self.view(&stored, Intake::look_at));
            breath.pause().await;
        }
        Ok(objects)
    }

    /// Returns the objects that do not fit their type, in a namespace or in all.
    pub(crate) fn malformed(&self, namespace: Option<&str>) -> Vec<(ObjectKey, Malformed)> {
        self.store.read().malformed_in(namespace)
    }

    /// Adds an index of the values that a function returns for each object. Returns `false` if an index with that name
    /// exists. The returned task adds the existing objects in the background; lists that need the index wait for it.
    pub(crate) fn add_index<K: View>(
        self: &Arc<Self>,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Option<Option<BoxedRun>> {
        let intake = self.intake.clone();
        let index = name.to_owned();
        let values = move |object: &Arc<dyn Item>| {
            let Ok(object) = view::<K>(object, &intake) else {
                return Vec::new();
            };
            // The function runs while the store is being changed, and that change must be completed.
            catch_unwind(AssertUnwindSafe(|| values(&object))).unwrap_or_else(|panic| {
                let panic = panic_text(&*panic);
                tracing::error!(kind = %intake.kind, index, error = panic, "Index function panicked");
                Vec::new()
            })
        };
        let (objects, is_empty) = {
            let mut store = self.store.write();
            (store.add_index(name, Arc::new(values))?, store.is_empty())
        };
        if is_empty {
            return Some(None);
        }
        self.indexing.send_modify(|indexing| *indexing += 1);
        let (informer, name) = (self.clone(), name.to_owned());
        let fill = async move {
            let mut breath = Breath::new();
            for stored in objects {
                if let Some(object) = informer.intake.unpack(&stored) {
                    informer.store.write().index(&name, &object, &stored);
                }
                breath.pause().await;
            }
            informer.indexing.send_modify(|indexing| *indexing -= 1);
        };
        Some(Some(fill.boxed()))
    }

    /// Stores the object in the response to a write.
    pub(crate) fn write(&self, answer: Value) {
        let take = self.representation.borrow().take;
        // The watch will report an object that cannot be decoded.
        if let Ok(Ok(written)) = take(answer, &self.intake) {
            self.store.write().write(written);
        }
    }

    /// Returns the object as a `K` if the watch has already delivered this state.
    pub(crate) fn watched_as<K: View>(&self, metadata: &ObjectMeta) -> Option<Arc<K>> {
        let stored = self.store.read().watched_at(metadata).cloned()?;
        self.intake.read(&stored).ok()
    }

    /// Stores the response to a write, in the representation of the store.
    pub(crate) fn write_arrived(&self, written: Arrived) {
        self.store.write().write(written);
    }

    /// Returns true if the objects are kept as `K` itself.
    pub(crate) fn keeps<K: View>(&self) -> bool {
        *self.representation.borrow() == Representation::of::<K>()
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Records that the operator deleted the object with this UID, and that it is gone. `at` is the revision of the
    /// deletion, if the response contains it.
    pub(crate) fn deleted(&self, key: &ObjectKey, uid: &str, at: Option<u64>) {
        self.store.write().deleted(key, uid, at);
    }

    /// Returns true if one of the watches covers objects of this namespace.
    pub(crate) fn covers(&self, namespace: Option<&str>) -> bool {
        let covers = |scope: &Scope| scope.is_none() || scope.as_deref() == namespace;
        self.watches.iter().any(|(planned, _)| covers(&planned.scope))
    }

    /// Returns true if all objects are listed and can be read as `K`.
    pub(crate) fn is_synced<K: View>(&self) -> bool {
        let wanted = Representation::of::<K>();
        self.listed.borrow().is_some_and(|listed| listed.serves(&wanted))
    }

    /// Waits until every watch has its first list and each handler has received it.
    pub(crate) async fn synced<K: View>(&self) {
        let wanted = Representation::of::<K>();
        let mut listed = self.listed.subscribe();
        let serves = |listed: &Option<Representation>| listed.is_some_and(|listed| listed.serves(&wanted));
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = listed.wait_for(serves).await;
    }

    /// Adds a handler of events of `K`. It first gets the existing objects as if they came from the first list, and
    /// then the newer events.
    pub(crate) async fn add_handler<K: View>(&self, handler: impl Fn(&Event<K>) + Send + Sync + 'static) {
        let quarantine = self.quarantine.clone();
        let handler: Handler = Arc::new(move |event| {
            if let Some(event) = event_as(event, &quarantine) {
                handler(&event);
            }
        });
        let (id, objects) = {
            let mut handlers = self.handlers.lock();
            (handlers.add(handler.clone()), self.store.read().objects())
        };
        let _incomplete = Incomplete { informer: self, id };
        let mut breath = Breath::new();
        for stored in objects {
            if let Some(object) = self.intake.unpack(&stored) {
                let initial = true;
                self.call(&handler, &Event::Create { object, initial });
            }
            breath.pause().await;
        }
        loop {
            let Some(backlog) = self.handlers.lock().backlog(id) else {
                return;
            };
            for event in backlog {
                self.call(&handler, &event);
                breath.pause().await;
            }
        }
    }

    /// Removes all handlers.
    pub(crate) fn remove_handlers(&self) {
        // Dropped after the lock is released, because their destructors may run any code.
        let handlers = std::mem::take(&mut *self.handlers.lock());
        drop(handlers);
    }

    fn handle(&self, scope: &Scope, representation: Representation, event: WatchEvent<Incoming>) {
        let mut handlers = self.handlers.lock();
        if let WatchEvent::InitApply(Err(malformed)) | WatchEvent::Apply(Err(malformed)) = &event {
            self.report_omitted(malformed);
        }
        let (events, malformed, due) = {
            let mut store = self.store.write();
            let before = store.malformed();
            let events = store.step(scope, representation, event);
            let malformed = Some(store.malformed()).filter(|after| *after != before);
            (events, malformed, store.take_due())
        };
        if let Some(malformed) = malformed {
            self.quarantine.set_omitted(malformed);
        }
        self.dispatch(&mut handlers, &events);
        drop(handlers);
        self.requeue(due);
    }

    /// Ends a list. The objects that it did not contain are removed one by one, because there may be many.
    async fn end_list(&self, scope: &Scope, representation: Representation) {
        let (written, malformed, due) = {
            let mut store = self.store.write();
            let gone = store.end_list(scope, representation);
            (gone, store.malformed(), store.take_due())
        };
        self.quarantine.set_omitted(malformed);
        self.requeue(due);
        let mut breath = Breath::new();
        self.forget_gone(written, &mut breath).await;
        for shard in 0..SHARDS {
            let missing = self.store.write().take_missing(scope, shard);
            self.forget_gone(missing, &mut breath).await;
        }
        if self.store.read().is_listed_as(&representation) {
            self.listed.send_if_modified(|listed| {
                let is_new = *listed != Some(representation);
                *listed = Some(representation);
                is_new
            });
        }
    }

    async fn forget_gone(&self, gone: Vec<Gone>, breath: &mut Breath) {
        for gone in gone {
            let due = {
                let mut handlers = self.handlers.lock();
                let (event, due) = {
                    let mut store = self.store.write();
                    (store.forget_gone(gone), store.take_due())
                };
                self.dispatch(&mut handlers, event.as_slice());
                due
            };
            self.requeue(due);
            breath.pause().await;
        }
    }

    /// Sends events to all handlers.
    fn dispatch(&self, handlers: &mut Handlers, events: &[Event<dyn Item>]) {
        for event in events {
            for handler in handlers.take(event) {
                self.call(handler, event);
            }
        }
        self.quarantine.follow(events);
    }

    /// Reports once that an object is omitted.
    fn report_omitted(&self, malformed: &Malformed) {
        let (metadata, error) = (&malformed.metadata, &malformed.error);
        let name = metadata.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(metadata.namespace.as_deref(), name);
        if self.store.read().complaint(&key) != Some(error) {
            self.quarantine.report_omitted(malformed);
        }
    }

    /// Calls a handler. If it panics, it loses this event; the watch and the other handlers are not affected.
    fn call(&self, handler: &Handler, event: &Event<dyn Item>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler(event))) {
            let key = ObjectKey::of(event.object().as_ref());
            let panic = panic_text(&*panic);
            tracing::error!(kind = %self.kind(), object = %key, error = panic, "Predicate or event handler panicked");
        }
    }
}

/// A handler with a backlog. It is removed if this is dropped before the backlog is empty.
struct Incomplete<'a> {
    informer: &'a Informer,
    id: u64,
}

impl Drop for Incomplete<'_> {
    fn drop(&mut self) {
        let removed = self.informer.handlers.lock().remove_incomplete(self.id);
        // Dropped after the lock is released, because its destructor may run any code.
        drop(removed);
    }
}

/// Returns the event as one of `K`, or `None` if its newest state cannot be decoded.
fn event_as<K: View>(event: &Event<dyn Item>, quarantine: &Quarantine) -> Option<Event<K>> {
    match event {
        Event::Create { object, initial } => {
            let object = quarantine.view::<K>(object, None).ok()?;
            let initial = *initial;
            Some(Event::Create { object, initial })
        }
        Event::Update { old, new } => {
            let new = quarantine.view::<K>(new, Some(old)).ok()?;
            Some(match quarantine.peek(old) {
                Some(old) => Event::Update { old, new },
                None => match quarantine.last_good(old) {
                    // The object could not be decoded for a while. The handler has seen it before.
                    Some(old) => Event::Update { old, new },
                    None => Event::Create {
                        object: new,
                        initial: false,
                    },
                },
            })
        }
        Event::Delete { object, stale } => match quarantine.peek(object) {
            Some(object) => Some(Event::Delete {
                object,
                stale: *stale,
            }),
            None => quarantine
                .last_good(object)
                .map(|object| Event::Delete { object, stale: true }),
        },
        Event::Generic { object } => {
            let object = quarantine.view::<K>(object, None).ok()?;
            Some(Event::Generic { object })
        }
    }
}
