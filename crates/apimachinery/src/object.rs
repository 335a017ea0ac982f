//! Reads and changes the fields that the objects of all kinds have.

use serde_json::{Map, Value};

/// Returns the string at a path of fields, or an empty string.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value at a path of fields.
pub fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// Returns `metadata.name`, or an empty string.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// Returns `metadata.namespace`, or an empty string.
pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// Returns `metadata.uid`, or an empty string.
pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// Returns `metadata.resourceVersion`, or an empty string.
pub fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

/// Returns true if the object has a deletion timestamp.
pub fn is_terminating(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Returns a field of metadata.
pub fn meta<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|metadata| metadata.get(field))
}

/// Returns the finalizers, in order.
pub fn finalizers(object: &Value) -> Vec<&str> {
    meta(object, "finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Returns the metadata as a map; replaces a value that is not a map with an empty map.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(object, "metadata")
}

/// Returns a field as a map; replaces an object or a field that is not a map with an empty map.
pub fn child_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let map = map_mut(object);
    if !map.contains_key(field) {
        map.insert(field.to_owned(), Value::Null);
    }
    match map.get_mut(field) {
        Some(child) => map_mut(child),
        None => unreachable!("the field was inserted above"),
    }
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

/// Sets a field of metadata, or removes it with `None`.
pub fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    set(metadata_mut(object), field, value);
}

fn set(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match (value, map.get_mut(field)) {
        (Some(value), Some(known)) => *known = value,
        (Some(value), None) => _ = map.insert(field.to_owned(), value),
        (None, _) => _ = map.remove(field),
    }
}

/// Copies a top-level field from another version of the object; removes it if that version does not have it.
pub fn copy_field(object: &mut Value, from: &Value, field: &str) {
    copy_entry(map_mut(object), from, field);
}

/// Copies a field of `from` to a map, or removes it if `from` does not have it.
pub fn copy_entry(map: &mut Map<String, Value>, from: &Value, field: &str) {
    if map.get(field) != from.get(field) {
        set(map, field, from.get(field).cloned());
    }
}

/// Copies a field of metadata from another version of the object.
pub fn copy_meta(object: &mut Value, from: &Value, field: &str) {
    if meta(object, field) != meta(from, field) {
        set_meta(object, field, meta(from, field).cloned());
    }
}

/// Returns `metadata.generation`, or 0.
pub fn generation(object: &Value) -> i64 {
    meta(object, "generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}
