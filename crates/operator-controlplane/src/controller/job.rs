//! Job: runs pods until enough of them have succeeded, or too many have failed.
//!
//! Each pod keeps a finalizer until it is counted, in three steps: the status lists the pod as uncounted, the finalizer
//! is removed, and the pod is counted. A crash between two steps does not count a pod twice.

mod index;
mod indexes;
mod outcome;
mod policy;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::claim::claim;
use crate::controller::job::outcome::Verdict;
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{JOB, POD};
use crate::object::{Object, set, time};
use crate::objects::{Key, Objects};
use crate::plan::{
    Action, Note, Plan, World, create, delete, remove_finalizer, sooner, until, update_status,
};
use crate::pod;
use crate::selector::selects;

pub(crate) const COMPONENT: &str = "job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The value of `managedBy` for Jobs of this controller; the field may also be absent.
const MANAGER: &str = "kubernetes.io/job-controller";

/// The initial backoff before a failed pod is replaced; it doubles with each failure.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&JOB, event, keys);
    if POD.is(&event.gvr) {
        keys_of_controller(&JOB, event, keys);
    }
}

/// A Job with its pods, by their state.
pub(crate) struct Run<'a> {
    pub(crate) job: &'a Value,
    pub(crate) active: Vec<Arc<Value>>,
    /// Pods that are terminating but still run.
    pub(crate) ending: Vec<Arc<Value>>,
    pub(crate) succeeded: Vec<Arc<Value>>,
    /// Failed pods; includes terminating pods, unless only failed pods are replaced.
    pub(crate) failed: Vec<Arc<Value>>,
}

impl<'a> Run<'a> {
    fn sort(job: &'a Value, pods: Vec<Arc<Value>>) -> Self {
        let mut run = Self {
            job,
            active: Vec::new(),
            ending: Vec::new(),
            succeeded: Vec::new(),
            failed: Vec::new(),
        };
        for pod in pods {
            match pod::phase(&pod) {
                "Succeeded" => run.succeeded.push(pod),
                "Failed" => run.failed.push(pod),
                _ if pod.is_terminating() => {
                    if !run.replaces_only_failed() {
                        run.failed.push(pod.clone());
                    }
                    run.ending.push(pod);
                }
                _ => run.active.push(pod),
            }
        }
        run
    }

    /// Returns the required number of successful pods; `None` if one success completes the Job.
    pub(crate) fn completions(&self) -> Option<i64> {
        self.job.int("/spec/completions")
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.job.text("/spec/completionMode") == "Indexed"
    }

    /// Returns true if the backoff limit applies to each index, and not to the Job.
    pub(crate) fn limits_each_index(&self) -> bool {
        self.job.int("/spec/backoffLimitPerIndex").is_some()
    }

    fn replaces_only_failed(&self) -> bool {
        self.job.text("/spec/podReplacementPolicy") == "Failed"
    }

    /// Returns true if a failed pod counts as a failure: the policy may ignore it, and an index out of range never
    /// counts.
    fn counts(&self, pod: &Value) -> bool {
        policy::judge(self.job, pod).counts && (!self.is_indexed() || index::of(self, pod).is_some())
    }

    /// Returns the number of successes, counted or not.
    pub(crate) fn successes(&self) -> i64 {
        if self.is_indexed() {
            return index::completed(self).count();
        }
        let told = self.uncounted_uids("succeeded");
        let untold = self
            .succeeded
            .iter()
            .filter(|pod| pod.has_finalizer(TRACKING) && !told.contains(pod.uid()));
        self.job.int("/status/succeeded").unwrap_or(0) + count_of(&told) + length(untold.count())
    }

    /// Returns the number of failures, counted or not.
    pub(crate) fn failures(&self) -> i64 {
        let told = self.uncounted_uids("failed");
        let untold = self
            .failed
            .iter()
            .filter(|pod| pod.has_finalizer(TRACKING) && !told.contains(pod.uid()) && self.counts(pod));
        self.job.int("/status/failed").unwrap_or(0) + count_of(&told) + length(untold.count())
    }

    /// Returns the pods that the status lists as finished but not yet counted.
    fn uncounted_uids(&self, outcome: &str) -> BTreeSet<&'a str> {
        let uids = self
            .job
            .items(&format!("/status/uncountedTerminatedPods/{outcome}"))
            .iter();
        uids.filter_map(Value::as_str).collect()
    }
}

