//! The v2 document (`/openapi/v2`), derived from the v3 document: older clients look up definitions in it.

use serde_json::{Map, Value, json};

use super::schema::QUANTITY;
use super::{Descriptions, Resource, v3_document};

/// Keywords that OpenAPI v2 lacks; they are removed from schemas of custom resources, as in the API server.
const UNSUPPORTED: &[&str] = &["oneOf", "anyOf", "not", "nullable", "x-kubernetes-validations"];

/// Returns the v2 document of all served resources.
pub(crate) fn document(resources: &[Resource<'_>], descriptions: &Descriptions) -> Value {
    let (custom, built_in): (Vec<_>, Vec<_>) = resources
        .iter()
        .cloned()
        .partition(|resource| resource.schema.is_some());
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for part in [built_in, custom] {
        let Value::Object(mut v3) = v3_document(&part, descriptions) else {
            continue;
        };
        if let Some(Value::Object(v3_paths)) = v3.remove("paths") {
            paths.extend(v3_paths.into_iter().map(|(path, item)| (path, path_item(item))));
        }
        if let Some(Value::Object(schemas)) = v3.get_mut("components").and_then(|all| all.get_mut("schemas"))
        {
            definitions.extend(
                std::mem::take(schemas)
                    .into_iter()
                    .map(|(name, schema)| (name, convert(schema))),
            );
            if let Some(quantity) = definitions.get_mut(QUANTITY) {
                quantity["type"] = "string".into();
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths,
        "definitions": definitions,
    })
}

/// Adds the paths of a group version from the document of its server, and the definitions that are not there yet.
pub(crate) fn merge(document: &mut Value, extension: &[u8], group_version: &str) {
    let Ok(mut extension) = serde_json::from_slice::<Value>(extension) else {
        return;
    };
    let own = format!("/apis/{group_version}/");
    let is_own = |path: &str| path.starts_with(&own) || Some(path) == own.strip_suffix('/');
    for part in ["paths", "definitions"] {
        let found = extension.get_mut(part).map(Value::take);
        let (Some(Value::Object(found)), Some(known)) =
            (found, document.get_mut(part).and_then(Value::as_object_mut))
        else {
            continue;
        };
        for (name, value) in found {
            if part == "definitions" || is_own(&name) {
                known.entry(name).or_insert(value);
            }
        }
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    Value::Object(
        item.into_iter()
            .map(|(key, value)| (key.clone(), operation(&key, value)))
            .collect(),
    )
}

fn operation(key: &str, value: Value) -> Value {
    if key == "parameters" {
        return parameters(value);
    }
    let Value::Object(mut operation) = value else {
        return value;
    };
    let body = operation.remove("requestBody");
    let mut converted = operation
        .remove("parameters")
        .map_or_else(|| json!([]), parameters);
    if let (Some(list), Some(body)) = (converted.as_array_mut(), body) {
        let required = body.get("required").cloned().unwrap_or(Value::Bool(false));
        list.push(json!({"name": "body", "in": "body", "required": required, "schema": first_schema(&body)}));
        operation.insert("consumes".to_owned(), media_types(&body));
    }
    operation.insert("parameters".to_owned(), converted);
    if let Some(Value::Object(responses)) = operation.remove("responses") {
        let produces = responses.get("200").map(media_types);
        operation.insert("produces".to_owned(), produces.unwrap_or_else(|| json!([])));
        let responses = responses
            .into_iter()
            .map(|(code, answer)| (code, response(&answer)))
            .collect();
        operation.insert("responses".to_owned(), Value::Object(responses));
    }
    Value::Object(operation)
}

fn parameters(value: Value) -> Value {
    let Value::Array(list) = value else { return value };
    list.into_iter()
        .map(|mut parameter| {
            let schema = parameter
                .as_object_mut()
                .and_then(|fields| fields.remove("schema"));
            if let (Some(fields), Some(Value::Object(schema))) = (parameter.as_object_mut(), schema) {
                fields.extend(schema);
            }
            parameter
        })
        .collect()
}

fn response(answer: &Value) -> Value {
    let mut response = json!({"description": answer.get("description").cloned().unwrap_or_default()});
    let schema = first_schema(answer);
    if !schema.is_null() {
        response["schema"] = schema;
    }
    response
}

fn first_schema(body: &Value) -> Value {
    let content = body.get("content").and_then(Value::as_object);
    let schema = content.and_then(|content| content.values().next()?.get("schema").cloned());
    schema.map_or(Value::Null, convert)
}

fn media_types(body: &Value) -> Value {
    let content = body.get("content").and_then(Value::as_object);
    content.map_or_else(|| json!([]), |content| content.keys().cloned().collect())
}

/// Converts a v3 schema to v2. Schemas nest at most as deeply as CustomResourceDefinitions may.
fn convert(schema: Value) -> Value {
    match schema {
        Value::Object(fields)
            if fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) =>
        {
            let kinds = fields
                .into_iter()
                .filter(|(name, _)| name.starts_with("x-kubernetes-"));
            let mut open: Map<String, Value> = kinds.collect();
            open.insert("type".to_owned(), "object".into());
            Value::Object(open)
        }
        Value::Object(mut fields) => {
            if let Some(Value::Array(all)) = fields.remove("allOf")
                && let [Value::Object(only)] = &all[..]
            {
                fields.extend(only.clone());
            }
            if fields
                .get("format")
                .is_some_and(|format| format == "int-or-string")
            {
                fields.insert("type".to_owned(), "string".into());
            }
            fields.retain(|name, _| !UNSUPPORTED.contains(&name.as_str()));
            Value::Object(fields.into_iter().map(convert_keyword).collect())
        }
        Value::Array(items) => items.into_iter().map(convert).collect(),
        Value::String(text) => Value::String(text.replace("#/components/schemas/", "#/definitions/")),
        other => other,
    }
}

/// Converts one keyword of a schema. The keys of `properties` are names of fields, not keywords.
fn convert_keyword((keyword, value): (String, Value)) -> (String, Value) {
    let value = match (keyword.as_str(), value) {
        ("properties", Value::Object(fields)) => Value::Object(
            fields
                .into_iter()
                .map(|(name, schema)| (name, convert(schema)))
                .collect(),
        ),
        ("default" | "enum" | "example", value) => value,
        (_, value) => convert(value),
    };
    (keyword, value)
}
