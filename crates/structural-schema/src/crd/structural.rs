//! Checks that a schema is structural: all types are declared, and value validations only add restrictions.

use apimachinery::field::{Error, ErrorList, Path};

use crate::node::{AdditionalProperties, Node};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Returns the reasons why the schema is not structural, sorted as in the API server.
pub(super) fn validate(root: &Node, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    invariants(root, Level::Root, path, &mut errors);
    completeness(root, root, path, path, &mut errors);
    errors.sort();
    errors
}

fn invariants(node: &Node, level: Level, path: &Path, errors: &mut ErrorList) {
    if node.kind == "array" && node.items.is_none() {
        errors.push(Error::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = &node.items {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in &node.properties {
        invariants(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    if let Some(additional) = &node.additional_properties {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(path.clone(), "must not be used at the root"));
        }
        if let AdditionalProperties::Schema(schema) = additional {
            invariants(schema, Level::Field, &path, errors);
        }
    }
    extensions(node, path, errors);
    let skip_any_of = is_int_or_string_any_of(node);
    let skip_first_all_of = is_int_or_string_all_of(node);
    value_validation(node, skip_any_of, skip_first_all_of, path, errors);
    node_type(node, level, path, errors);
    metadata_rules(node, level, path, errors);
}

fn extensions(node: &Node, path: &Path, errors: &mut ErrorList) {
    if !node.int_or_string {
        return;
    }
    for (is_set, name) in [
        (
            node.preserves_unknown_fields(),
            "x-kubernetes-preserve-unknown-fields",
        ),
        (node.embedded_resource, "x-kubernetes-embedded-resource"),
    ] {
        if is_set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(path.child(name), true.into(), detail));
        }
    }
}

fn node_type(node: &Node, level: Level, path: &Path, errors: &mut ErrorList) {
    let type_path = path.child("type");
    if node.embedded_resource && node.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if node.kind.is_empty() {
            Error::required(type_path.clone(), detail)
        } else {
            Error::invalid(type_path.clone(), node.kind.as_str().into(), detail)
        });
    } else if node.kind.is_empty() && !node.int_or_string && !node.preserves_unknown_fields() {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(Error::required(
            type_path.clone(),
            format!("must not be empty {place}"),
        ));
    }
    if node.embedded_resource && node.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !node.kind.is_empty() && node.kind != "object" {
        errors.push(Error::invalid(
            type_path,
            node.kind.as_str().into(),
            "must be object at the root",
        ));
    }
}

fn metadata_rules(node: &Node, level: Level, path: &Path, errors: &mut ErrorList) {
    if level == Level::Root || node.embedded_resource {
        for name in ["kind", "apiVersion"] {
            if let Some(property) = node.properties.get(name)
                && property.kind != "string"
            {
                let path = path.child("properties").key(name).child("type");
                errors.push(Error::invalid(
                    path,
                    property.kind.as_str().into(),
                    "must be string",
                ));
            }
        }
        if let Some(metadata) = node.properties.get("metadata") {
            let path = path.child("properties").key("metadata");
            metadata_schema(metadata, level, &path, errors);
        }
    }
    if node.embedded_resource && !node.preserves_unknown_fields() && node.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(path.child("properties"), detail));
    }
}

fn metadata_schema(metadata: &Node, level: Level, path: &Path, errors: &mut ErrorList) {
    if metadata.kind != "object" {
        errors.push(Error::invalid(
            path.child("type"),
            metadata.kind.as_str().into(),
            "must be object",
        ));
    }
    if level == Level::Root && !restricts_only_names(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(path.clone(), detail));
    }
}

/// Returns true if the schema of metadata has only a type, a default, and restrictions of the name and generated name.
fn restricts_only_names(metadata: &Node) -> bool {
    let stripped = Node {
        kind: String::new(),
        default: None,
        properties: metadata
            .properties
            .iter()
            .filter(|(name, _)| *name != "name" && *name != "generateName")
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect(),
        ..metadata.clone()
    };
    is_empty(&stripped)
}

/// Returns true if a schema has no content.
fn is_empty(node: &Node) -> bool {
    let texts = [&node.kind, &node.format, &node.title, &node.description];
    let integers = [
        node.min_length,
        node.max_length,
        node.min_items,
        node.max_items,
        node.min_properties,
        node.max_properties,
    ];
    let flags = [
        node.nullable,
        node.unique_items,
        node.embedded_resource,
        node.int_or_string,
        node.has_documents,
    ];
    let nodes = [&node.all_of, &node.any_of, &node.one_of];
    texts.iter().all(|text| text.is_empty())
        && integers.iter().all(Option::is_none)
        && !flags.contains(&true)
        && nodes.iter().all(|nodes| nodes.is_empty())
        && node.preserve_unknown_fields.is_none()
        && node.default.is_none()
        && node.properties.is_empty()
        && node.additional_properties.is_none()
        && node.items.is_none()
        && node.required.is_empty()
        && node.allowed.is_empty()
        && node.pattern.is_none()
        && node.minimum.is_none()
        && node.maximum.is_none()
        && node.multiple_of.is_none()
        && node.not.is_none()
        && node.list_type.is_none()
        && node.list_map_keys.is_empty()
        && node.map_type.is_none()
        && node.rules.is_empty()
}