fn count_of<T>(set: &BTreeSet<T>) -> i64 {
    length(set.len())
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(job) = world.objects.get(&JOB, &key.namespace, &key.name) else {
        return release_orphans(world, key);
    };
    let selector = job.pointer("/spec/selector");
    if !["", MANAGER].contains(&job.text("/spec/managedBy")) {
        return Plan::done();
    }
    let claim = claim(world.objects, &JOB, job, &POD, |pod| {
        selects(selector, &pod.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Plan::actions(claim.actions);
    }
    let run = Run::sort(job, claim.owned);
    if outcome::is_finished(job) {
        return Plan::actions(leftovers(&run));
    }
    let verdict = outcome::verdict(world, &run);
    let counting = count(world, &run, verdict.as_ref());
    if !counting.is_empty() {
        return Plan::actions(counting);
    }
    decide(world, &run, verdict.as_ref())
}

/// Deletes the running pods of a finished Job, and removes the finalizers of its pods.
fn leftovers(run: &Run<'_>) -> Vec<Action> {
    let running = run.active.iter().map(|pod| delete(&POD, pod, None));
    let all = run
        .active
        .iter()
        .chain(&run.ending)
        .chain(&run.succeeded)
        .chain(&run.failed);
    let held: BTreeMap<&str, &Arc<Value>> = all
        .filter(|pod| pod.has_finalizer(TRACKING))
        .map(|pod| (pod.name(), pod))
        .collect();
    running.chain(held.into_values().map(release)).collect()
}

fn release(pod: &Arc<Value>) -> Action {
    remove_finalizer(&POD.gvr, pod, TRACKING)
}

/// Removes the finalizer from the pods of a deleted Job.
fn release_orphans(world: &World<'_>, key: &Key) -> Plan {
    let pods = world.objects.list(&POD, &key.namespace);
    let orphans = pods.filter(|pod| {
        pod.has_finalizer(TRACKING) && pod.label("batch.kubernetes.io/job-name") == Some(&key.name)
    });
    Plan::actions(orphans.map(release).collect())
}

/// Returns the next of the three steps that count finished pods.
fn count(world: &World<'_>, run: &Run<'_>, verdict: Option<&Verdict>) -> Vec<Action> {
    let (released, failed) = ended(run, verdict);
    let mut status = run.job.get("status").cloned().unwrap_or_default();
    let told = tell(run, &released, &failed);
    let listed = status.get("uncountedTerminatedPods").cloned();
    let pods_listed = listed.unwrap_or_else(|| json!({})) == told;
    set(&mut status, &["uncountedTerminatedPods"], told);
    let indexes_listed = !run.is_indexed() || index::tell(&mut status, run);
    if !pods_listed || !indexes_listed {
        return update_status(&JOB, run.job, status).into_iter().collect();
    }
    if !released.is_empty() {
        return released.into_iter().map(release).collect();
    }
    let [succeeded, failed] = ["succeeded", "failed"].map(|outcome| count_of(&run.uncounted_uids(outcome)));
    if succeeded + failed == 0 {
        return Vec::new();
    }
    for (field, more) in [("succeeded", succeeded), ("failed", failed)] {
        let total = status.int(&format!("/{field}")).unwrap_or(0) + more;
        if total > 0 {
            set(&mut status, &[field], total.into());
        }
    }
    set(&mut status, &["uncountedTerminatedPods"], json!({}));
    outcome::count_live(&mut status, run, world);
    update_status(&JOB, run.job, status).into_iter().collect()
}

/// Returns the pods whose finalizer is removed now, and those of them that count as failures.
///
/// When the outcome of a Job is known, it waits for no more pods: each pod of a failed Job counts as a failure.
fn ended<'r>(run: &'r Run<'_>, verdict: Option<&Verdict>) -> (Vec<&'r Arc<Value>>, Vec<&'r Arc<Value>>) {
    let verdict = verdict.filter(|verdict| verdict.is_told);
    let held = |pod: &&Arc<Value>| pod.has_finalizer(TRACKING);
    let mut released: Vec<&Arc<Value>> = run.succeeded.iter().filter(held).take(pod::BURST).collect();
    let mut known: HashSet<&str> = released.iter().map(|pod| pod.uid()).collect();
    let delayed: HashSet<&str> = index::delayed(run).values().map(|pod| pod.uid()).collect();
    let is_delayed = |pod: &Arc<Value>| verdict.is_none() && delayed.contains(pod.uid());
    let failures = run.failed.iter().filter(held).filter(|pod| !is_delayed(pod));
    let is_over = verdict.is_some() || run.job.is_terminating();
    let others = run
        .active
        .iter()
        .chain(&run.ending)
        .filter(held)
        .filter(|_| is_over);
    let mut failed: Vec<&Arc<Value>> = Vec::new();
    for (pod, has_failed) in failures
        .map(|pod| (pod, true))
        .chain(others.map(|pod| (pod, false)))
    {
        if released.len() >= pod::BURST {
            break;
        }
        if !known.insert(pod.uid()) {
            continue;
        }
        released.push(pod);
        let is_failure = match verdict {
            Some(verdict) if verdict.is_success => pod::phase(pod) == "Failed",
            Some(_) => true,
            None => has_failed,
        };
        if is_failure && run.counts(pod) {
            failed.push(pod);
        }
    }
    (released, failed)
}

/// Returns the uncounted pods by outcome, including those that the status already lists. Successes of an indexed Job
/// are recorded by their indexes instead.
fn tell(run: &Run<'_>, released: &[&Arc<Value>], failed: &[&Arc<Value>]) -> Value {
    let succeeded = released
        .iter()
        .filter(|pod| pod::phase(pod) == "Succeeded" && !run.is_indexed());
    let news = [
        ("succeeded", succeeded.map(|pod| pod.uid()).collect::<Vec<_>>()),
        ("failed", failed.iter().map(|pod| pod.uid()).collect()),
    ];
    let mut told = json!({});
    for (outcome, news) in news {
        let mut uids = run.uncounted_uids(outcome);
        uids.extend(news);
        if !uids.is_empty() {
            told[outcome] = json!(uids);
        }
    }
    told
}

fn decide(world: &World<'_>, run: &Run<'_>, verdict: Option<&Verdict>) -> Plan {
    let job = run.job;
    if verdict.is_some_and(|verdict| verdict.is_told) && !run.active.is_empty() {
        let stopped = run.active.iter().take(pod::BURST);
        return Plan::actions(stopped.map(|pod| stop(job, pod)).collect());
    }
    if verdict.is_none() && job.flag("/spec/suspend") && !run.active.is_empty() {
        let withdrawn = run.active.get(..pod::BURST).unwrap_or(&run.active);
        return Plan::actions(withdraw(job, withdrawn));
    }
    let starts =
        !job.flag("/spec/suspend") && !job.is_terminating() && !job.text("/status/startTime").is_empty();
    if verdict.is_none() && starts {
        let plan = scale(world, run);
        if !plan.actions.is_empty() || plan.after.is_some() {
            return Plan {
                status: outcome::status(world, run, None),
                after: sooner(plan.after, outcome::deadline(world, run)),
                ..plan
            };
        }
    }
    Plan {
        status: outcome::status(world, run, verdict),
        after: outcome::deadline(world, run),
        ..Plan::default()
    }
}

fn stop(job: &Value, pod: &Value) -> Action {
    let message = format!("Deleted pod: {}", pod.name());
    delete(
        &POD,
        pod,
        Some(Note::normal(COMPONENT, &JOB, job, "SuccessfulDelete", message)),
    )
}

/// Deletes surplus pods, which are neither successes nor failures.
fn withdraw(job: &Value, pods: &[Arc<Value>]) -> Vec<Action> {
    let (held, free): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.has_finalizer(TRACKING));
    let held = held.into_iter().flat_map(|pod| [release(pod), stop(job, pod)]);
    held.chain(free.into_iter().map(|pod| stop(job, pod))).collect()
}

