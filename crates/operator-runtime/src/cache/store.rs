//! The objects of one kind: what the watches told, what the operator wrote since, and the events that follow.
//! It is pure: it never waits and never talks to a server.
//!
//! # The operator's own writes
//! The answer to a write is the object that the watch will bring later. It is kept beside the object from the watch
//! until the watch has passed its revision, and reads prefer it: so a reconciler always reads what it wrote, and
//! nobody waits. Events come from the watches alone, so handlers see each change once and with the right old state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::Resource;
use kube::runtime::watcher::Event as WatchEvent;

use super::decode::{Decoded, Malformed};
use super::selection::ListOptions;
use crate::event::Event;
use crate::object::{ObjectKey, revision};

/// What one watch covers: a namespace, or everything.
pub(crate) type Scope = Option<Arc<str>>;

/// An object and what the operator itself applied to it: API version and `fieldsV1`, separated by a space.
#[derive(Debug)]
pub(crate) struct Stored<K> {
    pub(crate) object: Arc<K>,
    pub(crate) applied: Option<Arc<str>>,
}

impl<K> Clone for Stored<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            applied: self.applied.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Store<K> {
    /// The field manager of the operator.
    manager: String,
    /// The applied fields, which are the same text for all objects that are made alike.
    applied: Interned,
    objects: HashMap<ObjectKey, Stored<K>>,
    written: HashMap<ObjectKey, Written<K>>,
    malformed: HashMap<ObjectKey, Malformed>,
    watches: HashMap<Scope, Progress>,
}

/// How far a watch has come.
#[derive(Debug, Default)]
struct Progress {
    /// Every change up to this revision has been seen.
    revision: u64,
    /// How many lists were begun.
    lists: u64,
    /// What the list that is under way has brought, and its newest revision.
    listing: Option<(HashSet<ObjectKey>, u64)>,
    synced: bool,
}

/// The operator's last write of an object, as long as the watch has not passed it.
#[derive(Debug)]
struct Written<K> {
    scope: Scope,
    /// The number of lists begun at the time of the write.
    lists: u64,
    change: Change<K>,
}

#[derive(Debug)]
enum Change<K> {
    Stored(Stored<K>, u64),
    /// The object with this uid was deleted.
    Deleted(String),
}

// === impl Store ===

impl<K: Resource + Clone> Store<K> {
    pub(crate) fn new(manager: &str, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self {
            manager: manager.to_owned(),
            applied: Interned::default(),
            objects: HashMap::new(),
            written: HashMap::new(),
            malformed: HashMap::new(),
            watches: scopes
                .into_iter()
                .map(|scope| (scope, Progress::default()))
                .collect(),
        }
    }

    /// The object, as the operator knows it.
    ///
    /// # Errors
    /// If its newest state is no `K`.
    pub(crate) fn get(&self, key: &ObjectKey) -> Result<Option<Stored<K>>, Malformed> {
        if let Some(malformed) = self.malformed.get(key) {
            return Err(malformed.clone());
        }
        let stored = self.objects.get(key);
        Ok(match self.written.get(key).map(|written| &written.change) {
            Some(Change::Stored(written, _)) => Some(written.clone()),
            Some(Change::Deleted(uid)) => stored.filter(|stored| !has_uid(&stored.object, uid)).cloned(),
            None => stored.cloned(),
        })
    }

    /// The objects that `options` name, sorted by key.
    pub(crate) fn list(&self, options: &ListOptions) -> Vec<Arc<K>> {
        let new = self.written.keys().filter(|key| !self.objects.contains_key(*key));
        let keys = self.objects.keys().chain(new);
        let namespace = options.namespace();
        let mut keys: Vec<_> = keys
            .filter(|key| namespace.is_none() || key.namespace() == namespace)
            .collect();
        keys.sort();
        // A malformed object is left out: its key's own reconcile reports it.
        let stored = keys.into_iter().filter_map(|key| self.get(key).ok().flatten());
        stored
            .map(|stored| stored.object)
            .filter(|object| options.matches(object.as_ref()))
            .collect()
    }

    /// The objects that the watches brought, as events for a handler that comes late.
    pub(crate) fn replay(&self) -> Vec<Event<K>> {
        let objects = self.objects.values().map(|stored| stored.object.clone());
        objects
            .map(|object| Event::Create {
                object,
                initial: true,
            })
            .collect()
    }

    /// How many objects are there that are no `K`.
    pub(crate) fn malformed(&self) -> usize {
        self.malformed.len()
    }

    /// Whether every watch has brought its first list.
    pub(crate) fn is_synced(&self) -> bool {
        self.watches.values().all(|progress| progress.synced)
    }

    /// Whether one watch has brought its first list.
    pub(crate) fn has_listed(&self, scope: &Scope) -> bool {
        self.watches.get(scope).is_some_and(|progress| progress.synced)
    }

