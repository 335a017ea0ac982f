//! Validates the metadata in the templates of claims, which has labels and annotations only.

use apimachinery::field::Path;
use serde_json::Value;

use super::check::{Check, OBJECT_META};
use crate::tree::{at, is_zero};

/// Validates the metadata of a template.
pub(super) fn validate(check: &mut Check, metadata: &Value, path: &Path) {
    check.annotations(at(metadata, &["annotations"]), &path.child("annotations"));
    check.labels(at(metadata, &["labels"]), &path.child("labels"));
    for field in OBJECT_META {
        if ["annotations", "labels"].contains(field) {
            continue;
        }
        let value = at(metadata, &[field]);
        // The API server compares these fields with nil.
        let is_given = (*field == "deletionGracePeriodSeconds" || value.is_array()) && !value.is_null();
        if is_given || !is_zero(value) {
            // The path has the spelling of the API server's rule.
            let shown = if *field == "uid" { "uID" } else { field };
            check.forbidden(path.child(shown), "cannot be set");
        }
    }
}
