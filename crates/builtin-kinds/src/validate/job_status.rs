//! Validates the status of a Job, and its changes.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorType, Path};
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

const COUNTS: &[&str] = &["active", "succeeded", "failed", "ready", "terminating"];

/// A job before and after a change of its status.
struct Change<'a> {
    job: &'a Value,
    status: &'a Value,
    before: &'a Value,
}

impl Change<'_> {
    fn differs(&self, field: &str) -> bool {
        at(self.status, &[field]) != at(self.before, &[field])
    }

    /// Returns true if the Job finishes with this change, or one of the fields changes.
    fn finishes_or(&self, fields: &[&str]) -> bool {
        !is_finished(self.before) || fields.iter().any(|field| self.differs(field))
    }
}

/// Checks a changed status.
pub(super) fn status(check: &mut Check, object: &Value, old: &Value) {
    let path = Path::new("status");
    let change = Change {
        job: object,
        status: at(object, &["status"]),
        before: at(old, &["status"]),
    };
    for field in COUNTS {
        check.non_negative(change.status, &path, field);
    }
    uncounted(check, change.status, &path.child("uncountedTerminatedPods"));
    conditions(check, &change, &path);
    finished(check, &change, &path);
    indexes(check, &change, &path);
    let (active, ready) = (count(change.status, "active"), at(change.status, &["ready"]));
    let has_more_ready = ready.as_i64().is_some_and(|ready| ready > active);
    if has_more_ready && (change.differs("ready") || change.differs("active")) {
        let why = "cannot set more ready pods than active";
        check.invalid(path.child("ready"), ready, why);
    }
    final_values(check, &change, &path);
}

fn count(status: &Value, field: &str) -> i64 {
    at(status, &[field]).as_i64().unwrap_or_default()
}

fn is_true(status: &Value, kind: &str) -> bool {
    list(status, &["conditions"])
        .iter()
        .any(|condition| text(condition, &["type"]) == kind && text(condition, &["status"]) == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

/// Checks that each uncounted pod is in only one list.
fn uncounted(check: &mut Check, status: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        let uids = list(status, &["uncountedTerminatedPods", field]);
        for (index, uid) in uids.iter().enumerate() {
            let path = path.child(field).index(index);
            if text(uid, &[]).is_empty() {
                check.invalid(path, uid, "must not be empty");
            } else if !seen.insert(uid) {
                check.duplicate(path, uid);
            }
        }
    }
}

/// Reports inconsistent conditions. The API server shows no value.
fn misfit(check: &mut Check, path: &Path, why: &str) {
    let error = Error::new(ErrorType::Invalid, path.child("conditions"), why);
    check.errors.push(error);
}

fn conditions(check: &mut Check, change: &Change<'_>, path: &Path) {
    let (status, before) = (change.status, change.before);
    let (complete, failed) = (is_true(status, "Complete"), is_true(status, "Failed"));
    if complete && failed {
        misfit(check, path, "cannot set Complete=True and Failed=true conditions");
    }
    if complete && is_true(status, "FailureTarget") {
        let why = "cannot set Complete=True and FailureTarget=true conditions";
        misfit(check, path, why);
    }
    let (start, end) = (at(status, &["startTime"]), at(status, &["completionTime"]));
    let of_end = path.child("completionTime");
    if !complete && !end.is_null() {
        let why = "cannot set completionTime when there is no Complete=True condition";
        check.invalid(of_end.clone(), end, why);
    }
    if complete && end.is_null() {
        check.required(of_end.clone(), "completionTime is required for Complete jobs");
    }
    let times_differ = change.differs("startTime") || change.differs("completionTime");
    if let (Some(start), Some(end_text)) = (start.as_str(), end.as_str())
        && times_differ
        && end_text < start
    {
        check.invalid(of_end, end, "must be equal to or after `startTime`");
    }
    if failed && !is_true(status, "FailureTarget") && !is_true(before, "Failed") {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        misfit(check, path, why);
    }
    if complete && !is_true(status, "SuccessCriteriaMet") && !is_true(before, "Complete") {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        misfit(check, path, why);
    }
}

/// Checks the values of a finished job.
fn finished(check: &mut Check, change: &Change<'_>, path: &Path) {
    let status = change.status;
    if !is_finished(status) {
        return;
    }
    let active = count(status, "active");
    if active > 0 && change.finishes_or(&["active"]) {
        let why = "active>0 is invalid for finished job";
        check.invalid(path.child("active"), &active.into(), why);
    }
    let spec = at(change.job, &["spec"]);
    let never_started = at(spec, &["suspend"]) == true && count(spec, "completions") == 0;
    if at(status, &["startTime"]).is_null() && !never_started && change.finishes_or(&["startTime"]) {
        check.required(path.child("startTime"), "startTime is required for finished job");
    }
    let field = "uncountedTerminatedPods";
    let has_uncounted = ["succeeded", "failed"]
        .iter()
        .any(|part| !list(status, &[field, part]).is_empty());
    if has_uncounted && change.finishes_or(&[field]) {
        let why = "uncountedTerminatedPods needs to be empty for finished job";
        check.invalid(path.child(field), at(status, &[field]), why);
    }
    let terminating = count(status, "terminating");
    if terminating > 0 && change.finishes_or(&["terminating"]) {
        let why = "terminating>0 is invalid for finished job";
        check.invalid(path.child("terminating"), &terminating.into(), why);
    }
}

fn indexes(check: &mut Check, change: &Change<'_>, path: &Path) {
    let (status, spec) = (change.status, at(change.job, &["spec"]));
    let (completed, failed) = (at(status, &["completedIndexes"]), at(status, &["failedIndexes"]));
    let (of_completed, of_failed) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let completions = at(spec, &["completions"]).as_i64();
    let per_index = !at(spec, &["backoffLimitPerIndex"]).is_null();
    let (completed_changes, failed_changes) = (
        change.differs("completedIndexes"),
        change.differs("failedIndexes"),
    );
    if let Some(completions) = completions {
        if completed_changes && let Err(why) = intervals(text(completed, &[]), completions) {
            let why = format!("error parsing completedIndexes: {why}");
            check.invalid(of_completed.clone(), completed, why);
        }
        if failed_changes
            && per_index
            && let Err(why) = intervals(text(failed, &[]), completions)
        {
            let why = format!("error parsing failedIndexes: {why}");
            check.invalid(of_failed.clone(), failed, why);
        }
    }
    let is_indexed = text(spec, &["completionMode"]) == "Indexed";
    if completed_changes && !is_indexed && !text(completed, &[]).is_empty() {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        check.invalid(of_completed, completed, why);
    }
    if failed_changes && !per_index && !failed.is_null() {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        check.invalid(of_failed.clone(), failed, why);
    }
    if let Some(completions) = completions
        && (completed_changes || failed_changes)
        && let Ok(ours) = intervals(text(completed, &[]), completions)
        && let Ok(others) = intervals(text(failed, &[]), completions)
        && let Some(index) = overlap(&ours, &others)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        check.invalid(of_failed, failed, why);
    }
}

