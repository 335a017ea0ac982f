//! The server's internal form of versions, which has shared fields at the top, and its Go formatting in errors.

use apimachinery::go;
use serde_json::{Map, Value};

/// The fields that are equal in all versions, and are therefore at the top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hoisted {
    pub(super) schema: bool,
    pub(super) subresources: bool,
    pub(super) columns: bool,
    pub(super) selectable_fields: bool,
}

impl Hoisted {
    pub(super) fn of(versions: &[Value]) -> Self {
        let same = |name: &str| {
            let part = |version: &'_ Value| version.get(name).filter(|part| !part.is_null()).cloned();
            versions
                .iter()
                .all(|version| Some(part(version)) == versions.first().map(part))
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable_fields: same("selectableFields"),
        }
    }
}

/// Formats `spec.versions` as Go prints the internal structs.
pub(super) fn versions(list: Option<&Value>, hoisted: &Hoisted) -> String {
    let Some(list) = list.and_then(Value::as_array) else {
        return "null".to_owned();
    };
    let shown: Vec<String> = list
        .iter()
        .map(|version| version_text(version, hoisted))
        .collect();
    format!("[{}]", shown.join(","))
}

fn version_text(version: &Value, hoisted: &Hoisted) -> String {
    let get = |name: &str| version.get(name).cloned().unwrap_or(Value::Null);
    let flag = |name: &str| get(name).as_bool().unwrap_or(false);
    let unless = |hoisted: bool, text: String| if hoisted { "null".to_owned() } else { text };
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
        go::json(&get("name")),
        flag("served"),
        flag("storage"),
        flag("deprecated"),
        go::json(&get("deprecationWarning")),
        unless(hoisted.schema, validation(&get("schema"))),
        unless(hoisted.subresources, subresources(&get("subresources"))),
        unless(hoisted.columns, columns(&get("additionalPrinterColumns"))),
        unless(
            hoisted.selectable_fields,
            selectable_fields(&get("selectableFields"))
        ),
    )
}

fn validation(value: &Value) -> String {
    match value.get("openAPIV3Schema") {
        _ if value.is_null() => "null".to_owned(),
        None | Some(Value::Null) => "{\"OpenAPIV3Schema\":null}".to_owned(),
        Some(source) => format!("{{\"OpenAPIV3Schema\":{}}}", schema(source)),
    }
}

fn subresources(value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let status = if value.get("status").is_some_and(Value::is_object) {
        "{}"
    } else {
        "null"
    };
    let scale = match value.get("scale") {
        Some(Value::Object(scale)) => {
            let get = |name: &str| scale.get(name).cloned().unwrap_or(Value::Null);
            let text = |name: &str| go::json(&get(name).as_str().unwrap_or("").into());
            format!(
                "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                text("specReplicasPath"),
                text("statusReplicasPath"),
                go::json(&get("labelSelectorPath"))
            )
        }
        _ => "null".to_owned(),
    };
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn columns(value: &Value) -> String {
    let Some(items) = value.as_array() else {
        return "null".to_owned();
    };
    let shown: Vec<String> = items
        .iter()
        .map(|item| {
            let text = |name: &str| go::json(&item.get(name).and_then(Value::as_str).unwrap_or("").into());
            let priority = item.get("priority").and_then(Value::as_i64).unwrap_or(0);
            format!(
                "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{priority},\"JSONPath\":{}}}",
                text("name"),
                text("type"),
                text("format"),
                text("description"),
                text("jsonPath")
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn selectable_fields(value: &Value) -> String {
    let Some(items) = value.as_array() else {
        return "null".to_owned();
    };
    let shown: Vec<String> = items
        .iter()
        .map(|item| {
            format!(
                "{{\"JSONPath\":{}}}",
                go::json(&item.get("jsonPath").cloned().unwrap_or_default())
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

/// The format of a field in Go's `JSONSchemaProps`.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Any,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrArray,
    SchemaOrBool,
    Docs,
    Rules,
}

/// The fields of Go's internal `JSONSchemaProps` in order: the name in Go, the name in JSON, the format.
const FIELDS: &[(&str, &str, Shape)] = &[
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Any),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Flag),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Any),
    ("Maximum", "maximum", Shape::Any),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Flag),
    ("Minimum", "minimum", Shape::Any),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Flag),
    ("MaxLength", "maxLength", Shape::Any),
    ("MinLength", "minLength", Shape::Any),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Any),
    ("MinItems", "minItems", Shape::Any),
    ("UniqueItems", "uniqueItems", Shape::Flag),
    ("MultipleOf", "multipleOf", Shape::Any),
    ("Enum", "enum", Shape::Any),
    ("MaxProperties", "maxProperties", Shape::Any),
    ("MinProperties", "minProperties", Shape::Any),
    ("Required", "required", Shape::Any),
    ("Items", "items", Shape::SchemaOrArray),
    ("AllOf", "allOf", Shape::Schemas),
    ("OneOf", "oneOf", Shape::Schemas),
    ("AnyOf", "anyOf", Shape::Schemas),
    ("Not", "not", Shape::Schema),
    ("Properties", "properties", Shape::SchemaMap),
    (
        "AdditionalProperties",
        "additionalProperties",
        Shape::SchemaOrBool,
    ),
    ("PatternProperties", "patternProperties", Shape::SchemaMap),
    ("Dependencies", "dependencies", Shape::Any),
    ("AdditionalItems", "additionalItems", Shape::SchemaOrBool),
    ("Definitions", "definitions", Shape::SchemaMap),
    ("ExternalDocs", "externalDocs", Shape::Docs),
    ("Example", "example", Shape::Any),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Shape::Any,
    ),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Shape::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Any),
    ("XListType", "x-kubernetes-list-type", Shape::Any),
    ("XMapType", "x-kubernetes-map-type", Shape::Any),
    ("XValidations", "x-kubernetes-validations", Shape::Rules),
];

