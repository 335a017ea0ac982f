//! Drops fields that a schema does not declare, and returns their paths.

use apimachinery::field::append;
use serde_json::Value;

use crate::node::{AdditionalProperties, Node};

/// The fields of every resource, regardless of its schema.
pub(crate) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields below the root of a resource; returns their sorted paths.
pub(crate) fn prune(object: &mut Value, schema: &Node) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.resource(object, schema);
    pruner.unknown.sort();
    pruner.unknown
}

/// Drops unknown fields of a value that is not a resource, such as a default.
pub(crate) fn prune_value(value: &mut Value, schema: &Node) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.value(value, Some(schema), schema.embedded_resource);
    pruner.unknown.sort();
    pruner.unknown
}

/// The maximum number of reported unknown fields. The server shows at most 100 of them.
const MAX_UNKNOWN: usize = 1000;

/// Adds the path of an unknown field, unless there are too many.
pub(crate) fn report(unknown: &mut Vec<String>, path: impl FnOnce() -> String) {
    if unknown.len() < MAX_UNKNOWN {
        unknown.push(path());
    }
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn resource(&mut self, object: &mut Value, schema: &Node) {
        self.value(object, Some(schema), true);
    }

    fn value(&mut self, value: &mut Value, schema: Option<&Node>, is_resource: bool) {
        let Some(schema) = schema else {
            return self.without_schema(value);
        };
        let keep = schema.preserves_unknown_fields();
        match value {
            Value::Object(map) => map.retain(|key, field| {
                if is_resource && META_FIELDS.contains(&key.as_str()) {
                    return true;
                }
                let len = self.path.len();
                self.push_key(key);
                let known = self.field(field, schema, key) || keep;
                if !known {
                    self.report();
                }
                self.path.truncate(len);
                known
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let len = self.path.len();
                    append(&mut self.path, &format!("[{index}]"));
                    match &schema.items {
                        Some(items) => self.value(item, Some(items), items.embedded_resource),
                        None if keep => {}
                        None => self.without_schema(item),
                    }
                    self.path.truncate(len);
                }
            }
            _ => {}
        }
    }

    /// Prunes a field if the schema declares it; returns false if the schema does not declare it.
    fn field(&mut self, field: &mut Value, schema: &Node, key: &str) -> bool {
        if let Some(property) = schema.properties.get(key) {
            self.value(field, Some(property), property.embedded_resource);
            return true;
        }
        match &schema.additional_properties {
            Some(AdditionalProperties::Schema(node)) => {
                self.value(field, Some(node), node.embedded_resource);
                true
            }
            // `true` keeps the field, but does not describe its content.
            Some(AdditionalProperties::Allowed(_)) => {
                self.without_schema(field);
                true
            }
            None => false,
        }
    }

    fn without_schema(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for key in map.keys() {
                    let len = self.path.len();
                    self.push_key(key);
                    self.report();
                    self.path.truncate(len);
                }
                map.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let len = self.path.len();
                    append(&mut self.path, &format!("[{index}]"));
                    self.without_schema(item);
                    self.path.truncate(len);
                }
            }
            _ => {}
        }
    }

    fn report(&mut self) {
        report(&mut self.unknown, || self.path.clone());
    }

    fn push_key(&mut self, key: &str) {
        if !self.path.is_empty() {
            append(&mut self.path, ".");
        }
        append(&mut self.path, key);
    }
}
