//! Checks that lists that are sets or map lists have no duplicates.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go;
use serde_json::{Map, Value};

use crate::node::Node;

/// Returns the duplicates in all lists of `value` that are sets or map lists.
pub(crate) fn validate(value: &Value, schema: &Node, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(value, schema, path, &mut errors);
    errors
}

fn walk(value: &Value, schema: &Node, path: &Path, errors: &mut ErrorList) {
    if errors.is_full() || !schema.has_unique_items {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, field) in map {
                if let Some(property) = schema.properties.get(name) {
                    walk(field, property, &path.child(name), errors);
                } else if let Some(additional) = schema.additional_schema() {
                    walk(field, additional, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => validate_set(items, path, errors),
                Some("map") => validate_map(items, schema, path, errors),
                _ => {}
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(item, schema, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_set(items: &[Value], path: &Path, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    let mut reported = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let text = go::json(item);
        if !seen.insert(text.clone()) && reported.insert(text) {
            errors.push(Error::duplicate(path.index(index), item));
        }
    }
}

fn validate_map(items: &[Value], schema: &Node, path: &Path, errors: &mut ErrorList) {
    let is_no_object = |item: &&Value| !item.is_object() && !item.is_null();
    if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| is_no_object(item)) {
        let detail = "must be an object for an array of list-type map";
        return errors.push(Error::invalid(path.index(index), item.clone(), detail));
    }
    let mut seen = HashSet::new();
    let mut reported = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        // Null has no keys.
        let keys: Map<String, Value> = schema
            .list_map_keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
            .collect();
        let keys = Value::Object(keys);
        let text = go::json(&keys);
        if !seen.insert(text.clone()) && reported.insert(text) {
            errors.push(Error::duplicate(path.index(index), &keys));
        }
    }
}
