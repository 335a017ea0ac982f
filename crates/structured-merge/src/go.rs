//! Go's formatting and comparison of values, for the API server's error messages.

use std::cmp::Ordering;

use apimachinery::go;
use serde_json::{Map, Number, Value};

/// Returns true if two values are equal; `1` and `1.0` are equal.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

/// Compares two values: numbers, strings, booleans, lists, maps, null, in this order of types.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => as_f64(left).total_cmp(&as_f64(right)),
    }
}

fn as_f64(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN) + 0.0
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    let items = left.iter().zip(right).map(|(left, right)| compare(left, right));
    items
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let (left, right) = (sorted(left), sorted(right));
    let entries = left
        .iter()
        .zip(&right)
        .map(|(left, right)| left.0.cmp(right.0).then_with(|| compare(left.1, right.1)));
    entries
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// Returns the type name of a value, like `%T`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value like `%v`: `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<_> = sorted(map)
                .iter()
                .map(|(key, value)| format!("{key}:{}", plain(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Formats a value like `%#v`: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            format!(
                "[]interface {{}}{{{}}}",
                items.iter().map(syntax).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Object(map) => {
            let entries: Vec<_> = sorted(map)
                .iter()
                .map(|(key, value)| format!("{}:{}", go::quote(key), syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        scalar => plain(scalar),
    }
}
