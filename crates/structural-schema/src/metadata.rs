//! The `metadata` of resources and embedded resources: drops unknown fields, rejects wrong types, validates the
//! content.

use apimachinery::field::{Error, ErrorList, ErrorType, Path, append};
use apimachinery::time::{self, TimeForm};
use apimachinery::{go, names};
use serde_json::{Map, Value};

use crate::node::Node;
use crate::prune::report;

/// An error of the metadata of an object: the value, and the message of Go's JSON decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", prefix(.path, .shown), .reason)]
pub struct MalformedMetadata {
    path: String,
    shown: Option<String>,
    reason: String,
}

fn prefix(path: &str, shown: &Option<String>) -> String {
    match shown {
        Some(shown) => format!("{path}: Invalid value: {shown}: "),
        None => String::new(),
    }
}

/// The types of the fields of `ObjectMeta`.
enum Kind {
    Text,
    Integer,
    Time,
    TextMap,
    Texts,
    Owners,
    ManagedFields,
}

const FIELDS: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("generateName", Kind::Text),
    ("namespace", Kind::Text),
    ("selfLink", Kind::Text),
    ("uid", Kind::Text),
    ("resourceVersion", Kind::Text),
    ("generation", Kind::Integer),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::Integer),
    ("labels", Kind::TextMap),
    ("annotations", Kind::TextMap),
    ("ownerReferences", Kind::Owners),
    ("finalizers", Kind::Texts),
    ("managedFields", Kind::ManagedFields),
];

const OWNER_FIELDS: &[(&str, &str, &str)] = &[
    ("apiVersion", "string", "OwnerReference"),
    ("kind", "string", "OwnerReference"),
    ("name", "string", "OwnerReference"),
    ("uid", "types.UID", "OwnerReference"),
    ("controller", "bool", "OwnerReference"),
    ("blockOwnerDeletion", "bool", "OwnerReference"),
];

const MANAGED_FIELDS: &[(&str, &str, &str)] = &[
    ("manager", "string", "ManagedFieldsEntry"),
    ("operation", "v1.ManagedFieldsOperationType", "ManagedFieldsEntry"),
    ("apiVersion", "string", "ManagedFieldsEntry"),
    ("time", "", ""),
    ("fieldsType", "string", "ManagedFieldsEntry"),
    ("fieldsV1", "", ""),
    ("subresource", "string", "ManagedFieldsEntry"),
];

/// Drops unknown fields of the root's metadata, and rejects wrong types; returns the sorted paths of the dropped
/// fields.
pub(crate) fn coerce_root(object: &mut Value) -> Result<Vec<String>, MalformedMetadata> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    coerce_object_meta(metadata, "metadata", None)
}

