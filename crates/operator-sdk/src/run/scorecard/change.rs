//! Changes of the fields of an example, for the test `behaviour-spec`.

use serde_json::{Value, json};

/// A field of the spec of an example with a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// The JSON pointer from the spec.
    pub(super) pointer: String,
    /// The field in the form of messages, such as `spec.ports[0].name`.
    pub(super) name: String,
    pub(super) value: Value,
}

/// Returns the fields of a spec that are not objects or lists. For a list, those of the first item are returned.
pub(super) fn fields(spec: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(spec, String::new(), "spec".to_owned(), &mut found);
    found
}

fn collect(value: &Value, pointer: String, name: String, found: &mut Vec<Field>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (key, member) in members {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                collect(
                    member,
                    format!("{pointer}/{escaped}"),
                    format!("{name}.{key}"),
                    found,
                );
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                collect(first, format!("{pointer}/0"), format!("{name}[0]"), found);
            }
        }
        value => found.push(Field {
            pointer,
            name,
            value: value.clone(),
        }),
    }
}

/// Returns the schema of a field in the schema of the spec.
pub(super) fn schema_of<'a>(mut schema: &'a Value, pointer: &str) -> &'a Value {
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        let property = schema.get("properties").and_then(|known| known.get(&key));
        schema = match property {
            Some(property) => property,
            None if schema.get("items").is_some() => &schema["items"],
            None => &schema["additionalProperties"],
        };
    }
    schema
}

/// Returns other values for a field, the most promising first. Only few of them need to be valid.
pub(super) fn others(value: &Value, schema: &Value) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().filter(|other| *other != value).cloned().collect();
    }
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => match number.as_i64() {
            Some(number) => {
                let step = schema["multipleOf"].as_i64().unwrap_or(1);
                let steps = [number.checked_add(step), number.checked_sub(step)];
                steps.into_iter().flatten().map(|other| json!(other)).collect()
            }
            None => {
                let number = number.as_f64().unwrap_or_default();
                vec![json!(number + 1.0), json!(number / 2.0)]
            }
        },
        Value::String(text) => {
            let mut others: Vec<String> = incremented(text).into_iter().collect();
            others.extend([format!("{text}-x"), format!("{text}x"), format!("x{text}")]);
            others.into_iter().map(Value::String).collect()
        }
        _ => Vec::new(),
    }
}

/// Increments the last number in a text: `100Mi` becomes `101Mi`.
fn incremented(text: &str) -> Option<String> {
    let end = text.rfind(|character: char| character.is_ascii_digit())? + 1;
    let digits = text[..end].bytes().rev().take_while(u8::is_ascii_digit).count();
    let start = end - digits;
    let number: u64 = text[start..end].parse().ok()?;
    Some(format!(
        "{}{}{}",
        &text[..start],
        number.checked_add(1)?,
        &text[end..]
    ))
}

/// Returns the top-level members of a spec with one field replaced: the merge patch for the change.
pub(super) fn changed(spec: &Value, pointer: &str, value: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(field) = spec.pointer_mut(pointer) {
        *field = value.clone();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_leaves_with_names() {
        let spec =
            json!({"size": 3, "tls": {"a/b": true}, "ports": [{"name": "web"}, {"name": "api"}], "none": {}});
        let found = fields(&spec);
        let names: Vec<&str> = found.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["spec.ports[0].name", "spec.size", "spec.tls.a/b"]);
        for field in &found {
            assert_eq!(spec.pointer(&field.pointer), Some(&field.value));
        }
        let changed = changed(&spec, &found[0].pointer, &json!("x"));
        assert_eq!(changed["ports"], json!([{"name": "x"}, {"name": "api"}]));
    }

    #[test]
    fn schemas_are_found_in_maps_and_lists() {
        let schema = json!({"properties": {
            "labels": {"additionalProperties": {"enum": ["a", "b"]}},
            "ports": {"items": {"properties": {"port": {"multipleOf": 5}}}},
        }});
        assert_eq!(
            others(&json!("a"), schema_of(&schema, "/labels/x~1y")),
            [json!("b")]
        );
        assert_eq!(
            others(&json!(10), schema_of(&schema, "/ports/0/port")),
            [json!(15), json!(5)]
        );
        assert_eq!(schema_of(&schema, "/other/0"), &Value::Null);
    }

    #[test]
    fn texts_change_in_their_last_number_first() {
        let first = |text: &str| others(&json!(text), &Value::Null).first().cloned();
        assert_eq!(first("100Mi"), Some(json!("101Mi")));
        assert_eq!(
            first("memcached:1.6.9-alpine"),
            Some(json!("memcached:1.6.10-alpine"))
        );
        assert_eq!(first("größe"), Some(json!("größe-x")));
        assert_eq!(
            first("99999999999999999999"),
            Some(json!("99999999999999999999-x"))
        );
    }
}
