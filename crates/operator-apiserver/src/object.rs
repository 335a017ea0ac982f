//! Reading and changing the parts of an object that every kind has.

use serde_json::{Map, Value};

/// The text at a path of fields; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path of fields.
pub(crate) fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// A field of metadata.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|metadata| metadata.get(field))
}

/// The finalizers, in order.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    meta(object, "finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// The metadata as a map, made if it is missing or no map.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(object, "metadata")
}

/// A field as a map, made if it is missing or no map. An `object` that is no map becomes one.
pub(crate) fn child_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let child = map_mut(object).entry(field.to_owned()).or_insert(Value::Null);
    map_mut(child)
}

fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value was made an object above"),
    }
}

/// Sets a field of metadata, or removes it (`None`).
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    let metadata = metadata_mut(object);
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Copies a top-level field from another version of the object, or removes it if that has none.
pub(crate) fn copy_field(object: &mut Value, from: &Value, field: &str) {
    let map = map_mut(object);
    match from.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Copies a field of metadata from another version of the object.
pub(crate) fn copy_meta(object: &mut Value, from: &Value, field: &str) {
    set_meta(object, field, meta(from, field).cloned());
}

pub(crate) fn generation(object: &Value) -> i64 {
    meta(object, "generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// A text in Go's `%q` form.
pub(crate) fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\x{:02x}", control as u32));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
