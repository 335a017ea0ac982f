//! Indexed Jobs: one success for each index from 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::controller::job::{Run, TRACKING, policy};
use crate::object::{Object, set};
use crate::pod;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index has failed before, where each index has a limit.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often it has failed without counting.
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The index of a pod, if it is one of the Job's.
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

/// How often the index of a pod had failed before it, counting or not.
pub(super) fn failures(pod: &Value) -> i64 {
    annotated(pod, FAILURES) + annotated(pod, IGNORED_FAILURES)
}

/// The indexes that have succeeded.
pub(super) fn completed(run: &Run<'_>) -> BTreeSet<i64> {
    let mut indexes = parse(run.job.text("/status/completedIndexes"));
    indexes.extend(run.succeeded.iter().filter_map(|pod| of(run, pod)));
    indexes
}

/// The indexes that have failed for good; none where the limit is the Job's.
pub(super) fn failed(run: &Run<'_>) -> BTreeSet<i64> {
    let Some(limit) = run.job.int("/spec/backoffLimitPerIndex") else {
        return BTreeSet::new();
    };
    let mut indexes = parse(run.job.text("/status/failedIndexes"));
    let given_up = run.failed.iter().filter(|pod| {
        let judgement = policy::judge(run.job, pod);
        pod.has_finalizer(TRACKING)
            && (judgement.fails_index || (judgement.counts && annotated(pod, FAILURES) >= limit))
    });
    indexes.extend(given_up.filter_map(|pod| of(run, pod)));
    indexes
}

/// The failed pods, by index, that stay until a pod in their place knows how often the index has failed.
pub(super) fn delayed<'r>(run: &'r Run<'_>) -> BTreeMap<i64, &'r Arc<Value>> {
    let mut delayed: BTreeMap<i64, &Arc<Value>> = BTreeMap::new();
    if !run.limits_each_index() {
        return delayed;
    }
    let mut settled: BTreeSet<i64> = run.active.iter().filter_map(|pod| of(run, pod)).collect();
    settled.extend(completed(run));
    settled.extend(failed(run));
    for pod in run.failed.iter().filter(|pod| pod.has_finalizer(TRACKING)) {
        let Some(index) = of(run, pod).filter(|index| !settled.contains(index)) else {
            continue;
        };
        let last = delayed.entry(index).or_insert(pod);
        if failures(last) < failures(pod) {
            *last = pod;
        }
    }
    delayed
}

/// Some of the indexes that need a pod: not done, not given up, and without one.
pub(super) fn free(run: &Run<'_>, count: usize) -> Vec<i64> {
    let mut busy = completed(run);
    busy.extend(failed(run));
    busy.extend(run.active.iter().filter_map(|pod| of(run, pod)));
    if run.replaces_only_failed() {
        busy.extend(run.ending.iter().filter_map(|pod| of(run, pod)));
    }
    let all = 0..run.completions().unwrap_or(0);
    all.filter(|index| !busy.contains(index)).take(count).collect()
}

/// Writes the indexes into a status; whether it said so before.
pub(super) fn tell(status: &mut Value, run: &Run<'_>) -> bool {
    let completed = completed(run);
    if !completed.is_empty() {
        set(status, &["completedIndexes"], ranges(&completed).into());
        set(status, &["succeeded"], completed.len().into());
    }
    if run.limits_each_index() {
        set(status, &["failedIndexes"], ranges(&failed(run)).into());
    }
    let before = run.job.get("status");
    ["completedIndexes", "failedIndexes", "succeeded"]
        .iter()
        .all(|field| before.and_then(|before| before.get(field)) == status.get(field))
}

/// Notes on a pod how often its index has failed.
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

/// Makes a pod the one of an index: annotation, label, host name and environment.
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

/// Indexes as `1,3-5,7`.
pub(super) fn ranges(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    let texts: Vec<String> = ranges.iter().map(text).collect();
    texts.join(",")
}

pub(super) fn parse(text: &str) -> BTreeSet<i64> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_and_read() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7"] {
            assert_eq!(ranges(&parse(text)), text);
        }
    }
}
