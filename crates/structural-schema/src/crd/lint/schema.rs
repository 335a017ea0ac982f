//! Finds problems of schemas that the server accepts but that do not work as intended.

use std::collections::BTreeSet;

use apimachinery::field::Path;
use apimachinery::go;
use serde_json::Value;

use super::{Linter, Severity};
use crate::node::Node;

pub(super) fn lint(root: &Node, path: &Path, linter: &mut Linter) {
    root_fields(root, path, linter);
    node(root, path, linter);
}

fn root_fields(root: &Node, path: &Path, linter: &mut Linter) {
    let missing: Vec<&str> = ["apiVersion", "kind", "metadata"]
        .into_iter()
        .filter(|name| !root.properties.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        linter.warn(
            "no-type-meta",
            &path.child("properties"),
            format!("{} not described: `kubectl explain` does not show it", listed(&missing)),
            "add apiVersion and kind of type string and metadata of type object; `operator-sdk generate manifests` does",
        );
    }
    if root.description.starts_with("Auto-generated derived type for") {
        linter.warn(
            "generated-description",
            &path.child("description"),
            "the description does not describe the kind",
            "describe the kind; with kube: `#[kube(doc = \"...\")]`",
        );
    }
    if root.preserves_unknown_fields() {
        linter.warn(
            "nothing-pruned",
            &path.child("x-kubernetes-preserve-unknown-fields"),
            "unknown fields of the whole object are kept: misspelled fields are not reported",
            "preserve unknown fields only where they are needed",
        );
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [first @ .., last] => format!("{} and {last} are", first.join(", ")),
        [] => String::new(),
    }
}

fn node(schema: &Node, path: &Path, linter: &mut Linter) {
    format(schema, path, linter);
    required(schema, path, linter);
    limits(schema, path, linter);
    defaults(schema, path, linter);
    list(schema, path, linter);
    for (index, rule) in schema.rules.iter().enumerate() {
        if rule.message.trim().is_empty() && rule.message_expression.trim().is_empty() {
            linter.warn(
                "rule-without-message",
                &path.child("x-kubernetes-validations").index(index),
                "the rule has no message: users see the expression instead",
                "add a `message` that says what is allowed",
            );
        }
    }
    for (name, property) in &schema.properties {
        let path = path.child("properties").key(name);
        property_name(name, &path, linter);
        if name == "conditions" {
            conditions(property, &path, linter);
        }
        node(property, &path, linter);
    }
    if let Some(items) = &schema.items {
        node(items, &path.child("items"), linter);
    }
    if let Some(additional) = schema.additional_schema() {
        node(additional, &path.child("additionalProperties"), linter);
    }
}

fn format(schema: &Node, path: &Path, linter: &mut Linter) {
    let format = schema.format.as_str();
    let path = path.child("format");
    if schema.kind == "number" && matches!(format, "" | "float" | "double") {
        linter.warn(
            "floating-point",
            &path,
            "floating-point numbers are not the same in all clients",
            "use an integer of a smaller unit, or a quantity string",
        );
    }
    if format.is_empty() || crate::format::is_recognized(&schema.kind, format) {
        return;
    }
    let fix = match format {
        "uint8" | "uint16" | "int8" | "int16" => {
            "use format int32 with `minimum` and `maximum` of the type".to_owned()
        }
        "uint32" | "uint64" | "uint" | "uint128" | "int128" | "int" => {
            "use format int64, with `minimum: 0` where the type is unsigned".to_owned()
        }
        "partial-date-time" | "unix-time" | "time" => "use format date-time".to_owned(),
        "url" => "use format uri".to_owned(),
        _ => "remove the format, or use a pattern".to_owned(),
    };
    linter.warn(
        "unknown-format",
        &path,
        format!("the server does not know the format {format}: it warns, and checks nothing"),
        fix,
    );
}

