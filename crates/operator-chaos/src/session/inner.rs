//! [`Inner`], the data of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::object;
use futures::FutureExt;
use operator_apiserver::ApiServer;
use operator_apiserver::client::{Event as Commit, EventType, Gvr, Watch};
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

/// The records of a run, with which another run can continue it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The revision of the last recorded commit.
    pub(super) revision: u64,
    /// The number of the operator's newest life, from 1.
    pub(super) life: u32,
    /// The version of the operator that starts next. Empty for the first version.
    pub(super) version: String,
    pub(super) calls: Counts,
    pub(super) call_count: usize,
    pub(super) deliveries: Counts,
    pub(super) bookmarks: Counts,
    /// The revisions of the changes of each resource.
    pub(super) revisions: BTreeMap<String, Vec<u64>>,
    pub(super) trace: Trace,
    pub(super) names: Names,
    pub(super) objects: Objects,
    /// The hashes of the relevant objects that were written in the run and exist, and their sum: a hash of the state of the
    /// cluster.
    pub(super) hashes: BTreeMap<ObjectKey, u64>,
    pub(super) world: u64,
    /// The predicates of the kind `eventually` that have held.
    reached: BTreeSet<usize>,
    /// The simulated time until then.
    pub(crate) elapsed: Duration,
}

pub(super) struct Inner {
    pub(super) plan: Plan,
    pub(super) history: History,
    pub(super) fired: BTreeSet<usize>,
    /// The lives whose requests get responses: the newest one, and possibly one that has lost its lease.
    pub(super) alive: BTreeSet<u32>,
    /// The newest life at the time of the last fault.
    pub(super) life_at_fault: u32,
    pub(super) crash_at_next_call: bool,
    pub(super) expired: Expired,
    pub(super) outages: Vec<Outage>,
    /// The lives that cannot reach their lease, and the time at which this ends.
    pub(super) cut_off: BTreeMap<u32, Instant>,
    /// The life that wrote the lease last and therefore holds it.
    leader: Option<u32>,
    pub(super) leadership: Vec<(String, String)>,
    pub(super) commits: Watch,
    /// The states of the cluster, in the order in which they were reached.
    pub(super) coverage: Vec<u64>,
    /// The number of faults with a duration that have not ended.
    pub(super) held: usize,
    pub(super) stale: Option<Stale>,
    pub(super) call_limit: usize,
    pub(super) last_change: Instant,
    /// The time of the last call of the current life.
    pub(super) last_call: Option<Instant>,
    pub(super) third_party: Vec<ThirdParty>,
    pub(super) violations: Vec<(String, String)>,
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

    /// Updates the objects with a commit.
    pub(super) fn take(&mut self, key: &ObjectKey, commit: &Commit) {
        self.revision = commit.revision;
        self.names.learn(&commit.object);
        match commit.kind {
            EventType::Deleted => self.objects.remove(key),
            _ => self.objects.insert(key.clone(), commit.object.clone()),
        };
    }
}

// === impl Inner ===

impl Inner {
    /// Continues a history on a server that has its objects.
    pub(super) fn new(server: &ApiServer, plan: Plan, call_limit: usize, mut history: History) -> Self {
        let mut commits = server.client().watch(history.revision);
        // The changes of the controllers when they started.
        while let Some(Some(commit)) = commits.next().now_or_never() {
            history.take(&object_key(&commit.gvr, &commit.object), &commit);
        }
        Self {
            plan,
            history,
            fired: BTreeSet::new(),
            alive: BTreeSet::new(),
            life_at_fault: 0,
            crash_at_next_call: false,
            expired: BTreeSet::new(),
            outages: Vec::new(),
            cut_off: BTreeMap::new(),
            leader: None,
            leadership: Vec::new(),
            commits,
            coverage: Vec::new(),
            held: 0,
            stale: None,
            call_limit,
            last_change: Instant::now(),
            last_call: None,
            third_party: Vec::new(),
            violations: Vec::new(),
            scheduled: 0,
            demoted: BTreeMap::new(),
        }
    }

    /// Removes and returns the first fault of the plan at this position that has not been injected.
    pub(super) fn take_fault(&mut self, is_here: impl Fn(&Point) -> bool) -> Option<Action> {
        let mut faults = self.plan.faults.iter().enumerate();
        let (index, fault) =
            faults.find(|(index, fault)| !self.fired.contains(index) && is_here(&fault.at))?;
        self.fired.insert(index);
        self.life_at_fault = self.history.life;
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
        let lease = self.history.objects.get(key);
        let holder = lease.map_or("", |lease| object::text(lease, &["spec", "holderIdentity"]));
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
            Some(hash) => self.history.hashes.insert(id.clone(), hash),
            None => self.history.hashes.remove(id),
        };
        // A sum, because several objects can have the same hash.
        self.history.world = self
            .history
            .world
            .wrapping_sub(old.unwrap_or(0))
            .wrapping_add(hash.unwrap_or(0));
        self.coverage.push(self.history.world);
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
        let level = self
            .demoted
            .get(signature)
            .copied()
            .unwrap_or_else(|| state::hash_of(&(self.plan.seed, signature.as_str())) % PRIORITIES);
        Duration::from_millis(level * QUANTUM)
    }

    pub(super) fn lost_updates(&self) -> Vec<String> {
        let is_lost = |write: &&ThirdParty| {
            let Some(object) = self.history.objects.get(&write.key) else {
                return false;
            };
            let found = object::meta(object, "annotations").and_then(|all| all.get(THIRD_PARTY));
            let is_same = object::uid(object) == write.uid;
            is_same && found.is_none()
        };
        let lost = self.third_party.iter().filter(is_lost);
        lost.map(|write| {
            let object = self.history.objects.get(&write.key);
            object.map_or_else(String::new, |object| {
                state::key_of(&write.key.0, object, &self.history.names)
            })
        })
        .collect()
    }

    pub(super) fn check(&mut self, predicates: &[Predicate]) {
        let cluster = Cluster::new(&self.history.objects);
        for (index, predicate) in predicates.iter().enumerate() {
            let holds = predicate.holds(&cluster);
            let message = match (predicate.when, holds) {
                (When::Always, Ok(false)) => "it does not hold in every state".to_owned(),
                (When::Never, Ok(true)) => "it holds in a state".to_owned(),
                (When::Eventually, Ok(true)) => {
                    self.history.reached.insert(index);
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
            if predicate.when == When::Eventually && !self.history.reached.contains(&index) {
                let message = "it holds in no state".to_owned();
                self.violations.push((predicate.name.clone(), message));
            }
        }
    }
}

pub(super) fn object_key(gvr: &Gvr, value: &Value) -> ObjectKey {
    (
        qualified(&gvr.resource, &gvr.group),
        object::namespace(value).to_owned(),
        object::name(value).to_owned(),
    )
}
