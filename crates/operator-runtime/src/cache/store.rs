//! The objects of one kind: what the watches told, what the operator wrote since, and the events that follow.
//! It is pure: it never waits and never talks to a server.
//!
//! # The operator's own writes
//! The answer to a write is the object that the watch will bring later. It is kept beside the object from the watch
//! until the watch has passed its revision, and reads prefer it: so a reconciler always reads what it wrote, and
//! nobody waits. Events come from the watches alone, so handlers see each change once and with the right old state.
//!
//! # Memory
//! An object costs what it takes when it is packed, and a slot of six words in one hash table. The table finds it by the
//! namespace and the name that it carries itself. What the operator applied is one text for all objects that are made
//! alike.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube::core::ObjectMeta;
use kube::runtime::watcher::Event as WatchEvent;

use super::decode::Malformed;
use super::index::{Index, Values};
use super::item::{Arrived, Incoming, Intake, Item, Representation, Stored};
use super::keyed::{ByKey, Keyed};
use super::packed::Packed;
use super::selection::ListOptions;
use crate::event::Event;
use crate::object::{ObjectKey, revision};

/// What one watch covers: a namespace, or everything.
pub(crate) type Scope = Option<Arc<str>>;

#[derive(Debug)]
pub(crate) struct Store {
    intake: Arc<Intake>,
    /// The applied fields, which are the same text for all objects that are made alike.
    applied: Interned,
    objects: HashSet<ByKey<Slot>>,
    written: HashMap<ObjectKey, Written>,
    gone: Gone,
    malformed: HashMap<ObjectKey, (Malformed, u32)>,
    watches: HashMap<Scope, Progress>,
    indexes: BTreeMap<String, Index>,
}

/// An object from a watch, and the number of the list that brought it last.
#[derive(Clone, Debug)]
struct Slot {
    stored: Stored,
    list: u32,
}

/// How far a watch has come.
#[derive(Debug, Default)]
struct Progress {
    /// Every change up to this revision has been seen.
    revision: u64,
    /// How many lists were begun.
    lists: u32,
    /// The newest revision that the list that is under way has brought.
    listing: Option<u64>,
    /// As what the last complete list brought its objects.
    listed: Option<Representation>,
}

/// The operator's last write of an object, as long as the watch has not passed it.
#[derive(Debug)]
struct Written {
    scope: Scope,
    /// The number of lists begun at the time of the write.
    lists: u32,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Stored(Box<Arrived>, u64),
    /// The object with this uid was deleted, of which the last known state had this revision.
    Deleted(String, u64),
}