fn required(schema: &Node, path: &Path, linter: &mut Linter) {
    if schema.properties.is_empty() || schema.preserves_unknown_fields() {
        return;
    }
    for (index, name) in schema.required.iter().enumerate() {
        let is_meta = schema.embedded_resource && crate::prune::META_FIELDS.contains(&name.as_str());
        if schema.property(name).is_none() && !is_meta {
            linter.add(
                Severity::Error,
                "required-unknown",
                &path.child("required").index(index),
                format!("{name} is required, but the schema has no such field: it is pruned, and every object is rejected"),
                "add the field to `properties`, or remove it from `required`",
            );
        }
    }
}

fn limits(schema: &Node, path: &Path, linter: &mut Linter) {
    let pairs = [
        ("minLength", schema.min_length, "maxLength", schema.max_length),
        ("minItems", schema.min_items, "maxItems", schema.max_items),
        (
            "minProperties",
            schema.min_properties,
            "maxProperties",
            schema.max_properties,
        ),
    ];
    let mut refuse = |low: &str, high: &str| {
        linter.warn(
            "nothing-allowed",
            &path.child(low),
            format!("{low} is more than {high}: no value is valid"),
            "correct one of the two",
        );
    };
    for (low, min, high, max) in pairs {
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            refuse(low, high);
        }
    }
    if let (Some(min), Some(max)) = (schema.minimum, schema.maximum)
        && (min.value > max.value || min.value >= max.value && (min.exclusive || max.exclusive))
    {
        refuse("minimum", "maximum");
    }
    let mut seen = BTreeSet::new();
    for (index, value) in schema.allowed.iter().enumerate() {
        if !seen.insert(go::json(value)) {
            linter.warn(
                "enum-duplicate",
                &path.child("enum").index(index),
                format!("{} is listed twice", go::json(value)),
                "list it once",
            );
        }
    }
}

/// Reports defaults that derive macros generate from Rust defaults, and that the server writes into every object.
fn defaults(schema: &Node, path: &Path, linter: &mut Linter) {
    let empty = match &schema.default {
        Some(Value::Array(items)) if items.is_empty() => "an empty list",
        Some(Value::String(text)) if text.is_empty() => "an empty text",
        _ => return,
    };
    linter.warn(
        "empty-default",
        &path.child("default"),
        format!("the default is {empty}, which the server writes into every object"),
        "omit the default (in Rust: use an Option, or disable `#[schemars(default)]`)",
    );
}

fn list(schema: &Node, path: &Path, linter: &mut Linter) {
    let Some(items) = schema.items.as_deref().filter(|_| schema.list_type.is_none()) else {
        return;
    };
    if items.kind == "object"
        && items.required.iter().any(|name| name == "name")
        && items
            .properties
            .get("name")
            .is_some_and(|name| name.kind == "string")
    {
        linter.warn(
            "atomic-list",
            path,
            "the items have names, but the list is replaced as a whole by server-side apply",
            "set `x-kubernetes-list-type: map` with `x-kubernetes-list-map-keys: [name]`, or `x-kubernetes-list-type: atomic` if that is intended",
        );
    }
}

fn conditions(schema: &Node, path: &Path, linter: &mut Linter) {
    let Some(items) = schema.items.as_deref().filter(|_| schema.kind == "array") else {
        return;
    };
    let is_map = schema.list_type.as_deref() == Some("map") && schema.list_map_keys == ["type"];
    if items.properties.contains_key("type") && items.properties.contains_key("status") && !is_map {
        linter.warn(
            "conditions-list-type",
            path,
            "the list of conditions is not a map with the key `type`: two writers of different conditions overwrite each other",
            "set `x-kubernetes-list-type: map` with `x-kubernetes-list-map-keys: [type]`",
        );
    }
}

fn property_name(name: &str, path: &Path, linter: &mut Linter) {
    let is_camel = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_camel && !name.starts_with('$') {
        linter.warn(
            "field-case",
            path,
            format!("the field {name} is not in camelCase"),
            "rename it (in Rust: `#[serde(rename_all = \"camelCase\")]`)",
        );
    }
}
