//! Indexed Jobs: one success for each index from 0.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::controller::job::Run;
use crate::object::{Object, set};
use crate::pod;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn index_of(pod: &Value) -> Option<i64> {
    pod.annotation(INDEX)?.parse().ok()
}

/// The indexes that have succeeded.
pub(super) fn completed(run: &Run<'_>) -> BTreeSet<i64> {
    let mut indexes = parse(run.job.text("/status/completedIndexes"));
    let succeeded = run.succeeded.iter().filter_map(|pod| index_of(pod));
    indexes.extend(succeeded.filter(|index| run.completions().is_none_or(|count| *index < count)));
    indexes
}

/// Some of the indexes that have neither succeeded nor a pod; `None` if the Job is not indexed.
pub(super) fn free(run: &Run<'_>, count: usize) -> Option<Vec<i64>> {
    if !run.is_indexed() {
        return None;
    }
    let completed = completed(run);
    let busy: BTreeSet<i64> = run.active.iter().filter_map(|pod| index_of(pod)).collect();
    let all = 0..run.completions().unwrap_or(0);
    Some(
        all.filter(|index| !completed.contains(index) && !busy.contains(index))
            .take(count)
            .collect(),
    )
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

fn parse(text: &str) -> BTreeSet<i64> {
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
