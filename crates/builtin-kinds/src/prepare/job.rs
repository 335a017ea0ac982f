//! Generates the selector of a Job.

use serde_json::{Value, json};

use crate::tree::{Object, at, is_zero, object_in, set_if_zero, text};

/// Labels the template with the identity of the job, and selects pods by these labels.
pub(super) fn generate_selector(job: &mut Object) {
    let metadata = job.get("metadata").unwrap_or(&Value::Null);
    let uid = text(metadata, &["uid"]).to_owned();
    let name = text(metadata, &["name"]).to_owned();
    let Some(spec) = object_in(job, "spec") else {
        return;
    };
    if uid.is_empty() || spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let labels = object_in(spec, "template")
        .and_then(|template| object_in(template, "metadata"))
        .and_then(|metadata| object_in(metadata, "labels"));
    if let Some(labels) = labels {
        for (label, value) in [
            ("controller-uid", &uid),
            ("batch.kubernetes.io/controller-uid", &uid),
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
        ] {
            labels.entry(label).or_insert_with(|| value.as_str().into());
        }
    }
    let labels = at(&Value::Object(spec.clone()), &["template", "metadata", "labels"]).clone();
    let selected = object_in(spec, "selector").and_then(|s| object_in(s, "matchLabels"));
    if let Some(selected) = selected {
        selected
            .entry("batch.kubernetes.io/controller-uid")
            .or_insert(json!(uid));
    }
    // A Job without labels gets the labels of its template.
    if let Some(metadata) = object_in(job, "metadata").filter(|_| !is_zero(&labels)) {
        set_if_zero(metadata, "labels", labels);
    }
}
