//! [`Session`], the state of one run that the transport and the driver share: the remaining faults, the counted calls,
//! and the trace.

mod inner;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use operator_apiserver::ApiServer;
use operator_apiserver::client::{DeleteOptions, Gvr, Patch};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::inner::History;
use self::inner::{Inner, Outage, Stale, ThirdParty};
use crate::call::{Call, Names, Signature, qualified};
use crate::plan::{Action, Cause, Fault, Plan, Point};
use crate::predicate::Predicate;
use crate::state::{self, THIRD_PARTY};
use crate::trace::{Actor, Event, Trace};

/// The objects of a cluster, by resource, namespace and name.
pub(crate) type Objects = BTreeMap<ObjectKey, Arc<Value>>;
/// The resource, the namespace and the name of an object.
pub(crate) type ObjectKey = (String, String, String);

/// A run in progress.
pub(crate) struct Session {
    pub(crate) server: ApiServer,
    inner: Mutex<Inner>,
    crash: Notify,
    overlap: Notify,
    started: Instant,
    /// The simulated time of the run before this session.
    earlier: Duration,
    predicates: Arc<Vec<Predicate>>,
    /// True if time passes while the operator works: the idle time then also begins after its calls.
    waits_for_calls: bool,
}

/// The handling of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Proceed,
    /// The operator has crashed, or has used up its requests: no response is sent.
    Never,
    Fault(Action),
    /// The request fails because of an outage.
    Refused(Cause),
}

/// A call in progress.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) fate: Fate,
    pub(crate) life: u32,
    pub(crate) signature: Signature,
    pub(crate) occurrence: u32,
    pub(crate) latency: Duration,
}

/// The handling of a line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Pass,
    Omit,
    Cut,
    Expire,
    Hold { delay: Duration, skip: bool },
}

/// The facts on which the rest of a run depends when the cluster is idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// The hash of the state of the cluster, and of the faults that continue.
    pub(crate) state: u64,
    /// True if the operator has started since the last fault, so that nothing depends on its memory.
    pub(crate) is_restarted: bool,
    /// The number of faults that have been injected.
    pub(crate) injected: usize,
    /// The number of faults that have not been injected.
    pub(crate) open: usize,
}

/// The results of a run, except for those of its end.
pub(crate) struct Outcome {
    pub(crate) trace: Trace,
    pub(crate) names: Names,
    pub(crate) fired: usize,
    pub(crate) overran: bool,
    pub(crate) lost: Vec<String>,
    pub(crate) violations: Vec<(String, String)>,
    pub(crate) leadership: Vec<(String, String)>,
    pub(crate) objects: Objects,
    pub(crate) coverage: Vec<u64>,
}

// === impl Session ===

