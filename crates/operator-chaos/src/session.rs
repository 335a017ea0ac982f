//! The state of one run that the transport and the driver share: the faults that are still to come, the calls that were
//! counted, and the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use operator_apiserver::ApiServer;
use operator_apiserver::client::{EventType, Gvr, Patch, Watch};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::call::{Call, Names, Signature, qualified};
use crate::plan::{Action, Plan, Point};
use crate::predicate::{Cluster, Predicate, When};
use crate::state::{self, State, THIRD_PARTY};
use crate::trace::{Actor, Event, Kind, Trace};

/// The objects of a cluster, by resource, namespace and name.
pub(crate) type Objects = BTreeMap<(String, String, String), Arc<Value>>;

/// A run that is under way.
pub(crate) struct Session {
    pub(crate) server: ApiServer,
    inner: Mutex<Inner>,
    crash: Notify,
    started: Instant,
    predicates: Arc<Vec<Predicate>>,
    /// True if time passes while the operator works: rest begins after its calls too.
    waits_for_calls: bool,
}

struct Inner {
    plan: Plan,
    fired: BTreeSet<usize>,
    /// The number of the operator's current life, from 1. Requests of earlier lives are never answered.
    life: u32,
    is_alive: bool,
    crash_at_next_call: bool,
    calls: BTreeMap<Signature, u32>,
    deliveries: BTreeMap<Signature, u32>,
    commits: Watch,
    /// The revisions of the changes of each resource.
    revisions: BTreeMap<String, Vec<u64>>,
    trace: Trace,
    names: Names,
    objects: Objects,
    /// The versions of the objects that were there before the workload.
    initial: BTreeMap<(String, String, String), String>,
    /// The number of watches that are held back.
    held: usize,
    stale: Option<Stale>,
    call_count: usize,
    call_limit: usize,
    last_change: Instant,
    /// The time of the last call of the current life.
    last_call: Option<Instant>,
    third_party: Vec<ThirdParty>,
    violations: Vec<(String, String)>,
    reached: BTreeSet<usize>,
}

/// A restart against an API server that lags behind.
#[derive(Clone, Debug)]
struct Stale {
    life: u32,
    resource: String,
    missing: u32,
    seconds: u32,
}

/// An annotation that a third-party write added.
#[derive(Clone, Debug)]
struct ThirdParty {
    key: (String, String, String),
    uid: String,
}

/// The fate of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Proceed,
    /// The operator has crashed, or is over its budget: no answer is sent.
    Never,
    Fault(Action),
}

/// A call that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) fate: Fate,
    pub(crate) signature: Signature,
    pub(crate) occurrence: u32,
    pub(crate) latency: Duration,
}

/// The fate of a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Pass,
    Cut,
    Expire,
    Hold { delay: Duration, skip: bool },
}

/// The results of a run, apart from those of its end.
pub(crate) struct Outcome {
    pub(crate) trace: Trace,
    pub(crate) names: Names,
    pub(crate) fired: usize,
    pub(crate) overran: bool,
    pub(crate) lost: Vec<String>,
    pub(crate) violations: Vec<(String, String)>,
    pub(crate) objects: Objects,
}

// === impl Session ===

