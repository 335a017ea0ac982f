//! Requests that set one field of an object, which can be below fields that the base object does not have.

use serde_json::{Map, Value, json};

use super::Making;
use crate::differential::catalog::Catalog;
use crate::differential::mutation::field_schema;
use crate::differential::sequence::Sequence;

/// The maximum number of objects above a field that are added for it.
const ADDED_MAX: usize = 2;
/// The maximum length of a path. Schemas contain schemas.
const PATH_LENGTH_MAX: usize = 14;

/// One step from a value to a field or to the first item of a list.
#[derive(Clone)]
enum Step {
    Field(String),
    Item,
}

/// Creates an object with an unusual value in one field, each of which is equally probable.
pub(super) fn fields(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("create");
    let mut object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let schema = making.catalog.schema(&kind);
    let mut search = Search {
        catalog: making.catalog,
        path: Vec::new(),
        found: Vec::new(),
    };
    search.fields(schema, &object, 0);
    if let Some((path, schema)) = making.random.pick(&search.found).cloned() {
        let values = unusual(schema);
        let value = making.random.pick(&values).cloned().unwrap_or_default();
        set(&mut object, &path, value);
    }
    let step = making.create(&kind, &object).query("dryRun", "All");
    sequence.steps.push(step);
    sequence
}

/// Lists the fields of an object that its schema has.
struct Search<'c> {
    catalog: &'c Catalog,
    path: Vec<Step>,
    found: Vec<(Vec<Step>, &'c Value)>,
}

impl<'c> Search<'c> {
    /// Lists a field and what is below it. `added` is the number of objects that the base object does not have.
    fn field(&mut self, step: Step, schema: &'c Value, value: &Value, added: usize) {
        if self.path.len() >= PATH_LENGTH_MAX {
            return;
        }
        let schema = self.catalog.resolve(schema);
        self.path.push(step);
        self.found.push((self.path.clone(), schema));
        let added = added + usize::from(value.is_null());
        if added <= ADDED_MAX {
            self.fields(schema, value, added);
        }
        self.path.pop();
    }

    fn fields(&mut self, schema: &'c Value, value: &Value, added: usize) {
        let schema = self.catalog.resolve(schema);
        if !schema["items"].is_null() {
            return self.field(Step::Item, &schema["items"], &value[0], added);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_fixed = ["apiVersion", "kind", "metadata", "status"].contains(&name.as_str());
            if !self.path.is_empty() || !is_fixed {
                self.field(Step::Field(name.clone()), schema, &value[name], added);
            }
        }
        if schema["additionalProperties"].is_object() {
            let known = value.as_object().and_then(|fields| fields.keys().next());
            let name = known.map_or("a", String::as_str);
            let below = field_schema(schema, name);
            self.field(Step::Field(name.to_owned()), below, &value[name], added);
        }
    }
}

fn unusual(schema: &Value) -> Vec<Value> {
    let values = match schema["type"].as_str() {
        Some("boolean") => json!([null, false, true]),
        Some("integer" | "number") => json!([null, 0, 1, -1, 70_000, 2_147_483_648_i64]),
        Some("array") => json!([null, [], [""], ["A b!", "A b!"]]),
        Some("object") => json!([null, {}, {"": ""}, {"A b!": "A b!"}]),
        _ => json!([null, "", "A b!", "a.b", "a/b", "a/../b", "x".repeat(300), 0, -1]),
    };
    values.as_array().cloned().unwrap_or_default()
}

/// Sets a field; lists and objects above it are added if they are missing.
fn set(value: &mut Value, path: &[Step], new: Value) {
    match path {
        [] => *value = new,
        [Step::Field(name), below @ ..] => {
            if !value.is_object() {
                *value = Map::new().into();
            }
            set(&mut value[name], below, new);
        }
        [Step::Item, below @ ..] => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([null]);
            }
            set(&mut value[0], below, new);
        }
    }
}
