//! [`single_faults`], the single faults that are possible in a run without faults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::call::Signature;
use crate::plan::{Action, Cause, Fault, Point};
use crate::state::{self, Difference};
use crate::trace::{Actor, Event, Kind, Trace};

/// The maximum number of changes that are missing in stale lists.
const MISSING_MAX: u32 = 8;
/// Maximum occurrence of a read that gets faults, because later ones are repetitions.
const READS_MAX: u32 = 4;
/// Maximum number of objects that are disturbed at the end of one step.
const OBJECTS_MAX: usize = 4;
/// The difference by which a clock is set, in seconds.
const JUMP: i32 = 600;

/// The classes of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Crashes, lost responses, and other clients.
    Crash,
    /// Late watch events.
    Late,
    /// A stale API server.
    Stale,
    /// Errors.
    Error,
    /// Watches that end, and bookmarks.
    Watch,
    /// Pods, nodes, volumes, clocks, and outages.
    Environment,
    /// Users who change the objects of the operator.
    User,
}

const CLASSES: usize = 7;

/// The classes alternate in a campaign, so that a small budget covers all of them. Every second fault is one of
/// [`Class::Crash`], which finds most bugs.
const ORDER: [Class; 12] = [
    Class::Crash,
    Class::Late,
    Class::Crash,
    Class::Stale,
    Class::Crash,
    Class::Error,
    Class::Crash,
    Class::Watch,
    Class::Crash,
    Class::Environment,
    Class::Crash,
    Class::User,
];

/// The durations of faults, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The duration for which watches and other things are delayed: longer than several steps of a workload.
    pub(crate) hold: u32,
    /// The duration for which a node is unreachable.
    pub(crate) node: u32,
}

/// A fault, and the step after which its plan restarts the operator. Such a plan begins with the state after this step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Single {
    pub(crate) fork: Option<u32>,
    pub(crate) fault: Fault,
}

/// The faults that were found so far.
#[derive(Default)]
struct Found {
    /// The faults of each class, with the number of earlier faults of this class at the same point.
    classes: [Vec<(usize, Single)>; CLASSES],
    /// The calls and outages that are already covered.
    seen: BTreeSet<String>,
    /// The step after which the plans of the next faults begin.
    fork: Option<u32>,
}

impl Found {
    fn add(&mut self, class: Class, at: &Point, action: Action) {
        let faults = &mut self.classes[class as usize];
        let is_same = |single: &Single| single.fault.at == *at && single.fork == self.fork;
        let rank = faults
            .iter()
            .rev()
            .take_while(|(_, single)| is_same(single))
            .count();
        let fault = Fault {
            at: at.clone(),
            action,
        };
        let fork = self.fork;
        faults.push((rank, Single { fork, fault }));
    }

    /// Returns all faults: classes alternate, and each class begins with one fault of each point.
    fn in_order(self) -> Vec<Single> {
        let mut classes = self.classes.map(|mut faults| {
            faults.sort_by_key(|(rank, _)| *rank);
            faults.into_iter().map(|(_, single)| single)
        });
        let mut all = Vec::new();
        loop {
            let before = all.len();
            all.extend(ORDER.iter().filter_map(|class| classes[*class as usize].next()));
            if all.len() == before {
                return all;
            }
        }
    }
}

/// The objects that exist at one point of a run.
#[derive(Default)]
struct Scene {
    pods: BTreeSet<String>,
    /// The objects that the operator created.
    children: BTreeSet<String>,
    /// The changes of the operator since the last step.
    edits: BTreeMap<String, Value>,
    has_claims: bool,
    has_leases: bool,
}

