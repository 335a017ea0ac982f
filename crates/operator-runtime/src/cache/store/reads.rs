//! A model of reads, own writes and own deletions, with random delays of responses, events and lists. It checks that no
//! read is older than an answered own write or deletion, or than an earlier read. Every existing object must be visible
//! once the watch has caught up, and no record of a write may remain that every watch has passed.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::schedules::run;
use super::*;
use crate::cache::Transforms;
use crate::object::Kind;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A step of the model. Numbers select an object, modulo the number of objects.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another client creates or changes an object.
    Write(usize),
    /// Another client deletes an object.
    Delete(usize),
    /// The operator writes an object. The response is delayed.
    OwnWrite(usize),
    OwnDelete(usize),
    /// One of the delayed responses arrives.
    Answer(usize),
    /// The watch delivers some events, unless a list is running.
    Watch(usize),
    /// A list begins, is answered, delivers an object, or ends.
    List,
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..NAMES.len();
    prop_oneof![
        2 => who.clone().prop_map(Step::Write),
        1 => who.clone().prop_map(Step::Delete),
        4 => who.clone().prop_map(Step::OwnWrite),
        2 => who.clone().prop_map(Step::OwnDelete),
        6 => (0..8usize).prop_map(Step::Answer),
        3 => (1..4usize).prop_map(Step::Watch),
        3 => Just(Step::List),
        4 => who.prop_map(Step::Read),
    ]
}

/// An object at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    uid: u64,
    revision: u64,
}

