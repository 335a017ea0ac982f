//! The store: one revision counter, one synchronous commit, a history of events.
//!
//! It is independent of schemas and kinds. Objects are JSON trees behind `Arc`, by table (one for each resource,
//! shared by its versions) and key (`namespace/name`, or `name`). Every commit takes the next revision, writes it to
//! `metadata.resourceVersion` and adds one event. The history keeps only the last events: older ones are [`Compacted`].
//!
//! With a journal, a commit is in the file before it becomes visible.

mod changes;
pub(crate) mod journal;
mod list;
mod objects;
mod persistence;
mod snapshot;
mod stored;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

pub(crate) use self::changes::Changes;
use self::changes::Signal;
use self::journal::Journal;
pub(crate) use self::list::{Listing, Selection};
pub(crate) use self::objects::Objects;
use self::persistence::Compactor;
pub(crate) use self::snapshot::Frozen;
pub(crate) use self::stored::Stored;
use apimachinery::gvk::Gvr;
use apimachinery::object;

/// The type of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted; the event has its last state with the revision of the deletion.
    Deleted,
}

/// An object of a snapshot, with its resource (in its storage version).
pub type Resident = (Arc<Gvr>, Arc<Value>);

/// The name of a table: `pods`, `deployments.apps`.
pub(crate) type TableId = Arc<str>;

/// One committed change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) gvr: Arc<Gvr>,
    pub(crate) kind: EventType,
    /// The object after the change; the last state with the revision of the deletion, if deleted.
    pub(crate) object: Arc<Stored>,
    pub(crate) old: Option<Arc<Stored>>,
}

/// The reason why a write was not committed.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// A create found an object with the same key.
    Exists(Arc<Stored>),
    /// The object does not exist any more.
    Gone,
    /// The object has another revision than the base of the write.
    Moved,
    /// Another object that the write changes jointly has been modified.
    Superseded,
    /// The commit could not be written to the journal, and was not made.
    NotPersisted(journal::Error),
}

/// The history does not contain the requested revision: it is too old or in the future.
#[derive(Debug)]
pub(crate) struct Compacted {
    /// The oldest revision from which the events are complete.
    pub(crate) oldest: u64,
}

#[derive(Debug)]
pub(crate) struct Store {
    state: Arc<RwLock<State>>,
    horizon: Horizon,
    changes: Signal,
    /// Exists if there is a journal.
    compactor: Option<Compactor>,
}

/// The limits of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// The number of events.
    pub(crate) events: usize,
    /// The memory limit of their objects, in bytes; an estimate. The last event is always kept.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    journal: Option<Journal>,
    revision: u64,
    tables: BTreeMap<TableId, Table>,
    history: History,
}

#[derive(Debug)]
struct Table {
    gvr: Arc<Gvr>,
    /// Shared with the snapshots that were taken since the last change.
    objects: Arc<Objects>,
    history: VecDeque<Arc<Event>>,
    /// The revision of the last dropped event of this table.
    compacted: u64,
    changes: Signal,
}

/// The last events of all tables; one per revision, so that revisions are positions.
#[derive(Debug, Default)]
struct History {
    events: VecDeque<(TableId, Arc<Event>)>,
    /// The memory of the objects of all events.
    bytes: usize,
    /// The revision up to which events are dropped.
    compacted: u64,
}

/// A change of another object that is committed atomically with a write. Its event follows that of the write.
#[derive(Debug)]
pub(crate) struct JointUpdate {
    pub(crate) table: TableId,
    pub(crate) gvr: Arc<Gvr>,
    pub(crate) live: Arc<Stored>,
    pub(crate) value: Value,
}

/// A change to one object.
enum Change {
    Create(Value),
    Update { based_on: u64, value: Value },
    Delete { based_on: u64 },
}