/// Returns every single fault of a run without faults, in the order of [`Found::in_order`]. `forks` has the traces of runs
/// that begin after a step with a restart of the operator, by the number of this step. The faults of the next step then
/// come from this trace.
pub(crate) fn single_faults(reference: &Trace, forks: &BTreeMap<u32, Trace>, times: Times) -> Vec<Single> {
    let mut found = Found::default();
    // A fault at the start belongs to the first step.
    let is_forked = |step: u32| forks.contains_key(&step.saturating_sub(1));
    let scan = Scan {
        times,
        begins: &|_| true,
        has_events_of: &|step| !is_forked(step),
        has_end_of: &|step| !is_forked(step),
    };
    let (steps, lagging) = scan.add(&mut found, reference);
    for step in 1..=steps {
        // The revisions that a stale API server misses are older than a fork.
        for resource in &lagging {
            for missing in 1..=MISSING_MAX {
                let action = Action::RestartStale {
                    resource: resource.clone(),
                    missing,
                    seconds: times.hold,
                };
                found.add(Class::Stale, &Point::Step { step }, action);
            }
        }
    }
    for (fork, trace) in forks {
        found.fork = Some(*fork);
        let scan = Scan {
            times,
            begins: &|event| matches!(event, Event::Crash),
            has_events_of: &|step| step <= fork + 1,
            has_end_of: &|step| step == fork + 1,
        };
        scan.add(&mut found, trace);
    }
    found.in_order()
}

/// The part of a trace whose faults are wanted.
struct Scan<'a> {
    times: Times,
    /// True for the event before the part.
    begins: &'a dyn Fn(&Event) -> bool,
    /// True if the part has the requests and watch events of a step. Those before the first one belong to step 0.
    has_events_of: &'a dyn Fn(u32) -> bool,
    /// True if the part has the end of a step.
    has_end_of: &'a dyn Fn(u32) -> bool,
}

impl Scan<'_> {
    /// Adds the faults of a trace. Returns the number of steps, and the resources that the operator reads from the cache of
    /// the API server.
    fn add(&self, found: &mut Found, trace: &Trace) -> (u32, BTreeSet<String>) {
        let hold = self.times.hold;
        let mut scene = Scene {
            has_leases: trace.iter().any(is_lease_write),
            has_claims: trace.iter().any(is_claim),
            ..Scene::default()
        };
        let mut lagging = BTreeSet::new();
        let mut steps = 0;
        let mut has_begun = trace.iter().next().is_some_and(self.begins);
        for event in trace.iter() {
            let is_wanted = has_begun && (self.has_events_of)(steps);
            has_begun |= (self.begins)(event);
            match event {
                Event::IdempotenceCheck => break,
                Event::Step { .. } => {
                    self.add_end(found, steps, &mut scene);
                    steps += 1;
                }
                Event::Call {
                    signature,
                    occurrence,
                    effective,
                    accepts_any_version,
                    ..
                } => {
                    if *accepts_any_version && matches!(signature.verb(), "list" | "get") {
                        lagging.insert(signature.resource().to_owned());
                    }
                    if is_wanted {
                        of_call(found, &scene, signature, *occurrence, *effective, hold);
                    }
                }
                Event::Delivery {
                    signature,
                    occurrence,
                    ..
                } if is_wanted => of_delivery(found, signature, *occurrence, hold),
                Event::Bookmark {
                    signature,
                    occurrence,
                    ends_initial,
                } if is_wanted => {
                    let at = Point::Bookmark {
                        bookmark: signature.clone(),
                        occurrence: *occurrence,
                    };
                    let action = match ends_initial {
                        true => Action::HoldBookmark { seconds: hold },
                        false => Action::DropBookmark,
                    };
                    found.add(Class::Watch, &at, action);
                }
                Event::Commit {
                    actor,
                    kind,
                    key,
                    object,
                    old,
                } => scene.commit(*actor, *kind, key, object, old.as_deref()),
                _ => {}
            }
        }
        self.add_end(found, steps, &mut scene);
        (steps, lagging)
    }

    fn add_end(&self, found: &mut Found, step: u32, scene: &mut Scene) {
        let edits = std::mem::take(&mut scene.edits);
        if !(self.has_end_of)(step) {
            return;
        }
        of_step(found, step, scene, edits, self.times);
        if step > 0 {
            found.add(Class::Crash, &Point::Step { step }, Action::Restart);
        }
    }
}

fn is_lease_write(event: &Event) -> bool {
    matches!(event, Event::Call { signature, effective: true, .. } if signature.resource() == "leases.coordination.k8s.io")
}

fn is_claim(event: &Event) -> bool {
    matches!(event, Event::Commit { key, kind: Kind::Added, .. } if key.starts_with("persistentvolumeclaims "))
}