#[derive(Debug)]
enum Answer {
    Written(&'static str, State),
    Deleted(&'static str, State, u64),
}

#[derive(Debug)]
enum Listing {
    Sent,
    Answered(u64, Vec<(&'static str, State)>),
}

/// A server, a store, and the messages in transit.
struct World {
    store: Store,
    revision: u64,
    live: BTreeMap<&'static str, State>,
    /// The result of each revision: a state, or the last state of a deleted object.
    history: Vec<(u64, &'static str, Option<State>, State)>,
    answers: Vec<Answer>,
    listing: Option<Listing>,
    /// The last revision that the watch delivered. `None` before the first list.
    watched: Option<u64>,
    /// No read may be older than this.
    floors: HashMap<&'static str, u64>,
}

// === impl World ===

impl World {
    fn new() -> Self {
        let intake = Intake::new(
            Kind::of::<ConfigMap>(),
            "mine".into(),
            &Transforms::default(),
            false,
        );
        Self {
            store: Store::new(intake.into(), [None]),
            revision: 0,
            live: BTreeMap::new(),
            history: Vec::new(),
            answers: Vec::new(),
            listing: None,
            watched: None,
            floors: HashMap::new(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Write(who) => drop(self.write(NAMES[who])),
            Step::Delete(who) => drop(self.delete(NAMES[who])),
            Step::OwnWrite(who) => {
                let written = Answer::Written(NAMES[who], self.write(NAMES[who]));
                self.answers.push(written);
            }
            Step::OwnDelete(who) => self.own_delete(NAMES[who]),
            Step::Answer(which) if !self.answers.is_empty() => {
                let answer = self.answers.remove(which % self.answers.len());
                self.answer(answer);
            }
            Step::Answer(_) => {}
            Step::Watch(count) => self.watch(count),
            Step::List => self.list(),
            Step::Read(who) => self.read(NAMES[who]),
        }
    }

    fn write(&mut self, name: &'static str) -> State {
        self.revision += 1;
        let revision = self.revision;
        let uid = self.live.get(name).map_or(revision, |state| state.uid);
        let state = State { uid, revision };
        self.live.insert(name, state.clone());
        self.history
            .push((revision, name, Some(state.clone()), state.clone()));
        state
    }

    fn delete(&mut self, name: &'static str) -> Option<State> {
        let gone = self.live.remove(name)?;
        self.revision += 1;
        let last = State {
            revision: self.revision,
            ..gone
        };
        self.history.push((self.revision, name, None, last.clone()));
        Some(last)
    }

    /// Deletes the object that the operator read, by its UID.
    fn own_delete(&mut self, name: &'static str) {
        let known = self.seen(name);
        let is_same =
            known.is_some_and(|known| self.live.get(name).is_some_and(|live| live.uid == known.uid));
        if is_same && let Some(last) = self.delete(name) {
            let at = self.revision;
            self.answers.push(Answer::Deleted(name, last, at));
        }
    }

    fn answer(&mut self, answer: Answer) {
        let (name, at) = match answer {
            Answer::Written(name, state) => {
                if let Ok(written) = self.incoming(name, &state) {
                    self.store.write(written);
                }
                (name, state.revision)
            }
            Answer::Deleted(name, state, at) => {
                self.store
                    .deleted(&key(name), &format!("uid-{}", state.uid), None);
                (name, at)
            }
        };
        // Reads before the first list may miss objects that are not in the cache.
        let floor = self.floors.entry(name).or_default();
        *floor = at.max(*floor);
        self.read(name);
    }

    fn watch(&mut self, count: usize) {
        let Some(watched) = self.watched.filter(|_| self.listing.is_none()) else {
            return;
        };
        let next: Vec<_> = self
            .history
            .iter()
            .filter(|(at, ..)| *at > watched)
            .take(count)
            .cloned()
            .collect();
        for (at, name, state, last) in next {
            let object = self.incoming(name, &last);
            let event = match state {
                Some(_) => WatchEvent::Apply(object),
                None => WatchEvent::Delete(object),
            };
            self.store.step(&None, representation(), event);
            self.watched = Some(at);
        }
        NAMES.iter().for_each(|name| self.read(name));
    }

    fn list(&mut self) {
        let event = match self.listing.take() {
            None => {
                self.listing = Some(Listing::Sent);
                WatchEvent::Init
            }
            Some(Listing::Sent) => {
                let live = self.live.iter().map(|(name, state)| (*name, state.clone()));
                self.listing = Some(Listing::Answered(self.revision, live.collect()));
                return;
            }
            Some(Listing::Answered(at, mut left)) => match left.pop() {
                Some((name, state)) => {
                    self.listing = Some(Listing::Answered(at, left));
                    WatchEvent::InitApply(self.incoming(name, &state))
                }
                None => {
                    self.watched = Some(at);
                    WatchEvent::InitDone
                }
            },
        };
        self.store.step(&None, representation(), event);
        NAMES.iter().for_each(|name| self.read(name));
    }

    /// Reads, and checks that the state existed at a time that is not before the last known one.
    fn read(&mut self, name: &'static str) {
        if self.watched.is_none() {
            return;
        }
        let seen = self.seen(name);
        let floor = self.floors.get(name).copied().unwrap_or_default();
        let began = self
            .times_of(name)
            .into_iter()
            .find(|(state, _, end)| *state == seen && *end > floor);
        let Some((_, began, _)) = began else {
            panic!(
                "{name} is read as {seen:?}, which is older than {floor}: {:?}",
                self.history
            );
        };
        // A list does not contain its revision, so a missing object may be older than a late response.
        let passed = self
            .store
            .watches
            .get(&None)
            .map_or(0, |progress| progress.revision);
        if seen.is_some() || began <= passed {
            self.floors.insert(name, floor.max(began));
        }
        let options = ListOptions {
            fields: ("metadata.name", name).into(),
            ..ListOptions::default()
        };
        let mut listed = self
            .store
            .candidates(&options, Consistency::OwnWrites)
            .unwrap()
            .flatten();
        assert_eq!(listed.next().as_ref().map(state_of), seen, "{name} in a list");
    }

    fn seen(&self, name: &str) -> Option<State> {
        let stored = self.store.get(&key(name), Consistency::OwnWrites).unwrap();
        stored.as_ref().map(state_of)
    }

    /// Returns the states of the object, with the revisions at which each began and ended.
    fn times_of(&self, name: &str) -> Vec<(Option<State>, u64, u64)> {
        let mut times = vec![(None, 0, u64::MAX)];
        for (at, of, state, _) in &self.history {
            if *of == name {
                if let Some(last) = times.last_mut() {
                    last.2 = *at;
                }
                times.push((state.clone(), *at, u64::MAX));
            }
        }
        times
    }

    fn incoming(&self, name: &str, state: &State) -> Incoming {
        let (uid, version) = (format!("uid-{}", state.uid), state.revision.to_string());
        let metadata = json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": version});
        let object: Value = json!({ "metadata": metadata });
        (representation().take)(object, &self.store.intake).unwrap()
    }

    /// Delivers all events and responses.
    fn settle(&mut self) {
        while let Some(answer) = self.answers.pop() {
            self.answer(answer);
        }
        while self.listing.is_some() || self.watched.is_none() {
            self.list();
        }
        self.watch(usize::MAX);
        // A write that was answered during a list and undone before the server read the list is in no event. The
        // informer requests another list when the watch has no events.
        if self.store.oldest_write(&None).is_some() {
            self.list();
            while self.listing.is_some() {
                self.list();
            }
        }
        for name in NAMES {
            assert_eq!(self.seen(name), self.live.get(name).cloned(), "{name} in the end");
        }
        assert!(
            self.store.written.is_empty(),
            "left over: {:?}",
            self.store.written
        );
    }
}

fn representation() -> Representation {
    Representation::of::<ConfigMap>()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn state_of(stored: &Stored) -> State {
    let uid = stored.packed.uid().unwrap_or_default();
    State {
        uid: uid.trim_start_matches("uid-").parse().unwrap(),
        revision: stored.packed.revision(),
    }
}

#[test]
fn reads_are_monotonic() {
    run(&proptest::collection::vec(step(), 0..50), |steps| {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.settle();
    });
}

/// The list is empty, so its revision is unknown; but it began after the response to the second write.
#[test]
fn answers_that_are_older_than_a_list_are_ignored() {
    let b = 1;
    let mut world = World::new();
    for step in [
        Step::OwnWrite(b),
        Step::Delete(b),
        Step::OwnWrite(b),
        Step::Answer(1),
        Step::OwnDelete(b),
        Step::List,
        Step::List,
        Step::List,
    ] {
        world.take(step);
    }
    world.settle();
}
