//! Indexed Jobs: one success for each index from 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::controller::job::indexes::Indexes;
use crate::controller::job::{Run, TRACKING, policy};
use crate::object::{Object, set};
use crate::pod;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the number of earlier failures of an index, if each index has a limit.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of earlier failures that did not count.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Returns the index of a pod, if it is valid for the Job.
pub(super) fn of(run: &Run<'_>, pod: &Value) -> Option<i64> {
    let index = pod.annotation(INDEX)?.parse().ok()?;
    let is_in_range = index >= 0 && run.completions().is_none_or(|count| index < count);
    is_in_range.then_some(index)
}

fn annotated(pod: &Value, annotation: &str) -> i64 {
    pod.annotation(annotation)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Returns the number of failures of the pod's index before this pod, counted or not.
pub(super) fn failures(pod: &Value) -> i64 {
    annotated(pod, FAILURES) + annotated(pod, IGNORED_FAILURES)
}

/// Returns the indexes that have succeeded.
pub(super) fn completed(run: &Run<'_>) -> Indexes {
    let mut indexes = Indexes::parse(run.job.text("/status/completedIndexes"));
    indexes.extend(run.succeeded.iter().filter_map(|pod| of(run, pod)));
    indexes
}

/// Returns the indexes that have exceeded their limit of failures; empty if the limit is per Job.
pub(super) fn failed(run: &Run<'_>) -> Indexes {
    let Some(limit) = run.job.int("/spec/backoffLimitPerIndex") else {
        return Indexes::default();
    };
    let mut indexes = Indexes::parse(run.job.text("/status/failedIndexes"));
    let given_up = run.failed.iter().filter(|pod| {
        let judgement = policy::judge(run.job, pod);
        pod.has_finalizer(TRACKING)
            && (judgement.fails_index || (judgement.counts && annotated(pod, FAILURES) >= limit))
    });
    indexes.extend(given_up.filter_map(|pod| of(run, pod)));
    indexes
}

/// Returns the failed pods, by index, that are kept until a replacement pod has the failure count of the index.
pub(super) fn delayed<'r>(run: &'r Run<'_>) -> BTreeMap<i64, &'r Arc<Value>> {
    let mut delayed: BTreeMap<i64, &Arc<Value>> = BTreeMap::new();
    if !run.limits_each_index() {
        return delayed;
    }
    let mut settled = completed(run);
    settled.add(&failed(run));
    settled.extend(run.active.iter().filter_map(|pod| of(run, pod)));
    for pod in run.failed.iter().filter(|pod| pod.has_finalizer(TRACKING)) {
        let Some(index) = of(run, pod).filter(|index| !settled.contains(*index)) else {
            continue;
        };
        let last = delayed.entry(index).or_insert(pod);
        if failures(last) < failures(pod) {
            *last = pod;
        }
    }
    delayed
}

/// Returns at most `count` indexes that need a pod: not completed, not failed, and without a pod.
pub(super) fn free(run: &Run<'_>, count: usize) -> Vec<i64> {
    let mut busy = completed(run);
    busy.add(&failed(run));
    busy.extend(run.active.iter().filter_map(|pod| of(run, pod)));
    if run.replaces_only_failed() {
        busy.extend(run.ending.iter().filter_map(|pod| of(run, pod)));
    }
    busy.gaps(run.completions().unwrap_or(0)).take(count).collect()
}

/// Writes the indexes into a status; returns true if the status already had them.
pub(super) fn tell(status: &mut Value, run: &Run<'_>) -> bool {
    let completed = completed(run);
    if !completed.is_empty() {
        set(status, &["completedIndexes"], completed.to_string().into());
        set(status, &["succeeded"], completed.count().into());
    }
    if run.limits_each_index() {
        set(status, &["failedIndexes"], failed(run).to_string().into());
    }
    let before = run.job.get("status");
    ["completedIndexes", "failedIndexes", "succeeded"]
        .iter()
        .all(|field| before.and_then(|before| before.get(field)) == status.get(field))
}

/// Annotates a pod with the number of failures of its index.
pub(super) fn count_failures(made: &mut Value, job: &Value, replaced: Option<&Value>) {
    let (mut counted, mut ignored) = replaced.map_or((0, 0), |pod| {
        (annotated(pod, FAILURES), annotated(pod, IGNORED_FAILURES))
    });
    if let Some(pod) = replaced {
        match policy::judge(job, pod).counts {
            true => counted += 1,
            false => ignored += 1,
        }
    }
    set(
        made,
        &["metadata", "annotations", FAILURES],
        counted.to_string().into(),
    );
    if ignored > 0 {
        set(
            made,
            &["metadata", "annotations", IGNORED_FAILURES],
            ignored.to_string().into(),
        );
    }
}

/// Sets the index of a pod: annotation, label, host name and environment.
pub(super) fn number(made: &mut Value, job: &str, index: i64) {
    let text = json!(index.to_string());
    set(made, &["metadata", "annotations", INDEX], text.clone());
    set(made, &["metadata", "labels", INDEX], text);
    set(
        made,
        &["metadata", "generateName"],
        json!(format!("{job}-{index}-")),
    );
    set(made, &["spec", "hostname"], json!(format!("{job}-{index}")));
    let source = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": source});
    for field in ["initContainers", "containers"] {
        let containers = made
            .pointer_mut(&format!("/spec/{field}"))
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut environment = container.items("/env").to_vec();
            environment.retain(|entry| entry.text("/name") != "JOB_COMPLETION_INDEX");
            environment.push(variable.clone());
            set(container, &["env"], Value::Array(environment));
        }
    }
    debug_assert!(!pod::is_finished(made));
}