/// Whether a reader sees what the operator wrote before the watch brings it.
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
            objects: HashSet::new(),
            written: HashMap::new(),
            gone: Gone::default(),
            malformed: HashMap::new(),
            watches: watches.collect(),
            indexes: BTreeMap::new(),
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
        Ok(match written.map(|written| &written.change) {
            Some(Change::Stored(written, _)) => Some(written.stored.clone()),
            Some(Change::Deleted(uid, at)) => stored
                .filter(|stored| !is_deleted(&stored.packed, uid, *at))
                .cloned(),
            None => stored.cloned(),
        })
    }

    /// The objects that `options` name, sorted by key. Malformed ones are left out: the reconcile of each reports it.
    ///
    /// # Errors
    /// The name of an index that does not exist.
    pub(crate) fn list(
        &self,
        options: &ListOptions,
        consistency: Consistency,
    ) -> Result<Vec<Stored>, String> {
        let find = |(name, value): (&str, _)| match self.indexes.get(name) {
            Some(index) => Ok((index, value)),
            None => Err(name.to_owned()),
        };
        let indexes = options.lookups().map(find).collect::<Result<Vec<_>, _>>()?;
        let mut objects = Vec::new();
        let mut take = |stored| {
            if self.is_wanted(stored, options) {
                let packed = &stored.packed;
                objects.push((packed.namespace(), packed.name(), stored));
            }
        };
        let own_writes = consistency == Consistency::OwnWrites;
        let is_known = |stored: &&Stored| {
            let is_overwritten = own_writes && self.is_overwritten(&stored.packed);
            !is_overwritten && !self.malformed.contains_key(&stored.packed as &dyn Keyed)
        };
        match indexes.split_first() {
            Some(((index, value), others)) => {
                let has_all =
                    |packed: &&Packed| others.iter().all(|(index, value)| index.contains(packed, value));
                let indexed = index.get(value).filter(has_all);
                let indexed = indexed.filter_map(|packed| self.watched(packed));
                indexed.filter(is_known).for_each(&mut take);
            }
            None => self.stored().filter(is_known).for_each(&mut take),
        }
        let written = self
            .written
            .iter()
            .filter(|(key, _)| own_writes && !self.malformed.contains_key(*key));
        for (_, written) in written {
            if let Change::Stored(written, _) = &written.change
                && indexes.iter().all(|(index, value)| index.has(written, value))
            {
                take(&written.stored);
            }
        }
        objects.sort_unstable_by_key(|(namespace, name, _)| (*namespace, *name));
        let objects = objects.into_iter().take(options.at_most());
        Ok(objects.map(|(.., stored)| stored.clone()).collect())
    }

    fn is_wanted(&self, Stored { packed, .. }: &Stored, options: &ListOptions) -> bool {
        let labels = || packed.find(&["metadata", "labels"], &self.intake.dictionary);
        options.covers(packed.namespace(), packed.name()) && options.matches(|| labels().unwrap_or_default())
    }

    /// Whether the operator wrote or deleted the object since the watch brought it.
    fn is_overwritten(&self, packed: &Packed) -> bool {
        if self.written.is_empty() {
            return false;
        }
        match self
            .written
            .get(packed as &dyn Keyed)
            .map(|written| &written.change)
        {
            Some(Change::Stored(..)) => true,
            Some(Change::Deleted(uid, at)) => is_deleted(packed, uid, *at),
            None => false,
        }
    }

    fn watched(&self, key: &dyn Keyed) -> Option<&Stored> {
        self.objects.get(key).map(|slot| &slot.0.stored)
    }

    fn stored(&self) -> impl Iterator<Item = &Stored> {
        self.objects.iter().map(|slot| &slot.0.stored)
    }

    /// Adds an index; `false` if there is one of that name.
    pub(super) fn add_index(&mut self, name: &str, values: Values) -> bool {
        if self.indexes.contains_key(name) {
            return false;
        }
        let mut index = Index::new(values);
        for stored in self.stored() {
            if let Some(object) = self.intake.unpack(stored) {
                index.insert(&object, &stored.packed);
            }
        }
        self.indexes.insert(name.to_owned(), index);
        true
    }

    /// The oldest write that a watch has not brought yet, as a number that stays the same while it is the oldest.
    pub(super) fn oldest_write(&self, scope: &Scope) -> Option<u64> {
        let own = self.written.values().filter(|written| written.scope == *scope);
        own.map(|written| match &written.change {
            Change::Stored(_, revision) | Change::Deleted(_, revision) => *revision,
        })
        .min()
    }

    /// The objects that the watches brought.
    pub(crate) fn objects(&self) -> Vec<Stored> {
        self.stored().cloned().collect()
    }

    /// The objects that one of the watches brought.
    pub(super) fn objects_of(&self, scope: &Scope) -> Vec<Stored> {
        let is_of = |stored: &&Stored| {
            let packed = &stored.packed;
            let key = ObjectKey::new(packed.namespace(), packed.name());
            self.watch_of(&key).is_some_and(|(of, _)| of == scope)
        };
        self.stored().filter(is_of).cloned().collect()
    }

    /// How many objects are there that do not fit their type.
    pub(crate) fn malformed(&self) -> usize {
        self.malformed.len()
    }

    /// What was wrong with an object when it came last.
    pub(crate) fn complaint(&self, key: &ObjectKey) -> Option<&str> {
        self.malformed
            .get(key)
            .map(|(malformed, _)| malformed.error.as_str())
    }

    /// Whether every watch has brought its first list, with its objects as `representation` or as more.
    pub(crate) fn is_listed_as(&self, representation: &Representation) -> bool {
        let listed = |progress: &Progress| progress.listed.is_some_and(|listed| listed == *representation);
        self.watches.values().all(listed)
    }

    /// Whether one watch has brought its first list.
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
            WatchEvent::InitDone => self.end_list(scope, representation),
            WatchEvent::Apply(object) => {
                let at = revision_of(&object);
                let event = self.put(scope, object);
                self.pass(scope, at);
                event.into_iter().collect()
            }
            WatchEvent::Delete(object) => {
                let at = revision_of(&object);
                let event = self.delete(object);
                self.pass(scope, at);
                event.into_iter().collect()
            }
        }
    }

    /// Takes the answer to a write of the operator, unless a watch has brought it or something newer already.
    pub(crate) fn write(&mut self, written: Arrived) {
        let packed = &written.stored.packed;
        let key = ObjectKey::new(packed.namespace(), packed.name());
        let at = packed.revision();
        let stored = self.watched(&key).map_or(0, |stored| stored.packed.revision());
        let before = match self.written.get(&key).map(|written| &written.change) {
            Some(Change::Stored(_, at)) => *at,
            // The answer to an earlier write, overtaken by that to the deletion.
            Some(Change::Deleted(uid, _)) if packed.has_uid(uid) => return,
            Some(Change::Deleted(_, at)) => *at,
            None => 0,
        };
        let Some((scope, progress)) = self.watch_of(&key) else {
            return;
        };
        if self.gone.has(packed) {
            return;
        }
        if at > progress.revision.max(stored).max(before) {
            self.intake.hot.put(packed, written.object.clone());
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Stored(Box::new(written), at);
            self.written.insert(key, Written { scope, lists, change });
        }
    }

    /// Takes note that the operator deleted the object with this uid and nothing is left of it.
    pub(crate) fn deleted(&mut self, key: &ObjectKey, uid: &str) {
        self.gone.add(Some(uid.to_owned()));
        let known = self.get(key, Consistency::OwnWrites);
        let known = known.ok().flatten().filter(|stored| stored.packed.has_uid(uid));
        if let Some((scope, progress)) = self.watch_of(key)
            && let Some(stored) = known
        {
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Deleted(uid.to_owned(), stored.packed.revision());
            self.written.insert(key.clone(), Written { scope, lists, change });
        }
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
    }

    /// Items of a list come in the order of their names, so their revisions say nothing of other objects.
    fn listed(&mut self, scope: &Scope, object: Incoming) -> Option<Event<dyn Item>> {
        let (key, at) = (key_of(&object), revision_of(&object));
        let progress = self.watches.entry(scope.clone()).or_default();
        let newest = progress.listing.get_or_insert_default();
        *newest = at.max(*newest);
        let is_known = match self.written.get(&key).map(|written| &written.change) {
            Some(Change::Stored(_, written)) => *written <= at,
            // There is another one of that name.
            Some(Change::Deleted(uid, last)) => {
                *last < at && matches!(&object, Ok(listed) if !listed.stored.packed.has_uid(uid))
            }
            None => false,
        };
        if is_known {
            self.written.remove(&key);
        }
        self.put(scope, object)
    }

    /// What a complete list did not bring is gone.
    fn end_list(&mut self, scope: &Scope, representation: Representation) -> Vec<Event<dyn Item>> {
        let named: HashSet<Arc<str>> = match scope {
            Some(_) => HashSet::new(),
            None => self.watches.keys().flatten().cloned().collect(),
        };
        let progress = self.watches.entry(scope.clone()).or_default();
        let list = progress.lists;
        let newest = progress.listing.take().unwrap_or_default();
        progress.listed = Some(representation);
        // The watch of everything is one of everything else, where namespaces have watches of their own.
        let covered = |key: &dyn Keyed| match scope {
            Some(_) => key.namespace() == scope.as_deref(),
            None => !key.namespace().is_some_and(|namespace| named.contains(namespace)),
        };
        self.malformed
            .retain(|key, (_, listed)| !covered(key) || *listed == list);
        let gone = self
            .objects
            .extract_if(|slot| covered(slot) && slot.0.list != list);
        let gone: Vec<_> = gone.map(|slot| slot.0.stored).collect();
        gone.iter().for_each(|stored| self.gone.add(stored.packed.uid()));
        let gone: Vec<_> = gone.iter().filter_map(|stored| self.forget(stored)).collect();
        // A write that was answered before the list began is in the list, or it was undone since.
        let dead = &self.gone;
        let is_open = |written: &Written| match &written.change {
            Change::Stored(arrived, _) => written.lists >= list && !dead.has(&arrived.stored.packed),
            Change::Deleted(..) => written.lists >= list,
        };
        self.written
            .retain(|_, written| written.scope != *scope || is_open(written));
        self.pass(scope, newest);
        gone.into_iter()
            .map(|object| Event::Delete { object, stale: true })
            .collect()
    }

    fn put(&mut self, scope: &Scope, object: Incoming) -> Option<Event<dyn Item>> {
        let (initial, list) = self
            .watches
            .get(scope)
            .map_or((true, 0), |progress| (progress.listed.is_none(), progress.lists));
        let Arrived { object, mut stored } = match object {
            Ok(arrived) => arrived,
            Err(malformed) => {
                let key = meta_key(&malformed.metadata);
                self.touch(&key, list);
                self.malformed.insert(key, (malformed, list));
                return None;
            }
        };
        if !self.malformed.is_empty() {
            self.malformed.remove(&stored.packed as &dyn Keyed);
        }
        let old = self.watched(&stored.packed).cloned();
        let is_new = old
            .as_ref()
            .is_none_or(|old| is_newer(&stored.packed, &old.packed));
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
        // What is told as part of the first list is not read before everything is there.
        if !initial || self.intake.hot.keeps_all() {
            self.intake.hot.put(&stored.packed, object.clone());
        }
        self.objects.replace(ByKey(Slot { stored, list }));
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

    /// Notes that a list brought the object.
    fn touch(&mut self, key: &dyn Keyed, list: u32) {
        if let Some(ByKey(slot)) = self.objects.get(key).cloned()
            && slot.list != list
        {
            self.objects.replace(ByKey(Slot { list, ..slot }));
        }
    }

    fn delete(&mut self, object: Incoming) -> Option<Event<dyn Item>> {
        let (key, at) = (key_of(&object), revision_of(&object));
        self.malformed.remove(&key);
        let own = self.written.get(&key).map(|written| &written.change);
        if matches!(own, Some(Change::Deleted(_, last)) if at == 0 || *last < at) {
            self.written.remove(&key);
        }
        let known = self.objects.take(&key as &dyn Keyed)?.0.stored;
        self.gone.add(known.packed.uid());
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

    /// Everything up to `at` has been seen: writes up to there are what the watch brought, or were undone.
    fn pass(&mut self, scope: &Scope, at: u64) {
        let progress = self.watches.entry(scope.clone()).or_default();
        progress.revision = progress.revision.max(at);
        let passed = |written: &Written| match &written.change {
            Change::Stored(_, revision) => written.scope == *scope && *revision <= at,
            Change::Deleted(..) => false,
        };
        self.written.retain(|_, written| !passed(written));
    }
}

/// Whether it is the object that the operator deleted, or an earlier one of its name.
fn is_deleted(packed: &Packed, uid: &str, last: u64) -> bool {
    packed.has_uid(uid) || (packed.revision() > 0 && packed.revision() <= last)
}

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

/// The uids of objects that were deleted lately, which never come back: an answer that is late may still speak of them.
#[derive(Debug, Default)]
struct Gone(VecDeque<String>);

impl Gone {
    const KEPT: usize = 64;

    fn add(&mut self, uid: Option<String>) {
        if self.0.len() >= Self::KEPT {
            self.0.pop_front();
        }
        self.0.extend(uid);
    }

    fn has(&self, packed: &Packed) -> bool {
        self.0.iter().any(|uid| packed.has_uid(uid))
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

/// Whether `new` says anything that `old` does not: versions compare as numbers where they are numbers.
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
mod own_writes;

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Kind;

    fn representation() -> Representation {
        Representation::of::<ConfigMap>()
    }

    fn object(name: &str, revision: u64) -> Value {
        let uid = format!("uid-{name}");
        let version = revision.to_string();
        let metadata = json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": version});
        json!({"metadata": metadata})
    }

    fn malformed(name: &str, revision: u64) -> Value {
        let metadata = json!({"name": name, "namespace": "default", "resourceVersion": revision.to_string()});
        json!({"metadata": metadata, "data": 1})
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    /// A store with one watch of everything, its events as words.
    struct Bench(Store);

    type Watch = WatchEvent<Value>;

    impl Bench {
        fn new() -> Self {
            Self::of([None])
        }

        fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
            let (kind, transforms) = (Kind::of::<ConfigMap>(), crate::cache::Transforms::default());
            let intake = Intake::new(kind, "mine".into(), &transforms, false);
            Self(Store::new(intake.into(), scopes))
        }

        fn take(&self, value: Value) -> Incoming {
            (representation().take)(value, &self.0.intake).unwrap()
        }

        fn step(&mut self, event: Watch) -> Vec<String> {
            self.step_in(&None, event)
        }

        fn step_in(&mut self, scope: &Scope, event: Watch) -> Vec<String> {
            let event = match event {
                Watch::Init => WatchEvent::Init,
                Watch::InitApply(object) => WatchEvent::InitApply(self.take(object)),
                Watch::InitDone => WatchEvent::InitDone,
                Watch::Apply(object) => WatchEvent::Apply(self.take(object)),
                Watch::Delete(object) => WatchEvent::Delete(self.take(object)),
            };
            let events = self.0.step(scope, representation(), event);
            events.iter().map(word).collect()
        }

        fn list(&mut self, objects: Vec<Value>) -> Vec<String> {
            let mut words = self.step(Watch::Init);
            for object in objects {
                words.extend(self.step(Watch::InitApply(object)));
            }
            words.extend(self.step(Watch::InitDone));
            words
        }

        fn write(&mut self, object: Value) {
            let written = self.take(object).unwrap();
            self.0.write(written);
        }

        /// The revision that a reader sees.
        fn seen(&self, name: &str) -> Option<u64> {
            self.0
                .get(&key(name), Consistency::OwnWrites)
                .unwrap()
                .map(|stored| stored.packed.revision())
        }
    }

    fn word(event: &Event<dyn Item>) -> String {
        let version = |object: &Arc<dyn Item>| revision(object.metadata());
        let name = event.object().metadata().name.clone().unwrap_or_default();
        match event {
            Event::Create {
                object,
                initial: true,
            } => format!("initial {name}@{}", version(object)),
            Event::Create { object, .. } => format!("create {name}@{}", version(object)),
            Event::Update { old, new } => format!("update {name}@{}->{}", version(old), version(new)),
            Event::Delete { object, stale: false } => format!("delete {name}@{}", version(object)),
            Event::Delete { object, .. } => format!("missed {name}@{}", version(object)),
            Event::Generic { .. } => format!("generic {name}"),
        }
    }

    #[test]
    fn changes_become_events_with_old_and_new() {
        let mut bench = Bench::new();
        assert_eq!(bench.list(vec![object("a", 1)]), ["initial a@1"]);
        assert_eq!(bench.step(Watch::Apply(object("b", 2))), ["create b@2"]);
        assert_eq!(bench.step(Watch::Apply(object("a", 3))), ["update a@1->3"]);
        assert_eq!(bench.step(Watch::Delete(object("a", 4))), ["delete a@4"]);
        assert_eq!((bench.seen("a"), bench.seen("b")), (None, Some(2)));
    }

    #[test]
    fn new_list_finds_missed_changes_and_deletions() {
        let mut bench = Bench::new();
        bench.list(vec![object("a", 1), object("b", 2), object("c", 3)]);
        let events = bench.list(vec![object("b", 2), object("c", 5), object("d", 6)]);
        assert_eq!(events, ["update c@3->5", "create d@6", "missed a@1"]);
    }

    #[test]
    fn other_namespaces_survive_the_list_of_one() {
        let scopes = [Some(Arc::from("default")), Some(Arc::from("other"))];
        let mut bench = Bench::of(scopes.clone());
        bench.step_in(&scopes[0], Watch::Init);
        bench.step_in(&scopes[0], Watch::InitApply(object("a", 1)));
        bench.step_in(&scopes[0], Watch::InitDone);
        assert!(!bench.0.is_listed_as(&representation()));
        bench.step_in(&scopes[1], Watch::Init);
        assert!(bench.step_in(&scopes[1], Watch::InitDone).is_empty());
        assert!(bench.0.is_listed_as(&representation()));
        assert_eq!(
            bench
                .0
                .list(&ListOptions::all(), Consistency::OwnWrites)
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn malformed_object_is_reported_and_the_others_live_on() {
        let mut bench = Bench::new();
        assert_eq!(
            bench.list(vec![malformed("a", 1), object("b", 2)]),
            ["initial b@2"]
        );
        assert!(bench.0.get(&key("a"), Consistency::OwnWrites).is_err());
        assert_eq!(bench.step(Watch::Apply(object("a", 3))), ["create a@3"]);
        assert!(bench.step(Watch::Apply(malformed("a", 4))).is_empty());
        assert!(bench.0.get(&key("a"), Consistency::OwnWrites).is_err());
        assert_eq!(bench.step(Watch::Delete(malformed("a", 5))), ["missed a@3"]);
        assert_eq!(bench.seen("a"), None);
    }

    #[test]
    fn own_write_is_read_at_once_and_its_event_still_comes() {
        let mut bench = Bench::new();
        bench.list(vec![object("a", 1)]);
        bench.write(object("a", 5));
        bench.write(object("new", 6));
        assert_eq!((bench.seen("a"), bench.seen("new")), (Some(5), Some(6)));
        assert_eq!(
            bench
                .0
                .list(&ListOptions::all(), Consistency::OwnWrites)
                .unwrap()
                .len(),
            2
        );
        assert_eq!(bench.step(Watch::Apply(object("a", 5))), ["update a@1->5"]);
        assert_eq!(bench.step(Watch::Apply(object("new", 6))), ["create new@6"]);
        assert!(bench.0.written.is_empty());
    }

    #[test]
    fn older_event_does_not_undo_an_own_write() {
        let mut bench = Bench::new();
        bench.list(vec![object("a", 1)]);
        bench.write(object("a", 5));
        assert_eq!(bench.step(Watch::Apply(object("a", 3))), ["update a@1->3"]);
        assert_eq!(bench.seen("a"), Some(5));
    }

    #[test]
    fn answer_that_comes_after_its_event_is_ignored() {
        let mut bench = Bench::new();
        bench.list(vec![]);
        bench.step(Watch::Apply(object("a", 5)));
        bench.step(Watch::Delete(object("a", 6)));
        bench.write(object("a", 5));
        assert_eq!(bench.seen("a"), None);
    }

    #[test]
    fn write_that_the_watch_passed_by_is_dropped() {
        let mut bench = Bench::new();
        bench.list(vec![]);
        bench.write(object("a", 5));
        bench.step(Watch::Apply(object("b", 9)));
        assert_eq!(bench.seen("a"), None);
    }

    #[test]
    fn list_begun_after_a_write_decides_about_it() {
        let mut bench = Bench::new();
        bench.list(vec![]);
        bench.write(object("gone", 5));
        bench.list(vec![]);
        assert_eq!(bench.seen("gone"), None);

        bench.step(Watch::Init);
        bench.write(object("late", 8));
        bench.step(Watch::InitDone);
        assert_eq!(bench.seen("late"), Some(8));
    }

    #[test]
    fn applied_fields_of_objects_that_are_made_alike_are_one_text() {
        let mut bench = Bench::new();
        let made = |name: &str, owner: &str| {
            let fields =
                json!({"f:metadata": {"f:ownerReferences": {format!(r#"k:{{"uid":"{owner}"}}"#): {}}}});
            let entry =
                json!({"manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
            let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner}]);
            let metadata = json!({"name": name, "namespace": "default", "resourceVersion": "1", "managedFields": [entry], "ownerReferences": owners});
            json!({"metadata": metadata})
        };
        bench.list(vec![made("a", "uid-1"), made("b", "uid-2")]);
        let applied = |name: &str| {
            bench
                .0
                .get(&key(name), Consistency::OwnWrites)
                .unwrap()
                .unwrap()
                .applied
                .unwrap()
        };
        assert!(Arc::ptr_eq(&applied("a"), &applied("b")));
    }

    #[test]
    fn texts_that_nobody_has_any_more_are_dropped() {
        let mut interned = Interned::default();
        for number in 0..1000 {
            interned.share(number.to_string().into());
        }
        assert!(interned.texts.len() < 50, "{}", interned.texts.len());
    }

    #[test]
    fn own_deletion_is_seen_at_once() {
        let mut bench = Bench::new();
        bench.list(vec![object("a", 1)]);
        bench.0.deleted(&key("a"), "uid-a");
        assert_eq!(bench.seen("a"), None);
        assert_eq!(bench.step(Watch::Delete(object("a", 2))), ["delete a@2"]);
        assert!(bench.0.written.is_empty());
    }

    fn labelled(name: &str, tier: &str, revision: u64) -> Value {
        let metadata = json!({"name": name, "namespace": "default", "resourceVersion": revision.to_string(), "labels": {"tier": tier}});
        json!({"metadata": metadata})
    }

    fn by_tier() -> Values {
        Arc::new(|object| {
            let tier = object
                .metadata()
                .labels
                .as_ref()
                .and_then(|labels| labels.get("tier"));
            tier.into_iter().cloned().collect()
        })
    }

    #[test]
    fn index_follows_events_and_own_writes() {
        let mut bench = Bench::new();
        bench.list(vec![labelled("a", "front", 1), labelled("b", "back", 2)]);
        assert!(bench.0.add_index("tier", by_tier()));
        assert!(!bench.0.add_index("tier", by_tier()));
        let names = |bench: &Bench, tier: &str, consistency| {
            let options = ListOptions::all().index("tier", tier);
            let objects = bench.0.list(&options, consistency).unwrap();
            objects
                .iter()
                .map(|stored| stored.packed.name().to_owned())
                .collect::<Vec<_>>()
        };
        let own = Consistency::OwnWrites;
        assert_eq!(names(&bench, "front", own), ["a"]);
        bench.step(Watch::Apply(labelled("b", "front", 3)));
        bench.step(Watch::Apply(labelled("c", "front", 4)));
        bench.step(Watch::Delete(labelled("a", "front", 5)));
        assert_eq!(names(&bench, "front", own), ["b", "c"]);
        assert_eq!(names(&bench, "back", own), [""; 0]);
        bench.write(labelled("c", "back", 8));
        bench.write(labelled("d", "front", 9));
        assert_eq!(names(&bench, "front", own), ["b", "d"]);
        assert_eq!(names(&bench, "back", own), ["c"]);
        assert_eq!(names(&bench, "front", Consistency::Watched), ["b", "c"]);
        bench.list(vec![labelled("b", "front", 3)]);
        assert_eq!(names(&bench, "front", own), ["b"]);
        assert!(
            bench
                .0
                .list(&ListOptions::all().index("other", "x"), own)
                .is_err()
        );
    }
}