impl Session {
    /// Begins a run on a server. All commits from now on are recorded.
    pub(crate) fn new(
        server: ApiServer,
        plan: Plan,
        predicates: Arc<Vec<Predicate>>,
        call_limit: usize,
        waits_for_calls: bool,
    ) -> Self {
        let client = server.client();
        let (revision, residents) = client.snapshot();
        let mut names = Names::default();
        let mut objects = Objects::new();
        for (gvr, object) in residents {
            names.learn(&object);
            objects.insert(object_key(&gvr, &object), object);
        }
        let initial = objects
            .iter()
            .map(|(key, object)| (key.clone(), version(object).to_owned()))
            .collect();
        let now = Instant::now();
        let inner = Inner {
            plan,
            fired: BTreeSet::new(),
            life: 0,
            is_alive: false,
            crash_at_next_call: false,
            calls: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            commits: client.watch(revision),
            revisions: BTreeMap::new(),
            trace: Trace::default(),
            names,
            objects,
            initial,
            held: 0,
            stale: None,
            call_count: 0,
            call_limit,
            last_change: now,
            last_call: None,
            third_party: Vec::new(),
            violations: Vec::new(),
            reached: BTreeSet::new(),
        };
        Self {
            server,
            inner: Mutex::new(inner),
            crash: Notify::new(),
            started: now,
            predicates,
            waits_for_calls,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the trace.
    pub(crate) fn record(&self, event: Event) {
        let at = self.started.elapsed();
        self.inner().trace.push(at, event);
    }

    /// Begins the next life of the operator and returns its number.
    pub(crate) fn begin_life(&self) -> u32 {
        let life = {
            let mut inner = self.inner();
            inner.life += 1;
            inner.is_alive = true;
            inner.crash_at_next_call = false;
            inner.last_call = None;
            inner.life
        };
        self.record(Event::Start { life });
        life
    }

    /// Ends the life of the operator: its requests are not answered any more.
    pub(crate) fn end_life(&self) {
        self.inner().is_alive = false;
    }

    /// Crashes the operator now.
    pub(crate) fn crash(&self) {
        let was_alive = std::mem::replace(&mut self.inner().is_alive, false);
        if was_alive {
            self.record(Event::Crash);
            self.crash.notify_one();
        }
    }

    /// Waits until the operator crashes.
    pub(crate) async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// Returns true if the operator lives its life with this number.
    pub(crate) fn is_alive(&self, life: u32) -> bool {
        let inner = self.inner();
        inner.is_alive && inner.life == life
    }

    /// Begins a call: counts it, and finds the fault at it.
    pub(crate) fn begin(&self, life: u32, call: &Call) -> Begun {
        self.drain(Actor::Cluster, None);
        let signature = call.signature();
        let mut inner = self.inner();
        let mut begun = Begun {
            fate: Fate::Never,
            signature: signature.clone(),
            occurrence: 0,
            latency: Duration::ZERO,
        };
        if !inner.is_alive || inner.life != life {
            return begun;
        }
        if inner.crash_at_next_call {
            drop(inner);
            self.crash();
            return begun;
        }
        inner.call_count += 1;
        if !state::is_derived(signature.resource()) {
            inner.last_call = Some(Instant::now());
        }
        if inner.call_count > inner.call_limit {
            return begun;
        }
        let count = inner.calls.entry(signature.clone()).or_default();
        *count += 1;
        begun.occurrence = *count;
        begun.latency = inner.latency(&signature, begun.occurrence);
        let at = Point::Call {
            call: signature.clone(),
            occurrence: begun.occurrence,
        };
        begun.fate = match inner.take_fault(|point| *point == at && signature.verb() != "watch") {
            Some(action) => Fate::Fault(action),
            None => Fate::Proceed,
        };
        drop(inner);
        if let Fate::Fault(action) = &begun.fate {
            let fault = crate::plan::Fault {
                at,
                action: action.clone(),
            };
            self.record(Event::Fault {
                text: fault.to_string(),
            });
        }
        begun
    }

    /// Ends a call that reached the server, and records what it changed.
    pub(crate) fn finish(&self, call: &Call, begun: &Begun, code: u16) {
        let key = (
            qualified(&call.resource, &call.group),
            call.namespace.clone(),
            call.name.clone(),
        );
        let at = {
            let inner = self.inner();
            inner.trace.events.len()
        };
        let changed = self.drain(Actor::Operator, Some(&key));
        let event = Event::Call {
            signature: begun.signature.clone(),
            occurrence: begun.occurrence,
            code,
            effective: changed,
            accepts_any_version: call.accepts_any_version,
        };
        let elapsed = self.started.elapsed();
        // The call stands before the commits that it caused.
        self.inner().trace.events.insert(at, (elapsed, event));
    }

    /// Crashes the operator when it sends its next request, or after a moment.
    pub(crate) fn crash_soon(self: &Arc<Self>) {
        let life = {
            let mut inner = self.inner();
            inner.crash_at_next_call = true;
            inner.life
        };
        let session = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if session.is_alive(life) {
                session.crash();
            }
        });
    }

