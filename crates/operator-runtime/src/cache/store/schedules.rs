//! A model of an operator that skips writes, and of a server with late responses and a late watch that fails and may
//! lose its permission. The same schedule runs with every write sent: both clusters must end in the same state.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::{Value, json};

use super::*;
use crate::cache::noop;
use crate::cache::skips::Requeue;
use crate::cache::transforms::Transforms;
use crate::object::Kind;

/// The objects that the operator writes: by apply, by merge patch, and a status.
const CHILDREN: [&str; 3] = ["applied", "patched", "status"];

/// The number of requests that reconcile each child.
const REQUESTS: usize = 2;

/// A step of a schedule. Children are indexes.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another client changes the value that the operator sets, with or without taking over the field.
    Overwrite { child: usize, takes_over: bool },
    /// Another client changes another field.
    Touch { child: usize },
    /// Another client deletes it.
    Delete { child: usize },
    /// The user changes the desired value of all children.
    Want { value: u8 },
    /// A request of a child is reconciled for a reason outside the model.
    Reconcile { child: usize, request: usize },
    /// Responses to writes are delayed from now on, or no longer.
    Delay { is_late: bool },
    /// One of the delayed responses arrives: an index modulo their count.
    Answer { which: usize },
    /// The watch delivers this number of events.
    Watch { events: usize },
    /// The watch fails, and is resumed later.
    Fail,
    /// The watch is resumed with a list.
    Relist,
    /// The permission to watch is removed or granted.
    Permit { is_permitted: bool },
    /// Enough time passes to give up a failing watch.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let child = 0..CHILDREN.len();
    prop_oneof![
        5 => (child.clone(), any::<bool>())
            .prop_map(|(child, takes_over)| Step::Overwrite { child, takes_over }),
        2 => child.clone().prop_map(|child| Step::Touch { child }),
        3 => child.clone().prop_map(|child| Step::Delete { child }),
        1 => (0..3u8).prop_map(|value| Step::Want { value }),
        8 => (child, 0..REQUESTS).prop_map(|(child, request)| Step::Reconcile { child, request }),
        2 => any::<bool>().prop_map(|is_late| Step::Delay { is_late }),
        4 => (0..4usize).prop_map(|which| Step::Answer { which }),
        5 => (1..4usize).prop_map(|events| Step::Watch { events }),
        1 => Just(Step::Fail),
        1 => Just(Step::Relist),
        1 => any::<bool>().prop_map(|is_permitted| Step::Permit { is_permitted }),
        1 => Just(Step::Wait),
    ]
}

/// A child on the server.
#[derive(Clone, Debug)]
struct Live {
    uid: u64,
    revision: u64,
    state: State,
    foreign: u64,
}

/// The part of a child that the operator sets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    value: String,
    /// True if the operator owns the field that it applied.
    is_owned: bool,
}

impl Live {
    fn object(&self, name: &str) -> Value {
        let fields = json!({"f:data": {"f:value": {}}});
        let entry = json!({"manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
        let entries = if self.state.is_owned {
            vec![entry]
        } else {
            Vec::new()
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{}", self.uid),
                "resourceVersion": self.revision.to_string(), "managedFields": entries,
            },
            "data": {"foreign": self.foreign.to_string()},
        });
        let part = if name == "status" { "status" } else { "data" };
        object[part]["value"] = self.state.value.as_str().into();
        object
    }
}

