//! CEL types of schemas: the type of `self` in rules, and its size bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes_cel::declared::{Declared, MAX_REQUEST_BYTES, Parts};
use kubernetes_cel::types::{ObjectType, Type};
use kubernetes_cel::value::escape;

use crate::node::Node;

fn scalar(kind: Type, min_size: u64) -> Declared {
    Declared {
        kind,
        max_elements: u64::MAX,
        min_size,
        parts: Parts::None,
    }
}

fn text(kind: Type, min_size: u64, max_elements: u64) -> Declared {
    Declared {
        kind,
        max_elements,
        min_size,
        parts: Parts::None,
    }
}

fn limit(max: Option<i64>, default: u64) -> u64 {
    max.map_or(default, |max| u64::try_from(max).unwrap_or(0))
}

/// Converts a length in characters to bytes; a character has at most four bytes.
fn in_bytes(max_length: i64) -> u64 {
    u64::try_from(max_length).unwrap_or(0).saturating_mul(4)
}

/// Returns the CEL type of a schema; `None` if the schema has no type information.
pub(crate) fn declare(node: &Node, is_resource: bool) -> Option<Declared> {
    if node.int_or_string {
        let max = node.max_length.map_or(MAX_REQUEST_BYTES - 2, in_bytes);
        return Some(text(Type::Dyn, 1, max));
    }
    if is_resource {
        return Some(object(node, true));
    }
    Some(match node.kind.as_str() {
        "array" => {
            let items = node.items.as_deref()?;
            let items = declare(items, items.embedded_resource)?;
            let max = limit(node.max_items, (MAX_REQUEST_BYTES - 2) / (items.min_size + 1));
            container(Type::list(items.kind.clone()), max, items)
        }
        "object" => match node.additional_schema() {
            Some(values) => {
                let values = declare(values, values.embedded_resource)?;
                let max = limit(
                    node.max_properties,
                    (MAX_REQUEST_BYTES - 2) / (values.min_size + 6),
                );
                container(Type::map(Type::String, values.kind.clone()), max, values)
            }
            None => object(node, false),
        },
        "string" => declare_text(node),
        "boolean" => scalar(Type::Bool, 4),
        "number" => scalar(Type::Double, 1),
        "integer" => scalar(Type::Int, 1),
        _ => return None,
    })
}

fn container(kind: Type, max_elements: u64, items: Declared) -> Declared {
    Declared {
        kind,
        max_elements,
        min_size: 2,
        parts: Parts::Items(Box::new(items)),
    }
}

fn declare_text(node: &Node) -> Declared {
    let unbounded = MAX_REQUEST_BYTES - 2;
    match node.format.as_str() {
        "byte" => text(Type::Bytes, 2, limit(node.max_length, unbounded)),
        "duration" => text(Type::Duration, 3, 32),
        "date" => text(Type::Timestamp, 12, 12),
        "date-time" => text(Type::Timestamp, 21, 32),
        _ => {
            let longest = node
                .allowed
                .iter()
                .map(|value| value.as_str().map_or(0, str::len));
            let max = match (node.max_length, longest.max()) {
                (Some(max), _) => in_bytes(max),
                (None, Some(longest)) => longest as u64,
                (None, None) => unbounded,
            };
            text(Type::String, 2, max)
        }
    }
}

fn object(node: &Node, is_resource: bool) -> Declared {
    let mut min_size = 2;
    let mut fields = BTreeMap::new();
    for (name, property) in &node.properties {
        let Some(declared) = declare(property, property.embedded_resource) else {
            continue;
        };
        if node.required.contains(name) && property.default.is_none() {
            min_size += name.len() as u64 + declared.min_size + 4;
        }
        if let Some(name) = escape(name) {
            fields.insert(name, declared);
        }
    }
    if is_resource {
        let name = || text(Type::String, 2, MAX_REQUEST_BYTES - 2);
        fields.insert("apiVersion".to_owned(), name());
        fields.insert("kind".to_owned(), name());
        let metadata = BTreeMap::from([("name".to_owned(), name()), ("generateName".to_owned(), name())]);
        fields.insert("metadata".to_owned(), object_of(metadata, 2));
    }
    object_of(fields, min_size)
}

fn object_of(fields: BTreeMap<String, Declared>, min_size: u64) -> Declared {
    let types = fields
        .iter()
        .map(|(name, field)| (name.clone(), field.kind.clone()))
        .collect();
    let kind = Type::Object(Arc::new(ObjectType {
        name: "object".to_owned(),
        fields: types,
    }));
    Declared {
        kind,
        max_elements: u64::MAX,
        min_size,
        parts: Parts::Fields(fields),
    }
}
