//! [`Inner`], the data of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::FutureExt;
use operator_apiserver::ApiServer;
use operator_apiserver::client::{EventType, Gvr, Watch};
use serde_json::Value;
use tokio::time::Instant;

use super::{Counts, Expired, ObjectKey, Objects};
use crate::call::{Call, Names, Signature, qualified};
use crate::plan::{Action, Cause, Plan, Point};
use crate::predicate::{Cluster, Predicate, When};
use crate::state::{self, THIRD_PARTY};
use crate::trace::Trace;

/// The number of priorities of a schedule.
const PRIORITIES: u64 = 8;
/// The delay per priority, in milliseconds.
const QUANTUM: u64 = 60;

/// The records of a run. A run that continues another one begins with its history.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The revision of the last recorded commit.
    revision: u64,
    /// The number of the operator's newest life.
    life: u32,
    version: String,
    calls: Counts,
    call_count: usize,
    deliveries: Counts,
    bookmarks: Counts,
    revisions: BTreeMap<String, Vec<u64>>,
    trace: Trace,
    names: Names,
    objects: Objects,
    written: BTreeSet<ObjectKey>,
    hashes: BTreeMap<ObjectKey, u64>,
    world: u64,
    reached: BTreeSet<usize>,
    /// The simulated time since the beginning of the run.
    pub(crate) elapsed: Duration,
}

pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) fired: BTreeSet<usize>,
    /// The number of the operator's newest life, from 1.
    pub(super) life: u32,
    /// The lives whose requests get responses: the newest one, and possibly one that has lost its lease.
    pub(super) alive: BTreeSet<u32>,
    /// The newest life at the time of the last fault.
    pub(super) life_at_fault: u32,
    /// The version of the operator that starts next. Empty for the first version.
    pub(super) version: String,
    pub(super) crash_at_next_call: bool,
    pub(super) calls: Counts,
    pub(super) deliveries: Counts,
    pub(super) bookmarks: Counts,
    pub(super) expired: Expired,
    pub(super) outages: Vec<Outage>,
    /// The lives that cannot reach their lease, and the time at which this ends.
    pub(super) cut_off: BTreeMap<u32, Instant>,
    /// The life that wrote the lease last and therefore holds it.
    leader: Option<u32>,
    pub(super) leadership: Vec<(String, String)>,
    pub(super) commits: Watch,
    /// The revision of the last commit that was recorded.
    pub(super) revision: u64,
    /// The revisions of the changes of each resource.
    pub(super) revisions: BTreeMap<String, Vec<u64>>,
    pub(super) trace: Trace,
    pub(super) names: Names,
    pub(super) objects: Objects,
    /// The objects that were written in the run and exist.
    pub(super) written: BTreeSet<ObjectKey>,
    /// The hashes of the objects that were written, and their sum: a hash of the state of the cluster.
    hashes: BTreeMap<ObjectKey, u64>,
    pub(super) world: u64,
    /// The states of the cluster, in the order in which they were reached.
    pub(super) coverage: Vec<u64>,
    /// The number of faults with a duration that have not ended.
    pub(super) held: usize,
    pub(super) stale: Option<Stale>,
    pub(super) call_count: usize,
    pub(super) call_limit: usize,
    pub(super) last_change: Instant,
    /// The time of the last call of the current life.
    pub(super) last_call: Option<Instant>,
    pub(super) third_party: Vec<ThirdParty>,
    pub(super) violations: Vec<(String, String)>,
    reached: BTreeSet<usize>,
    /// The number of requests and watch events that a schedule has delayed.
    scheduled: u32,
    /// The calls and watches whose priority was lowered.
    demoted: BTreeMap<Signature, u64>,
}

/// A restart with a stale API server.
#[derive(Clone, Debug)]
pub(super) struct Stale {
    pub(super) life: u32,
    pub(super) resource: String,
    pub(super) missing: u32,
    pub(super) seconds: u32,
}

/// Requests that fail for some time.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    cause: Cause,
    verb: String,
    resource: String,
    pub(super) until: Instant,
}

/// An annotation that a third-party write added.
#[derive(Clone, Debug)]
pub(super) struct ThirdParty {
    pub(super) key: (String, String, String),
    pub(super) uid: String,
}