    /// Takes what a watch brought and returns the events that follow from it.
    pub(crate) fn step(&mut self, scope: &Scope, event: WatchEvent<Decoded<K>>) -> Vec<Event<K>> {
        match event {
            WatchEvent::Init => self.begin_list(scope),
            WatchEvent::InitApply(object) => return self.listed(scope, object).into_iter().collect(),
            WatchEvent::InitDone => return self.end_list(scope),
            WatchEvent::Apply(object) => {
                let at = revision(&object);
                let event = self.put(scope, object);
                self.pass(scope, at);
                return event.into_iter().collect();
            }
            WatchEvent::Delete(object) => {
                let at = revision(&object);
                let event = self.delete(object);
                self.pass(scope, at);
                return event.into_iter().collect();
            }
        }
        Vec::new()
    }

    /// Takes the answer to a write of the operator, unless a watch has brought it or something newer already.
    pub(crate) fn write(&mut self, written: Stored<K>) {
        let key = ObjectKey::of(written.object.as_ref());
        let at = revision(written.object.as_ref());
        let stored = self
            .objects
            .get(&key)
            .map_or(0, |stored| revision(stored.object.as_ref()));
        let before = match self.written.get(&key).map(|written| &written.change) {
            Some(Change::Stored(_, at)) => *at,
            _ => 0,
        };
        let Some((scope, progress)) = self.watch_of(&key) else {
            return;
        };
        if at > progress.revision.max(stored).max(before) {
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Stored(written, at);
            self.written.insert(key, Written { scope, lists, change });
        }
    }