/// Parses intervals such as `1,3-5`, which must be in increasing order and below the number of completions.
fn intervals(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    if text.is_empty() {
        return Ok(found);
    }
    let order = |last: i64, next: i64| {
        if last < next {
            Ok(())
        } else {
            Err(format!("non-increasing order, previous: {last}, current: {next}"))
        }
    };
    for part in text.split(',') {
        let limits: Vec<&str> = part.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
                apimachinery::go::quote(part)
            ));
        }
        let mut numbers = Vec::with_capacity(2);
        for limit in &limits {
            let quoted = || apimachinery::go::quote(limit);
            let number: i64 = limit
                .parse()
                .map_err(|_| format!("cannot convert string to integer for index: {}", quoted()))?;
            if number >= completions {
                return Err(format!("too large index: {}", quoted()));
            }
            numbers.push(number);
        }
        let (first, last) = match numbers[..] {
            [first, last] => {
                order(first, last)?;
                (first, last)
            }
            [only, ..] => (only, only),
            [] => continue,
        };
        if let Some((_, before)) = found.last() {
            order(*before, first)?;
        }
        found.push((first, last));
    }
    Ok(found)
}

/// Returns the first index that is in both lists of increasing intervals.
fn overlap(ours: &[(i64, i64)], others: &[(i64, i64)]) -> Option<i64> {
    let (mut ours, mut others) = (ours.iter().peekable(), others.iter().peekable());
    while let (Some(&&(first, last)), Some(&&(other_first, other_last))) = (ours.peek(), others.peek()) {
        if first <= other_last && other_first <= last {
            return Some(first.max(other_first));
        }
        if last < other_first {
            ours.next();
        } else {
            others.next();
        }
    }
    None
}

/// Checks the values that cannot change back.
fn final_values(check: &mut Check, change: &Change<'_>, path: &Path) {
    let (status, before) = (change.status, change.before);
    for kind in ["Failed", "Complete"] {
        if is_true(before, kind) && !is_true(status, kind) {
            let why = format!("cannot disable the terminal {kind}=True condition");
            misfit(check, path, &why);
        }
    }
    let spec = at(change.job, &["spec"]);
    let is_elastic = text(spec, &["completionMode"]) == "Indexed"
        && at(spec, &["completions"]) == at(spec, &["parallelism"]);
    for field in ["failed", "succeeded"] {
        let shrinks = count(status, field) < count(before, field);
        if shrinks && !(field == "succeeded" && is_elastic) {
            let why = format!("cannot decrease the {field} counter");
            check.invalid(path.child(field), &count(status, field).into(), why);
        }
    }
    let (end, ended) = (at(status, &["completionTime"]), at(before, &["completionTime"]));
    if !end.is_null() && !ended.is_null() && end != ended {
        check.invalid(path.child("completionTime"), end, "field is immutable");
    }
    let (start, started) = (at(status, &["startTime"]), at(before, &["startTime"]));
    let is_suspended = at(spec, &["suspend"]) == true;
    if !started.is_null() && !is_suspended && start != started {
        let of_start = path.child("startTime");
        if start.is_null() {
            check.required(of_start, "startTime cannot be removed for unsuspended job");
        } else {
            check.invalid(of_start, start, "field is immutable");
        }
    }
}
