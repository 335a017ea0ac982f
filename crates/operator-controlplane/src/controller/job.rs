//! Job: pods until enough of them have succeeded, or too many have failed.
//!
//! Pods carry a finalizer until they are counted: first the status lists them as uncounted, then the finalizer goes,
//! then they are counted. A crash between any two steps counts none twice.

mod index;
mod outcome;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{JOB, POD};
use crate::object::{Object, set, time};
use crate::objects::{Key, Objects};
use crate::owner::claim;
use crate::plan::{Action, Note, Plan, World, create, delete, remove_finalizer, update_status};
use crate::pod;
use crate::selector::selects;

pub(crate) const COMPONENT: &str = "job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The first wait before a failed pod is replaced; it doubles with each failure.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// The controller.
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

/// A Job with its pods, sorted by what has become of them.
pub(crate) struct Run<'a> {
    pub(crate) job: &'a Value,
    pub(crate) active: Vec<Arc<Value>>,
    pub(crate) ending: Vec<Arc<Value>>,
    pub(crate) succeeded: Vec<Arc<Value>>,
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
                _ if pod.is_terminating() => run.ending.push(pod),
                _ => run.active.push(pod),
            }
        }
        run
    }

    /// How many pods are to succeed; `None` if one success ends the work of all.
    pub(crate) fn completions(&self) -> Option<i64> {
        self.job.int("/spec/completions")
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.job.text("/spec/completionMode") == "Indexed"
    }

    /// Pods that have ended and are not yet counted.
    fn uncounted(&self) -> Vec<&Arc<Value>> {
        let ended = self.succeeded.iter().chain(&self.failed);
        ended.filter(|pod| pod.has_finalizer(TRACKING)).collect()
    }

    /// The successes, counted or not.
    pub(crate) fn successes(&self) -> i64 {
        if self.is_indexed() {
            return index::completed(self).len().try_into().unwrap_or(i64::MAX);
        }
        self.job.int("/status/succeeded").unwrap_or(0)
            + listed(self.job, "succeeded")
            + untold(self, &self.succeeded)
    }

    /// The failures, counted or not.
    pub(crate) fn failures(&self) -> i64 {
        self.job.int("/status/failed").unwrap_or(0) + listed(self.job, "failed") + untold(self, &self.failed)
    }
}

fn uncounted_uids<'a>(job: &'a Value, outcome: &str) -> BTreeSet<&'a str> {
    let uids = job
        .items(&format!("/status/uncountedTerminatedPods/{outcome}"))
        .iter();
    uids.filter_map(Value::as_str).collect()
}

fn listed(job: &Value, outcome: &str) -> i64 {
    i64::try_from(uncounted_uids(job, outcome).len()).unwrap_or(i64::MAX)
}

