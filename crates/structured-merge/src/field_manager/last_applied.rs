//! The upgrade from client-side apply: kubectl may take ownership of the fields in its last-applied annotation.

use serde_json::{Map, Value};

use super::FieldManager;
use crate::field_set::FieldSet;
use crate::typed::{self, Duplicates};
use crate::updater::OwnedByOther;

/// The name of the manager of `kubectl apply --server-side`.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum total size of all annotations, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Returns the conflicts about fields that client-side apply did not set, or that have changed since then.
pub(super) fn remaining(
    manager: &FieldManager,
    live: &Value,
    conflicts: Vec<OwnedByOther>,
) -> Vec<OwnedByOther> {
    let Some(allowed) = applied_and_unchanged(manager, live) else {
        return conflicts;
    };
    conflicts
        .into_iter()
        .map(|conflict| OwnedByOther {
            fields: conflict.fields.difference(&allowed),
            ..conflict
        })
        .filter(|conflict| !conflict.fields.is_empty())
        .collect()
}

fn applied_and_unchanged(manager: &FieldManager, live: &Value) -> Option<FieldSet> {
    let text = annotation(live)?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied["apiVersion"] != manager.api_version.as_str() || !applied["kind"].is_string() {
        return None;
    }
    let schema = manager.settings.schemas.get(&manager.api_version)?;
    typed::validate(schema, live, Duplicates::Refused).ok()?;
    typed::validate(schema, &applied, Duplicates::Refused).ok()?;
    let changes = typed::compare(schema, &applied, live).ok()?;
    let fields = typed::field_set(schema, &applied);
    Some(
        fields
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

/// Updates the annotation with the applied configuration, if the object has the annotation.
pub(super) fn synchronize(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), configuration(config).into());
    if size(annotations) > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Formats the configuration as JSON, without the annotation itself.
fn configuration(config: &Value) -> String {
    let mut config = config.clone();
    let annotations = config
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    format!("{config}\n")
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}
