//! Validates printer columns, subresource paths and selectable fields.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use super::text_at;
use crate::field_path::resolve;
use crate::node::{self, Node};

const MAX_SELECTABLE_FIELDS: usize = 8;
const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

pub(super) fn validate_columns(version: &Value, path: &Path, errors: &mut ErrorList) {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (index, column) in columns.into_iter().flatten().enumerate() {
        validate_column(
            column,
            &path.child("additionalPrinterColumns").index(index),
            errors,
        );
    }
}

fn validate_column(column: &Value, path: &Path, errors: &mut ErrorList) {
    if text_at(column, "/name").is_empty() {
        errors.push(Error::required(path.child("name"), ""));
    }
    let types = format!("must be one of {}", TYPES.join(","));
    match text_at(column, "/type") {
        "" => errors.push(Error::required(path.child("type"), types)),
        kind if !TYPES.contains(&kind) => errors.push(Error::invalid(path.child("type"), kind.into(), types)),
        _ => {}
    }
    let format = text_at(column, "/format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.push(Error::invalid(path.child("format"), format.into(), detail));
    }
    match text_at(column, "/jsonPath") {
        "" => errors.push(Error::required(path.child("JSONPath"), "")),
        json_path => errors.extend(simple_path_error(json_path, &path.child("JSONPath"))),
    }
}

fn simple_path_error(json_path: &str, path: &Path) -> Option<Error> {
    let detail = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| Error::invalid(path.clone(), json_path.into(), detail))
}

pub(super) fn validate_subresources(subresources: Option<&Value>, path: &Path, errors: &mut ErrorList) {
    let Some(scale) = subresources
        .and_then(|subresources| subresources.get("scale"))
        .filter(|scale| scale.is_object())
    else {
        return;
    };
    let path = path.child("scale");
    for (name, prefix) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = path.child(name);
        let json_path = scale.get(name).and_then(Value::as_str).unwrap_or("");
        if json_path.is_empty() {
            errors.push(Error::required(path, ""));
        } else if let Some(error) = simple_path_error(json_path, &path) {
            errors.push(error);
        } else if !json_path.starts_with(&format!("{prefix}.")) {
            let detail = format!("should be a json path under {prefix}");
            errors.push(Error::invalid(path, json_path.into(), detail));
        }
    }
    let selector = text_at(scale, "/labelSelectorPath");
    let path = path.child("labelSelectorPath");
    if selector.is_empty() {
        return;
    }
    if let Some(error) = simple_path_error(selector, &path) {
        errors.push(error);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(Error::invalid(path, selector.into(), detail));
    }
}

/// Returns the errors of selectable fields. Its argument is the schema in the server's internal form, or the reason why
/// a schema is required.
pub(super) fn validate_selectable_fields(
    version: &Value,
    schema: Option<&Value>,
    missing: &str,
    parent: &Path,
    errors: &mut ErrorList,
) {
    let Some(fields) = version
        .get("selectableFields")
        .and_then(Value::as_array)
        .filter(|fields| !fields.is_empty())
    else {
        return;
    };
    let path = parent.child("selectableFields");
    let Some(schema) = schema else {
        return errors.push(Error::invalid(path, "".into(), missing));
    };
    let schema = match node::parse(schema) {
        Ok(schema) => schema,
        Err(_) => return,
    };
    let schema = match schema.structural_obstacle() {
        None => schema,
        Some(obstacle) => {
            let path = parent.child("schema.openAPIV3Schema");
            errors.push(Error::invalid(path, "".into(), obstacle));
            Node::default()
        }
    };
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        validate_selectable_field(
            field,
            &schema,
            &path.index(index).child("jsonPath"),
            &mut seen,
            errors,
        );
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

fn validate_selectable_field(
    field: &Value,
    schema: &Node,
    path: &Path,
    seen: &mut BTreeSet<Path>,
    errors: &mut ErrorList,
) {
    let json_path = text_at(field, "/jsonPath");
    if json_path.is_empty() {
        return errors.push(Error::required(path.clone(), ""));
    }
    let (target, target_schema) = match resolve(json_path, schema) {
        Ok(found) => found,
        Err(problem) => {
            let detail = format!("is an invalid path: {problem}");
            return errors.push(Error::invalid(path.clone(), json_path.into(), detail));
        }
    };
    if target.as_str().split('.').next() == Some("metadata") {
        errors.push(Error::invalid(
            path.clone(),
            json_path.into(),
            "must not point to fields in metadata",
        ));
    }
    if !matches!(target_schema.kind.as_str(), "string" | "boolean" | "integer") {
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
        errors.push(Error::invalid(path.clone(), json_path.into(), detail));
    }
    if !seen.insert(target) {
        errors.push(Error::duplicate(path.clone(), &json_path.into()));
    }
}