impl Session {
    /// Starts a run on a server with the objects of a history, or continues the run of this history. All commits from now
    /// on are recorded.
    pub(crate) fn new(
        server: ApiServer,
        plan: Plan,
        history: &History,
        predicates: Arc<Vec<Predicate>>,
        call_limit: usize,
        waits_for_calls: bool,
    ) -> Self {
        let inner = Inner::new(&server, plan, call_limit, history.clone());
        Self {
            server,
            inner: Mutex::new(inner),
            crash: Notify::new(),
            overlap: Notify::new(),
            started: Instant::now(),
            earlier: history.elapsed,
            predicates,
            waits_for_calls,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the history of the run so far.
    pub(crate) fn history(&self) -> History {
        self.drain(Actor::Cluster, None);
        let mut history = self.inner().history.clone();
        history.elapsed = self.elapsed();
        history
    }

    /// Returns the simulated time since the beginning of the run.
    fn elapsed(&self) -> Duration {
        self.earlier + self.started.elapsed()
    }

    /// Records the restart with which this run begins: the operator of its history ends.
    pub(crate) fn begin_with_restart(&self, step: u32) {
        if self.fault_of_step(step).is_some() {
            self.record(Event::Crash);
        }
    }

    /// Adds an event to the trace.
    pub(crate) fn record(&self, event: Event) {
        let at = self.elapsed();
        self.inner().history.trace.push(at, event);
    }

    /// Starts the next life of the operator and returns its number.
    pub(crate) fn begin_life(&self) -> u32 {
        let life = {
            let mut inner = self.inner();
            inner.history.life += 1;
            let life = inner.history.life;
            inner.alive.insert(life);
            inner.crash_at_next_call = false;
            inner.last_call = None;
            life
        };
        self.record(Event::Start { life });
        life
    }

    /// Ends a life of the operator: its requests get no more responses.
    pub(crate) fn end_life(&self, life: u32) {
        self.inner().alive.remove(&life);
    }

    /// Ends the run: requests get no more responses.
    pub(crate) fn end(&self) {
        self.inner().alive.clear();
    }

    /// Crashes the newest instance of the operator immediately.
    pub(crate) fn crash(&self) {
        let life = self.inner().history.life;
        self.crash_life(life);
    }

    /// Crashes an instance of the operator immediately.
    pub(crate) fn crash_life(&self, life: u32) {
        let (was_alive, is_newest) = {
            let mut inner = self.inner();
            (inner.alive.remove(&life), inner.history.life == life)
        };
        if was_alive {
            self.record(Event::Crash);
            if is_newest {
                self.crash.notify_one();
            }
        }
    }

    /// Waits until the operator crashes.
    pub(crate) async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// Returns true if the life of the operator with this number has not ended.
    pub(crate) fn is_alive(&self, life: u32) -> bool {
        self.inner().alive.contains(&life)
    }

    /// Sets the version of the operator that starts next.
    pub(crate) fn set_version(&self, version: String) {
        self.inner().history.version = version;
    }

    /// Returns the version of the operator that starts next.
    pub(crate) fn version(&self) -> String {
        self.inner().history.version.clone()
    }

    /// Starts a second instance while the first one cannot reach its lease.
    pub(crate) fn lose_lease(&self, time: Duration) {
        {
            let mut inner = self.inner();
            let life = inner.history.life;
            inner.cut_off.insert(life, Instant::now() + time);
        }
        self.overlap.notify_one();
    }

    /// Waits until a second instance must start. Returns the time at which the first one ends.
    pub(crate) async fn overlaps(&self) -> Instant {
        self.overlap.notified().await;
        let inner = self.inner();
        let end = inner.cut_off.get(&inner.history.life).copied();
        end.unwrap_or_else(Instant::now)
    }

    /// Starts a call: counts it, and returns the fault at it.
    pub(crate) fn begin(&self, life: u32, call: &Call) -> Begun {
        self.drain(Actor::Cluster, None);
        let signature = call.signature();
        let mut inner = self.inner();
        let mut begun = Begun {
            fate: Fate::Never,
            life,
            signature: signature.clone(),
            occurrence: 0,
            latency: Duration::ZERO,
        };
        if !inner.alive.contains(&life) {
            return begun;
        }
        if inner.crash_at_next_call && inner.history.life == life {
            drop(inner);
            self.crash_life(life);
            return begun;
        }
        inner.history.call_count += 1;
        if !state::is_derived(signature.resource()) {
            inner.last_call = Some(Instant::now());
        }
        if inner.history.call_count > inner.call_limit {
            return begun;
        }
        inner.check_leadership(life, &signature);
        let count = inner.history.calls.entry(signature.clone()).or_default();
        *count += 1;
        begun.occurrence = *count;
        begun.latency = inner.latency(&signature);
        let at = Point::Call {
            call: signature.clone(),
            occurrence: begun.occurrence,
        };
        let fault = inner.take_fault(|point| *point == at && signature.verb() != "watch");
        let text = fault.as_ref().map(|action| text_of(&at, action));
        begun.fate = match fault {
            Some(Action::Outage { cause, seconds }) => {
                inner.outages.push(Outage::new(cause, call, seconds));
                Fate::Refused(cause)
            }
            Some(action) => Fate::Fault(action),
            None => match inner.refuses(life, call) {
                Some(cause) => Fate::Refused(cause),
                None => Fate::Proceed,
            },
        };
        drop(inner);
        if let Some(text) = text {
            self.record(Event::Fault { text });
        }
        begun
    }

    /// Ends a call, and records its changes. `refusal` is the response of a fault instead of that of the server.
    pub(crate) fn finish(&self, call: &Call, begun: &Begun, code: u16, is_refused: bool) {
        let key = (
            qualified(&call.resource, &call.group),
            call.namespace.clone(),
            call.name.clone(),
        );
        let at = self.inner().history.trace.events.len();
        let changed = if begun.signature.is_write() && !is_refused {
            self.drain(Actor::Operator, Some(&key))
        } else {
            self.drain(Actor::Cluster, None)
        };
        let event = Event::Call {
            signature: begun.signature.clone(),
            occurrence: begun.occurrence,
            code,
            effective: changed,
            accepts_any_version: call.accepts_any_version,
            is_refused,
        };
        let elapsed = self.elapsed();
        let mut inner = self.inner();
        // The call precedes the commits that it caused.
        inner.history.trace.events.insert(at, (elapsed, event));
        if changed && call.resource == "leases" {
            inner.note_leader(begun.life, &key);
        }
    }

    /// Crashes an instance of the operator at its next request, or after a short time.
    pub(crate) fn crash_soon(self: &Arc<Self>, life: u32) {
        self.inner().crash_at_next_call = true;
        let session = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            session.crash_life(life);
        });
    }

