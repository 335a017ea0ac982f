//! Removes fields from a value, or keeps only some of its fields.

use serde_json::{Map as Object, Value};

use super::{Form, form, list_element};
use crate::field_set::{FieldSet, Node};
use crate::schema::{Arena, List, Map, Schema, TypeId};

/// Removes fields from a value. A list or map that becomes empty is kept.
pub(crate) fn remove(schema: &Schema, value: &Value, fields: &FieldSet) -> Value {
    if fields.is_empty() {
        value.clone()
    } else {
        removed(&schema.types, schema.root, value, fields)
    }
}

fn removed(types: &Arena, kind: TypeId, value: &Value, fields: &FieldSet) -> Value {
    match (form(types, kind, value), value) {
        (
            Form::List(List {
                associative: false, ..
            })
            | Form::Map(Map { atomic: true, .. }),
            _,
        ) => emptied(value),
        (Form::List(list), Value::Array(items)) => {
            let kept = |item: &Value| match list_element(types, list, item) {
                Ok(element) => kept(types, Some(list.element), fields.find(&element), item),
                Err(_) => Some(item.clone()),
            };
            Value::Array(items.iter().filter_map(kept).collect())
        }
        (Form::Map(map), Value::Object(object)) => {
            let kept = |(name, value): (&String, &Value)| {
                let value = kept(types, map.entry(name), fields.find_field(name), value)?;
                Some((name.clone(), value))
            };
            Value::Object(object.iter().filter_map(kept).collect())
        }
        _ => value.clone(),
    }
}

/// Returns an atomic value without its content, because a field set cannot address its parts. The API server does the
/// same.
fn emptied(value: &Value) -> Value {
    match value {
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(Object::new()),
        _ => Value::Null,
    }
}

/// Returns the rest of an item or entry, if there is any.
fn kept(types: &Arena, kind: Option<TypeId>, node: Option<&Node>, value: &Value) -> Option<Value> {
    match (node, kind) {
        (None, _) | (_, None) => Some(value.clone()),
        (Some(node), _) if node.member => None,
        (Some(node), Some(kind)) => Some(removed(types, kind, value, &node.children)),
    }
}

/// Keeps only these fields of the value, and the keys of the list items that contain them. A member that is a list or a
/// map does not include its content, unless it is atomic.
pub(crate) fn extract(schema: &Schema, value: &Value, fields: &FieldSet) -> Value {
    extracted(&schema.types, schema.root, value, fields).unwrap_or(Value::Null)
}

fn extracted(types: &Arena, kind: TypeId, value: &Value, fields: &FieldSet) -> Option<Value> {
    match (form(types, kind, value), value) {
        (
            Form::List(List {
                associative: true, ..
            }),
            Value::Array(items),
        ) => {
            let Form::List(list) = form(types, kind, value) else {
                return None;
            };
            let chosen = items
                .iter()
                .filter_map(|item| extracted_item(types, list, item, fields));
            Some(Value::Array(chosen.collect()))
        }
        (Form::Map(map @ Map { atomic: false, .. }), Value::Object(object)) => {
            Some(Value::Object(extracted_entries(types, map, object, fields)))
        }
        _ => Some(value.clone()),
    }
}

fn extracted_item(types: &Arena, list: &List, item: &Value, fields: &FieldSet) -> Option<Value> {
    let element = list_element(types, list, item).ok()?;
    let node = fields.find(&element)?;
    let mut out = extracted(types, list.element, item, &node.children)?;
    if let (Value::Object(out), Value::Object(item)) = (&mut out, item) {
        for key in &list.keys {
            if let Some(value) = item.get(&**key) {
                out.insert(key.to_string(), value.clone());
            }
        }
    }
    Some(out)
}

fn extracted_entries(
    types: &Arena,
    map: &Map,
    object: &Object<String, Value>,
    fields: &FieldSet,
) -> Object<String, Value> {
    let mut out = Object::new();
    for (name, value) in object {
        let Some(node) = fields.find_field(name) else {
            continue;
        };
        let Some(kind) = map.entry(name) else { continue };
        if let Some(value) = extracted(types, kind, value, &node.children) {
            out.insert(name.clone(), value);
        }
    }
    out
}
