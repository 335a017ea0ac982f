//! The objects of one kind: the state from the watches, the operator's own writes since then, and the events that follow.
//! Pure: it never waits and never talks to a server.
//!
//! # The operator's own writes
//! The answer to a write is the object that the watch will bring later. It is kept beside the object from the watch
//! until the watch has passed its revision, and reads prefer it: a reconciler always reads what it wrote, and no read
//! waits. Events come from the watches alone, so handlers see each change once and with the right old state.
//!
//! # Skipped writes
//! A write that would change nothing is skipped only while the watch that covers the object is live, and is recorded: see
//! [`skips`](super::skips). Each event of the object is compared with the record before it replaces the state.
//!
//! # Memory
//! An object costs what it takes when it is packed, and a slot of six words in a hash table. The table finds it by the
//! namespace and the name that it carries itself. What the operator applied is one text for all objects that are made
//! alike.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube::core::ObjectMeta;
use kube::runtime::watcher::Event as WatchEvent;
use serde_json::Value;

use super::candidates::{Candidates, Found, Hidden, Watched};
use super::decode::{Malformed, with_owners};
use super::index::{Index, Values};
use super::item::{Arrived, Incoming, Intake, Item, Representation, Stored};
use super::keyed::Keyed;
use super::own_writes::{Change, Deletion, OwnWrites, Written};
use super::packed::Packed;
use super::selection::ListOptions;
use super::skips::{self, Change as Brought, Interest, Origin, Skips};
use super::table::{SHARDS, Table};
use crate::event::Event;
use crate::object::{ObjectKey, revision};

/// The scope of one watch: a namespace, or everything.
pub(crate) type Scope = Option<Arc<str>>;

#[derive(Debug)]
pub(crate) struct Store {
    intake: Arc<Intake>,
    /// The applied fields, which are the same text for all objects that are made alike.
    applied: Interned,
    objects: Table<Slot>,
    written: OwnWrites,
    dead: Dead,
    malformed: BTreeMap<ObjectKey, (Malformed, u32)>,
    watches: HashMap<Scope, Progress>,
    indexes: BTreeMap<String, Index>,
    skips: Skips,
}

/// An object from a watch, and the number of the list that brought it last.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) stored: Stored,
    list: u32,
}

/// The progress of a watch.
#[derive(Debug, Default)]
struct Progress {
    /// Every change up to this revision has been seen.
    revision: u64,
    /// The number of lists that were begun.
    lists: u32,
    /// The newest revision that the list that is under way has brought.
    listing: Option<u64>,
    /// As what the last complete list brought its objects.
    listed: Option<Representation>,
    /// True while the watch follows the server.
    is_live: bool,
    /// True if the current list has shown that the server went back to older revisions.
    went_back: bool,
}