    /// Adds an annotation to the object of a call, like another client.
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
            let key = inner::object_key(&gvr, &object);
            let uid = apimachinery::object::uid(&object).to_owned();
            self.inner().third_party.push(ThirdParty { key, uid });
        }
    }

    /// Deletes the object of a call, like a user.
    pub(crate) async fn third_party_delete(&self, call: &Call) {
        let gvr = Gvr::new(&call.group, &call.version, &call.resource);
        let client = self.server.client().with_manager("third-party");
        // The fault has the same effect if the object is already gone.
        let _gone = client
            .delete(&gvr, &call.namespace, &call.name, DeleteOptions::default())
            .await;
        self.drain(Actor::ThirdParty, None);
    }

    /// Returns the fault of an event that a watch is about to deliver.
    pub(crate) fn deliver(&self, life: u32, signature: &Signature, event: String) -> Delivery {
        let mut inner = self.inner();
        let count = inner.history.deliveries.entry(signature.clone()).or_default();
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
        let latency = inner.latency(signature);
        drop(inner);
        if let Some(action) = &action {
            self.record(Event::Fault {
                text: text_of(&at, action),
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

    /// Returns the fault of a bookmark that a watch is about to deliver.
    pub(crate) fn deliver_bookmark(&self, signature: &Signature, ends_initial: bool) -> Delivery {
        let mut inner = self.inner();
        let count = inner.history.bookmarks.entry(signature.clone()).or_default();
        *count += 1;
        let occurrence = *count;
        let at = Point::Bookmark {
            bookmark: signature.clone(),
            occurrence,
        };
        let action = inner.take_fault(|point| *point == at);
        drop(inner);
        match &action {
            Some(action) => self.record(Event::Fault {
                text: text_of(&at, action),
            }),
            None => self.record(Event::Bookmark {
                signature: signature.clone(),
                occurrence,
                ends_initial,
            }),
        }
        match action {
            // The bookmark that ends the initial events must arrive.
            Some(Action::DropBookmark) if !ends_initial => Delivery::Omit,
            Some(Action::HoldBookmark { seconds }) => Delivery::Hold {
                delay: Duration::from_secs(seconds.into()),
                skip: false,
            },
            _ => Delivery::Pass,
        }
    }

    /// Makes the next watch of a client that continues from a version fail with 410.
    pub(crate) fn expire(&self, life: u32, signature: &Signature) {
        self.inner().expired.insert((life, signature.clone()));
    }

    /// Returns true if a watch must fail with 410.
    pub(crate) fn is_expired(&self, life: u32, signature: &Signature, continues: bool) -> bool {
        let was_expired = self.inner().expired.remove(&(life, signature.clone()));
        was_expired && continues
    }

    /// Returns the past revision for a list or a read after a restart with a stale API server.
    pub(crate) fn stale_revision(&self, life: u32, call: &Call) -> Option<u64> {
        let inner = self.inner();
        let stale = inner.stale.as_ref()?;
        let resource = qualified(&call.resource, &call.group);
        let fits = stale.life == life && stale.resource == resource && call.accepts_any_version;
        let revisions = inner.history.revisions.get(&resource).filter(|_| fits)?;
        let missing = usize::try_from(stale.missing).ok()?;
        let first_missing = revisions.len().checked_sub(missing)?;
        Some(revisions.get(first_missing)? - 1)
    }

    /// Removes and returns a fault at the end of a workload step.
    pub(crate) fn fault_of_step(&self, step: u32) -> Option<Action> {
        let at = Point::Step { step };
        let action = self.inner().take_fault(|point| *point == at)?;
        self.record(Event::Fault {
            text: text_of(&at, &action),
        });
        Some(action)
    }

    /// Restarts the operator with an API server that is stale for a resource.
    pub(crate) fn restart_stale(&self, resource: String, missing: u32, seconds: u32) {
        {
            let mut inner = self.inner();
            inner.stale = Some(Stale {
                life: inner.history.life + 1,
                resource,
                missing,
                seconds,
            });
        }
        self.crash();
    }

    /// Counts a fault with a duration that begins or has ended.
    pub(crate) fn hold(&self, held: bool) {
        let mut inner = self.inner();
        match held {
            true => inner.held += 1,
            false => inner.held = inner.held.saturating_sub(1),
        }
    }

    /// Returns the time since the last relevant change.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let since_change = inner.last_change.elapsed();
        if !self.waits_for_calls {
            return since_change;
        }
        // An operator that has not sent a request yet is still starting.
        let since_call = inner
            .last_call
            .filter(|_| inner.alive.contains(&inner.history.life));
        since_call.map_or(Duration::ZERO, |at| at.elapsed().min(since_change))
    }

    /// Returns true while a watch is delayed, or an outage or another fault with a duration continues.
    pub(crate) fn has_lasting_fault(&self) -> bool {
        let inner = self.inner();
        let now = Instant::now();
        inner.held > 0
            || inner.outages.iter().any(|outage| outage.until > now)
            || inner.cut_off.values().any(|until| *until > now)
    }

    /// Returns the situation of the idle cluster. `None` if events that are still to come depend on more than that.
    pub(crate) fn situation(&self) -> Option<Situation> {
        let lasts = self.has_lasting_fault();
        let world = self.world_hash();
        let inner = self.inner();
        let plan = &inner.plan;
        if plan.schedule.is_some() || inner.stale.is_some() || !inner.expired.is_empty() {
            return None;
        }
        let injected = inner.fired.iter().filter_map(|index| plan.faults.get(*index));
        let lasting: Vec<String> = injected
            .filter(|fault| lasts && fault.action.lasts())
            .map(Fault::to_string)
            .collect();
        Some(Situation {
            state: match lasting.is_empty() {
                true => world,
                false => state::hash_of(&(world, lasting)),
            },
            is_restarted: inner.life_at_fault < inner.history.life,
            injected: inner.fired.len(),
            open: plan.faults.len() - inner.fired.len(),
        })
    }

    /// Restarts the idle time.
    pub(crate) fn touch(&self) {
        self.inner().last_change = Instant::now();
    }

    /// Returns true if the operator has used up its requests.
    pub(crate) fn overran(&self) -> bool {
        let inner = self.inner();
        inner.history.call_count > inner.call_limit
    }

    /// Reads a request with the generated names of the run.
    pub(crate) fn with_names<T>(&self, read: impl FnOnce(&Names) -> T) -> T {
        read(&self.inner().history.names)
    }
}

fn text_of(at: &Point, action: &Action) -> String {
    let fault = Fault {
        at: at.clone(),
        action: action.clone(),
    };
    fault.to_string()
}

/// The signatures and their numbers.
type Counts = BTreeMap<Signature, u32>;
/// The watches that get 410 when a life opens them again.
type Expired = BTreeSet<(u32, Signature)>;
