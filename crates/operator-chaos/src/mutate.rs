//! Changes of the spec of a custom resource, derived from the schema of its CRD.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Maximum number of changes.
const MUTATIONS_MAX: usize = 96;
/// Maximum depth of properties that are changed.
const DEPTH_MAX: usize = 6;
/// Maximum number that is tried: a million pods reveal no more than ten.
const NUMBER_MAX: i64 = 10;

/// A change of one property, and its reversal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mutation {
    /// The change, as a merge patch.
    pub(crate) change: Value,
    /// The merge patch that reverts the change.
    pub(crate) undo: Value,
}

/// Returns the schema of an object from its CRD among the objects of a cluster.
pub(crate) fn schema_of<'a>(objects: &'a [Value], object: &Value) -> Option<&'a Value> {
    let text = |value: &'a Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let api_version = object.get("apiVersion")?.as_str()?;
    let (group, version) = api_version.split_once('/')?;
    let kind = object.get("kind")?.as_str()?;
    let definition = objects.iter().find(|definition| {
        text(definition, "/kind") == Some("CustomResourceDefinition")
            && text(definition, "/spec/group") == Some(group)
            && text(definition, "/spec/names/kind") == Some(kind)
    })?;
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let version = versions.iter().find(|it| text(it, "/name") == Some(version))?;
    version.pointer("/schema/openAPIV3Schema")
}

/// Returns changes of the properties of `spec`: other values, chosen by type, enumeration and bounds, and removals. The
/// server may reject them.
pub(crate) fn mutations(schema: &Value, object: &Value) -> Vec<Mutation> {
    let mut found = Vec::new();
    let spec = schema.pointer("/properties/spec");
    if let Some(spec) = spec {
        walk(spec, object.get("spec"), &mut vec!["spec".to_owned()], &mut found);
    }
    let mut seen = BTreeSet::new();
    found.retain(|mutation: &Mutation| seen.insert(mutation.change.to_string()));
    found.truncate(MUTATIONS_MAX);
    found
}

fn walk(schema: &Value, value: Option<&Value>, path: &mut Vec<String>, found: &mut Vec<Mutation>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in properties.into_iter().flatten() {
        let current = value.and_then(|value| value.get(name));
        path.push(name.clone());
        for other in values(property, current) {
            found.push(Mutation::of(path, &other, value.is_some(), current));
        }
        if current.is_some() && !required.contains(name.as_str()) {
            found.push(Mutation::of(path, &Value::Null, true, current));
        }
        if path.len() < DEPTH_MAX {
            walk(property, current, path, found);
        }
        path.pop();
    }
}

/// Returns other values of a property.
fn values(schema: &Value, current: Option<&Value>) -> Vec<Value> {
    let mut all = match schema.get("enum").and_then(Value::as_array) {
        Some(values) => values.clone(),
        None => match schema.get("type").and_then(Value::as_str) {
            Some("boolean") => vec![json!(true), json!(false)],
            Some("integer") => integers(schema, current),
            Some("number") => integers(schema, current),
            Some("string") => strings(schema, current),
            Some("array") => arrays(schema, current),
            Some("object") => objects(schema, current),
            _ if schema.get("x-kubernetes-int-or-string").is_some() => integers(schema, current),
            _ => Vec::new(),
        },
    };
    all.extend(schema.get("default").cloned());
    all.retain(|value| Some(value) != current);
    all
}

fn integers(schema: &Value, current: Option<&Value>) -> Vec<Value> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    let current = current.and_then(Value::as_i64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let candidates = [
        least,
        most,
        current.map(|value| value.saturating_add(1)),
        current.map(|value| value.saturating_sub(1)),
        Some(0),
        Some(1),
    ];
    let limit = NUMBER_MAX.max(current.unwrap_or(0).saturating_add(1));
    let is_allowed = |value: &i64| {
        least.is_none_or(|least| *value >= least)
            && most.is_none_or(|most| *value <= most)
            && (-limit..=limit).contains(value)
    };
    candidates
        .into_iter()
        .flatten()
        .filter(is_allowed)
        .map(Value::from)
        .collect()
}

fn strings(schema: &Value, current: Option<&Value>) -> Vec<Value> {
    let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
    let mut all = Vec::new();
    if least == 0 {
        all.push(json!(""));
    }
    match (
        current.and_then(Value::as_str),
        schema.get("format").and_then(Value::as_str),
    ) {
        (Some(text), None) => all.push(json!(format!("{text}x"))),
        (None, None) => all.push(json!("x")),
        _ => {}
    }
    all
}