impl Scene {
    fn commit(&mut self, actor: Actor, kind: Kind, key: &str, object: &Value, old: Option<&Value>) {
        let resource = key.split(' ').next().unwrap_or_default();
        match kind {
            Kind::Deleted => {
                self.pods.remove(key);
                self.children.remove(key);
                self.edits.remove(key);
            }
            Kind::Added if resource == "pods" => drop(self.pods.insert(key.to_owned())),
            Kind::Added if actor == Actor::Operator && is_child(resource) => {
                self.children.insert(key.to_owned());
            }
            Kind::Added => {}
            Kind::Modified if actor == Actor::Operator && self.children.contains(key) => {
                let undo = old.and_then(|old| undo(old, object));
                if let Some(undo) = undo {
                    self.edits.insert(key.to_owned(), undo);
                }
            }
            Kind::Modified => {}
        }
    }
}

/// Returns true for resources whose objects an operator keeps in a desired state. Jobs and pods end, and a claim exists
/// until no pod uses it, so an operator cannot replace them.
fn is_child(resource: &str) -> bool {
    let is_excluded = matches!(
        resource,
        "jobs.batch" | "pods" | "namespaces" | "persistentvolumeclaims"
    );
    !state::is_derived(resource) && !is_excluded
}

/// Returns the merge patch that undoes the first change of a field below `spec` or `data`.
fn undo(old: &Value, new: &Value) -> Option<Value> {
    let is_desired = |difference: &&Difference| {
        let field = difference.field.as_str();
        let is_plain = !field.contains('[') && difference.expected.as_ref().is_some_and(|old| !old.is_null());
        is_plain && (field.starts_with("spec.") || field.starts_with("data."))
    };
    let changes = state::changes(old, new);
    let change = changes.iter().find(is_desired)?;
    // A name with a dot cannot be recognized in the path of the field.
    let names: Vec<&str> = change.field.split('.').collect();
    let pointer: String = names.iter().map(|name| format!("/{name}")).collect();
    (old.pointer(&pointer) == change.expected.as_ref()).then_some(())?;
    let value = change.expected.clone()?;
    Some(names.iter().rev().fold(value, |value, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), value)]))
    }))
}

fn of_call(
    found: &mut Found,
    scene: &Scene,
    signature: &Signature,
    occurrence: u32,
    is_effective: bool,
    hold: u32,
) {
    if signature.verb() == "watch" || (!signature.is_write() && occurrence > READS_MAX) {
        return;
    }
    let at = Point::Call {
        call: signature.clone(),
        occurrence,
    };
    let resource = signature.resource();
    let is_custom = state::is_custom(resource.split('/').next().unwrap_or_default());
    if occurrence == 1 && is_custom {
        // The response of an API server that does not know the CRD yet.
        found.add(Class::Error, &at, Action::Fail(404));
        found.add(Class::Error, &at, Action::Fail(503));
    }
    if !signature.is_write() {
        found.add(Class::Error, &at, Action::Fail(500));
        found.add(Class::Error, &at, Action::Fail(504));
        found.add(Class::Error, &at, Action::Reset);
        return;
    }
    if !is_effective {
        found.add(Class::Error, &at, Action::Fail(500));
        found.add(Class::Error, &at, Action::CrashBefore);
        return;
    }
    let crashes = [
        Action::CrashAfterCommit,
        Action::CrashAfterResponse,
        Action::CrashBefore,
        Action::ResetAfterCommit,
    ];
    for action in crashes {
        found.add(Class::Crash, &at, action);
    }
    let errors = [
        Action::FailAfterCommit(504),
        Action::Fail(500),
        Action::Fail(429),
        Action::Fail(504),
        Action::Reset,
        Action::FailAfterCommit(500),
    ];
    for action in errors {
        found.add(Class::Error, &at, action);
    }
    if signature.verb() != "create" {
        found.add(Class::Crash, &at, Action::ThirdPartyWrite);
    }
    if signature.verb() == "update" {
        found.add(Class::Error, &at, Action::Fail(409));
    }
    let target = signature.as_str().split(' ').nth(2).unwrap_or_default();
    let is_child = scene.children.contains(&format!("{resource} {target}"));
    if is_child && matches!(signature.verb(), "update" | "patch" | "apply") {
        found.add(Class::User, &at, Action::ThirdPartyDelete);
    }
    let seconds = hold;
    for cause in [Cause::Webhook, Cause::Permission] {
        let name = match cause {
            Cause::Webhook => format!("{cause} {resource}"),
            _ => format!("{cause} {} {resource}", signature.verb()),
        };
        if found.seen.insert(name) {
            found.add(Class::Environment, &at, Action::Outage { cause, seconds });
        }
    }
    if found.seen.insert(format!("{} {signature}", Cause::Server)) {
        let cause = Cause::Server;
        found.add(Class::Environment, &at, Action::Outage { cause, seconds });
    }
}