    /// Adds an annotation to the object of a call, as another client.
    pub(crate) async fn third_party_write(&self, call: &Call) {
        if call.name.is_empty() {
            return;
        }
        let gvr = Gvr::new(&call.group, &call.version, &call.resource);
        let client = self.server.client().with_manager("third-party");
        let value = format!("{}-{}", call.resource, self.inner().third_party.len() + 1);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {THIRD_PARTY: value}}}));
        let patched = client.patch(&gvr, &call.namespace, &call.name, None, patch).await;
        self.drain(Actor::ThirdParty, None);
        if let Ok(object) = patched {
            let key = object_key(&gvr, &object);
            let uid = text(&object, "/metadata/uid").to_owned();
            self.inner().third_party.push(ThirdParty { key, uid });
        }
    }

    /// Returns the fault of an event that a watch is about to deliver.
    pub(crate) fn deliver(&self, life: u32, signature: &Signature, event: String) -> Delivery {
        let mut inner = self.inner();
        let count = inner.deliveries.entry(signature.clone()).or_default();
        *count += 1;
        let occurrence = *count;
        let stale = inner.stale.as_ref().filter(|stale| {
            stale.life == life && signature.resource() == stale.resource && signature.verb() == "watch"
        });
        if let Some(seconds) = stale.map(|stale| stale.seconds) {
            inner.stale = None;
            return Delivery::Hold {
                delay: Duration::from_secs(seconds.into()),
                skip: false,
            };
        }
        let at = Point::Call {
            call: signature.clone(),
            occurrence,
        };
        let action = inner.take_fault(|point| *point == at);
        let latency = inner.latency(signature, occurrence);
        drop(inner);
        if let Some(action) = &action {
            let fault = crate::plan::Fault {
                at,
                action: action.clone(),
            };
            self.record(Event::Fault {
                text: fault.to_string(),
            });
        }
        match action {
            Some(Action::CutWatch) => Delivery::Cut,
            Some(Action::ExpireWatch) => Delivery::Expire,
            Some(Action::HoldWatch { seconds, skip }) => Delivery::Hold {
                delay: Duration::from_secs(seconds.into()),
                skip,
            },
            _ => {
                self.record(Event::Delivery {
                    signature: signature.clone(),
                    occurrence,
                    text: event,
                });
                match latency {
                    Duration::ZERO => Delivery::Pass,
                    delay => Delivery::Hold { delay, skip: false },
                }
            }
        }
    }

    /// Returns the past revision that a list gets after a restart against a server that lags behind.
    pub(crate) fn stale_revision(&self, life: u32, call: &Call) -> Option<u64> {
        let inner = self.inner();
        let stale = inner.stale.as_ref()?;
        let resource = qualified(&call.resource, &call.group);
        let fits = stale.life == life && stale.resource == resource && call.accepts_any_version;
        let revisions = inner.revisions.get(&resource).filter(|_| fits)?;
        let missing = usize::try_from(stale.missing).ok()?;
        let first_missing = revisions.len().checked_sub(missing)?;
        Some(revisions.get(first_missing)? - 1)
    }

    /// Carries out the faults at the end of a workload step. Returns true if there were any.
    pub(crate) fn end_of_step(&self, step: u32) -> bool {
        let at = Point::Step { step };
        let action = self.inner().take_fault(|point| *point == at);
        let Some(action) = action else { return false };
        let fault = crate::plan::Fault {
            at,
            action: action.clone(),
        };
        self.record(Event::Fault {
            text: fault.to_string(),
        });
        if let Action::RestartStale {
            resource,
            missing,
            seconds,
        } = action
        {
            let mut inner = self.inner();
            inner.stale = Some(Stale {
                life: inner.life + 1,
                resource,
                missing,
                seconds,
            });
        }
        self.crash();
        true
    }

    /// Counts a watch that is held back, or one that is not any more.
    pub(crate) fn hold(&self, held: bool) {
        let mut inner = self.inner();
        match held {
            true => inner.held += 1,
            false => inner.held = inner.held.saturating_sub(1),
        }
    }

    /// Returns the time since the last change that matters.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let since_change = inner.last_change.elapsed();
        if !self.waits_for_calls {
            return since_change;
        }
        // An operator that has not called yet still starts.
        let since_call = inner.last_call.filter(|_| inner.is_alive);
        since_call.map_or(Duration::ZERO, |at| at.elapsed().min(since_change))
    }

    /// Returns true if a watch is held back.
    pub(crate) fn holds_watches(&self) -> bool {
        self.inner().held > 0
    }

    /// Begins a period of rest now.
    pub(crate) fn touch(&self) {
        self.inner().last_change = Instant::now();
    }

    /// Returns true if the operator has used up its calls.
    pub(crate) fn overran(&self) -> bool {
        let inner = self.inner();
        inner.call_count > inner.call_limit
    }

    /// Returns the canonical form of a generated name, and reads a request.
    pub(crate) fn with_names<T>(&self, read: impl FnOnce(&Names) -> T) -> T {
        read(&self.inner().names)
    }

    /// Records the commits since the last time. Those of the object `key` are the actor's; other ones of a user or a third
    /// party too, and otherwise the cluster's. Returns true if there was one of the actor.
    pub(crate) fn drain(&self, actor: Actor, key: Option<&(String, String, String)>) -> bool {
        let elapsed = self.started.elapsed();
        let mut inner = self.inner();
        let mut any = false;
        let mut is_changed = false;
        while let Some(Some(commit)) = inner.commits.next().now_or_never() {
            is_changed = true;
            inner.names.learn(&commit.object);
            let id = object_key(&commit.gvr, &commit.object);
            let (resource, _, name) = &id;
            let is_of_actor = match key {
                None => actor != Actor::Cluster,
                Some((wanted, namespace, wanted_name)) => {
                    let generated = wanted_name.is_empty() && commit.kind == EventType::Added;
                    wanted == resource && *namespace == id.1 && (wanted_name == name || generated)
                }
            };
            let by = if is_of_actor { actor } else { Actor::Cluster };
            any |= is_of_actor;
            if !state::is_derived(resource) {
                inner.last_change = Instant::now();
            }
            inner
                .revisions
                .entry(resource.clone())
                .or_default()
                .push(commit.revision);
            let kind = match commit.kind {
                EventType::Added => Kind::Added,
                EventType::Modified => Kind::Modified,
                EventType::Deleted => Kind::Deleted,
            };
            let canonical = state::key_of(resource, &commit.object, &inner.names);
            let is_noise = matches!(
                resource.as_str(),
                "events" | "events.events.k8s.io" | "leases.coordination.k8s.io"
            );
            match kind {
                Kind::Deleted => inner.objects.remove(&id),
                _ => inner.objects.insert(id, commit.object.clone()),
            };
            if !is_noise {
                let event = Event::Commit {
                    actor: by,
                    kind,
                    key: canonical,
                    object: commit.object,
                    old: commit.old,
                };
                inner.trace.push(elapsed, event);
            }
        }
        if is_changed && !self.predicates.is_empty() {
            inner.check(&self.predicates);
        }
        any
    }

    /// Returns the normalized objects that matter and that were not there before the workload.
    pub(crate) fn state(&self) -> State {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let mut state = State::new();
        for (id, object) in &inner.objects {
            let is_initial = inner
                .initial
                .get(id)
                .is_some_and(|initial| initial == version(object));
            // An old ReplicaSet says how a Deployment came to its state.
            let is_retired =
                id.0 == "replicasets.apps" && object.pointer("/spec/replicas") == Some(&json!(0));
            if state::is_derived(&id.0) || is_initial || is_retired {
                continue;
            }
            let key = state::key_of(&id.0, object, &inner.names);
            let normalized = state::normalize(object, &inner.names);
            state.entry(key).or_default().push(normalized);
        }
        for objects in state.values_mut() {
            objects.sort_by_key(Value::to_string);
        }
        state
    }

    /// Returns the changes that the operator made after it was restarted at rest.
    pub(crate) fn writes_since_check(&self) -> Vec<String> {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let events = inner.trace.iter();
        let after = events.skip_while(|event| !matches!(event, Event::IdempotenceCheck));
        let own = after.filter(|event| {
            matches!(
                event,
                Event::Commit {
                    actor: Actor::Operator,
                    ..
                }
            )
        });
        own.filter_map(crate::trace::line)
            .map(|line| line.trim().to_owned())
            .collect()
    }

    /// Ends the run.
    pub(crate) fn outcome(&self) -> Outcome {
        self.drain(Actor::Cluster, None);
        let mut inner = self.inner();
        let lost = inner.lost_updates();
        inner.check_eventually(&self.predicates);
        Outcome {
            lost,
            overran: inner.call_count > inner.call_limit,
            fired: inner.fired.len(),
            violations: std::mem::take(&mut inner.violations),
            trace: std::mem::take(&mut inner.trace),
            names: std::mem::take(&mut inner.names),
            objects: std::mem::take(&mut inner.objects),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Takes the first fault of the plan that is at this position and has not been injected.
    fn take_fault(&mut self, is_here: impl Fn(&Point) -> bool) -> Option<Action> {
        let mut faults = self.plan.faults.iter().enumerate();
        let (index, fault) =
            faults.find(|(index, fault)| !self.fired.contains(index) && is_here(&fault.at))?;
        self.fired.insert(index);
        Some(fault.action.clone())
    }

    /// Returns the delay of a request or a watch event under the plan.
    fn latency(&self, signature: &Signature, occurrence: u32) -> Duration {
        let Some(limit) = self.plan.latency_ms else {
            return Duration::ZERO;
        };
        // FNV-1a: the same on every machine.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.plan.seed;
        let bytes = signature.as_str().bytes().chain(occurrence.to_le_bytes());
        for byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash ^= hash >> 29;
        Duration::from_millis(hash % (limit + 1))
    }

    fn lost_updates(&self) -> Vec<String> {
        let is_lost = |write: &&ThirdParty| {
            let Some(object) = self.objects.get(&write.key) else {
                return false;
            };
            let found = object
                .pointer("/metadata/annotations")
                .and_then(|all| all.get(THIRD_PARTY));
            let is_same = text(object, "/metadata/uid") == write.uid;
            is_same && found.is_none()
        };
        let lost = self.third_party.iter().filter(is_lost);
        lost.map(|write| {
            let object = self.objects.get(&write.key);
            object.map_or_else(String::new, |object| {
                state::key_of(&write.key.0, object, &self.names)
            })
        })
        .collect()
    }

    fn check(&mut self, predicates: &[Predicate]) {
        let cluster = Cluster::new(&self.objects);
        for (index, predicate) in predicates.iter().enumerate() {
            let holds = predicate.holds(&cluster);
            let message = match (predicate.when, holds) {
                (When::Always, false) => "it does not hold in every state",
                (When::Never, true) => "it holds in a state",
                (When::Eventually, true) => {
                    self.reached.insert(index);
                    continue;
                }
                _ => continue,
            };
            if !self.violations.iter().any(|(name, _)| *name == predicate.name) {
                self.violations.push((predicate.name.clone(), message.to_owned()));
            }
        }
    }

    fn check_eventually(&mut self, predicates: &[Predicate]) {
        for (index, predicate) in predicates.iter().enumerate() {
            if predicate.when == When::Eventually && !self.reached.contains(&index) {
                let message = "it holds in no state".to_owned();
                self.violations.push((predicate.name.clone(), message));
            }
        }
    }
}

fn object_key(gvr: &Gvr, object: &Value) -> (String, String, String) {
    (
        qualified(&gvr.resource, &gvr.group),
        text(object, "/metadata/namespace").to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