impl Outage {
    pub(super) fn new(cause: Cause, call: &Call, seconds: u32) -> Self {
        Self {
            cause,
            verb: call.verb.clone(),
            resource: qualified(&call.resource, &call.group),
            until: Instant::now() + Duration::from_secs(seconds.into()),
        }
    }

    fn refuses(&self, call: &Call) -> bool {
        let is_of_resource = self.resource == qualified(&call.resource, &call.group);
        match self.cause {
            Cause::Server => true,
            Cause::Permission => is_of_resource && self.verb == call.verb,
            Cause::Webhook => is_of_resource && call.signature().is_write(),
        }
    }
}

// === impl History ===

impl History {
    /// Returns the history of a run that begins with the objects of a server.
    pub(crate) fn of(server: &ApiServer) -> Self {
        let (revision, residents) = server.client().snapshot();
        let mut history = Self {
            revision,
            ..Self::default()
        };
        for (gvr, object) in residents {
            history.names.learn(&object);
            history.objects.insert(object_key(&gvr, &object), object);
        }
        history
    }
}

// === impl Inner ===

impl Inner {
    /// Continues a history on a server that has its objects.
    pub(super) fn new(server: &ApiServer, plan: Plan, call_limit: usize, history: &History) -> Self {
        let History {
            revision,
            life,
            version,
            calls,
            call_count,
            deliveries,
            bookmarks,
            revisions,
            trace,
            names,
            objects,
            written,
            hashes,
            world,
            reached,
            elapsed: _,
        } = history.clone();
        let mut inner = Self {
            plan,
            fired: BTreeSet::new(),
            life,
            alive: BTreeSet::new(),
            life_at_fault: 0,
            version,
            crash_at_next_call: false,
            calls,
            deliveries,
            bookmarks,
            expired: BTreeSet::new(),
            outages: Vec::new(),
            cut_off: BTreeMap::new(),
            leader: None,
            leadership: Vec::new(),
            commits: server.client().watch(revision),
            revision,
            revisions,
            trace,
            names,
            objects,
            written,
            hashes,
            world,
            coverage: Vec::new(),
            held: 0,
            stale: None,
            call_count,
            call_limit,
            last_change: Instant::now(),
            last_call: None,
            third_party: Vec::new(),
            violations: Vec::new(),
            reached,
            scheduled: 0,
            demoted: BTreeMap::new(),
        };
        // The changes of the controllers when they started.
        while let Some(Some(commit)) = inner.commits.next().now_or_never() {
            let key = object_key(&commit.gvr, &commit.object);
            inner.names.learn(&commit.object);
            inner.revision = commit.revision;
            match commit.kind {
                EventType::Deleted => inner.objects.remove(&key),
                _ => inner.objects.insert(key, commit.object),
            };
        }
        inner
    }

    /// Returns the history of the run so far.
    pub(super) fn history(&self, elapsed: Duration) -> History {
        History {
            revision: self.revision,
            life: self.life,
            version: self.version.clone(),
            calls: self.calls.clone(),
            call_count: self.call_count,
            deliveries: self.deliveries.clone(),
            bookmarks: self.bookmarks.clone(),
            revisions: self.revisions.clone(),
            trace: self.trace.clone(),
            names: self.names.clone(),
            objects: self.objects.clone(),
            written: self.written.clone(),
            hashes: self.hashes.clone(),
            world: self.world,
            reached: self.reached.clone(),
            elapsed,
        }
    }

    /// Removes and returns the first fault of the plan at this position that has not been injected.
    pub(super) fn take_fault(&mut self, is_here: impl Fn(&Point) -> bool) -> Option<Action> {
        let mut faults = self.plan.faults.iter().enumerate();
        let (index, fault) =
            faults.find(|(index, fault)| !self.fired.contains(index) && is_here(&fault.at))?;
        self.fired.insert(index);
        self.life_at_fault = self.life;
        Some(fault.action.clone())
    }