/// How many pods have ended that the status knows nothing of.
fn untold(run: &Run<'_>, ended: &[Arc<Value>]) -> i64 {
    let succeeded = uncounted_uids(run.job, "succeeded");
    let failed = uncounted_uids(run.job, "failed");
    let is_told = |pod: &Value| succeeded.contains(pod.uid()) || failed.contains(pod.uid());
    let count = ended
        .iter()
        .filter(|pod| pod.has_finalizer(TRACKING) && !is_told(pod))
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(job) = world.objects.get(&JOB, &key.namespace, &key.name) else {
        return release_orphans(world, key);
    };
    let selector = job.pointer("/spec/selector");
    let claim = claim(world.objects, &JOB, job, &POD, |pod| {
        selects(selector, &pod.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Plan::actions(claim.actions);
    }
    let run = Run::sort(job, claim.owned);
    let counting = count(world, &run);
    if !counting.is_empty() {
        return Plan::actions(counting);
    }
    if outcome::is_finished(job) {
        let leftovers = run.active.iter().map(|pod| delete(&POD, pod, None)).collect();
        return Plan::actions(leftovers);
    }
    decide(world, &run)
}

/// Pods of a Job that is gone keep no finalizer of it.
fn release_orphans(world: &World<'_>, key: &Key) -> Plan {
    let pods = world.objects.list(&POD, &key.namespace);
    let orphans = pods.filter(|pod| {
        pod.has_finalizer(TRACKING) && pod.label("batch.kubernetes.io/job-name") == Some(&key.name)
    });
    Plan::actions(
        orphans
            .map(|pod| remove_finalizer(&POD.gvr, pod, TRACKING))
            .collect(),
    )
}

/// The next of the three steps that count ended pods.
fn count(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    let uncounted = run.uncounted();
    let told = tell(run, &uncounted);
    if told
        != run
            .job
            .pointer("/status/uncountedTerminatedPods")
            .cloned()
            .unwrap_or_else(|| json!({}))
    {
        let mut status = run.job.get("status").cloned().unwrap_or_default();
        set(&mut status, &["uncountedTerminatedPods"], told);
        return update_status(&JOB, run.job, status).into_iter().collect();
    }
    if !uncounted.is_empty() {
        let release = |pod: &&Arc<Value>| remove_finalizer(&POD.gvr, pod, TRACKING);
        return uncounted.iter().map(release).collect();
    }
    let (succeeded, failed) = (listed(run.job, "succeeded"), listed(run.job, "failed"));
    if succeeded + failed == 0 {
        return Vec::new();
    }
    let mut status = run.job.get("status").cloned().unwrap_or_default();
    for (field, more) in [("succeeded", succeeded), ("failed", failed)] {
        let total = status.int(&format!("/{field}")).unwrap_or(0) + more;
        if total > 0 {
            set(&mut status, &[field], total.into());
        }
    }
    if run.is_indexed() {
        set(
            &mut status,
            &["completedIndexes"],
            index::ranges(&index::completed(run)).into(),
        );
    }
    set(&mut status, &["uncountedTerminatedPods"], json!({}));
    outcome::count_live(&mut status, run, world);
    update_status(&JOB, run.job, status).into_iter().collect()
}

/// The uncounted pods by outcome, with those that the status lists already.
fn tell(run: &Run<'_>, uncounted: &[&Arc<Value>]) -> Value {
    let mut told = json!({});
    for outcome in ["succeeded", "failed"] {
        let mut uids = uncounted_uids(run.job, outcome);
        let is_success = outcome == "succeeded";
        let ended = uncounted
            .iter()
            .filter(|pod| (pod::phase(pod) == "Succeeded") == is_success);
        uids.extend(ended.map(|pod| pod.uid()));
        if !uids.is_empty() {
            told[outcome] = json!(uids);
        }
    }
    told
}

fn decide(world: &World<'_>, run: &Run<'_>) -> Plan {
    let job = run.job;
    let is_suspended = job.flag("/spec/suspend");
    let verdict = outcome::verdict(world, run);
    if verdict.is_some() || is_suspended {
        let stopped: Vec<Action> = run.active.iter().map(|pod| stop(job, pod)).collect();
        if !stopped.is_empty() && verdict.as_ref().is_none_or(|verdict| verdict.is_told) {
            return Plan::actions(stopped);
        }
    } else if !job.is_terminating() && !job.text("/status/startTime").is_empty() {
        let actions = scale(world, run);
        if !actions.actions.is_empty() || actions.after.is_some() {
            return Plan {
                status: outcome::status(world, run, None),
                ..actions
            };
        }
    }
    Plan {
        status: outcome::status(world, run, verdict.as_ref()),
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

/// Starts pods up to the parallelism, or stops those that are too many.
fn scale(world: &World<'_>, run: &Run<'_>) -> Plan {
    let parallelism = run.job.int("/spec/parallelism").unwrap_or(1);
    let active = i64::try_from(run.active.len()).unwrap_or(i64::MAX);
    let occupied = match run.job.text("/spec/podReplacementPolicy") {
        "Failed" => i64::try_from(run.ending.len()).unwrap_or(i64::MAX),
        _ => 0,
    };
    let wanted = match run.completions() {
        Some(completions) => parallelism.min(completions - run.successes()).max(0),
        None if run.successes() > 0 => active.min(parallelism),
        None => parallelism,
    };
    if active > wanted {
        let mut pods = run.active.clone();
        pod::by_usefulness(&mut pods);
        let surplus = usize::try_from(active - wanted).unwrap_or(0);
        return Plan::actions(pods.iter().take(surplus).map(|pod| stop(run.job, pod)).collect());
    }
    let missing = usize::try_from(wanted - active - occupied).unwrap_or(0);
    if missing == 0 {
        return Plan::done();
    }
    if let Some(left) = backoff(world, run) {
        return Plan {
            after: Some(left),
            ..Plan::default()
        };
    }
    let indexes = index::free(run, missing);
    Plan::actions(
        (0..missing)
            .filter_map(|n| start(run, indexes.as_ref().map(|free| free.get(n).copied())))
            .collect(),
    )
}

/// Creates a pod; of an indexed Job it is the pod of one index.
fn start(run: &Run<'_>, index: Option<Option<i64>>) -> Option<Action> {
    let job = run.job;
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    let mut pod = pod::from_template(&JOB, job, &template, &format!("{}-", job.name()));
    let mut finalizers = pod.items("/metadata/finalizers").to_vec();
    finalizers.push(TRACKING.into());
    set(&mut pod, &["metadata", "finalizers"], Value::Array(finalizers));
    if let Some(index) = index {
        index::number(&mut pod, job.name(), index?);
    }
    let note = Note::normal(
        COMPONENT,
        &JOB,
        job,
        "SuccessfulCreate",
        "Created pod: {name}".to_owned(),
    );
    Some(create(&POD, pod, Some(note.or("FailedCreate"))))
}

/// How long to wait before the next pod, after failures.
fn backoff(world: &World<'_>, run: &Run<'_>) -> Option<Duration> {
    let last = run.failed.iter().filter_map(|pod| finished_at(pod)).max()?;
    let since_success = run.succeeded.iter().filter_map(|pod| finished_at(pod)).max();
    if since_success.is_some_and(|success| success >= last) {
        return None;
    }
    let failures = u32::try_from(run.failed.len()).unwrap_or(u32::MAX);
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = BACKOFF_FIRST.saturating_mul(factor).min(BACKOFF_MAX);
    let ready = last
        .checked_add(jiff::SignedDuration::try_from(wait).unwrap_or_default())
        .ok()?;
    (ready > world.now).then(|| crate::plan::until(world.now, ready))
}

fn finished_at(pod: &Value) -> Option<jiff::Timestamp> {
    let statuses = pod.items("/status/containerStatuses").iter();
    let ends = statuses.filter_map(|status| status.time("/state/terminated/finishedAt"));
    ends.max()
        .or_else(|| pod.time("/metadata/deletionTimestamp"))
        .or_else(|| {
            pod.condition("Ready")
                .and_then(|ready| ready.time("/lastTransitionTime"))
        })
}

/// The time now, for a status.
pub(crate) fn now(world: &World<'_>) -> Value {
    time(world.now)
}

#[cfg(test)]
mod tests;