/// Creates pods up to the parallelism, or deletes surplus ones.
fn scale(world: &World<'_>, run: &Run<'_>) -> Plan {
    let parallelism = run.job.int("/spec/parallelism").unwrap_or(1);
    let active = length(run.active.len());
    let occupied = if run.replaces_only_failed() {
        length(run.ending.len())
    } else {
        0
    };
    let wanted = match run.completions() {
        Some(completions) => parallelism.min(completions - run.successes()).max(0),
        None if run.successes() > 0 => active,
        None => parallelism,
    };
    let mut surplus = surplus(run, usize::try_from(active - wanted).unwrap_or(0));
    surplus.truncate(pod::BURST);
    if !surplus.is_empty() {
        return Plan::actions(withdraw(run.job, &surplus));
    }
    let template = run.job.pointer("/spec/template").unwrap_or(&Value::Null);
    let missing = usize::try_from(wanted - active - occupied).unwrap_or(0);
    let missing = missing.min(pod::burst(template));
    if missing == 0 {
        return Plan::done();
    }
    if run.is_indexed() {
        return start_indexes(world, run, missing);
    }
    if let Some(left) = backoff(world, run) {
        return Plan {
            after: Some(left),
            ..Plan::default()
        };
    }
    Plan::actions((0..missing).map(|_| start(run, None)).collect())
}

