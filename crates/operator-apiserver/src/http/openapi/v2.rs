//! The v2 document (`/openapi/v2`), derived from the v3 document: older clients look up definitions in it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Map, Value, json};

use super::encoding::Encoding;
use super::endpoints::endpoint;
use super::schema::{Components, QUANTITY};
use super::{AT_A_TIME, Descriptions, Generated, Resource, generate, security_schemes, v2_protobuf};

/// Keywords that OpenAPI v2 lacks; they are removed from schemas of custom resources, as in the API server.
const UNSUPPORTED: &[&str] = &["oneOf", "anyOf", "not", "nullable"];
/// The order of media types.
const MEDIA_TYPES: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// The order of the fields of a parameter in the text of which its name has the hash.
const PARAMETER_FIELDS: &[&str] = &[
    "uniqueItems",
    "type",
    "description",
    "name",
    "in",
    "required",
    "schema",
];

/// The v2 document of all served resources, and of the endpoints that are not resources.
///
/// Its paths and definitions are encoded one by one: as JSON values, those of thousands of resources take gigabytes.
#[derive(Debug)]
pub(crate) struct Document {
    encoding: Encoding,
    /// The encoded paths by name, each with its name.
    paths: BTreeMap<String, Vec<u8>>,
    /// The encoded definitions by name, each with its name.
    definitions: BTreeMap<String, Vec<u8>>,
    /// The parameters that many operations share.
    parameters: Map<String, Value>,
}

/// The media types of requests without a body.
const BUILT_IN: &[&str] = &["*/*"];
const CUSTOM: &[&str] = &["application/json", "application/yaml"];

/// A part of the document whose members are encoded already.
#[derive(Clone, Copy)]
enum Part {
    Paths,
    Definitions,
}

