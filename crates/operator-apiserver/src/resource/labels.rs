//! Validates labels and annotations.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{names, object};
use serde_json::Value;

const TOTAL_ANNOTATION_SIZE_MAX: usize = 256 * 1024;

/// Checks the keys and the values of the labels of an object.
pub(crate) fn validate_labels(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let labels = object::meta(object, "labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for fault in names::qualified_name(key) {
            errors.push(Error::invalid(path.clone(), key.as_str().into(), fault));
        }
        let value = value.as_str().unwrap_or_default();
        for fault in names::label_value(value) {
            errors.push(Error::invalid(path.clone(), value.into(), fault));
        }
    }
    errors
}

/// Checks the keys of the annotations of an object, and their size.
pub(crate) fn validate_annotations(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0;
    let annotations = object::meta(object, "annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.as_str().map(str::len).unwrap_or_default();
        for fault in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(path.clone(), key.as_str().into(), fault));
        }
    }
    if size > TOTAL_ANNOTATION_SIZE_MAX {
        errors.push(Error::too_long(path.clone(), TOTAL_ANNOTATION_SIZE_MAX));
    }
    errors
}