    /// Takes note that the operator deleted the object with this uid and nothing is left of it.
    pub(crate) fn deleted(&mut self, key: &ObjectKey, uid: &str) {
        let is_known = matches!(self.get(key), Ok(Some(stored)) if has_uid(&stored.object, uid));
        if let Some((scope, progress)) = self.watch_of(key)
            && is_known
        {
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Deleted(uid.to_owned());
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
        progress.lists += 1;
        progress.listing = Some((HashSet::new(), 0));
    }

    /// Items of a list come in the order of their names, so their revisions say nothing of other objects.
    fn listed(&mut self, scope: &Scope, object: Decoded<K>) -> Option<Event<K>> {
        let (key, at) = (ObjectKey::of(&object), revision(&object));
        let progress = self.watches.entry(scope.clone()).or_default();
        let (keys, newest) = progress.listing.get_or_insert_default();
        keys.insert(key.clone());
        *newest = at.max(*newest);
        if let Some(Change::Stored(_, written)) = self.written.get(&key).map(|written| &written.change)
            && *written <= at
        {
            self.written.remove(&key);
        }
        self.put(scope, object)
    }

    /// What a complete list did not bring is gone.
    fn end_list(&mut self, scope: &Scope) -> Vec<Event<K>> {
        let progress = self.watches.entry(scope.clone()).or_default();
        let lists = progress.lists;
        let (listed, newest) = progress.listing.take().unwrap_or_default();
        progress.synced = true;
        let covered = |key: &ObjectKey| scope.is_none() || key.namespace() == scope.as_deref();
        self.malformed
            .retain(|key, _| !covered(key) || listed.contains(key));
        let gone = |key: &ObjectKey| covered(key) && !listed.contains(key);
        let gone: Vec<_> = self.objects.keys().filter(|key| gone(key)).cloned().collect();
        let gone: Vec<_> = gone.iter().filter_map(|key| self.objects.remove(key)).collect();
        // A write that was answered before the list began is in the list, or it was undone since.
        self.written
            .retain(|_, written| written.scope != *scope || written.lists >= lists);
        self.pass(scope, newest);
        gone.into_iter()
            .map(|stored| Event::Delete {
                object: stored.object,
                stale: true,
            })
            .collect()
    }

    fn put(&mut self, scope: &Scope, object: Decoded<K>) -> Option<Event<K>> {
        let key = ObjectKey::of(&object);
        let mut stored = match object.into_stored(&self.manager) {
            Ok(stored) => stored,
            Err(malformed) => {
                self.malformed.insert(key, malformed);
                return None;
            }
        };
        stored.applied = stored.applied.map(|applied| self.applied.share(applied));
        self.malformed.remove(&key);
        if self
            .objects
            .get(&key)
            .is_some_and(|old| !is_newer(stored.object.as_ref(), old.object.as_ref()))
        {
            return None;
        }
        let initial = self.watches.get(scope).is_some_and(|progress| !progress.synced);
        let object = stored.object.clone();
        Some(match self.objects.insert(key, stored) {
            Some(old) => Event::Update {
                old: old.object,
                new: object,
            },
            None => Event::Create { object, initial },
        })
    }

    fn delete(&mut self, object: Decoded<K>) -> Option<Event<K>> {
        let key = ObjectKey::of(&object);
        self.malformed.remove(&key);
        if matches!(
            self.written.get(&key).map(|written| &written.change),
            Some(Change::Deleted(_))
        ) {
            self.written.remove(&key);
        }
        let last = object.into_stored(&self.manager).ok();
        let known = self.objects.remove(&key);
        let stale = last.is_none();
        let object = last.filter(|_| known.is_some()).or(known)?.object;
        Some(Event::Delete { object, stale })
    }

    /// Everything up to `at` has been seen: writes up to there are what the watch brought, or were undone.
    fn pass(&mut self, scope: &Scope, at: u64) {
        let progress = self.watches.entry(scope.clone()).or_default();
        progress.revision = progress.revision.max(at);
        let passed = |written: &Written<K>| match &written.change {
            Change::Stored(_, revision) => written.scope == *scope && *revision <= at,
            Change::Deleted(_) => false,
        };
        self.written.retain(|_, written| !passed(written));
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
fn is_newer<K: Resource>(new: &K, old: &K) -> bool {
    let (new_meta, old_meta) = (new.meta(), old.meta());
    if new_meta.uid != old_meta.uid || new_meta.resource_version.is_none() {
        return true;
    }
    match (revision(new), revision(old)) {
        (0, _) | (_, 0) => new_meta.resource_version != old_meta.resource_version,
        (new, old) => new > old,
    }
}

fn has_uid<K: Resource>(object: &Arc<K>, uid: &str) -> bool {
    object.meta().uid.as_deref() == Some(uid)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    type Watch = WatchEvent<Decoded<ConfigMap>>;

    fn object(name: &str, revision: u64) -> Decoded<ConfigMap> {
        let uid = format!("uid-{name}");
        let version = revision.to_string();
        let metadata = json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn malformed(name: &str, revision: u64) -> Decoded<ConfigMap> {
        let metadata = json!({"name": name, "namespace": "default", "resourceVersion": revision.to_string()});
        serde_json::from_value(json!({"metadata": metadata, "data": 1})).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    /// A store with one watch of everything, its events as words.
    struct Bench(Store<ConfigMap>);

    impl Bench {
        fn new() -> Self {
            Self(Store::new("mine", [None]))
        }

        fn step(&mut self, event: Watch) -> Vec<String> {
            self.0.step(&None, event).iter().map(word).collect()
        }

        fn list(&mut self, objects: Vec<Decoded<ConfigMap>>) -> Vec<String> {
            let mut words = self.step(Watch::Init);
            for object in objects {
                words.extend(self.step(Watch::InitApply(object)));
            }
            words.extend(self.step(Watch::InitDone));
            words
        }

        fn write(&mut self, object: Decoded<ConfigMap>) {
            self.0.write(object.into_stored("mine").unwrap());
        }

        /// The revision that a reader sees.
        fn seen(&self, name: &str) -> Option<u64> {
            self.0
                .get(&key(name))
                .unwrap()
                .map(|stored| revision(stored.object.as_ref()))
        }
    }

    fn word(event: &Event<ConfigMap>) -> String {
        let version = |object: &ConfigMap| revision(object);
        let name = event.object().metadata.name.clone().unwrap_or_default();
        match event {
            Event::Create {
                object,
                initial: true,
            } => format!("initial {name}@{}", version(object)),
            Event::Create { object, .. } => format!("create {name}@{}", version(object)),
            Event::Update { old, new } => format!("update {name}@{}->{}", version(old), version(new)),
            Event::Delete { object, stale: false } => format!("delete {name}@{}", version(object)),
            Event::Delete { object, .. } => format!("missed {name}@{}", version(object)),
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
        let mut store: Store<ConfigMap> = Store::new("mine", scopes.clone());
        store.step(&scopes[0], Watch::Init);
        store.step(&scopes[0], Watch::InitApply(object("a", 1)));
        store.step(&scopes[0], Watch::InitDone);
        assert!(!store.is_synced());
        store.step(&scopes[1], Watch::Init);
        assert!(store.step(&scopes[1], Watch::InitDone).is_empty());
        assert!(store.is_synced());
        assert_eq!(store.list(&ListOptions::all()).len(), 1);
    }

    #[test]
    fn malformed_object_is_reported_and_the_others_live_on() {
        let mut bench = Bench::new();
        assert_eq!(
            bench.list(vec![malformed("a", 1), object("b", 2)]),
            ["initial b@2"]
        );
        assert!(bench.0.get(&key("a")).is_err());
        assert_eq!(bench.step(Watch::Apply(object("a", 3))), ["create a@3"]);
        assert!(bench.step(Watch::Apply(malformed("a", 4))).is_empty());
        assert!(bench.0.get(&key("a")).is_err());
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
        assert_eq!(bench.0.list(&ListOptions::all()).len(), 2);
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
        let made = |name: &str, owner: &str| -> Decoded<ConfigMap> {
            let fields =
                json!({"f:metadata": {"f:ownerReferences": {format!(r#"k:{{"uid":"{owner}"}}"#): {}}}});
            let entry =
                json!({"manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
            let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner}]);
            let metadata = json!({"name": name, "namespace": "default", "resourceVersion": "1", "managedFields": [entry], "ownerReferences": owners});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        bench.list(vec![made("a", "uid-1"), made("b", "uid-2")]);
        let applied = |name: &str| bench.0.get(&key(name)).unwrap().unwrap().applied.unwrap();
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
}
