//! The completion of a Job, and its status.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::controller::job::{COMPONENT, Run, index, now, policy};
use crate::kind::JOB;
use crate::object::{Object, set, unset};
use crate::plan::{Action, Note, World, until, update_status};
use crate::pod;

/// The reason of a failure by the pod failure policy.
const FAILURE_POLICY: &str = "PodFailurePolicy";

/// The terminal result of a Job.
pub(super) struct Verdict {
    reason: &'static str,
    message: String,
    pub(super) is_success: bool,
    /// True if the status already records it.
    pub(super) is_told: bool,
}

impl Verdict {
    /// Returns the Event about the completion.
    fn note(&self, job: &Value) -> Note {
        if self.is_success {
            return Note::normal(COMPONENT, &JOB, job, "Completed", "Job completed".to_owned());
        }
        Note::warning(COMPONENT, &JOB, job, self.reason, self.message.clone())
    }

    /// Returns the two condition types: the one that announces the completion, and the terminal one.
    fn kinds(&self) -> (&'static str, &'static str) {
        if self.is_success {
            ("SuccessCriteriaMet", "Complete")
        } else {
            ("FailureTarget", "Failed")
        }
    }
}

/// Returns true if a Job has finished.
pub(crate) fn is_finished(job: &Value) -> bool {
    job.is_condition_true("Complete") || job.is_condition_true("Failed")
}

/// Returns the terminal result of a Job, if it is known.
pub(super) fn verdict(world: &World<'_>, run: &Run<'_>) -> Option<Verdict> {
    let job = run.job;
    for (kind, is_success) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
        if let Some(told) = job.condition(kind).filter(|told| told.text("/status") == "True") {
            return Some(Verdict {
                reason: reason(told.text("/reason")),
                message: told.text("/message").to_owned(),
                is_success,
                is_told: true,
            });
        }
    }
    let (reason, message, is_success) = reached(world, run)?;
    Some(Verdict {
        reason,
        message,
        is_success,
        is_told: false,
    })
}

/// Returns the first outcome that applies: reason, message, and true for success.
fn reached(world: &World<'_>, run: &Run<'_>) -> Option<(&'static str, String, bool)> {
    let job = run.job;
    let verdict = |reason, message: &str, is_success| Some((reason, message.to_owned(), is_success));
    let fails_job = |pod: &Arc<Value>| policy::judge(job, pod).fails_job;
    if let Some(message) = run.failed.iter().find_map(fails_job) {
        return Some((FAILURE_POLICY, message, false));
    }
    if run.failures() > job.int("/spec/backoffLimit").unwrap_or(6) || restarts_exceeded(run) {
        return verdict(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
            false,
        );
    }
    if ends_at(job).is_some_and(|end| end <= world.now) {
        return verdict(
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
            false,
        );
    }
    let (completed, failed) = (index::completed(run), index::failed(run));
    let limit = job.int("/spec/maxFailedIndexes");
    if limit.is_some_and(|limit| failed.count() > limit) {
        return verdict(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
            false,
        );
    }
    let settled = failed.count().saturating_add(completed.count());
    if !failed.is_empty() && run.completions().is_some_and(|count| settled >= count) {
        return verdict("FailedIndexes", "Job has failed indexes", false);
    }
    if let Some(message) = policy::success(job, &completed).filter(|_| run.is_indexed()) {
        return Some(("SuccessPolicy", message, true));
    }
    if is_satisfied(run) {
        return verdict(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
            true,
        );
    }
    None
}

/// Returns the reason of an earlier condition as a static string.
fn reason(told: &str) -> &'static str {
    const REASONS: [&str; 6] = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
        "CompletionsReached",
        "SuccessPolicy",
    ];
    REASONS
        .into_iter()
        .find(|reason| *reason == told)
        .unwrap_or(FAILURE_POLICY)
}

fn restarts_exceeded(run: &Run<'_>) -> bool {
    if run.job.text("/spec/template/spec/restartPolicy") != "OnFailure" {
        return false;
    }
    let limit = run.job.int("/spec/backoffLimit").unwrap_or(6);
    let statuses = run.active.iter().flat_map(|pod| {
        let init = pod.items("/status/initContainerStatuses").iter();
        init.chain(pod.items("/status/containerStatuses"))
    });
    let restarts: i64 = statuses.filter_map(|status| status.int("/restartCount")).sum();
    restarts > 0 && restarts >= limit
}

