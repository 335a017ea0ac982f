//! Tests of the store: events, lists, own writes, indexes.

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

/// A store with one watch of all namespaces, which returns its events as text.
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

    /// Returns the revision that a reader sees.
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

fn indexed(name: &str, value: &str) -> ListOptions {
    ListOptions {
        indexes: vec![(name.to_owned(), value.to_owned())],
        ..ListOptions::default()
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
            .candidates(&ListOptions::default(), Consistency::OwnWrites)
            .unwrap()
            .flatten()
            .count(),
        1
    );
}

#[test]
fn malformed_object_is_reported_and_others_are_not_affected() {
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
            .candidates(&ListOptions::default(), Consistency::OwnWrites)
            .unwrap()
            .flatten()
            .count(),
        2
    );
    assert_eq!(bench.step(Watch::Apply(object("a", 5))), ["update a@1->5"]);
    assert_eq!(bench.step(Watch::Apply(object("new", 6))), ["create new@6"]);
    assert!(bench.0.written.is_empty());
}

#[test]
fn answer_replaces_only_the_event_of_the_same_state() {
    let mut bench = Bench::new();
    bench.list(vec![object("a", 1)]);
    bench.write(object("a", 5));
    let metadata = |name: &str, revision: u64| {
        let metadata = object(name, revision)["metadata"].clone();
        serde_json::from_value::<ObjectMeta>(metadata).unwrap()
    };
    let answer = bench.0.own_write(&metadata("a", 5)).unwrap().clone();
    assert!(bench.0.own_write(&metadata("a", 4)).is_none());
    assert!(bench.0.own_write(&metadata("b", 5)).is_none());
    let another = ObjectMeta {
        uid: Some("uid-of-another".to_owned()),
        ..metadata("a", 5)
    };
    assert!(bench.0.own_write(&another).is_none());

    assert!(bench.0.watched_at(&metadata("a", 5)).is_none());
    let object = answer.object.clone();
    bench
        .0
        .step(&None, representation(), WatchEvent::Apply(Ok(answer)));
    assert!(bench.0.own_write(&metadata("a", 5)).is_none());
    let watched = bench.0.watched_at(&metadata("a", 5)).unwrap();
    // The decoded object is among the recently used ones.
    let read: Arc<dyn Item> = bench.0.intake.read::<ConfigMap>(watched).unwrap();
    assert!(std::ptr::addr_eq(Arc::as_ptr(&read), Arc::as_ptr(&object)));
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
fn write_that_the_watch_has_passed_is_dropped() {
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
fn writes_missing_in_a_list_are_dropped() {
    let mut bench = Bench::new();
    let names: Vec<_> = (0..200).map(|number| format!("object-{number}")).collect();
    bench.list(names.iter().map(|name| object(name, 1)).collect());
    bench.step(Watch::Init);
    // The responses arrive during the list; all objects are deleted before the server reads it.
    for (at, name) in (2..).zip(&names) {
        bench.write(object(name, at));
    }
    let events = bench.step(Watch::InitDone);
    assert_eq!(events.len(), names.len(), "{events:?}");
    let left = names.iter().filter(|name| bench.seen(name).is_some());
    assert_eq!(left.count(), 0);
}

#[test]
fn applied_fields_of_similar_objects_are_one_text() {
    let mut bench = Bench::new();
    let made = |name: &str, owner: &str| {
        let fields = json!({"f:metadata": {"f:ownerReferences": {format!(r#"k:{{"uid":"{owner}"}}"#): {}}}});
        let entry = json!({"manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
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
fn unused_texts_are_dropped() {
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
    bench.0.deleted(&key("a"), "uid-a", None);
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
    let present = bench.0.add_index("tier", by_tier()).unwrap();
    for stored in present {
        let object = bench.0.intake.unpack(&stored).unwrap();
        bench.0.index("tier", &object, &stored);
    }
    assert!(bench.0.add_index("tier", by_tier()).is_none());
    let names = |bench: &Bench, tier: &str, consistency| {
        let options = indexed("tier", tier);
        let objects = bench.0.candidates(&options, consistency).unwrap().flatten();
        let names = objects.map(|stored| stored.packed.name().to_owned());
        let mut names = names.collect::<Vec<_>>();
        names.sort();
        names
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
    assert!(bench.0.candidates(&indexed("other", "x"), own).is_err());
}

#[test]
fn very_many_objects_of_an_index_come_in_parts() {
    const OBJECTS: usize = 3 * INDEXED_AT_ONCE;
    let mut bench = Bench::new();
    assert!(bench.0.add_index("tier", by_tier()).is_some());
    let name = |number: usize| format!("object-{number:05}");
    bench.list(
        (0..OBJECTS)
            .map(|number| labelled(&name(number), "front", 1))
            .collect(),
    );
    let options = indexed("tier", "front");
    let mut candidates = bench.0.candidates(&options, Consistency::OwnWrites).unwrap();
    let names = |candidates: &mut Candidates<'_>| -> Vec<_> {
        let objects = candidates.by_ref().flatten();
        objects.map(|stored| stored.packed.name().to_owned()).collect()
    };
    let mut seen = names(&mut candidates);
    assert_eq!(seen.len(), INDEXED_AT_ONCE);
    // Concurrent deletions, creations and changes do not move the other objects.
    bench.step(Watch::Delete(labelled(&name(0), "front", 2)));
    bench.step(Watch::Apply(labelled(&name(1), "front", 3)));
    bench.step(Watch::Delete(labelled(&name(OBJECTS - 1), "front", 4)));
    bench.step(Watch::Apply(labelled(&name(OBJECTS), "front", 5)));
    while bench.0.find_more(&mut candidates) {
        seen.extend(names(&mut candidates));
    }
    let expected = (0..=OBJECTS).filter(|number| *number != OBJECTS - 1).map(name);
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn list_after_a_restored_backup_replaces_the_state() {
    let mut bench = Bench::new();
    bench.list(vec![object("a", 10), object("b", 20)]);
    // After the restore of a backup the same objects have earlier revisions.
    let events = bench.list(vec![object("a", 4), object("b", 5)]);
    assert_eq!(events, ["update a@10->4", "update b@20->5"]);
    assert_eq!((bench.seen("a"), bench.seen("b")), (Some(4), Some(5)));
    // Own writes continue from there.
    bench.write(object("a", 6));
    assert_eq!(bench.seen("a"), Some(6));
    assert_eq!(bench.step(Watch::Apply(object("a", 6))), ["update a@4->6"]);
}

#[test]
fn own_object_missing_in_a_list_is_an_event() {
    let mut bench = Bench::new();
    bench.list(vec![]);
    bench.write(object("child", 5));
    // Another client deleted it before the watch delivered it.
    assert_eq!(bench.list(vec![]), ["missed child@5"]);
    assert_eq!(bench.seen("child"), None);
    // A late response does not restore it.
    bench.write(object("child", 5));
    assert_eq!(bench.seen("child"), None);
}

#[test]
fn deletion_that_was_not_carried_out_is_dropped() {
    let mut bench = Bench::new();
    bench.list(vec![object("a", 1), object("b", 2)]);
    bench.0.deleted(&key("a"), "uid-a", Some(3));
    bench.0.deleted(&key("b"), "uid-b", None);
    assert_eq!((bench.seen("a"), bench.seen("b")), (None, None));
    // The watch delivers a state from after the deletion.
    bench.step(Watch::Apply(object("a", 4)));
    assert_eq!(bench.seen("a"), Some(4));
    // The response had no revision, so a list has to decide.
    bench.step(Watch::Apply(object("b", 5)));
    assert_eq!(bench.seen("b"), None);
    bench.list(vec![object("a", 4), object("b", 5)]);
    assert_eq!(bench.seen("b"), Some(5));
    bench.write(object("b", 6));
    assert_eq!(bench.seen("b"), Some(6), "answers count again");
}

#[test]
fn decoded_writes_are_dropped_after_their_event() {
    let (kind, transforms) = (Kind::of::<ConfigMap>(), crate::cache::Transforms::default());
    let intake = Intake::new(kind, "mine".into(), &transforms, true);
    let mut bench = Bench(Store::new(intake.into(), [None]));
    bench.list(vec![object("a", 1)]);
    for revision in 2..100 {
        bench.write(object("a", revision));
        bench.step(Watch::Apply(object("a", revision)));
    }
    bench.write(object("b", 100));
    bench.list(vec![object("a", 99)]);
    let decoded = format!("{:?}", bench.0.intake.hot);
    assert_eq!(decoded, "Hot { objects: 1, .. }");
}
