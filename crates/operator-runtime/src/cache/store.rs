//! The [`Store`] of one kind: the objects from the watches, the own writes since then, and the resulting events. Pure.
//!
//! # Own writes
//! The response to a write is the object that the watch will deliver later. It is kept beside the object from the watch
//! until the watch has passed its revision, and reads prefer it, so that reads see own writes without waiting. Events
//! come only from the watches, so handlers see each change once and with the correct old state.
//!
//! # Skipped writes
//! A write that would change nothing is skipped only while the watch of the object is live, and is recorded: see
//! [`skips`]. Each event of the object is compared with the record before it replaces the state.
//!
//! # Memory
//! An object takes its packed size and a slot of six words in a hash table, which finds it by the namespace and name
//! that it contains. Similar objects share one string of applied fields.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::core::ObjectMeta;
use kube::runtime::watcher::Event as WatchEvent;
use serde_json::Value;

use super::candidates::{Candidates, Found, Hidden, Watched};
use super::decode::{Malformed, with_owners};
use super::index::{Index, Values};
use super::item::{Arrived, Incoming, Intake, Item, Representation, Stored};
use super::keyed::Keyed;
use super::own_writes::{Change, OwnWrites};
use super::packed::Packed;
use super::selection::ListOptions;
use super::skips::{self, Change as Brought, Interest, Origin, Skips};
use super::table::{SHARDS, Table};
use crate::event::Event;
use crate::object::{ObjectKey, revision};

mod list;
mod memory;
mod written;

pub(super) use list::Gone;
use memory::{Dead, Interned};

/// The scope of one watch: a namespace or all.
pub(crate) type Scope = Option<Arc<str>>;

#[derive(Debug)]
pub(crate) struct Store {
    intake: Arc<Intake>,
    /// The applied fields, which are shared by similar objects.
    applied: Interned,
    objects: Table<Slot>,
    written: OwnWrites,
    dead: Dead,
    malformed: BTreeMap<ObjectKey, (Malformed, u32)>,
    watches: HashMap<Scope, Progress>,
    indexes: BTreeMap<String, Index>,
    skips: Skips,
}

/// An object from a watch, and the number of the last list that contained it.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) stored: Stored,
    list: u32,
}

/// The progress of a watch.
#[derive(Debug, Default)]
struct Progress {
    /// All changes up to this revision are known.
    revision: u64,
    /// The number of lists that have begun.
    lists: u32,
    /// The newest revision in the current list.
    listing: Option<u64>,
    /// The representation of the last complete list.
    listed: Option<Representation>,
    /// True while the watch is live.
    is_live: bool,
    /// True if the current list has shown that the server went back to older revisions.
    went_back: bool,
}

/// The visibility of own writes that the watches have not delivered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// Reads see the operator's own writes.
    #[default]
    OwnWrites,
    /// Reads see the objects from the watch.
    Watched,
}

impl Keyed for Slot {
    fn namespace(&self) -> Option<&str> {
        self.stored.packed.namespace()
    }

    fn name(&self) -> &str {
        self.stored.packed.name()
    }
}

// === impl Store ===

impl Store {
    pub(crate) fn new(intake: Arc<Intake>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        let watches = scopes.into_iter().map(|scope| (scope, Progress::default()));
        Self {
            intake,
            applied: Interned::default(),
            objects: Table::new(),
            written: OwnWrites::default(),
            dead: Dead::default(),
            malformed: BTreeMap::new(),
            watches: watches.collect(),
            indexes: BTreeMap::new(),
            skips: Skips::default(),
        }
    }

    /// Returns the object as the operator knows it.
    ///
    /// # Errors
    /// Returns an error if its newest state cannot be decoded.
    pub(crate) fn get(&self, key: &ObjectKey, consistency: Consistency) -> Result<Option<Stored>, Malformed> {
        if let Some((malformed, _)) = self.malformed.get(key) {
            return Err(malformed.clone());
        }
        let stored = self.watched(key);
        let written = self
            .written
            .get(key)
            .filter(|_| consistency == Consistency::OwnWrites);
        Ok(match written {
            Some(Change::Stored(written, _)) => Some(written.stored.clone()),
            Some(Change::Deleted(deletion)) => {
                stored.filter(|stored| !deletion.is_of(&stored.packed)).cloned()
            }
            None => stored.cloned(),
        })
    }

