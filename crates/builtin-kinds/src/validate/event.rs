//! Validates events of the core group and of `events.k8s.io`. Errors have the field names of the core group.

use apimachinery::field::Path;
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, render_go};
use crate::tree::{at, text};

const REPORTER_MAX: usize = 128;
const ACTION_MAX: usize = 128;
const REASON_MAX: usize = 128;
const NOTE_MAX: usize = 1024;
/// The minimum count of an event series.
const SERIES_MIN: i64 = 2;

/// Validates an event of the core group; changes are validated like creates.
pub(super) fn core(check: &mut Check, event: &Value) {
    let fields = Fields {
        subject: "involvedObject",
        note: "message",
        reporter: "reportingComponent",
    };
    common(check, event, &fields);
}

/// Validates a new event of `events.k8s.io`.
pub(super) fn create(check: &mut Check, event: &Value) {
    common(check, event, &EVENTS_FIELDS);
    series(check, event);
    if at(event, &["eventTime"]).is_null() {
        check.required(Path::new("eventTime"), "");
    }
    let kind = text(event, &["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        check.invalid(
            Path::new("type"),
            &"".into(),
            format!("has invalid value: {kind}"),
        );
    }
    let old_fields = [
        (
            "firstTimestamp",
            !at(event, &["deprecatedFirstTimestamp"]).is_null(),
        ),
        (
            "lastTimestamp",
            !at(event, &["deprecatedLastTimestamp"]).is_null(),
        ),
        (
            "count",
            at(event, &["deprecatedCount"])
                .as_i64()
                .is_some_and(|count| count != 0),
        ),
        (
            "source",
            ["component", "host"]
                .iter()
                .any(|part| !text(event, &["deprecatedSource", part]).is_empty()),
        ),
    ];
    for (field, is_set) in old_fields {
        if is_set {
            check.invalid(Path::new(field), &"".into(), "needs to be unset");
        }
    }
}

/// The immutable fields, in the order of the errors, with their names in the core group.
const IMMUTABLE: [(&str, &str); 14] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Validates a changed event of `events.k8s.io`: only its series may change.
pub(super) fn update(check: &mut Check, event: &Value, old: &Value) {
    common(check, event, &EVENTS_FIELDS);
    if at(event, &["series"]) != at(old, &["series"]) {
        series(check, event);
    }
    for (field, shown) in IMMUTABLE {
        let value = at(event, &[field]);
        if value != at(old, &[field]) {
            let path = Path::new(shown);
            match value {
                Value::Object(_) if matches!(field, "regarding" | "related") => {
                    check.invalid_text(path, render_reference(value), "field is immutable");
                }
                Value::Null if matches!(old.get(field), Some(Value::String(_))) => {
                    check.invalid(path, &"".into(), "field is immutable");
                }
                value => check.invalid(path, value, "field is immutable"),
            }
        }
    }
}

/// Formats a reference to an object as Go's struct.
fn render_reference(reference: &Value) -> String {
    const REFERENCE: &[GoPrint] = &[
        GoPrint("Kind", "kind", &[]),
        GoPrint("Namespace", "namespace", &[]),
        GoPrint("Name", "name", &[]),
        GoPrint("UID", "uid", &[]),
        GoPrint("APIVersion", "apiVersion", &[]),
        GoPrint("ResourceVersion", "resourceVersion", &[]),
        GoPrint("FieldPath", "fieldPath", &[]),
    ];
    render_go(reference, REFERENCE).replace(":null", ":\"\"")
}

/// The names of the common fields in a group.
struct Fields {
    subject: &'static str,
    note: &'static str,
    /// The name of the reporter field in errors.
    reporter: &'static str,
}

const EVENTS_FIELDS: Fields = Fields {
    subject: "regarding",
    note: "note",
    reporter: "reportingController",
};

fn common(check: &mut Check, event: &Value, fields: &Fields) {
    if at(event, &["eventTime"]).is_null() {
        subject(check, event, fields, &["", "default"]);
    } else {
        subject(check, event, fields, &["default", "kube-system"]);
        reporter(check, event, fields);
    }
    let namespace = text(event, &["metadata", "namespace"]);
    check.faults(
        &Path::new("namespace"),
        namespace,
        names::dns1123_subdomain(namespace),
    );
}

/// Checks the fields that an event with `eventTime` needs.
fn reporter(check: &mut Check, event: &Value, fields: &Fields) {
    // An event of the core group has its reporter in the same field, although errors use another name.
    let reporter = ["reportingController", "reportingComponent"]
        .map(|field| text(event, &[field]))
        .join("");
    let path = Path::new(fields.reporter);
    if reporter.is_empty() {
        check.required(path.clone(), "");
    }
    check.faults(&path, &reporter, names::qualified_name(&reporter));
    for (field, shown, max) in [
        ("reportingInstance", "reportingInstance", REPORTER_MAX),
        ("action", "action", ACTION_MAX),
        ("reason", "reason", REASON_MAX),
    ] {
        if text(event, &[field]).is_empty() {
            check.required(Path::new(shown), "");
        }
        short(check, event, field, shown, max);
    }
    short(check, event, fields.note, "message", NOTE_MAX);
}

fn short(check: &mut Check, event: &Value, field: &str, shown: &str, max: usize) {
    if text(event, &[field]).len() > max {
        check.invalid(
            Path::new(shown),
            &"".into(),
            format!("can have at most {max} characters"),
        );
    }
}

/// Checks that the regarded object is in the event's namespace. An event about a cluster-scoped object must be in one
/// of `homes`.
fn subject(check: &mut Check, event: &Value, fields: &Fields, homes: &[&str]) {
    let namespace = text(event, &["metadata", "namespace"]);
    let about = text(event, &[fields.subject, "namespace"]);
    let fine = if about.is_empty() {
        homes.contains(&namespace)
    } else {
        // An event with `eventTime` may be in any namespace.
        about == namespace || !at(event, &["eventTime"]).is_null()
    };
    if !fine {
        let path = Path::new("involvedObject").child("namespace");
        check.invalid(path, &about.into(), "does not match event.namespace");
    }
}

fn series(check: &mut Check, event: &Value) {
    let series = at(event, &["series"]);
    if !series.is_object() {
        return;
    }
    if at(series, &["count"]).as_i64().unwrap_or(0) < SERIES_MIN {
        check.invalid(
            Path::new("series.count"),
            &"".into(),
            format!("should be at least {SERIES_MIN}"),
        );
    }
    if at(series, &["lastObservedTime"]).is_null() {
        check.required(Path::new("series.lastObservedTime"), "");
    }
}