fn of_delivery(found: &mut Found, signature: &Signature, occurrence: u32, hold: u32) {
    let at = Point::Call {
        call: signature.clone(),
        occurrence,
    };
    let held = |skip| Action::HoldWatch { seconds: hold, skip };
    found.add(Class::Late, &at, held(false));
    found.add(Class::Late, &at, held(true));
    found.add(Class::Watch, &at, Action::CutWatch);
    found.add(Class::Watch, &at, Action::ExpireWatch);
}

/// Adds the faults of the environment and of users at the end of a step.
fn of_step(found: &mut Found, step: u32, scene: &Scene, edits: BTreeMap<String, Value>, times: Times) {
    let at = Point::Step { step };
    let seconds = times.hold;
    for object in scene.pods.iter().take(OBJECTS_MAX) {
        let evicted = object.clone();
        found.add(Class::Environment, &at, Action::EvictPod { object: evicted });
        let object = object.clone();
        found.add(Class::Environment, &at, Action::CrashPod { object, seconds });
    }
    // This affects the pods that the next step creates.
    found.add(Class::Environment, &at, Action::HoldPods { seconds });
    if scene.has_claims {
        found.add(Class::Environment, &at, Action::HoldVolumes { seconds });
    }
    let node = "node-1".to_owned();
    let lost = times.node;
    found.add(Class::Environment, &at, Action::LoseNode { node, seconds: lost });
    if scene.has_leases && step > 0 {
        found.add(Class::Environment, &at, Action::LoseLease { seconds });
    }
    for seconds in [JUMP, -JUMP] {
        found.add(Class::Environment, &at, Action::ClockJump { seconds });
    }
    for object in scene.children.iter().take(OBJECTS_MAX) {
        let object = object.clone();
        found.add(Class::User, &at, Action::DeleteChild { object });
    }
    for (object, patch) in edits.into_iter().take(OBJECTS_MAX) {
        let patch = patch.to_string();
        found.add(Class::User, &at, Action::EditChild { object, patch });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const TIMES: Times = Times { hold: 30, node: 400 };

    fn trace(events: impl IntoIterator<Item = Event>) -> Trace {
        let mut trace = Trace::default();
        for event in events {
            trace.push(Duration::ZERO, event);
        }
        trace
    }

    fn call(text: &str, effective: bool) -> Event {
        Event::Call {
            signature: Signature::new(text),
            occurrence: 1,
            code: 200,
            effective,
            accepts_any_version: false,
            is_refused: false,
        }
    }

    fn step() -> Event {
        Event::Step {
            number: 1,
            text: String::new(),
        }
    }

    fn commit(kind: Kind, key: &str, object: Value, old: Option<Value>) -> Event {
        Event::Commit {
            actor: Actor::Operator,
            kind,
            key: key.to_owned(),
            object: Arc::new(object),
            old: old.map(Arc::new),
        }
    }

    fn plain(trace: &Trace) -> Vec<Fault> {
        let singles = single_faults(trace, &BTreeMap::new(), TIMES);
        singles.into_iter().map(|single| single.fault).collect()
    }

    fn texts(faults: &[Fault]) -> Vec<String> {
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn an_effective_write_gets_every_fault_and_reads_few() {
        let trace = trace([
            step(),
            call("update configmaps default/a", true),
            call("get configmaps default/a", false),
        ]);
        let faults = plain(&trace);
        let at = |wanted: &str| {
            let texts = texts(&faults);
            texts.iter().filter(|text| text.contains(wanted)).count()
        };
        assert_eq!(faults[0].action, Action::CrashAfterCommit);
        assert_eq!((at("update configmaps"), at("get configmaps")), (15, 3));
        assert_eq!(at("after the start"), 4, "{:?}", texts(&faults));
    }

    #[test]
    fn a_crash_at_every_write_is_among_the_first_faults() {
        let names = ["a", "b", "c"];
        let write = |name: &str| call(&format!("update configmaps default/{name}"), true);
        let faults = plain(&trace([step()].into_iter().chain(names.map(write))));
        let is_crash = |fault: &&Fault| fault.action == Action::CrashAfterCommit;
        let crashes: Vec<String> = faults
            .iter()
            .take(2 * names.len())
            .filter(is_crash)
            .map(Fault::to_string)
            .collect();
        let of = |name: &str| format!("update configmaps default/{name}`");
        let is_of = |(crash, name): (&String, &str)| crash.contains(&of(name));
        assert_eq!(crashes.len(), 3, "{crashes:?}");
        assert!(crashes.iter().zip(names).all(is_of), "{crashes:?}");
    }

    #[test]
    fn only_requests_for_custom_resources_can_meet_a_server_without_the_definition() {
        let trace = trace([call("update widgets.example.com/status default/a", true)]);
        let codes = [404, 503].map(|code| {
            let faults = plain(&trace);
            faults
                .iter()
                .filter(|fault| fault.action == Action::Fail(code))
                .count()
        });
        assert_eq!(codes, [1, 1]);
    }

    #[test]
    fn users_undo_what_the_operator_changed_and_delete_its_objects() {
        let key = "deployments.apps default/a";
        let object = |replicas: i32| json!({"metadata": {"name": "a"}, "spec": {"replicas": replicas}});
        let trace = trace([
            step(),
            commit(Kind::Added, key, object(1), None),
            step(),
            commit(Kind::Modified, key, object(2), Some(object(1))),
            call("apply deployments.apps default/a", true),
        ]);
        let texts = texts(&plain(&trace));
        let of_users: Vec<&String> = texts.iter().filter(|text| text.starts_with("a user")).collect();
        assert_eq!(
            of_users,
            [
                "a user deletes deployments.apps default/a after workload step 1",
                "a user deletes the object just before the 1st `apply deployments.apps default/a`",
                "a user deletes deployments.apps default/a after workload step 2",
                "a user patches deployments.apps default/a with {\"spec\":{\"replicas\":1}} after workload step 2",
            ],
        );
    }

    #[test]
    fn the_faults_of_a_step_after_a_fork_come_from_its_trace() {
        let write = |name: &str| call(&format!("update configmaps default/{name}"), true);
        let reference = trace([step(), write("a"), step(), write("b"), step(), write("c")]);
        let fork = trace([
            step(),
            write("a"),
            Event::Crash,
            write("d"),
            step(),
            write("e"),
            step(),
            write("f"),
        ]);
        let singles = single_faults(&reference, &BTreeMap::from([(1, fork)]), TIMES);
        let crashes = singles
            .iter()
            .filter(|single| single.fault.action == Action::CrashBefore);
        let mut crashes: Vec<(Option<u32>, String)> = crashes
            .map(|single| (single.fork, single.fault.at.to_string().replace("the 1st ", "")))
            .collect();
        crashes.sort();
        let of = |name: &str| format!("`update configmaps default/{name}`");
        assert_eq!(
            crashes,
            [
                (None, of("a")),
                (None, of("c")),
                (Some(1), of("d")),
                (Some(1), of("e"))
            ]
        );
        let is_restart = |single: &&Single| single.fault.action == Action::Restart;
        let mut restarts: Vec<(Option<u32>, String)> = singles
            .iter()
            .filter(is_restart)
            .map(|single| (single.fork, single.fault.at.to_string()))
            .collect();
        let after = |step| format!("workload step {step}");
        restarts.sort();
        assert_eq!(
            restarts,
            [(None, after(1)), (None, after(3)), (Some(1), after(2))]
        );
    }
}
