//! Validates Jobs and CronJobs.

use apimachinery::field::{Error, Path};
use serde_json::{Value, json};

use super::check::{Check, render_selector, selector_is_valid, selects};
use super::workload::NO_MATCH;
use super::{job_policy, pod};
use crate::cron::Schedule;
use crate::tree::{at, text};

pub(super) fn job(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    generated_selector(check, object, &path);
    job_with_selector(check, spec, &path);
}

/// Checks that a generated selector contains the identity of the Job.
fn generated_selector(check: &mut Check, object: &Value, path: &Path) {
    let spec = at(object, &["spec"]);
    if at(spec, &["manualSelector"]) == &Value::Bool(true) || at(spec, &["selector"]).is_null() {
        return;
    }
    let (uid, name) = (
        text(object, &["metadata", "uid"]),
        text(object, &["metadata", "name"]),
    );
    let template = path.child("template").child("metadata");
    for (label, expected) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        generated_label(
            check,
            at(spec, &["template", "metadata", "labels"]),
            (label, expected),
            &template,
        );
    }
    let selector = at(spec, &["selector"]);
    let expected = json!({
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name,
    });
    if selector_is_valid(selector) && !selects(selector, &expected) {
        check.invalid(path.child("selector"), selector, "`selector` not auto-generated");
    }
}

fn generated_label(check: &mut Check, labels: &Value, (label, expected): (&str, &str), path: &Path) {
    let path = path.child("labels").key(label);
    let detail = format!("must be '{expected}'");
    match at(labels, &[label]).as_str() {
        None => check.required(path, &detail),
        Some(found) if found != expected => check.invalid(path, labels, detail),
        Some(_) => {}
    }
}

fn job_with_selector(check: &mut Check, spec: &Value, path: &Path) {
    job_spec(check, spec, path);
    let selector = at(spec, &["selector"]);
    if selector.is_null() {
        check.required(path.child("selector"), "");
    } else {
        check.label_selector(selector, &path.child("selector"));
    }
    let labels = at(spec, &["template", "metadata", "labels"]);
    if selector_is_valid(selector) && !selects(selector, labels) {
        let path = path.child("template").child("metadata").child("labels");
        check.invalid(path, labels, NO_MATCH);
    }
}

fn job_spec(check: &mut Check, spec: &Value, path: &Path) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check.non_negative(spec, path, field);
    }
    let (per_index, failed) = (
        at(spec, &["backoffLimitPerIndex"]),
        at(spec, &["maxFailedIndexes"]),
    );
    if !failed.is_null() && per_index.is_null() {
        let why = "when maxFailedIndexes is specified";
        check.required(path.child("backoffLimitPerIndex"), why);
    }
    job_policy::managed_by(check, spec, path);
    check.optional_one_of(spec, path, "completionMode", &["NonIndexed", "Indexed"]);
    match at(spec, &["completionMode"]).as_str() {
        Some("Indexed") => indexed(check, spec, path),
        None | Some("NonIndexed") => {
            for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
                if !value.is_null() {
                    check.invalid(path.child(field), value, "requires indexed completion mode");
                }
            }
        }
        _ => {}
    }
    job_policy::failure_policy(check, spec, &path.child("podFailurePolicy"));
    job_policy::success_policy(check, spec, &path.child("successPolicy"));
    let policies: &[&str] = match at(spec, &["podFailurePolicy"]) {
        Value::Null => &["Failed", "TerminatingOrFailed"],
        _ => &["Failed"],
    };
    check.optional_one_of(spec, path, "podReplacementPolicy", policies);
    let template = path.child("template");
    pod::template(check, at(spec, &["template"]), &template);
    restart_policy(check, spec, &template.child("spec").child("restartPolicy"));
}