/// The visibility of own writes that no watch has brought yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// Reads see the operator's own writes.
    #[default]
    OwnWrites,
    /// Reads see what the watch has brought.
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

    /// The object, as the operator knows it.
    ///
    /// # Errors
    /// If its newest state does not fit its type.
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

    /// The objects that `options` name, in no order, labels aside: [`Intake::is_wanted`] decides about them. Malformed
    /// objects are omitted: the reconcile of each reports it.
    ///
    /// # Errors
    /// The name of an index that does not exist.
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

    /// Goes on with the objects that indexes have, when `candidates` has no more; false if there are none.
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

    /// The indexes that a list looks into, and the values; that with the fewest objects first.
    fn indexes_of<'a>(&self, options: &'a ListOptions) -> Result<Vec<(&Index, &'a str)>, String> {
        let find = |(name, value): (&str, _)| match self.indexes.get(name) {
            Some(index) => Ok((index, value)),
            None => Err(name.to_owned()),
        };
        let mut indexes = options.lookups().map(find).collect::<Result<Vec<_>, _>>()?;
        indexes.sort_by_key(|(index, value)| index.count(value));
        Ok(indexes)
    }

    /// Some of the objects that all indexes have, beginning after one; `None` without an index.
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

    /// Adds an index, and returns the objects that have to be added to it with [`Store::index`]; `None` if there is an
    /// index of that name.
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

    /// Returns true if the watches have brought nothing newer for this object.
    pub(super) fn is_current(&self, stored: &Stored) -> bool {
        let known = self.watched(&stored.packed);
        known.is_some_and(|known| known.packed.address() == stored.packed.address())
    }

    /// The oldest write that a watch has not brought yet, as a number that stays the same while it is the oldest.
    pub(super) fn oldest_write(&self, scope: &Scope) -> Option<u64> {
        self.written.oldest(scope)
    }

    /// The objects that the watches brought.
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

    /// Returns the number of objects that do not fit their type.
    pub(crate) fn malformed(&self) -> usize {
        self.malformed.len()
    }

    /// The objects that do not fit their type, of a namespace or of all.
    pub(crate) fn malformed_in(&self, namespace: Option<&str>) -> Vec<(ObjectKey, Malformed)> {
        let is_in = |key: &ObjectKey| namespace.is_none() || key.namespace() == namespace;
        let malformed = self.malformed.iter().filter(|(key, _)| is_in(key));
        malformed
            .map(|(key, (malformed, _))| (key.clone(), malformed.clone()))
            .collect()
    }

    /// Returns the error of the last state of an object that does not fit its type.
    pub(crate) fn complaint(&self, key: &ObjectKey) -> Option<&str> {
        self.malformed
            .get(key)
            .map(|(malformed, _)| malformed.error.as_str())
    }

    /// Returns true if every watch has brought its first list, with its objects as `representation` or as more.
    pub(crate) fn is_listed_as(&self, representation: &Representation) -> bool {
        let listed = |progress: &Progress| progress.listed.is_some_and(|listed| listed == *representation);
        self.watches.values().all(listed)
    }

    /// Returns true if one watch has brought its first list.
    pub(crate) fn has_listed(&self, scope: &Scope) -> bool {
        self.watches
            .get(scope)
            .is_some_and(|progress| progress.listed.is_some())
    }

    /// Takes what a watch of objects as `representation` brought and returns the events that follow from it.
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

    /// Notes whether a watch follows the server.
    pub(super) fn set_live(&mut self, scope: &Scope, is_live: bool) {
        if let Some(progress) = self.watches.get_mut(scope) {
            progress.is_live = is_live;
        }
    }

    /// Returns true if the watch that covers an object follows the server, so that its next change will be seen.
    pub(super) fn is_live(&self, key: &ObjectKey) -> bool {
        self.watch_of(key)
            .is_some_and(|(_, progress)| progress.is_live && progress.listed.is_some())
    }

    /// Records that a write was skipped because of the state with this revision; `false` if the write must be sent: the
    /// state is not the newest known one, or nobody would hear of another one.
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

    /// Forgets the skips that a write of the same request decides about.
    pub(crate) fn sent(&mut self, key: &ObjectKey, origin: &Origin, interest: &Interest) {
        self.skips.supersede(key, origin, interest);
    }

    /// Takes the requests whose skipped writes have to be looked at again.
    pub(super) fn take_due(&mut self) -> Vec<Origin> {
        self.skips.take_due()
    }

    /// Makes the requests of all skipped writes due whose objects a watch covers: it may never show whether they were
    /// right.
    pub(super) fn give_up_skips(&mut self, scope: &Scope) {
        let is_of = |key: &&ObjectKey| self.watch_of(key).is_some_and(|(of, _)| of == scope);
        let keys: Vec<_> = self.skips.objects().filter(is_of).cloned().collect();
        for key in keys {
            self.skips.settle(&key, &Brought::Lost);
        }
    }

    /// The answer to the write of the operator that made this state of an object.
    pub(super) fn own_write(&self, metadata: &ObjectMeta) -> Option<&Arrived> {
        match self.written.get(metadata) {
            Some(Change::Stored(arrived, _)) if is_at(&arrived.stored, metadata) => Some(arrived),
            _ => None,
        }
    }

    /// The object, if a watch has brought this state of it.
    pub(super) fn watched_at(&self, metadata: &ObjectMeta) -> Option<&Stored> {
        self.watched(metadata).filter(|stored| is_at(stored, metadata))
    }

    /// Takes the answer to a write of the operator, unless a watch has brought it or something newer already.
    pub(crate) fn write(&mut self, written: Arrived) {
        let packed = &written.stored.packed;
        let key = ObjectKey::new(packed.namespace(), packed.name());
        let at = packed.revision();
        let stored = self.watched(&key).map_or(0, |stored| stored.packed.revision());
        let before = match self.written.get(&key) {
            Some(Change::Stored(_, at)) => *at,
            // The answer to an earlier write, overtaken by that to the deletion.
            Some(Change::Deleted(deletion)) if packed.has_uid(&deletion.uid) => return,
            Some(Change::Deleted(deletion)) => deletion.last,
            None => 0,
        };
        let Some((scope, progress)) = self.watch_of(&key) else {
            return;
        };
        if self.dead.has(packed) {
            return;
        }
        if at > progress.revision.max(stored).max(before) {
            self.intake.hot.put(packed, written.object.clone());
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Stored(Box::new(written), at);
            self.set_written(key, Written { scope, lists, change });
        }
    }

    /// Takes note that the operator deleted the object with this UID and nothing is left of it. `at` is the revision of
    /// the deletion, if the answer says it.
    pub(crate) fn deleted(&mut self, key: &ObjectKey, uid: &str, at: Option<u64>) {
        self.dead.add(Some(uid.to_owned()));
        let known = self.get(key, Consistency::OwnWrites);
        let known = known.ok().flatten().filter(|stored| stored.packed.has_uid(uid));
        if let Some((scope, progress)) = self.watch_of(key)
            && let Some(stored) = known
        {
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Deleted(Deletion {
                uid: uid.to_owned(),
                last: stored.packed.revision(),
                at,
            });
            self.set_written(key.clone(), Written { scope, lists, change });
        }
    }

    fn set_written(&mut self, key: ObjectKey, written: Written) {
        if let Some(before) = self.written.insert(key, written) {
            self.cool(&before);
        }
    }

    fn remove_written(&mut self, key: &ObjectKey) {
        if let Some(written) = self.written.remove(key) {
            self.cool(&written);
        }
    }

    /// Lets go of the decoded object of a write, unless the watch has brought the same one.
    fn cool(&self, written: &Written) {
        if let Change::Stored(written, _) = &written.change
            && !self.is_current(&written.stored)
        {
            self.intake.hot.forget(&written.stored.packed);
        }
    }

    /// Compares the skipped writes of an object with what the watch brings, before that replaces what is known.
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

    /// The known state of an object that has this revision: the watch brought it, or the operator wrote it.
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

    fn begin_list(&mut self, scope: &Scope) {
        let progress = self.watches.entry(scope.clone()).or_default();
        progress.lists = progress.lists.wrapping_add(1);
        progress.listing = Some(0);
        progress.went_back = false;
    }

    /// Takes an item of a list. Items come in the order of their names, so their revisions say nothing of other objects.
    fn listed(&mut self, scope: &Scope, object: Incoming) -> Option<Event<dyn Item>> {
        let (key, at) = (key_of(&object), revision_of(&object));
        let known = self.watched(&key).map(|known| &known.packed);
        let went_back = match (&object, known) {
            (Ok(listed), Some(known)) => listed.stored.packed.has_uid_of(known) && at < known.revision(),
            _ => false,
        };
        let progress = self.watches.entry(scope.clone()).or_default();
        let newest = progress.listing.get_or_insert_default();
        *newest = at.max(*newest);
        progress.went_back |= went_back;
        let list = progress.lists;
        let is_known = self.written.get(&key).is_some_and(|change| match change {
            Change::Stored(_, revision) => *revision <= at,
            Change::Deleted(deletion) => match &object {
                // The list began after the answer to the deletion: the server has not deleted it after all.
                Ok(listed) if listed.stored.packed.has_uid(&deletion.uid) => {
                    self.written.lists_at(&key) != Some(list)
                }
                // There is another one of that name.
                Ok(_) => deletion.last < at,
                Err(_) => false,
            },
        });
        let event = self.put(scope, object, went_back);
        if is_known {
            self.restore(&key);
            self.remove_written(&key);
        }
        event
    }

    /// Notes that an object is there which the operator took for deleted.
    fn restore(&mut self, key: &ObjectKey) {
        if let Some(Change::Deleted(deletion)) = self.written.get(key) {
            self.dead.remove(&deletion.uid);
        }
    }

    /// Ends a list: what it did not bring is gone. The written objects in the answer have to be handed to
    /// [`Store::forget_gone`], then the watched ones of each part of the table, which [`Store::take_missing`] takes.
    pub(super) fn end_list(&mut self, scope: &Scope, representation: Representation) -> Vec<Gone> {
        let named = self.named_beside(scope);
        let progress = self.watches.entry(scope.clone()).or_default();
        let list = progress.lists;
        let newest = progress.listing.take().unwrap_or_default();
        progress.listed = Some(representation);
        if progress.went_back {
            progress.revision = newest;
        }
        self.malformed
            .retain(|key, (_, listed)| *listed == list || !is_covered(scope, &named, key));
        let mut gone = Vec::new();
        // A write that was answered before the list began is in the list, or it was undone since.
        let is_over = |written: &Written| written.scope == *scope && written.lists != list;
        for (key, written) in self.written.extract_if(is_over) {
            self.cool(&written);
            if let Change::Stored(arrived, _) = written.change
                && self.watched(&key).is_none()
            {
                gone.push(Gone::Written(arrived));
            }
        }
        gone.iter()
            .for_each(|gone| self.dead.add(gone.stored().packed.uid()));
        let is_dead = |written: &Written| match &written.change {
            Change::Stored(arrived, _) => written.scope == *scope && self.dead.has(&arrived.stored.packed),
            Change::Deleted(_) => false,
        };
        let dead = self.written.extract_if(is_dead);
        dead.iter().for_each(|(_, written)| self.cool(written));
        gone.extend(self.pass(scope, newest.max(self.revision_of_watch(scope))));
        gone
    }

    /// Takes the objects in one part of the table, of [`SHARDS`], that the list which ended last did not bring. They have to
    /// be handed to [`Store::forget_gone`].
    pub(super) fn take_missing(&mut self, scope: &Scope, shard: usize) -> Vec<Gone> {
        let named = self.named_beside(scope);
        let list = self.watches.get(scope).map_or(0, |progress| progress.lists);
        let is_missing = |slot: &Slot| slot.list != list && is_covered(scope, &named, slot);
        let mut gone = Vec::new();
        for Slot { stored, .. } in self.objects.extract_if(shard, is_missing) {
            self.dead.add(stored.packed.uid());
            let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
            // The object was deleted after this write, whose answer came while the list was under way.
            if let Some(Change::Stored(own, _)) = self.written.get(&key)
                && own.stored.packed.has_uid_of(&stored.packed)
            {
                self.remove_written(&key);
            }
            gone.push(Gone::Watched(stored));
        }
        gone
    }

    /// The namespaces with watches of their own, which the watch of everything does not cover.
    fn named_beside(&self, scope: &Scope) -> HashSet<Arc<str>> {
        match scope {
            Some(_) => HashSet::new(),
            None => self.watches.keys().flatten().cloned().collect(),
        }
    }

    /// Removes an object that a list did not bring from the indexes, and returns the event of its deletion.
    pub(super) fn forget_gone(&mut self, gone: Gone) -> Option<Event<dyn Item>> {
        let stored = gone.stored();
        let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
        self.settle(&key, None, false);
        let object = match gone {
            Gone::Watched(stored) => self.forget(&stored)?,
            Gone::Written(arrived) => arrived.object,
        };
        Some(Event::Delete { object, stale: true })
    }

    fn revision_of_watch(&self, scope: &Scope) -> u64 {
        self.watches.get(scope).map_or(0, |progress| progress.revision)
    }

    /// Takes a state of an object from a watch or a list. A list that went back shows an older state than the known one.
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

    /// Removes what is about to be replaced, or is gone, from everything but the table; it is returned as it came in.
    fn forget(&mut self, stored: &Stored) -> Option<Arc<dyn Item>> {
        let object = self.intake.unpack(stored)?;
        self.intake.hot.forget(&stored.packed);
        for index in self.indexes.values_mut() {
            index.remove(&object, &stored.packed);
        }
        Some(object)
    }

    /// Forgets that the operator deleted an object of which the watch brings a state from after that: it is still there.
    fn correct_deletion(&mut self, key: &ObjectKey, arrived: &Arrived) {
        let packed = &arrived.stored.packed;
        let is_alive = match self.written.get(key) {
            Some(Change::Deleted(deletion)) => {
                packed.has_uid(&deletion.uid) && deletion.at.is_some_and(|at| at < packed.revision())
            }
            _ => false,
        };
        if is_alive {
            self.restore(key);
            self.remove_written(key);
        }
    }

    /// Notes that a list brought the object.
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

    /// Everything up to `at` has been seen: writes up to there are what the watch brought, or were undone. A watch brings
    /// events in the order of their revisions, unless the server went back to an older state. Returns the written objects
    /// that are gone although no watch has shown them, for [`Store::forget_gone`].
    fn pass(&mut self, scope: &Scope, at: u64) -> Vec<Gone> {
        let progress = self.watches.entry(scope.clone()).or_default();
        if at > 0 {
            progress.revision = at;
        }
        let mut gone = Vec::new();
        for (key, written) in self.written.take_passed(scope, at) {
            self.cool(&written);
            if let Change::Stored(arrived, _) = written.change
                && self.watched(&key).is_none()
                && !self.malformed.contains_key(&key)
                && !self.dead.has(&arrived.stored.packed)
            {
                self.dead.add(arrived.stored.packed.uid());
                gone.push(Gone::Written(arrived));
            }
        }
        gone
    }
}