fn is_satisfied(run: &Run<'_>) -> bool {
    match run.completions() {
        Some(completions) => run.successes() >= completions,
        None => run.successes() > 0 && run.active.is_empty(),
    }
}

/// Returns the time at which a Job exceeds its active deadline.
fn ends_at(job: &Value) -> Option<Timestamp> {
    let seconds = job
        .int("/spec/activeDeadlineSeconds")
        .filter(|_| !job.flag("/spec/suspend"))?;
    let start = job.time("/status/startTime")?;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Returns the time until the active deadline is exceeded.
pub(super) fn deadline(world: &World<'_>, run: &Run<'_>) -> Option<Duration> {
    let end = ends_at(run.job).filter(|end| *end > world.now)?;
    Some(until(world.now, end))
}

/// Returns the current status. Completion takes two status updates: the first adds a condition that announces it, the
/// second sets the terminal condition.
pub(super) fn status(world: &World<'_>, run: &Run<'_>, verdict: Option<&Verdict>) -> Option<Action> {
    let job = run.job;
    let mut status = job.get("status").cloned().unwrap_or_else(|| json!({}));
    count_live(&mut status, run, world);
    let mut note = None;
    if verdict.is_none() {
        note = suspend(&mut status, world, run);
    }
    if let Some(verdict) = verdict {
        let (target, end) = verdict.kinds();
        if !verdict.is_told {
            push(&mut status, world, target, verdict.reason, &verdict.message);
        } else if run.active.is_empty() && run.ending.is_empty() {
            push(&mut status, world, end, verdict.reason, &verdict.message);
            if verdict.is_success {
                set(&mut status, &["completionTime"], now(world));
            }
            note = Some(verdict.note(job));
        }
    }
    update_status(&JOB, job, status).map(|update| match note {
        Some(note) => update.with(note),
        None => update,
    })
}

/// Sets the counts of active pods, and the start time.
pub(super) fn count_live(status: &mut Value, run: &Run<'_>, world: &World<'_>) {
    if status.text("/startTime").is_empty() && !run.job.flag("/spec/suspend") {
        set(status, &["startTime"], now(world));
    }
    match run.active.len() {
        0 => unset(status, &["active"]),
        active => set(status, &["active"], json!(active)),
    }
    let ready = run.active.iter().filter(|pod| pod::is_ready(pod)).count();
    set(status, &["ready"], json!(ready));
    set(status, &["terminating"], json!(run.ending.len()));
    if status.get("uncountedTerminatedPods").is_none() {
        set(status, &["uncountedTerminatedPods"], json!({}));
    }
}

/// Sets the condition Suspended if the Job was suspended or resumed.
fn suspend(status: &mut Value, world: &World<'_>, run: &Run<'_>) -> Option<Note> {
    const KIND: &str = "Suspended";
    let is_suspended = run.job.flag("/spec/suspend");
    let (value, reason, event, message) = match (run.job.is_condition_true(KIND), is_suspended) {
        (false, true) => ("True", "JobSuspended", "Suspended", "Job suspended"),
        (true, false) => ("False", "JobResumed", "Resumed", "Job resumed"),
        _ => return None,
    };
    let mut news = condition(world, KIND, reason, message);
    news["status"] = value.into();
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    let known = conditions.and_then(|all| all.iter_mut().find(|known| known.text("/type") == KIND));
    match known {
        Some(known) => *known = news,
        None => add(status, news),
    }
    if is_suspended {
        unset(status, &["startTime"]);
    } else {
        set(status, &["startTime"], now(world));
    }
    Some(Note::normal(COMPONENT, &JOB, run.job, event, message.to_owned()))
}

fn push(status: &mut Value, world: &World<'_>, kind: &str, reason: &str, message: &str) {
    add(status, condition(world, kind, reason, message));
}

fn condition(world: &World<'_>, kind: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind,
        "status": "True",
        "lastProbeTime": now(world),
        "lastTransitionTime": now(world),
        "reason": reason,
        "message": message,
    })
}

fn add(status: &mut Value, condition: Value) {
    match status.get_mut("conditions").and_then(Value::as_array_mut) {
        Some(conditions) => conditions.push(condition),
        None => set(status, &["conditions"], json!([condition])),
    }
}