/// Formats a schema as Go prints the internal struct.
pub(super) fn schema(source: &Value) -> String {
    let empty = Map::new();
    let map = source.as_object().unwrap_or(&empty);
    let shown: Vec<String> = FIELDS
        .iter()
        .map(|(go_name, name, shape)| {
            format!(
                "\"{go_name}\":{}",
                shaped(map.get(*name).unwrap_or(&Value::Null), *shape)
            )
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}

/// Formats `items` that is a list of schemas; errors show only its length.
pub(super) fn item_list(length: usize) -> String {
    let items = vec![schema(&Value::Null); length];
    format!("{{\"Schema\":null,\"JSONSchemas\":[{}]}}", items.join(","))
}

fn shaped(value: &Value, shape: Shape) -> String {
    let list = |items: &[Value]| format!("[{}]", items.iter().map(schema).collect::<Vec<_>>().join(","));
    match (shape, value) {
        (Shape::Text, _) => go::json(&value.as_str().unwrap_or("").into()),
        (Shape::Flag, _) => value.as_bool().unwrap_or(false).to_string(),
        (_, Value::Null) => "null".to_owned(),
        (Shape::Schemas, Value::Array(items)) => list(items),
        (Shape::SchemaMap, Value::Object(map)) => {
            let mut sorted: Vec<_> = map.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            let shown: Vec<String> = sorted
                .into_iter()
                .map(|(name, value)| format!("{}:{}", go::json(&name.as_str().into()), schema(value)))
                .collect();
            format!("{{{}}}", shown.join(","))
        }
        (Shape::SchemaOrArray, Value::Array(items)) => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(items))
        }
        (Shape::SchemaOrArray, _) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        (Shape::SchemaOrBool, Value::Bool(allowed)) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
        (Shape::SchemaOrBool, _) => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        (Shape::Schema, _) => schema(value),
        (Shape::Docs, _) => {
            let text = |name: &str| go::json(&value.get(name).and_then(Value::as_str).unwrap_or("").into());
            format!(
                "{{\"Description\":{},\"URL\":{}}}",
                text("description"),
                text("url")
            )
        }
        (Shape::Rules, Value::Array(items)) => {
            format!("[{}]", items.iter().map(rule).collect::<Vec<_>>().join(","))
        }
        _ => go::json(value),
    }
}

/// Formats a rule as Go prints the internal struct.
pub(super) fn rule(value: &Value) -> String {
    let text = |name: &str| go::json(&value.get(name).and_then(Value::as_str).unwrap_or("").into());
    let any = |name: &str| go::json(value.get(name).unwrap_or(&Value::Null));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        any("reason"),
        text("fieldPath"),
        any("optionalOldSelf")
    )
}