fn value_validation(
    node: &Node,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path,
    errors: &mut ErrorList,
) {
    if !skip_any_of {
        for (index, child) in node.any_of.iter().enumerate() {
            nested(child, false, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, child) in node.all_of.iter().enumerate() {
        nested(
            child,
            skip_first_all_of && index == 0,
            &path.child("allOf").index(index),
            errors,
        );
    }
    for (index, child) in node.one_of.iter().enumerate() {
        nested(child, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(not) = &node.not {
        nested(not, false, &path.child("not"), errors);
    }
    if let Some(pattern) = &node.pattern
        && let Err(problem) = &pattern.program
    {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(Error::invalid(
            path.child("pattern"),
            pattern.source.as_str().into(),
            detail,
        ));
    }
}

fn nested(node: &Node, skip_any_of: bool, path: &Path, errors: &mut ErrorList) {
    value_validation(node, skip_any_of, false, path, errors);
    if let Some(items) = &node.items {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in &node.properties {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let forbidden = [
        (!node.kind.is_empty(), "type", EMPTY),
        (
            node.additional_properties.is_some()
                && !matches!(
                    node.additional_properties,
                    Some(AdditionalProperties::Allowed(false))
                ),
            "additionalProperties",
            UNDEFINED,
        ),
        (node.default.is_some(), "default", UNDEFINED),
        (!node.title.is_empty(), "title", EMPTY),
        (!node.description.is_empty(), "description", EMPTY),
        (node.nullable, "nullable", FALSE),
        (
            node.preserves_unknown_fields(),
            "x-kubernetes-preserve-unknown-fields",
            FALSE,
        ),
        (node.embedded_resource, "x-kubernetes-embedded-resource", FALSE),
        (node.int_or_string, "x-kubernetes-int-or-string", FALSE),
        (
            !node.list_map_keys.is_empty(),
            "x-kubernetes-list-map-keys",
            EMPTY,
        ),
        (node.list_type.is_some(), "x-kubernetes-list-type", UNDEFINED),
        (node.map_type.is_some(), "x-kubernetes-map-type", UNDEFINED),
        (!node.rules.is_empty(), "x-kubernetes-validations", EMPTY),
    ];
    for (is_set, name, detail) in forbidden {
        if is_set {
            errors.push(Error::forbidden(path.child(name), detail));
        }
    }
    if node.properties.contains_key("metadata") {
        let path = path.child("properties").key("metadata");
        errors.push(Error::forbidden(
            path,
            "must not be specified in a nested context",
        ));
    }
}

/// Returns true for `anyOf: [{type: integer}, {type: string}]`, which is equivalent to `x-kubernetes-int-or-string`.
fn is_int_or_string_any_of(node: &Node) -> bool {
    let is_bare = |node: &Node, kind: &str| node.kind == kind && node.is_bare;
    matches!(node.any_of.as_slice(), [first, second] if is_bare(first, "integer") && is_bare(second, "string"))
}

fn is_int_or_string_all_of(node: &Node) -> bool {
    node.all_of.first().is_some_and(is_int_or_string_any_of)
}

/// Checks that every field in the value validations of the root exists in the schema itself.
fn completeness(value: &Node, schema: &Node, path: &Path, value_path: &Path, errors: &mut ErrorList) {
    let lists = [
        ("allOf", &value.all_of),
        ("anyOf", &value.any_of),
        ("oneOf", &value.one_of),
    ];
    if let Some(not) = &value.not {
        nested_completeness(not, Some(schema), path, &value_path.child("not"), errors);
    }
    for (name, children) in lists {
        for (index, child) in children.iter().enumerate() {
            let value_path = value_path.child(name).index(index);
            nested_completeness(child, Some(schema), path, &value_path, errors);
        }
    }
}

fn nested_completeness(
    value: &Node,
    schema: Option<&Node>,
    path: &Path,
    value_path: &Path,
    errors: &mut ErrorList,
) {
    let Some(schema) = schema else {
        errors.push(Error::required(
            path.clone(),
            format!("because it is defined in {value_path}"),
        ));
        return;
    };
    completeness(value, schema, path, value_path, errors);
    if let Some(items) = &value.items {
        nested_completeness(
            items,
            schema.items.as_deref(),
            &path.child("items"),
            &value_path.child("items"),
            errors,
        );
    }
    for (name, property) in &value.properties {
        let value_path = value_path.child("properties").key(name);
        let path = path.child("properties").key(name);
        nested_completeness(property, schema.properties.get(name), &path, &value_path, errors);
    }
}