impl Document {
    pub(crate) fn new(
        resources: &[Resource<'_>],
        endpoints: &[String],
        descriptions: &Descriptions,
        encoding: Encoding,
    ) -> Self {
        let mut document = Self {
            encoding,
            paths: BTreeMap::new(),
            definitions: BTreeMap::new(),
            parameters: Map::new(),
        };
        let (custom, built_in): (Vec<_>, Vec<_>) = resources
            .iter()
            .cloned()
            .partition(|resource| resource.schema.is_some());
        // The names of types can depend on the version.
        for version in built_in.chunk_by(|a, b| (a.group, a.version) == (b.group, b.version)) {
            let all = Components::new(descriptions);
            document.add(generate(version, all, descriptions), BUILT_IN);
        }
        for some in custom.chunks(AT_A_TIME) {
            let all = Components::new(descriptions);
            document.add(generate(some, all, descriptions), CUSTOM);
        }
        for path in endpoints {
            document.add(endpoint(path, descriptions), BUILT_IN);
        }
        document
    }

    /// Adds the paths of a group version from the document of its server, and the definitions that are not there yet.
    pub(crate) fn merge(&mut self, extension: &[u8], group_version: &str) {
        let Ok(mut extension) = serde_json::from_slice::<Value>(extension) else {
            return;
        };
        let own = format!("/apis/{group_version}/");
        let is_own = |path: &str| path.starts_with(&own) || Some(path) == own.strip_suffix('/');
        let mut members = |part: &str| match extension.get_mut(part).map(Value::take) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        for (path, item) in members("paths") {
            if is_own(&path) && !self.paths.contains_key(&path) {
                self.insert(Part::Paths, path, &item);
            }
        }
        for (name, schema) in members("definitions") {
            if !self.definitions.contains_key(&name) {
                self.insert(Part::Definitions, name, &schema);
            }
        }
        for (name, parameter) in members("parameters") {
            self.parameters.entry(name).or_insert(parameter);
        }
    }

    /// Returns the whole document.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut head = json!({
            "swagger": "2.0",
            "info": super::info(),
            "securityDefinitions": security_schemes(),
            "security": [{"BearerToken": []}],
        });
        head["parameters"] = self.parameters.into();
        let (paths, definitions) = (self.paths.into_values(), self.definitions.into_values());
        if self.encoding == Encoding::Protobuf {
            return v2_protobuf::document(&head, paths, definitions);
        }
        let mut members = BTreeMap::from([
            ("paths".to_owned(), self.encoding.members("paths", paths, 1)),
            (
                "definitions".to_owned(),
                self.encoding.members("definitions", definitions, 1),
            ),
        ]);
        for (name, value) in head.as_object().into_iter().flatten() {
            members.insert(name.clone(), self.encoding.member(name, value, 1));
        }
        let mut document = self.encoding.document(members.into_values());
        document.push(b'\n');
        document
    }

    fn insert(&mut self, part: Part, name: String, value: &Value) {
        let encoded = match (self.encoding, part) {
            (Encoding::Protobuf, Part::Paths) => v2_protobuf::path(&name, value),
            (Encoding::Protobuf, Part::Definitions) => v2_protobuf::definition(&name, value),
            (json, _) => json.member(&name, value, 2),
        };
        let members = match part {
            Part::Paths => &mut self.paths,
            Part::Definitions => &mut self.definitions,
        };
        members.insert(name, encoded);
    }

    /// Converts parts of v3 documents.
    fn add(&mut self, v3: Generated, consumed: &[&str]) {
        for (path, item) in v3.paths {
            let item = self.path_item(item, consumed);
            self.insert(Part::Paths, path, &item);
        }
        for (name, schema) in v3.schemas {
            let mut schema = definition(schema);
            if name == QUANTITY {
                schema["type"] = "string".into();
            }
            self.insert(Part::Definitions, name, &schema);
        }
    }

    fn path_item(&mut self, item: Value, consumed: &[&str]) -> Value {
        let Value::Object(item) = item else { return item };
        let converted = item.into_iter().map(|(key, value)| {
            let value = match key.as_str() {
                "parameters" => self.parameters(value),
                _ => self.operation(value, consumed),
            };
            (key, value)
        });
        Value::Object(converted.collect())
    }

    fn operation(&mut self, value: Value, consumed: &[&str]) -> Value {
        let Value::Object(mut operation) = value else {
            return value;
        };
        let mut parameters = match operation.remove("parameters").map(|list| self.parameters(list)) {
            Some(Value::Array(parameters)) => parameters,
            _ => Vec::new(),
        };
        let mut produced = Value::Array(Vec::new());
        if let Some(Value::Object(responses)) = operation.remove("responses") {
            produced = responses.get("200").map_or(produced, media_types);
            let responses = responses
                .into_iter()
                .map(|(code, answer)| (code, response(&answer)))
                .collect();
            operation.insert("responses".to_owned(), Value::Object(responses));
        }
        let body = operation.remove("requestBody");
        let is_text = operation
            .get("responses")
            .and_then(|responses| responses.pointer("/200/schema/type"))
            .is_some();
        let consumes = match &body {
            Some(body) => Some(media_types(body)),
            None if operation.contains_key("x-kubernetes-action") => Some(json!(consumed)),
            None => (!is_text).then(|| produced.clone()),
        };
        if let Some(body) = body {
            let mut parameter = json!({"name": "body", "in": "body", "schema": first_schema(&body)});
            if body.get("required") == Some(&Value::Bool(true)) {
                parameter["required"] = true.into();
            }
            let parameter = self.share(parameter);
            parameters.insert(0, parameter);
        }
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), parameters.into());
        }
        operation.extend(consumes.map(|consumes| ("consumes".to_owned(), consumes)));
        operation.insert("produces".to_owned(), produced);
        operation.insert("schemes".to_owned(), json!(["https"]));
        Value::Object(operation)
    }

    fn parameters(&mut self, value: Value) -> Value {
        let Value::Array(list) = value else { return value };
        let flat = list.into_iter().map(|mut parameter| {
            if let Some(fields) = parameter.as_object_mut()
                && let Some(Value::Object(schema)) = fields.remove("schema")
            {
                fields.extend(schema);
            }
            self.share(parameter)
        });
        flat.collect()
    }

    /// Returns a reference to a parameter that many operations have, or the parameter.
    fn share(&mut self, parameter: Value) -> Value {
        let Some(name) = shared_name(&parameter) else {
            return parameter;
        };
        let reference = json!({"$ref": format!("#/parameters/{name}")});
        self.parameters.insert(name, parameter);
        reference
    }
}

/// Returns the name of a shared parameter: its own name and a hash of its text.
fn shared_name(parameter: &Value) -> Option<String> {
    const GENERIC: &str = "#/definitions/io.k8s.apimachinery";
    let name = parameter.get("name")?.as_str()?;
    let is_shared = match name {
        // Clients search for the first two in the operations.
        "dryRun" | "fieldValidation" | "name" => false,
        "body" => parameter.pointer("/schema/$ref")?.as_str()?.starts_with(GENERIC),
        _ => true,
    };
    if !is_shared {
        return None;
    }
    let fields = PARAMETER_FIELDS.iter().filter_map(|field| {
        let value = parameter.get(*field)?;
        Some(format!("\"{field}\":{value}"))
    });
    let text = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    let hash = fnv64(text.as_bytes()).to_be_bytes();
    Some(format!("{name}-{}", URL_SAFE.encode(hash.get(..6)?)))
}

/// Returns the hash FNV-1 with 64 bits.
fn fnv64(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes
        .iter()
        .fold(BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
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
    let mut names: Vec<&str> = content
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    names.sort_by_key(|name| MEDIA_TYPES.iter().position(|known| known == name));
    json!(names)
}

/// Converts the schema of a component. Unknown fields of a whole object are not described at all.
fn definition(mut schema: Value) -> Value {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        let kinds = schema["x-kubernetes-group-version-kind"].take();
        return json!({"type": "object", "x-kubernetes-group-version-kind": kinds});
    }
    convert(schema)
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
            Value::Object(kinds.collect())
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
            // Defaults are not published.
            fields.remove("default");
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
        ("enum" | "example", value) => value,
        (_, value) => convert(value),
    };
    (keyword, value)
}
