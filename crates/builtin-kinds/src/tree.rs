//! Accessors of JSON trees: read and change fields that may be missing, null or of another type.
//!
//! They do not depend on kinds.

use std::collections::HashMap;

pub use apimachinery::object::copy_entry;
use serde_json::{Map, Value};

/// A JSON object.
pub type Object = Map<String, Value>;

/// Returns the value at a path of field names; `Value::Null` if it is missing.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter()
        .fold(value, |value, name| value.get(name).unwrap_or(&Value::Null))
}

/// Returns the items of a list by name; if several have the same name, the first one.
pub fn by_name(items: &[Value]) -> HashMap<&str, &Value> {
    let mut named = HashMap::with_capacity(items.len());
    for item in items {
        named.entry(text(item, &["name"])).or_insert(item);
    }
    named
}

/// Returns the string at a path; empty if it is missing.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or("")
}

/// Returns the list at a path; empty if it is missing.
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// Returns the entries of the object at a path, in key order; empty if it is not an object.
pub fn entries<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> + Clone + use<'a> {
    at(value, path).as_object().into_iter().flatten()
}

/// Returns true if the value is a zero value in Go: missing, null, false, 0, "", [] or {}.
pub fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Returns true if two values are equal, where empty lists and maps are like missing ones.
pub fn is_equivalent(left: &Value, right: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => one
            .keys()
            .chain(other.keys())
            .all(|name| is_equivalent(at(left, &[name]), at(right, &[name]))),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(left, right)| is_equivalent(left, right))
        }
        _ => left == right || is_empty(left) && is_empty(right),
    }
}

/// Returns true if a field is missing or null, which is a nil pointer in Go.
pub fn is_nil(object: &Object, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// Sets a field if it is missing or null.
pub fn set_if_nil(object: &mut Object, name: &str, value: impl Into<Value>) {
    if is_nil(object, name) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a field if it is missing or has Go's zero value.
pub fn set_if_zero(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(is_zero) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Returns the object in a field, which is created if it is missing or null; `None` if the field has another type.
pub fn object_in<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    set_if_nil(object, name, Object::new());
    object.get_mut(name)?.as_object_mut()
}

/// Returns the object in a field, if it is one.
pub fn existing_object_in<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name)?.as_object_mut()
}

/// Returns the objects in a list field.
pub fn objects_in<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}
