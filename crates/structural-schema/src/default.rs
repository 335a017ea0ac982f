//! Defaults are filled in, and nulls that may not be stored are dropped.

use serde_json::Value;

use crate::node::Node;

/// Fills in the schema's defaults: absent fields, and nulls where null is not allowed.
pub(crate) fn default(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match map.get(name) {
                    None => {}
                    Some(Value::Null) if !property.nullable => {}
                    Some(_) => continue,
                }
                map.insert(name.clone(), default.clone());
            }
            for (name, field) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    default_inside(field, property);
                } else if let Some(additional) = schema.additional_schema() {
                    replace_null(field, additional);
                    default_inside(field, additional);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                replace_null(item, schema);
                default_inside(item, schema);
            }
        }
        _ => {}
    }
}

fn default_inside(value: &mut Value, schema: &Node) {
    if !value.is_null() {
        default(value, schema);
    }
}

fn replace_null(value: &mut Value, schema: &Node) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

/// Drops nulls of object fields that are not nullable and have no default; list items stay, to be refused later.
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