    /// Returns the cause if a call must fail.
    pub(super) fn refuses(&self, life: u32, call: &Call) -> Option<Cause> {
        let now = Instant::now();
        let is_cut_off = self.cut_off.get(&life).is_some_and(|until| *until > now);
        if is_cut_off && call.resource == "leases" {
            return Some(Cause::Server);
        }
        let mut outages = self.outages.iter();
        let outage = outages.find(|outage| outage.until > now && outage.refuses(call));
        outage.map(|outage| outage.cause)
    }

    /// Records the instance that holds the lease after it was written.
    pub(super) fn note_leader(&mut self, life: u32, key: &(String, String, String)) {
        let lease = self.objects.get(key);
        let holder = lease.map_or("", |lease| text(lease, "/spec/holderIdentity"));
        self.leader = (!holder.is_empty()).then_some(life);
    }

    /// Records a write of an instance while another instance holds the lease.
    pub(super) fn check_leadership(&mut self, life: u32, signature: &Signature) {
        let other = self
            .leader
            .filter(|leader| *leader != life && self.alive.contains(leader));
        let (Some(leader), true) = (other, signature.is_write()) else {
            return;
        };
        if matches!(
            signature.resource(),
            "events" | "events.events.k8s.io" | "leases.coordination.k8s.io"
        ) {
            return;
        }
        let message = format!("instance {life} sends `{signature}` while instance {leader} holds the lease");
        self.leadership.push((signature.to_string(), message));
    }

    /// Records the new hash of an object, and the resulting state of the cluster.
    pub(super) fn cover(&mut self, id: &ObjectKey, hash: Option<u64>) {
        let old = match hash {
            Some(hash) => self.hashes.insert(id.clone(), hash),
            None => self.hashes.remove(id),
        };
        // A sum, because several objects can have the same hash.
        self.world = self
            .world
            .wrapping_sub(old.unwrap_or(0))
            .wrapping_add(hash.unwrap_or(0));
        self.coverage.push(self.world);
    }

    /// Returns the delay of a request or a watch event in the schedule of the plan.
    pub(super) fn latency(&mut self, signature: &Signature) -> Duration {
        let Some(schedule) = &self.plan.schedule else {
            return Duration::ZERO;
        };
        self.scheduled += 1;
        if schedule.change_points.contains(&self.scheduled) {
            let lowest = PRIORITIES + u64::try_from(self.demoted.len()).unwrap_or(0);
            self.demoted.insert(signature.clone(), lowest);
        }
        let level = self.demoted.get(signature).copied().unwrap_or_else(|| {
            // This hash is the same on every machine.
            let mut hasher = DefaultHasher::new();
            (self.plan.seed, signature.as_str()).hash(&mut hasher);
            hasher.finish() % PRIORITIES
        });
        Duration::from_millis(level * QUANTUM)
    }

    pub(super) fn lost_updates(&self) -> Vec<String> {
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

    pub(super) fn check(&mut self, predicates: &[Predicate]) {
        let cluster = Cluster::new(&self.objects);
        for (index, predicate) in predicates.iter().enumerate() {
            let holds = predicate.holds(&cluster);
            let message = match (predicate.when, holds) {
                (When::Always, Ok(false)) => "it does not hold in every state".to_owned(),
                (When::Never, Ok(true)) => "it holds in a state".to_owned(),
                (When::Eventually, Ok(true)) => {
                    self.reached.insert(index);
                    continue;
                }
                (When::Always | When::Never, Err(problem)) => problem,
                _ => continue,
            };
            if !self.violations.iter().any(|(name, _)| *name == predicate.name) {
                self.violations.push((predicate.name.clone(), message));
            }
        }
    }

    pub(super) fn check_eventually(&mut self, predicates: &[Predicate]) {
        for (index, predicate) in predicates.iter().enumerate() {
            if predicate.when == When::Eventually && !self.reached.contains(&index) {
                let message = "it holds in no state".to_owned();
                self.violations.push((predicate.name.clone(), message));
            }
        }
    }
}

pub(super) fn object_key(gvr: &Gvr, object: &Value) -> ObjectKey {
    (
        qualified(&gvr.resource, &gvr.group),
        text(object, "/metadata/namespace").to_owned(),
        text(object, "/metadata/name").to_owned(),
    )
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