fn arrays(schema: &Value, current: Option<&Value>) -> Vec<Value> {
    let items = current.and_then(Value::as_array);
    let mut all = vec![json!([])];
    if let Some((_, fewer)) = items.and_then(|items| items.split_last())
        && !fewer.is_empty()
    {
        all.push(Value::Array(fewer.to_vec()));
    }
    let of_items = schema
        .get("items")
        .map(|items| values(items, None))
        .unwrap_or_default();
    if let Some(item) = of_items.into_iter().next_back() {
        let mut more = items.cloned().unwrap_or_default();
        more.push(item);
        all.push(Value::Array(more));
    }
    all
}

fn objects(schema: &Value, current: Option<&Value>) -> Vec<Value> {
    let Some(values_of) = schema.get("additionalProperties").filter(|it| it.is_object()) else {
        // The properties of the object are changed one by one.
        return current.is_none().then(|| json!({})).into_iter().collect();
    };
    let value = values(values_of, None).into_iter().next_back();
    value.map(|value| json!({"chaos": value})).into_iter().collect()
}

impl Mutation {
    /// Returns the change of the property at a path. If its parent object did not exist, the reversal removes the
    /// parent.
    fn of(path: &[String], value: &Value, has_parent: bool, current: Option<&Value>) -> Self {
        let undo_path = match has_parent {
            true => path,
            false => path.get(..path.len() - 1).unwrap_or_default(),
        };
        let undo = match (value, current) {
            // A merge patch would keep the keys that were added.
            (Value::Object(added), current) => {
                let none = Map::new();
                let old = current.and_then(Value::as_object).unwrap_or(&none);
                let is_absent = current.is_none();
                let mut undo = old.clone();
                for name in added.keys().filter(|name| !old.contains_key(*name)) {
                    undo.insert(name.clone(), Value::Null);
                }
                if is_absent {
                    Value::Null
                } else {
                    Value::Object(undo)
                }
            }
            (_, current) => current.cloned().unwrap_or(Value::Null),
        };
        Self {
            change: nested(path, value.clone()),
            undo: nested(undo_path, undo),
        }
    }
}

fn nested(path: &[String], value: Value) -> Value {
    path.iter().rev().fold(value, |value, name| {
        Value::Object(Map::from_iter([(name.clone(), value)]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(property: &Value, spec: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {"a": property},
        }}});
        let found = mutations(&schema, &json!({"spec": spec}));
        found
            .iter()
            .map(|mutation| format!("{} {}", mutation.change["spec"], mutation.undo["spec"]))
            .collect()
    }

    #[test]
    fn each_type_has_other_values_and_the_way_back() {
        let size = json!({"type": "integer", "minimum": 1, "maximum": 5});
        assert_eq!(
            changes(&size, &json!({"a": 3})),
            [
                r#"{"a":1} {"a":3}"#,
                r#"{"a":5} {"a":3}"#,
                r#"{"a":4} {"a":3}"#,
                r#"{"a":2} {"a":3}"#,
                r#"{"a":null} {"a":3}"#,
            ]
        );
        assert_eq!(
            changes(&json!({"type": "boolean"}), &json!({})),
            [r#"{"a":true} {"a":null}"#, r#"{"a":false} {"a":null}"#]
        );
        let mode = json!({"type": "string", "enum": ["x", "y"]});
        assert_eq!(
            changes(&mode, &json!({"a": "x"})),
            [r#"{"a":"y"} {"a":"x"}"#, r#"{"a":null} {"a":"x"}"#]
        );
        let list = json!({"type": "array", "items": {"type": "string"}});
        assert_eq!(
            changes(&list, &json!({"a": ["p", "q"]})),
            [
                r#"{"a":[]} {"a":["p","q"]}"#,
                r#"{"a":["p"]} {"a":["p","q"]}"#,
                r#"{"a":["p","q","x"]} {"a":["p","q"]}"#,
                r#"{"a":null} {"a":["p","q"]}"#,
            ]
        );
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        assert_eq!(
            changes(&map, &json!({"a": {"k": "v"}})),
            [
                r#"{"a":{"chaos":"x"}} {"a":{"chaos":null,"k":"v"}}"#,
                r#"{"a":null} {"a":{"k":"v"}}"#,
            ]
        );
    }

    #[test]
    fn nested_properties_are_changed_and_required_ones_stay() {
        let nested = json!({
            "type": "object", "required": ["b"], "properties": {"b": {"type": "boolean"}},
        });
        assert_eq!(
            changes(&nested, &json!({"a": {"b": true}})),
            [
                r#"{"a":null} {"a":{"b":true}}"#,
                r#"{"a":{"b":false}} {"a":{"b":true}}"#,
            ]
        );
        assert_eq!(
            changes(&nested, &json!({})),
            [
                r#"{"a":{}} {"a":null}"#,
                r#"{"a":{"b":true}} {"a":null}"#,
                r#"{"a":{"b":false}} {"a":null}"#,
            ]
        );
    }
}
