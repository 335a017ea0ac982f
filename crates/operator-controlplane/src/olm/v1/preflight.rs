//! The safety check before a CRD is updated: existing objects and clients must continue to work.

use apimachinery::go::quote;
use serde_json::Value;
use structural_schema::crd::diff::{Severity, diff_schemas};

use crate::object::Object;

/// Returns the reason why an update of a CRD is rejected.
pub(super) fn refusal(old: &Value, new: &Value) -> Option<String> {
    let name = new.name();
    let failures = failures(old, new);
    (!failures.is_empty()).then(|| {
        format!(
            "validating upgrade for CRD {}: CustomResourceDefinition {name} failed upgrade safety validation. {}",
            quote(name),
            failures.join("; ")
        )
    })
}

fn failures(old: &Value, new: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    let (before, after) = (old.text("/spec/scope"), new.text("/spec/scope"));
    if before != after {
        failures.push(format!(
            "\"NoScopeChange\" validation failed: scope changed from {} to {}",
            quote(before),
            quote(after)
        ));
    }
    let version = |name: &str| {
        new.items("/spec/versions")
            .iter()
            .find(|version| version.text("/name") == name)
    };
    let stored = old
        .items("/status/storedVersions")
        .iter()
        .filter_map(Value::as_str);
    for stored in stored.filter(|stored| version(stored).is_none()) {
        failures.push(format!(
            "\"NoStoredVersionRemoved\" validation failed: stored version {} removed",
            quote(stored)
        ));
    }
    for before in old.items("/spec/versions") {
        let name = before.text("/name");
        let schemas = version(name).and_then(|after| {
            let schema = "/schema/openAPIV3Schema";
            Some((before.pointer(schema)?, after.pointer(schema)?))
        });
        let Some((before, after)) = schemas else {
            continue;
        };
        // Unlike the API server, OLM also rejects new defaults.
        let is_refused = |severity: Severity, what: &str| {
            severity == Severity::Breaking || what.starts_with("default added")
        };
        for change in diff_schemas(before, after) {
            if is_refused(change.severity, &change.what) {
                failures.push(format!(
                    "\"ChangeValidator\" validation failed: version {}, field {}: {}",
                    quote(name),
                    quote(format!("^.{}", change.path).trim_end_matches('.')),
                    change.what
                ));
            }
        }
    }
    failures
}