/// Drops unknown fields of the metadata of embedded resources and rejects wrong types.
pub(crate) fn coerce_embedded(
    value: &mut Value,
    schema: &Node,
    path: &Path,
    is_root: bool,
) -> Result<Vec<String>, MalformedMetadata> {
    let mut unknown = Vec::new();
    coerce_value(value, schema, path, is_root, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn coerce_value(
    value: &mut Value,
    schema: &Node,
    path: &Path,
    is_root: bool,
    unknown: &mut Vec<String>,
) -> Result<(), MalformedMetadata> {
    match value {
        _ if !schema.has_embedded => {}
        Value::Object(map) => {
            if schema.embedded_resource && !is_root {
                coerce_resource(map, path, unknown)?;
            }
            for (name, field) in map.iter_mut() {
                if (schema.embedded_resource || is_root) && crate::prune::META_FIELDS.contains(&name.as_str())
                {
                    continue;
                }
                let (child, path) = match schema.properties.get(name) {
                    Some(child) => (child, path.child(name)),
                    None => match schema.additional_schema() {
                        Some(child) => (child, path.key(name)),
                        None => continue,
                    },
                };
                coerce_value(field, child, &path, false, unknown)?;
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else {
                return Ok(());
            };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_value(item, schema, &path.index(index), false, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_resource(
    map: &mut Map<String, Value>,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), MalformedMetadata> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = map.get(name)
            && !value.is_string()
        {
            return Err(MalformedMetadata {
                path: path.child(name).to_string(),
                shown: Some(apimachinery::field::render(value)),
                reason: "must be a string".to_owned(),
            });
        }
    }
    if let Some(metadata) = map.get_mut("metadata") {
        let path = path.child("metadata");
        let shown = go::json(metadata);
        for field in coerce_object_meta(metadata, path.as_str(), Some(&shown))? {
            report(unknown, || field);
        }
    }
    Ok(())
}

/// Extends a path up to its maximum length.
fn shown_path(path: &str, fields: &[&str]) -> String {
    let mut path = path.to_owned();
    for field in fields {
        append(&mut path, ".");
        append(&mut path, field);
    }
    path
}

fn coerce_object_meta(
    metadata: &mut Value,
    path: &str,
    shown: Option<&str>,
) -> Result<Vec<String>, MalformedMetadata> {
    let refuse = |reason: String| MalformedMetadata {
        path: path.to_owned(),
        shown: shown.map(str::to_owned),
        reason,
    };
    let map = match metadata {
        Value::Object(map) => map,
        Value::Null => return Ok(Vec::new()),
        other => {
            let reason = format!(
                "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                go::json_kind(other)
            );
            return Err(refuse(reason));
        }
    };
    let mut unknown = Vec::new();
    for (name, value) in map.iter_mut() {
        let Some((_, kind)) = FIELDS.iter().find(|(field, _)| *field == name) else {
            report(&mut unknown, || shown_path(path, &[name]));
            continue;
        };
        check_field(name, value, kind, path, &mut unknown).map_err(refuse)?;
    }
    map.retain(|name, value| FIELDS.iter().any(|(field, _)| *field == name) && is_written_back(name, value));
    unknown.sort();
    Ok(unknown)
}

/// Returns true if Go writes the value: it omits zero values, and for pointers only null is zero.
fn is_written_back(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Number(number) => name != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    }
}

fn check_field(
    name: &str,
    value: &mut Value,
    kind: &Kind,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let field = format!("ObjectMeta.{name}");
    match (kind, &mut *value) {
        (_, Value::Null) | (Kind::Text, Value::String(_)) => Ok(()),
        (Kind::Text, other) => Err(mismatch(
            other,
            &field,
            if name == "uid" { "types.UID" } else { "string" },
        )),
        (Kind::Integer, other) => match other.as_i64() {
            Some(_) => Ok(()),
            None => Err(mismatch(other, &field, "int64")),
        },
        (Kind::Time, Value::String(text)) => {
            *value = time::canonical(text, TimeForm::Seconds)?.into();
            Ok(())
        }
        (Kind::Time, other) => Err(mismatch(other, "", "string")),
        (Kind::TextMap, Value::Object(map)) => map.values().try_for_each(|value| match value {
            Value::String(_) | Value::Null => Ok(()),
            other => Err(mismatch(other, &field, "string")),
        }),
        (Kind::TextMap, other) => Err(mismatch(other, &field, "map[string]string")),
        (Kind::Texts, Value::Array(items)) => items.iter().try_for_each(|item| match item {
            Value::String(_) | Value::Null => Ok(()),
            other => Err(mismatch(other, &field, "string")),
        }),
        (Kind::Texts, other) => Err(mismatch(other, &field, "[]string")),
        (Kind::Owners, Value::Array(items)) => check_items(items, name, OWNER_FIELDS, path, unknown),
        (Kind::Owners, other) => Err(mismatch(other, &field, "[]v1.OwnerReference")),
        (Kind::ManagedFields, Value::Array(items)) => check_items(items, name, MANAGED_FIELDS, path, unknown),
        (Kind::ManagedFields, other) => Err(mismatch(other, &field, "[]v1.ManagedFieldsEntry")),
    }
}

fn check_items(
    items: &mut [Value],
    name: &str,
    fields: &[(&str, &str, &str)],
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for (index, item) in items.iter_mut().enumerate() {
        let Value::Object(map) = item else {
            if item.is_null() {
                continue;
            }
            let target = if name == "ownerReferences" {
                "v1.OwnerReference"
            } else {
                "v1.ManagedFieldsEntry"
            };
            return Err(mismatch(item, &format!("ObjectMeta.{name}"), target));
        };
        for (key, value) in map.iter() {
            let Some((_, go_type, owner)) = fields.iter().find(|(field, _, _)| field == key) else {
                report(unknown, || shown_path(path, &[&format!("{name}[{index}]"), key]));
                continue;
            };
            let fits = match *go_type {
                "" => true,
                "bool" => value.is_boolean(),
                _ => value.is_string(),
            };
            if !fits && !value.is_null() {
                let outer = if *owner == "OwnerReference" {
                    "ownerReferences"
                } else {
                    "managedFields"
                };
                return Err(mismatch(value, &format!("ObjectMeta.{outer}.{key}"), go_type));
            }
        }
        map.retain(|key, _| fields.iter().any(|(field, _, _)| field == key));
    }
    Ok(())
}

fn mismatch(value: &Value, field: &str, go_type: &str) -> String {
    let kind = match value {
        Value::Number(number) if go_type == "int64" => format!("number {number}"),
        other => go::json_kind(other).to_owned(),
    };
    if field.is_empty() {
        return format!("json: cannot unmarshal {kind} into Go value of type {go_type}");
    }
    format!("json: cannot unmarshal {kind} into Go struct field {field} of type {go_type}")
}

/// Validates embedded resources: apiVersion, kind and metadata.
pub(crate) fn validate(value: &Value, schema: &Node, path: &Path, is_root: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_value(value, schema, path, is_root, &mut errors);
    errors
}

/// Returns the errors of the apiVersion, kind and metadata of a new object, including its name.
pub(crate) fn validate_root(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(map) = object.as_object() else {
        return errors;
    };
    validate_resource(map, &Path::default(), &mut errors);
    let text = |name: &str| {
        let metadata = map.get("metadata").and_then(Value::as_object);
        let found = metadata.and_then(|metadata| metadata.get(name));
        found.and_then(Value::as_str).unwrap_or("")
    };
    let path = Path::new("metadata").child("name");
    match (text("name"), text("generateName")) {
        ("", "") => errors.push(Error::required(path, "name or generateName is required")),
        ("", _) => {}
        (name, _) => errors.extend(
            names::dns1123_subdomain(name)
                .into_iter()
                .map(|problem| Error::invalid(path.clone(), name.into(), problem)),
        ),
    }
    errors
}

fn validate_value(value: &Value, schema: &Node, path: &Path, is_root: bool, errors: &mut ErrorList) {
    match value {
        Value::Object(map) => {
            if schema.embedded_resource || is_root {
                validate_resource(map, path, errors);
            }
            for (name, field) in map.iter().filter(|_| schema.has_embedded) {
                if let Some(child) = schema.properties.get(name) {
                    validate_value(field, child, &path.child(name), false, errors);
                } else if let Some(child) = schema.additional_schema() {
                    validate_value(field, child, &path.key(name), false, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                validate_value(item, schema, &path.index(index), false, errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    match map.get("apiVersion").and_then(Value::as_str).unwrap_or("") {
        "" => errors.push(Error::required(path.child("apiVersion"), "")),
        version if version.split('/').count() > 2 => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(path.child("apiVersion"), version.into(), detail));
        }
        _ => {}
    }
    match map.get("kind").and_then(Value::as_str).unwrap_or("") {
        "" => errors.push(Error::required(path.child("kind"), "")),
        kind => {
            let problems = names::dns1035_label(&kind.to_lowercase());
            if !problems.is_empty() {
                let detail = format!(
                    "may have mixed case, but should otherwise match: {}",
                    problems.join(",")
                );
                errors.push(Error::invalid(path.child("kind"), kind.into(), detail));
            }
        }
    }
    if let Some(metadata) = map.get("metadata").and_then(Value::as_object) {
        validate_object_meta(metadata, &path.child("metadata"), errors);
    }
}

fn validate_object_meta(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or("");
    for name in ["generateName", "name"] {
        for problem in names::path_segment(text(name)) {
            errors.push(Error::invalid(path.child(name), text(name).into(), problem));
        }
    }
    if !text("namespace").is_empty() {
        for problem in names::dns1123_label(text("namespace")) {
            errors.push(Error::invalid(
                path.child("namespace"),
                text("namespace").into(),
                problem,
            ));
        }
    }
    if map
        .get("generation")
        .and_then(Value::as_i64)
        .is_some_and(|generation| generation < 0)
    {
        let value = map.get("generation").cloned().unwrap_or_default();
        errors.push(Error::invalid(
            path.child("generation"),
            value,
            "must be greater than or equal to 0",
        ));
    }
    let empty = Map::new();
    let labels = map.get("labels").and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in labels {
        for problem in names::qualified_name(key) {
            errors.push(Error::invalid(path.child("labels"), key.as_str().into(), problem));
        }
        for problem in names::label_value(value.as_str().unwrap_or("")) {
            errors.push(Error::invalid(path.child("labels"), value.clone(), problem));
        }
    }
    let annotations = map
        .get("annotations")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let mut size = 0;
    for (key, value) in annotations {
        for problem in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(
                path.child("annotations"),
                key.as_str().into(),
                problem,
            ));
        }
        size += key.len() + value.as_str().unwrap_or("").len();
    }
    if size > 262_144 {
        errors.push(Error::too_long(path.child("annotations"), 262_144));
    }
    for (index, finalizer) in map
        .get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let finalizer = finalizer.as_str().unwrap_or("");
        let problems = names::qualified_name(finalizer);
        for problem in problems {
            errors.push(Error::new(
                ErrorType::Invalid,
                path.child("finalizers").index(index),
                problem,
            ));
        }
    }
}