/// Validates the limits of indexed Jobs.
fn indexed(check: &mut Check, spec: &Value, path: &Path) {
    const INDEXES_MAX: i64 = 100_000;
    let number = |field: &str| at(spec, &[field]).as_i64();
    let completions = number("completions");
    if completions.is_none() {
        check.required(path.child("completions"), "when completion mode is Indexed");
    }
    if number("parallelism").is_some_and(|number| number > INDEXES_MAX) {
        let why = format!("must be less than or equal to {INDEXES_MAX} when completion mode is Indexed");
        check.invalid(path.child("parallelism"), at(spec, &["parallelism"]), why);
    }
    let Some(failed) = number("maxFailedIndexes") else {
        return;
    };
    let path = path.child("maxFailedIndexes");
    if completions.is_some_and(|completions| failed > completions) {
        let why = "must be less than or equal to completions";
        check.invalid(path.clone(), &failed.into(), why);
    }
    if failed > INDEXES_MAX {
        let why = format!("must be less than or equal to {INDEXES_MAX}");
        check.invalid(path, &failed.into(), why);
    }
}

/// Validates the restart policy of a Job's pods.
fn restart_policy(check: &mut Check, spec: &Value, path: &Path) {
    let policy = text(spec, &["template", "spec", "restartPolicy"]);
    match policy {
        "OnFailure" | "Never" => {}
        "" | "Always" => {
            check.required(path.clone(), "valid values: \"OnFailure\", \"Never\"");
        }
        other => check.errors.push(Error::not_supported(
            path.clone(),
            &other.into(),
            &["OnFailure", "Never"],
        )),
    }
    if policy == "OnFailure" && !at(spec, &["podFailurePolicy"]).is_null() {
        check.invalid(
            path.clone(),
            &policy.into(),
            "only \"Never\" is supported when podFailurePolicy is specified",
        );
    }
}

pub(super) fn job_update(check: &mut Check, object: &Value, old: &Value) {
    let path = Path::new("spec");
    let (spec, old) = (at(object, &["spec"]), at(old, &["spec"]));
    job_with_selector(check, spec, &path);
    let mut fixed = |field: &str| {
        check.immutable(at(spec, &[field]), at(old, &[field]), path.child(field));
    };
    let elastic = text(spec, &["completionMode"]) == "Indexed"
        && at(spec, &["completions"]) == at(spec, &["parallelism"]);
    if !elastic {
        fixed("completions");
    }
    fixed("selector");
    if at(old, &["suspend"]) != &Value::Bool(true) {
        fixed("template");
    }
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        fixed(field);
    }
}

pub(super) fn cron_job(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let schedule = text(spec, &["schedule"]);
    if schedule.is_empty() {
        check.required(path.child("schedule"), "");
    } else {
        if let Err(fault) = Schedule::parse(schedule) {
            check.invalid(path.child("schedule"), &schedule.into(), fault);
        }
        if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            check.invalid(path.child("schedule"), &schedule.into(), why);
        }
    }
    check.non_negative(spec, &path, "startingDeadlineSeconds");
    time_zone(check, at(spec, &["timeZone"]), &path.child("timeZone"));
    if text(spec, &["concurrencyPolicy"]).is_empty() {
        check.required(path.child("concurrencyPolicy"), "");
    } else {
        check.one_of(spec, &path, "concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    }
    let template = path.child("jobTemplate").child("spec");
    let job = at(spec, &["jobTemplate", "spec"]);
    job_spec(check, job, &template);
    let selector = at(job, &["selector"]);
    if !selector.is_null() {
        let shown = render_selector(selector);
        check.invalid_text(
            template.child("selector"),
            shown,
            "`selector` will be auto-generated",
        );
    }
    if at(job, &["manualSelector"]) == &Value::Bool(true) {
        check.errors.push(Error::not_supported(
            template.child("manualSelector"),
            &true.into(),
            &["nil", "false"],
        ));
    }
    check.non_negative(spec, &path, "successfulJobsHistoryLimit");
    check.non_negative(spec, &path, "failedJobsHistoryLimit");
}

fn time_zone(check: &mut Check, zone: &Value, path: &Path) {
    let Some(name) = zone.as_str() else {
        return;
    };
    if name.is_empty() {
        check.invalid(path.clone(), zone, "timeZone must be nil or non-empty string");
        return;
    }
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_zone_part) {
        check.invalid(path.clone(), zone, unknown);
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        check.invalid(
            path.clone(),
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if apimachinery::time::zone::named(name).is_none() {
        check.invalid(path.clone(), zone, unknown);
    }
}

/// Returns true if a part of a time zone's name is safe in a path.
fn is_zone_part(part: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.chars().all(fits)
}