    /// Returns the objects that `options` select, unordered. Labels are not compared: see [`Intake::is_wanted`].
    /// Malformed objects are omitted, because their own reconciles report them.
    ///
    /// # Errors
    /// Returns the name of an index that does not exist.
    pub(crate) fn candidates<'a>(
        &self,
        options: &'a ListOptions,
        consistency: Consistency,
    ) -> Result<Candidates<'a>, String> {
        let indexes = self.indexes_of(options)?;
        let watched = match self.find_indexed(&indexes, None) {
            Some(found) => Watched::Found(found),
            None => Watched::All(self.objects.snapshot()),
        };
        let malformed = self.malformed.keys().cloned();
        let mut hidden: HashMap<_, _> = malformed.map(|key| (key, Hidden::Replaced)).collect();
        let mut written = Vec::new();
        if consistency == Consistency::OwnWrites {
            for (key, change) in self.written.iter() {
                if !options.covers(key.namespace(), key.name()) || self.malformed.contains_key(key) {
                    continue;
                }
                let reason = match change {
                    Change::Stored(own, _) => {
                        if indexes.iter().all(|(index, value)| index.has(own, value)) {
                            written.push(own.stored.clone());
                        }
                        Hidden::Replaced
                    }
                    Change::Deleted(deletion) => Hidden::Deleted(deletion.clone()),
                };
                hidden.insert(key.clone(), reason);
            }
        }
        Ok(Candidates {
            options,
            watched,
            hidden,
            written: written.into_iter(),
        })
    }

    /// Continues with more objects of the indexes when `candidates` is empty. Returns false if there are none.
    pub(crate) fn find_more(&self, candidates: &mut Candidates<'_>) -> bool {
        let Watched::Found(Found { last: Some(last), .. }) = &candidates.watched else {
            return false;
        };
        let indexes = self.indexes_of(candidates.options).unwrap_or_default();
        match self.find_indexed(&indexes, Some(last)) {
            Some(found) => {
                candidates.watched = Watched::Found(found);
                true
            }
            None => false,
        }
    }

    /// Returns the indexes of a list and the values, the one with the fewest objects first.
    fn indexes_of<'a>(&self, options: &'a ListOptions) -> Result<Vec<(&Index, &'a str)>, String> {
        let find = |(name, value): (&str, _)| match self.indexes.get(name) {
            Some(index) => Ok((index, value)),
            None => Err(name.to_owned()),
        };
        let mut indexes = options.lookups().map(find).collect::<Result<Vec<_>, _>>()?;
        indexes.sort_by_key(|(index, value)| index.count(value));
        Ok(indexes)
    }

    /// Returns a part of the objects that are in all indexes, after `after`, or `None` without an index.
    fn find_indexed(&self, indexes: &[(&Index, &str)], after: Option<&Packed>) -> Option<Found> {
        let ((index, value), others) = indexes.split_first()?;
        let looked_up: Vec<_> = index.after(value, after).take(INDEXED_AT_ONCE).collect();
        let may_have_more = looked_up.len() == INDEXED_AT_ONCE;
        let last = looked_up.last().filter(|_| may_have_more).copied().cloned();
        let has_all = |packed: &&Packed| others.iter().all(|(index, value)| index.contains(packed, value));
        let objects: Vec<_> = looked_up.into_iter().filter(has_all).cloned().collect();
        Some(Found {
            objects: objects.into_iter(),
            last,
            table: self.objects.clone(),
        })
    }

    fn watched(&self, key: &dyn Keyed) -> Option<&Stored> {
        self.objects.get(key).map(|slot| &slot.stored)
    }

    /// Adds an index and returns the objects that must be added with [`Store::index`], or `None` if an index with that
    /// name exists.
    pub(super) fn add_index(
        &mut self,
        name: &str,
        values: Values,
    ) -> Option<impl Iterator<Item = Stored> + use<>> {
        if self.indexes.contains_key(name) {
            return None;
        }
        self.indexes.insert(name.to_owned(), Index::new(values));
        Some(self.objects())
    }

    /// Adds an object to an index, unless it has changed since.
    pub(super) fn index(&mut self, name: &str, object: &Arc<dyn Item>, stored: &Stored) {
        if self.is_current(stored)
            && let Some(index) = self.indexes.get_mut(name)
        {
            index.insert(object, &stored.packed);
        }
    }

    /// Returns true if the watches have delivered nothing newer for this object.
    pub(super) fn is_current(&self, stored: &Stored) -> bool {
        let known = self.watched(&stored.packed);
        known.is_some_and(|known| known.packed.address() == stored.packed.address())
    }

    /// Returns a number that identifies the oldest write that a watch has not delivered.
    pub(super) fn oldest_write(&self, scope: &Scope) -> Option<u64> {
        self.written.oldest(scope)
    }

    /// Returns the objects from the watches.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Stored> + use<> {
        self.objects.snapshot().map(|slot| slot.stored)
    }

    /// Returns true if there are no objects from the watches.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns true if an object belongs to one of the watches.
    pub(super) fn is_of(&self, scope: &Scope, stored: &Stored) -> bool {
        let packed = &stored.packed;
        let key = ObjectKey::new(packed.namespace(), packed.name());
        self.watch_of(&key).is_some_and(|(of, _)| of == scope)
    }

    /// Returns the number of objects that cannot be decoded.
    pub(crate) fn malformed(&self) -> usize {
        self.malformed.len()
    }

    /// Returns the objects that cannot be decoded, in a namespace or in all.
    pub(crate) fn malformed_in(&self, namespace: Option<&str>) -> Vec<(ObjectKey, Malformed)> {
        let is_in = |key: &ObjectKey| namespace.is_none() || key.namespace() == namespace;
        let malformed = self.malformed.iter().filter(|(key, _)| is_in(key));
        malformed
            .map(|(key, (malformed, _))| (key.clone(), malformed.clone()))
            .collect()
    }

    /// Returns the decoding error of the last state of an object.
    pub(crate) fn complaint(&self, key: &ObjectKey) -> Option<&str> {
        self.malformed
            .get(key)
            .map(|(malformed, _)| malformed.error.as_str())
    }

    /// Returns true if every watch has completed its first list in `representation` or a wider one.
    pub(crate) fn is_listed_as(&self, representation: &Representation) -> bool {
        let listed = |progress: &Progress| progress.listed.is_some_and(|listed| listed == *representation);
        self.watches.values().all(listed)
    }

    /// Returns true if one watch has completed its first list.
    pub(crate) fn has_listed(&self, scope: &Scope) -> bool {
        self.watches
            .get(scope)
            .is_some_and(|progress| progress.listed.is_some())
    }

    /// Stores an event of a watch of objects in `representation`, and returns the resulting events.
    pub(crate) fn step(
        &mut self,
        scope: &Scope,
        representation: Representation,
        event: WatchEvent<Incoming>,
    ) -> Vec<Event<dyn Item>> {
        match event {
            WatchEvent::Init => {
                self.begin_list(scope);
                Vec::new()
            }
            WatchEvent::InitApply(object) => self.listed(scope, object).into_iter().collect(),
            WatchEvent::InitDone => {
                let written = self.end_list(scope, representation);
                let mut events: Vec<_> = self.forget_all(written).collect();
                for shard in 0..SHARDS {
                    let missing = self.take_missing(scope, shard);
                    events.extend(self.forget_all(missing));
                }
                events
            }
            WatchEvent::Apply(object) => {
                let at = revision_of(&object);
                let event = self.put(scope, object, false);
                let gone = self.pass(scope, at);
                event.into_iter().chain(self.forget_all(gone)).collect()
            }
            WatchEvent::Delete(object) => {
                let at = revision_of(&object);
                let event = self.delete(object);
                let gone = self.pass(scope, at);
                event.into_iter().chain(self.forget_all(gone)).collect()
            }
        }
    }

    fn forget_all(&mut self, gone: Vec<Gone>) -> impl Iterator<Item = Event<dyn Item>> {
        gone.into_iter().filter_map(|gone| self.forget_gone(gone))
    }

    /// Records whether a watch is live.
    pub(super) fn set_live(&mut self, scope: &Scope, is_live: bool) {
        if let Some(progress) = self.watches.get_mut(scope) {
            progress.is_live = is_live;
        }
    }

    /// Returns true if the watch that covers an object is live, so that its next change will be delivered.
    pub(super) fn is_live(&self, key: &ObjectKey) -> bool {
        self.watch_of(key)
            .is_some_and(|(_, progress)| progress.is_live && progress.listed.is_some())
    }

    /// Records a write that was skipped because of the state with this revision. Returns `false` if the write must be
    /// sent because the state is not the newest known one, or the watch is not live.
    pub(crate) fn skip(
        &mut self,
        key: &ObjectKey,
        revision: u64,
        origin: Origin,
        interest: Interest,
    ) -> bool {
        let known = self.get(key, Consistency::OwnWrites).ok().flatten();
        let is_current = known.is_some_and(|known| known.packed.revision() == revision);
        is_current && self.is_live(key) && self.skips.add(key, revision, origin, interest)
    }

    /// Removes the skips that a sent write of the same request supersedes.
    pub(crate) fn sent(&mut self, key: &ObjectKey, origin: &Origin, interest: &Interest) {
        self.skips.supersede(key, origin, interest);
    }

    /// Removes and returns the requests whose skipped writes must be checked again.
    pub(super) fn take_due(&mut self) -> Vec<Origin> {
        self.skips.take_due()
    }

    /// Makes the requests of all skipped writes of a watch due, because its events may be missed.
    pub(super) fn give_up_skips(&mut self, scope: &Scope) {
        let is_of = |key: &&ObjectKey| self.watch_of(key).is_some_and(|(of, _)| of == scope);
        let keys: Vec<_> = self.skips.objects().filter(is_of).cloned().collect();
        for key in keys {
            self.skips.settle(&key, &Brought::Lost);
        }
    }

    /// Compares the skipped writes of an object with its new state, before that state replaces the known one.
    fn settle(&mut self, key: &ObjectKey, new: Option<&Arrived>, went_back: bool) {
        if self.skips.is_empty() {
            return;
        }
        let mut skips = std::mem::take(&mut self.skips);
        let known = self.watched(key);
        let is_same_object =
            |new: &Arrived| known.is_none_or(|old| new.stored.packed.has_uid_of(&old.packed));
        match new.filter(|new| is_same_object(new)) {
            Some(new) => skips.settle(
                key,
                &Brought::State {
                    revision: new.stored.packed.revision(),
                    went_back,
                    before: &|revision| {
                        self.known_at(key, revision)
                            .and_then(|known| self.state_of(known))
                    },
                    after: &|| self.state_of(&new.stored),
                },
            ),
            None => skips.settle(key, &Brought::Lost),
        }
        self.skips = skips;
    }

    /// Returns the known state of an object with this revision, from the watch or from an own write.
    fn known_at(&self, key: &ObjectKey, revision: u64) -> Option<&Stored> {
        let written = match self.written.get(key) {
            Some(Change::Stored(written, _)) => Some(&written.stored),
            _ => None,
        };
        let mut known = written.into_iter().chain(self.watched(key));
        known.find(|stored| stored.packed.revision() == revision)
    }

    fn state_of(&self, stored: &Stored) -> Option<skips::State> {
        let value: Value = stored.packed.decode(&self.intake.dictionary).ok()?;
        let applied = stored
            .applied
            .as_ref()
            .map(|applied| with_owners(applied, &value));
        Some(skips::State { value, applied })
    }

    fn watch_of(&self, key: &ObjectKey) -> Option<(&Scope, &Progress)> {
        let own = key
            .namespace()
            .and_then(|namespace| self.watches.get_key_value(&Some(namespace.into())));
        own.or_else(|| self.watches.get_key_value(&None))
    }

    fn revision_of_watch(&self, scope: &Scope) -> u64 {
        self.watches.get(scope).map_or(0, |progress| progress.revision)
    }

    /// Stores a state of an object from a watch or a list. After the server went back, it may be older than the known
    /// one.
    fn put(&mut self, scope: &Scope, object: Incoming, went_back: bool) -> Option<Event<dyn Item>> {
        let (initial, list) = self
            .watches
            .get(scope)
            .map_or((true, 0), |progress| (progress.listed.is_none(), progress.lists));
        let arrived = match object {
            Ok(arrived) => arrived,
            Err(malformed) => {
                let key = meta_key(&malformed.metadata);
                self.touch(&key, list);
                self.settle(&key, None, false);
                self.malformed.insert(key, (malformed, list));
                return None;
            }
        };
        let packed = &arrived.stored.packed;
        if !self.malformed.is_empty() {
            self.malformed.remove(packed as &dyn Keyed);
        }
        let old = self.watched(packed).cloned();
        let is_new = went_back || old.as_ref().is_none_or(|old| is_newer(packed, &old.packed));
        if is_new {
            let key = ObjectKey::new(packed.namespace(), packed.name());
            self.settle(&key, Some(&arrived), went_back);
            self.correct_deletion(&key, &arrived);
        }
        let Arrived { object, mut stored } = arrived;
        let is_another_type = old.as_ref().is_some_and(|old| !old.is_of_form_of(&stored));
        if !is_new && !is_another_type {
            self.touch(&stored.packed, list);
            return None;
        }
        let old = old.as_ref().and_then(|old| self.forget(old));
        stored.applied = stored.applied.map(|applied| self.applied.share(applied));
        for index in self.indexes.values_mut() {
            index.insert(&object, &stored.packed);
        }
        // Objects of the first list are not read before the list is complete.
        if !initial || self.intake.hot.keeps_all() {
            self.intake.hot.put(&stored.packed, object.clone());
        }
        self.objects.replace(Slot { stored, list });
        if !is_new {
            return None;
        }
        Some(match old {
            Some(old) => Event::Update { old, new: object },
            None => Event::Create { object, initial },
        })
    }

    /// Removes a replaced or deleted object from everything but the table, and returns it in its incoming form.
    fn forget(&mut self, stored: &Stored) -> Option<Arc<dyn Item>> {
        let object = self.intake.unpack(stored)?;
        self.intake.hot.forget(&stored.packed);
        for index in self.indexes.values_mut() {
            index.remove(&object, &stored.packed);
        }
        Some(object)
    }

    /// Records that a list contained the object.
    fn touch(&mut self, key: &dyn Keyed, list: u32) {
        if let Some(slot) = self.objects.get(key).cloned()
            && slot.list != list
        {
            self.objects.replace(Slot { list, ..slot });
        }
    }

    fn delete(&mut self, object: Incoming) -> Option<Event<dyn Item>> {
        let (key, at) = (key_of(&object), revision_of(&object));
        self.malformed.remove(&key);
        self.settle(&key, None, false);
        if matches!(self.written.get(&key), Some(Change::Deleted(deletion)) if at == 0 || deletion.last < at)
        {
            self.remove_written(&key);
        }
        let known = self.objects.take(&key)?.stored;
        self.dead.add(known.packed.uid());
        let known = self.forget(&known)?;
        Some(match object {
            Ok(last) => Event::Delete {
                object: last.object,
                stale: false,
            },
            Err(_) => Event::Delete {
                object: known,
                stale: true,
            },
        })
    }
}

/// Number of objects that are looked up in an index under one lock.
const INDEXED_AT_ONCE: usize = 1_000;

fn revision_of(object: &Incoming) -> u64 {
    match object {
        Ok(arrived) => arrived.stored.packed.revision(),
        Err(malformed) => revision(&malformed.metadata),
    }
}

fn key_of(object: &Incoming) -> ObjectKey {
    match object {
        Ok(arrived) => {
            let packed = &arrived.stored.packed;
            ObjectKey::new(packed.namespace(), packed.name())
        }
        Err(malformed) => meta_key(&malformed.metadata),
    }
}

fn meta_key(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(Keyed::namespace(metadata), Keyed::name(metadata))
}

/// Returns true if `new` is a newer state than `old`. Resource versions are compared as numbers if possible.
fn is_newer(new: &Packed, old: &Packed) -> bool {
    let version = new.resource_version();
    if !new.has_uid_of(old) || version.is_none() {
        return true;
    }
    match (new.revision(), old.revision()) {
        (0, _) | (_, 0) => version != old.resource_version(),
        (new, old) => new > old,
    }
}

#[cfg(test)]
mod reads;

#[cfg(test)]
mod schedules;

#[cfg(test)]
mod tests;