impl Store {
    /// Returns an empty store.
    pub(crate) fn new(horizon: Horizon) -> Self {
        Self {
            state: Arc::default(),
            horizon,
            changes: Signal::default(),
            compactor: None,
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state.read().revision
    }

    pub(crate) fn get(&self, table: &str, key: &str) -> Option<Arc<Stored>> {
        let state = self.state.read();
        state.tables.get(table)?.objects.get(key).cloned()
    }

    /// Returns the estimated memory of the objects of a table, in bytes.
    pub(crate) fn memory(&self, table: &str) -> usize {
        let state = self.state.read();
        state.tables.get(table).map_or(0, |table| table.objects.memory())
    }

    /// Returns the number of objects of a table.
    pub(crate) fn count(&self, table: &str) -> usize {
        let state = self.state.read();
        state.tables.get(table).map_or(0, |table| table.objects.len())
    }

    pub(crate) fn create(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        key: &str,
        value: Value,
    ) -> Result<Arc<Stored>, Rejected> {
        self.create_with(table, gvr, key, value, Vec::new())
    }

    /// Stores a new object together with changes of others.
    pub(crate) fn create_with(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        key: &str,
        value: Value,
        joint: Vec<JointUpdate>,
    ) -> Result<Arc<Stored>, Rejected> {
        self.commit(table, gvr, key, Change::Create(value), joint)
    }

    pub(crate) fn update(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        live: &Stored,
        value: Value,
    ) -> Result<Arc<Stored>, Rejected> {
        self.update_with(table, gvr, live, value, Vec::new())
    }

    /// Stores a changed object together with changes of others.
    pub(crate) fn update_with(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        live: &Stored,
        value: Value,
        joint: Vec<JointUpdate>,
    ) -> Result<Arc<Stored>, Rejected> {
        let based_on = live.revision;
        self.commit(table, gvr, &live.key, Change::Update { based_on, value }, joint)
    }

    /// Removes an object; returns its last state with the revision of the deletion.
    pub(crate) fn delete(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        live: &Stored,
    ) -> Result<Arc<Stored>, Rejected> {
        let based_on = live.revision;
        self.commit(table, gvr, &live.key, Change::Delete { based_on }, Vec::new())
    }

    fn commit(
        &self,
        table: &TableId,
        gvr: &Arc<Gvr>,
        key: &str,
        change: Change,
        joint: Vec<JointUpdate>,
    ) -> Result<Arc<Stored>, Rejected> {
        let mut state = self.state.write();
        let state = &mut *state;
        let event = state.plan(state.revision + 1, table, gvr, key, change)?;
        let committed = event.object.clone();
        let mut events = vec![(table.clone(), event)];
        for (revision, other) in (state.revision + 2..).zip(joint) {
            let JointUpdate {
                table,
                gvr,
                live,
                value,
            } = other;
            let based_on = live.revision;
            let event = state
                .plan(
                    revision,
                    &table,
                    &gvr,
                    &live.key,
                    Change::Update { based_on, value },
                )
                .map_err(|_| Rejected::Superseded)?;
            events.push((table, event));
        }
        if let Some(journal) = &mut state.journal {
            persistence::append(journal, &events).map_err(Rejected::NotPersisted)?;
        }
        for (table, event) in events {
            state.take(table, event);
        }
        state.forget(self.horizon);
        if let Some(compactor) = &self.compactor
            && let Some(job) = state.start_compaction()
        {
            compactor.send(job);
        }
        self.changes.send(state.revision);
        Ok(committed)
    }

    /// Checks that commits can be written to the journal, if there is one.
    pub(crate) fn check_journal(&self) -> Result<(), crate::store::journal::Error> {
        match &mut self.state.write().journal {
            Some(journal) => journal.check(),
            None => Ok(()),
        }
    }

    /// Starts the history at the current revision; called when a server starts.
    pub(crate) fn begin_history(&self) {
        self.state.write().forget_all();
    }

    /// Returns all objects of all tables, and the revision.
    pub(crate) fn snapshot(&self) -> (u64, Vec<Resident>) {
        let state = self.state.read();
        let mut objects = Vec::new();
        for table in state.tables.values() {
            objects.extend(
                table
                    .objects
                    .values()
                    .map(|object| (table.gvr.clone(), object.value.clone())),
            );
        }
        (state.revision, objects)
    }

    /// Returns the events of one table after `revision`, at most `limit`.
    pub(crate) fn events(
        &self,
        table: &str,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Compacted> {
        let state = self.state.read();
        let Some(table) = state.tables.get(table) else {
            return Ok(Vec::new());
        };
        table.check_history(revision)?;
        let first = table.history.partition_point(|event| event.revision <= revision);
        Ok(table.history.range(first..).take(limit).cloned().collect())
    }

    /// Returns the events of all tables after `revision`, at most `limit`.
    pub(crate) fn all_events(&self, revision: u64, limit: usize) -> Result<Vec<Arc<Event>>, Compacted> {
        let state = self.state.read();
        check_history(revision, state.history.compacted)?;
        let skip = usize::try_from(revision - state.history.compacted).unwrap_or(usize::MAX);
        let events = &state.history.events;
        let first = skip.min(events.len());
        Ok(events
            .range(first..)
            .take(limit)
            .map(|(_, event)| event.clone())
            .collect())
    }

    /// Returns a receiver that changes with each new event of the table.
    pub(crate) fn subscribe(&self, table: &TableId, gvr: &Arc<Gvr>) -> Changes {
        let mut state = self.state.write();
        let compacted = state.history.compacted;
        state
            .tables
            .entry(table.clone())
            .or_insert_with(|| Table::new(gvr.clone(), compacted))
            .changes
            .subscribe()
    }

    /// Returns a receiver that changes with every commit.
    pub(crate) fn subscribe_all(&self) -> Changes {
        self.changes.subscribe()
    }
}

/// Returns an error if a reader at `revision` has missed dropped events.
fn check_history(revision: u64, compacted: u64) -> Result<(), Compacted> {
    if revision < compacted {
        return Err(Compacted { oldest: compacted });
    }
    Ok(())
}

// === impl State ===

impl State {
    /// Returns the event of a change if it is allowed, without applying it.
    fn plan(
        &mut self,
        revision: u64,
        table: &TableId,
        gvr: &Arc<Gvr>,
        key: &str,
        change: Change,
    ) -> Result<Arc<Event>, Rejected> {
        let compacted = self.history.compacted;
        let table = self
            .tables
            .entry(table.clone())
            .or_insert_with(|| Table::new(gvr.clone(), compacted));
        table.gvr = gvr.clone();
        table.plan(revision, key, change).map(Arc::new)
    }

    /// Applies an event.
    fn take(&mut self, table_id: TableId, event: Arc<Event>) {
        self.revision = event.revision;
        if let Some(table) = self.tables.get_mut(&table_id) {
            table.apply(&event);
            table.history.push_back(event.clone());
            table.changes.send(event.revision);
        }
        self.history.bytes += event.object.memory;
        self.history.events.push_back((table_id, event));
    }

    /// Drops the whole history: no reader can start before the current revision.
    fn forget_all(&mut self) {
        self.history.events.clear();
        self.history.bytes = 0;
        self.history.compacted = self.revision;
        for table in self.tables.values_mut() {
            table.history.clear();
            table.compacted = self.revision;
        }
    }

    fn forget(&mut self, horizon: Horizon) {
        let is_too_long = |history: &History| {
            let events = history.events.len();
            events > 1 && (events > horizon.events || history.bytes > horizon.bytes)
        };
        while is_too_long(&self.history) {
            let Some((table, event)) = self.history.events.pop_front() else {
                return;
            };
            self.history.bytes = self.history.bytes.saturating_sub(event.object.memory);
            self.history.compacted = event.revision;
            if let Some(table) = self.tables.get_mut(&table) {
                table.history.pop_front();
                table.compacted = event.revision;
            }
        }
    }
}

// === impl Table ===

impl Table {
    /// Creates an empty table without events up to a revision.
    fn new(gvr: Arc<Gvr>, compacted: u64) -> Self {
        Self {
            gvr,
            objects: Arc::default(),
            history: VecDeque::new(),
            compacted,
            changes: Signal::default(),
        }
    }

    fn check_history(&self, revision: u64) -> Result<(), Compacted> {
        check_history(revision, self.compacted)
    }

    /// Returns the event of a change if it is allowed, without applying it.
    fn plan(&self, revision: u64, key: &str, change: Change) -> Result<Event, Rejected> {
        let live = self.objects.get(key).cloned();
        let (kind, object, old) = match (change, live) {
            (Change::Create(_), Some(live)) => return Err(Rejected::Exists(live)),
            (Change::Create(value), None) => (EventType::Added, stamped(key.into(), revision, value), None),
            (Change::Update { .. } | Change::Delete { .. }, None) => return Err(Rejected::Gone),
            (Change::Update { based_on, .. } | Change::Delete { based_on }, Some(live))
                if live.revision != based_on =>
            {
                return Err(Rejected::Moved);
            }
            (Change::Update { value, .. }, Some(live)) => (
                EventType::Modified,
                stamped(live.key.clone(), revision, value),
                Some(live),
            ),
            (Change::Delete { .. }, Some(live)) => {
                let last = (*live.value).clone();
                (
                    EventType::Deleted,
                    stamped(live.key.clone(), revision, last),
                    Some(live),
                )
            }
        };
        Ok(Event {
            revision,
            gvr: self.gvr.clone(),
            kind,
            object,
            old,
        })
    }

    fn apply(&mut self, event: &Event) {
        let object = &event.object;
        let objects = Arc::make_mut(&mut self.objects);
        match event.kind {
            EventType::Added | EventType::Modified => objects.insert(object.clone()),
            EventType::Deleted => objects.remove(&object.key),
        }
    }
}

fn stamped(key: Arc<str>, revision: u64, mut value: Value) -> Arc<Stored> {
    let version = Value::String(revision.to_string());
    object::set_meta(&mut value, "resourceVersion", Some(version));
    Stored::new(key, revision, value)
}
