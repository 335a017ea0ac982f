//! Sets defaults, and drops nulls that must not be stored.

use apimachinery::json;
use serde_json::Value;

use crate::node::Node;

/// The maximum total size of the defaults that are set in one object, which is far more than can be stored. A small
/// object can have many items, and each of them gets all defaults.
const MAX_BYTES: usize = 32 << 20;

/// Sets the schema's defaults for missing fields, and for nulls in fields that do not allow null.
pub(crate) fn default(value: &mut Value, schema: &Node) {
    fill(value, schema, &mut { MAX_BYTES });
}

/// Subtracts the size of a default; returns true if the limit is not exceeded.
fn take(left: &mut usize, name: &str, default: &Value) -> bool {
    let size = name.len().saturating_add(json::memory(default));
    let rest = left.checked_sub(size);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

fn fill(value: &mut Value, schema: &Node, left: &mut usize) {
    match value {
        Value::Object(map) => {
            for name in &schema.defaulted {
                let Some(property) = schema.properties.get(name) else {
                    continue;
                };
                let Some(default) = &property.default else {
                    continue;
                };
                match map.get(name) {
                    None => {}
                    Some(Value::Null) if !property.nullable => {}
                    Some(_) => continue,
                }
                if !take(left, name, default) {
                    return;
                }
                map.insert(name.clone(), default.clone());
            }
            for (name, field) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    fill_inside(field, property, left);
                } else if let Some(additional) = schema.additional_schema() {
                    replace_null(field, additional, left);
                    fill_inside(field, additional, left);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                replace_null(item, schema, left);
                fill_inside(item, schema, left);
            }
        }
        _ => {}
    }
}

fn fill_inside(value: &mut Value, schema: &Node, left: &mut usize) {
    if !value.is_null() {
        fill(value, schema, left);
    }
}

fn replace_null(value: &mut Value, schema: &Node, left: &mut usize) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
        && take(left, "", default)
    {
        *value = default.clone();
    }
}

/// Drops nulls of fields that are not nullable and have no default. Nulls in lists are kept, and rejected later.
pub(crate) fn drop_nulls(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(map) => map.retain(|name, field| {
            let property = schema.property(name);
            if let (Value::Null, Some(property)) = (&*field, property) {
                return property.nullable || property.default.is_some();
            }
            if let Some(property) = property {
                drop_nulls(field, property);
            }
            true
        }),
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                drop_nulls(item, schema);
            }
        }
        _ => {}
    }
}