/// Returns `count` active pods to delete: first pods with an invalid index, or with an index that another pod has.
fn surplus(run: &Run<'_>, count: usize) -> Vec<Arc<Value>> {
    let mut pods = run.active.clone();
    pod::by_usefulness(&mut pods);
    let mut surplus = Vec::new();
    if run.is_indexed() {
        let mut taken = BTreeSet::new();
        let (kept, more): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .rev()
            .partition(|pod| index::of(run, pod).is_some_and(|index| taken.insert(index)));
        (pods, surplus) = (kept.into_iter().rev().collect(), more);
    }
    let rest = count.saturating_sub(surplus.len());
    surplus.extend(pods.into_iter().take(rest));
    surplus
}

/// Creates pods for indexes that need one. With a backoff limit per index, each index has its own backoff.
fn start_indexes(world: &World<'_>, run: &Run<'_>, missing: usize) -> Plan {
    let delayed = index::delayed(run);
    let free = index::free(run, missing);
    if !run.limits_each_index() {
        return match backoff(world, run) {
            Some(left) => Plan {
                after: Some(left),
                ..Plan::default()
            },
            None => Plan::actions(
                free.into_iter()
                    .map(|index| start(run, Some((index, None))))
                    .collect(),
            ),
        };
    }
    let mut plan = Plan::default();
    for index in free {
        let before = delayed.get(&index);
        let left = before.and_then(|pod| wait(world, finished_at(pod), index::failures(pod) + 1));
        match left {
            Some(left) => plan.after = sooner(plan.after, Some(left)),
            None => plan.actions.push(start(run, Some((index, before.copied())))),
        }
    }
    plan
}

/// Creates a pod. In an indexed Job, it has an index, and may replace a failed pod.
fn start(run: &Run<'_>, index: Option<(i64, Option<&Arc<Value>>)>) -> Action {
    let job = run.job;
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = pod::from_template(&JOB, job, &template, &format!("{}-", job.name()));
    let mut finalizers = pod.items("/metadata/finalizers").to_vec();
    finalizers.push(TRACKING.into());
    set(&mut pod, &["metadata", "finalizers"], Value::Array(finalizers));
    if let Some((index, replaced)) = index {
        index::number(&mut pod, job.name(), index);
        if run.limits_each_index() {
            index::count_failures(&mut pod, job, replaced.map(|pod| &**pod));
        }
    }
    let note = Note::normal(
        COMPONENT,
        &JOB,
        job,
        "SuccessfulCreate",
        "Created pod: {name}".to_owned(),
    );
    create(&POD, pod, Some(note.or("FailedCreate")))
}

/// Returns the remaining backoff before the next pod.
fn backoff(world: &World<'_>, run: &Run<'_>) -> Option<Duration> {
    let last = run.failed.iter().map(|pod| finished_at(pod)).max()?;
    let since_success = run.succeeded.iter().map(|pod| finished_at(pod)).max();
    if since_success.is_some_and(|success| success >= last) {
        return None;
    }
    wait(world, last, length(run.failed.len()))
}

/// Returns the remaining backoff after a number of failures, given the time of the last one.
fn wait(world: &World<'_>, last: Option<Timestamp>, failures: i64) -> Option<Duration> {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    let wait = BACKOFF_FIRST.saturating_mul(factor).min(BACKOFF_MAX);
    let ready = last?
        .checked_add(SignedDuration::try_from(wait).unwrap_or_default())
        .ok()?;
    (ready > world.now).then(|| until(world.now, ready))
}

/// Returns the time at which a pod finished, if it is known.
fn finished_at(pod: &Value) -> Option<Timestamp> {
    let statuses = pod.items("/status/containerStatuses").iter();
    let ends = statuses.filter_map(|status| status.time("/state/terminated/finishedAt"));
    let not_ready = || {
        let ready = pod.condition("Ready")?;
        (ready.text("/status") == "False").then(|| ready.time("/lastTransitionTime"))?
    };
    let told_to_end = || {
        let grace = SignedDuration::from_secs(pod.int("/metadata/deletionGracePeriodSeconds").unwrap_or(0));
        pod.time("/metadata/deletionTimestamp")?.checked_sub(grace).ok()
    };
    ends.max()
        .or_else(not_ready)
        .or_else(told_to_end)
        .or_else(|| pod.time("/metadata/creationTimestamp"))
}

/// Returns the current time for a status.
pub(crate) fn now(world: &World<'_>) -> Value {
    time(world.now)
}

#[cfg(test)]
mod tests;