/// Objects that are looked up in an index under one lock.
const INDEXED_AT_ONCE: usize = 1_000;

/// An object that a list did not bring.
#[derive(Debug)]
pub(super) enum Gone {
    /// An earlier list or a watch brought it.
    Watched(Stored),
    /// The operator wrote it, and no watch has ever shown it.
    Written(Box<Arrived>),
}

// === impl Gone ===

impl Gone {
    fn stored(&self) -> &Stored {
        match self {
            Self::Watched(stored) => stored,
            Self::Written(arrived) => &arrived.stored,
        }
    }
}

/// Returns true if the watch of a scope covers an object, given the namespaces that have watches of their own.
fn is_covered(scope: &Scope, named: &HashSet<Arc<str>>, key: &dyn Keyed) -> bool {
    match scope {
        Some(_) => key.namespace() == scope.as_deref(),
        None => !key.namespace().is_some_and(|namespace| named.contains(namespace)),
    }
}

fn revision_of(object: &Incoming) -> u64 {
    match object {
        Ok(arrived) => arrived.stored.packed.revision(),
        Err(malformed) => revision(&malformed.metadata),
    }
}

/// Returns true if this is the state of an object that its metadata names.
fn is_at(stored: &Stored, metadata: &ObjectMeta) -> bool {
    let version = metadata.resource_version.as_deref();
    let has_version = version.is_some() && stored.packed.resource_version().as_deref() == version;
    has_version
        && metadata
            .uid
            .as_deref()
            .is_some_and(|uid| stored.packed.has_uid(uid))
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

/// The UIDs of objects that were deleted lately, which never come back. An answer that is late may still show them.
#[derive(Debug, Default)]
struct Dead(VecDeque<String>);

impl Dead {
    const KEPT: usize = 64;

    fn add(&mut self, uid: Option<String>) {
        if self.0.len() >= Self::KEPT {
            self.0.pop_front();
        }
        self.0.extend(uid);
    }

    fn remove(&mut self, uid: &str) {
        self.0.retain(|dead| dead != uid);
    }

    fn has(&self, packed: &Packed) -> bool {
        let uid = packed.uid();
        uid.is_some_and(|uid| self.0.contains(&uid))
    }
}

/// Texts that are kept once, however many objects have them.
#[derive(Debug, Default)]
struct Interned {
    texts: HashSet<Arc<str>>,
    /// Texts that nobody has any more are dropped when there are so many.
    limit: usize,
}

impl Interned {
    fn share(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(&text) {
            return known.clone();
        }
        if self.texts.len() >= self.limit {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.limit = 2 * self.texts.len() + 16;
        }
        self.texts.insert(text.clone());
        text
    }
}

/// Returns true if `new` is a newer state than `old`: versions compare as numbers where they are numbers.
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