/// One of the requests of a child.
type Request = (&'static str, usize);

/// Records the due requests.
#[derive(Default)]
struct Queue(Mutex<Vec<ObjectKey>>);

impl Requeue for Queue {
    fn requeue(&self, request: ObjectKey) {
        self.0.lock().push(request);
    }
}

/// A server, an operator, and the messages in transit.
struct World {
    store: Store,
    queue: Arc<Queue>,
    /// True if the predicates of the controller accept the events of children.
    passes: bool,
    wanted: u8,
    revision: u64,
    live: BTreeMap<&'static str, Live>,
    /// The children in a cluster where every write is sent.
    reference: BTreeMap<&'static str, State>,
    /// Each change: its object, whether the object still exists, and its new or last state.
    history: Vec<(&'static str, bool, Live)>,
    /// The last revision that the watch delivered.
    watched: u64,
    is_permitted: bool,
    is_late: bool,
    /// The delayed responses.
    answers: Vec<(Request, Live)>,
    /// The requests that were added while they waited for a response.
    again: BTreeSet<Request>,
    skipped: usize,
    repeated: usize,
}

// === impl World ===

impl World {
    fn new(passes: bool) -> Self {
        let (kind, transforms) = (Kind::of::<ConfigMap>(), Transforms::default());
        let intake = Intake::new(kind, "mine".into(), &transforms, false);
        let mut world = Self {
            store: Store::new(intake.into(), [None]),
            queue: Arc::default(),
            passes,
            wanted: 0,
            revision: 0,
            live: BTreeMap::new(),
            reference: BTreeMap::new(),
            history: Vec::new(),
            watched: 0,
            is_permitted: true,
            is_late: false,
            answers: Vec::new(),
            again: BTreeSet::new(),
            skipped: 0,
            repeated: 0,
        };
        world.relist();
        world.reconcile_all();
        world
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Overwrite { child, takes_over } => self.change(CHILDREN[child], |state| {
                "foreign".clone_into(&mut state.value);
                state.is_owned &= !takes_over;
            }),
            Step::Touch { child } => {
                if let Some(mut live) = self.live.get(CHILDREN[child]).cloned() {
                    live.foreign += 1;
                    self.record(CHILDREN[child], live, true);
                }
            }
            Step::Delete { child } => {
                self.reference.remove(CHILDREN[child]);
                if let Some(live) = self.live.remove(CHILDREN[child]) {
                    self.record(CHILDREN[child], live, false);
                }
            }
            Step::Want { value } => {
                self.wanted = value;
                // The watch of the primary object delivers it.
                self.reconcile_all();
            }
            Step::Reconcile { child, request } => self.reconcile((CHILDREN[child], request)),
            Step::Delay { is_late } => self.is_late = is_late,
            Step::Answer { which } => {
                if let Some(which) = which.checked_rem(self.answers.len()) {
                    self.answer(which);
                }
            }
            Step::Watch { events } => self.watch(events),
            Step::Fail => self.set_live(false),
            Step::Relist => self.relist(),
            Step::Permit { is_permitted } => {
                self.is_permitted = is_permitted;
                if !is_permitted {
                    self.set_live(false);
                }
            }
            Step::Wait => self.wait(),
        }
    }

    fn set_live(&mut self, is_live: bool) {
        self.store.set_live(&None, is_live);
    }

    /// Resumes a watch that is permitted; the informer gives up one that is not.
    fn wait(&mut self) {
        if self.is_permitted {
            self.watch(0);
        } else {
            self.store.give_up_skips(&None);
            self.drain();
        }
    }

    fn change(&mut self, name: &'static str, change: impl Fn(&mut State)) {
        if let Some(state) = self.reference.get_mut(name) {
            change(state);
        }
        if let Some(mut live) = self.live.get(name).cloned() {
            change(&mut live.state);
            self.record(name, live, true);
        }
    }

    fn record(&mut self, name: &'static str, mut live: Live, remains: bool) -> Live {
        self.revision += 1;
        live.revision = self.revision;
        if remains {
            self.live.insert(name, live.clone());
        }
        self.history.push((name, remains, live.clone()));
        live
    }

    /// Reconciles the due requests.
    fn drain(&mut self) {
        let due = self.store.take_due();
        self.repeated += due.len();
        due.into_iter().for_each(Origin::requeue);
        let requests = std::mem::take(&mut *self.queue.0.lock());
        for request in requests {
            self.reconcile(all_requests().find(|known| key_of(*known) == request).unwrap());
        }
    }

    fn reconcile_all(&mut self) {
        all_requests().for_each(|request| self.reconcile(request));
    }

    /// Writes the child of a request as the client does, unless the cache shows that it has the desired state. A
    /// request that waits for a response is reconciled again after it, as by the queue of a controller.
    fn reconcile(&mut self, request: Request) {
        if self.answers.iter().any(|(waiting, _)| *waiting == request) {
            self.again.insert(request);
            return;
        }
        let (name, _) = request;
        let wanted = self.wanted.to_string();
        let interest = match name {
            "applied" => Interest::Applied,
            "patched" => Interest::of_merge_patch(&json!({"data": {"value": wanted}})),
            _ => Interest::Members(json!({"status": {"value": null}})),
        };
        let state = State {
            value: wanted,
            is_owned: name == "applied",
        };
        self.reference.insert(name, state.clone());
        let origin = Origin::new(self.queue.clone(), key_of(request));
        let known = self.store.get(&key(name), Consistency::OwnWrites).unwrap();
        if let Some(known) = known.filter(|known| self.is_as_wanted(name, known))
            && self.store.skip(
                &key(name),
                known.packed.revision(),
                origin.clone(),
                interest.clone(),
            )
        {
            self.skipped += 1;
            return;
        }
        self.store.sent(&key(name), &origin, &interest);
        let answer = match self.live.get(name).cloned() {
            Some(live) if live.state == state => live,
            Some(live) => self.record(name, Live { state, ..live }, true),
            None => {
                let new = Live {
                    uid: self.revision + 1,
                    revision: 0,
                    state,
                    foreign: 0,
                };
                self.record(name, new, true)
            }
        };
        self.answers.push((request, answer));
        if !self.is_late {
            self.answer(self.answers.len() - 1);
        }
    }

    fn answer(&mut self, which: usize) {
        let (request, live) = self.answers.remove(which);
        let answer = self.incoming(request.0, &live).unwrap();
        self.store.write(answer);
        if self.again.remove(&request) {
            self.reconcile(request);
        }
    }

    fn is_as_wanted(&self, name: &str, known: &Stored) -> bool {
        let state = self.store.state_of(known).unwrap();
        let wanted = json!(self.wanted.to_string());
        match name {
            "applied" => {
                let configuration = json!({"apiVersion": "v1", "data": {"value": wanted}});
                let applied = state.applied.as_deref();
                applied.is_some_and(|applied| noop::is_applied(&configuration, applied, &state.value))
            }
            "patched" => state.value["data"]["value"] == wanted,
            _ => state.value["status"]["value"] == wanted,
        }
    }

    /// Delivers some events of a live watch.
    fn watch(&mut self, events: usize) {
        if !self.is_permitted {
            return;
        }
        self.set_live(true);
        let watched = self.watched;
        let next = self.history.iter().filter(|(.., live)| live.revision > watched);
        for (name, remains, live) in next.take(events).cloned().collect::<Vec<_>>() {
            let object = self.incoming(name, &live);
            let event = match remains {
                true => WatchEvent::Apply(object),
                false => WatchEvent::Delete(object),
            };
            let events = self.store.step(&None, representation(), event);
            self.watched = live.revision;
            self.handle(&events);
        }
        self.drain();
    }

    fn relist(&mut self) {
        if !self.is_permitted {
            return;
        }
        let objects: Vec<_> = self
            .live
            .iter()
            .map(|(name, live)| self.incoming(name, live))
            .collect();
        let items = objects.into_iter().map(WatchEvent::InitApply);
        for event in [WatchEvent::Init]
            .into_iter()
            .chain(items)
            .chain([WatchEvent::InitDone])
        {
            let events = self.store.step(&None, representation(), event);
            self.handle(&events);
        }
        self.watched = self.revision;
        self.set_live(true);
        self.drain();
    }

    /// Adds the requests of children's events that the predicates accept.
    fn handle(&self, events: &[Event<dyn Item>]) {
        for event in events.iter().filter(|_| self.passes) {
            let changed = ObjectKey::of(event.object().as_ref());
            let requests = all_requests().filter(|(name, _)| key(name) == changed);
            requests.for_each(|request| self.queue.requeue(key_of(request)));
        }
    }

    fn incoming(&self, name: &str, live: &Live) -> Incoming {
        (representation().take)(live.object(name), &self.store.intake).unwrap()
    }

    /// Delivers all events and responses that can be delivered.
    fn settle(&mut self) {
        self.is_late = false;
        self.wait();
        loop {
            while !self.answers.is_empty() {
                self.answer(0);
            }
            if !self.is_permitted {
                break;
            }
            if self.watched < self.revision {
                self.watch(1);
            } else if self.store.oldest_write(&None).is_some() {
                // No event reports the deletion of a written object if a list began before the response to the write.
                // The informer requests another list when the watch has no events.
                self.relist();
            } else {
                break;
            }
        }
        for name in CHILDREN {
            let state = self.live.get(name).map(|live| &live.state);
            assert_eq!(state, self.reference.get(name), "{name} in the end");
            if self.is_permitted {
                let read = self.store.get(&key(name), Consistency::OwnWrites).unwrap();
                let read = read.map(|read| read.packed.revision());
                assert_eq!(
                    read,
                    self.live.get(name).map(|live| live.revision),
                    "{name} is read"
                );
            }
        }
    }
}

fn representation() -> Representation {
    Representation::of::<ConfigMap>()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn all_requests() -> impl Iterator<Item = Request> {
    let requests = |name| (0..REQUESTS).map(move |request| (name, request));
    CHILDREN.into_iter().flat_map(requests)
}

/// Returns the key that a controller reconciles for a request.
fn key_of((name, request): Request) -> ObjectKey {
    ObjectKey::namespaced("default", &format!("{name}-{request}"))
}

/// Runs a test with random inputs and prints the seed of a failure. `SCHEDULES` is the number of inputs, by default
/// 1,000; `SCHEDULES_SEED` is the seed, by default random.
pub(super) fn run<S: Strategy>(inputs: &S, test: impl Fn(S::Value)) {
    let seed = number("SCHEDULES_SEED").unwrap_or_else(crate::clock::random);
    let config = ProptestConfig {
        cases: schedules().try_into().unwrap(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let outcome = TestRunner::new_with_rng(config, rng).run(inputs, |input| {
        test(input);
        Ok(())
    });
    match outcome {
        Err(TestError::Fail(reason, input)) => {
            panic!("SCHEDULES_SEED={seed}: {reason}; minimal schedule: {input:#?}")
        }
        Err(TestError::Abort(reason)) => panic!("SCHEDULES_SEED={seed}: {reason}"),
        Ok(()) => {}
    }
}

fn schedules() -> u64 {
    number("SCHEDULES").unwrap_or(1_000)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn skipped_writes_end_like_sent_ones() {
    let schedules_of = (any::<bool>(), proptest::collection::vec(step(), 0..30));
    let (skipped, repeated) = (Cell::new(0), Cell::new(0));
    run(&schedules_of, |(passes, steps)| {
        let mut world = World::new(passes);
        for step in steps {
            world.take(step);
        }
        world.settle();
        skipped.set(skipped.get() + world.skipped as u64);
        repeated.set(repeated.get() + world.repeated as u64);
    });
    // The schedules are useful only if writes are skipped, some of them wrongly.
    let (skipped, repeated) = (skipped.get(), repeated.get());
    assert!(
        skipped > schedules() && repeated > schedules() / 10,
        "{skipped} skipped, {repeated} repeated"
    );
}
