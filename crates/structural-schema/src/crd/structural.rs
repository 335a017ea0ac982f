//! Whether a schema is structural: a type everywhere, and value validations that add nothing but restrictions.

use crate::field::{Error, Path};
use crate::node::{AdditionalProperties, Node};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Why the schema is not structural.
pub(super) fn validate(root: &Node, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    invariants(root, Level::Root, path, &mut errors);
    completeness(root, Some(root), path, path, &mut errors);
    errors
}

fn invariants(node: &Node, level: Level, path: &Path, errors: &mut Vec<Error>) {
    if node.kind == "array" && node.items.is_none() && !node.unsupported.contains(&"items") {
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

fn extensions(node: &Node, path: &Path, errors: &mut Vec<Error>) {
    let name = "x-kubernetes-int-or-string";
    let mut refuse = |other: &str| {
        let detail = format!("must be false if {other} is true");
        errors.push(Error::invalid(path.child(name), true.into(), detail));
    };
    if node.int_or_string && node.embedded_resource {
        refuse("x-kubernetes-embedded-resource");
    }
    if node.int_or_string && node.preserves_unknown_fields() {
        refuse("x-kubernetes-preserve-unknown-fields");
    }
}

fn node_type(node: &Node, level: Level, path: &Path, errors: &mut Vec<Error>) {
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

fn metadata_rules(node: &Node, level: Level, path: &Path, errors: &mut Vec<Error>) {
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
            metadata_schema(metadata, &path.child("properties").key("metadata"), errors);
        }
    }
    if node.embedded_resource && !node.preserves_unknown_fields() && node.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(path.child("properties"), detail));
    }
}

fn metadata_schema(metadata: &Node, path: &Path, errors: &mut Vec<Error>) {
    if metadata.kind != "object" {
        errors.push(Error::invalid(
            path.child("type"),
            metadata.kind.as_str().into(),
            "must be object",
        ));
        return;
    }
    let only_names = metadata
        .properties
        .keys()
        .all(|name| name == "name" || name == "generateName");
    let is_plain = metadata.additional_properties.is_none()
        && metadata.items.is_none()
        && !metadata.nullable
        && !metadata.preserves_unknown_fields()
        && !metadata.embedded_resource
        && metadata.required.is_empty()
        && metadata.rules.is_empty()
        && metadata.min_properties.is_none()
        && metadata.max_properties.is_none()
        && metadata.all_of.is_empty()
        && metadata.any_of.is_empty()
        && metadata.one_of.is_empty()
        && metadata.not.is_none();
    if !only_names || !is_plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(path.clone(), detail));
    }
}

fn value_validation(
    node: &Node,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path,
    errors: &mut Vec<Error>,
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

fn nested(node: &Node, skip_any_of: bool, path: &Path, errors: &mut Vec<Error>) {
    value_validation(node, skip_any_of, false, path, errors);
    if let Some(items) = &node.items {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in &node.properties {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = node.additional_schema() {
        nested(additional, false, &path.child("additionalProperties"), errors);
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    let forbidden = [
        (!node.kind.is_empty(), "type", EMPTY),
        (
            matches!(node.additional_properties, Some(AdditionalProperties::Allowed(_))),
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

/// `anyOf: [{type: integer}, {type: string}]`, which restates what the extension says.
fn is_int_or_string_any_of(node: &Node) -> bool {
    let is_bare = |node: &Node, kind: &str| node.kind == kind && is_type_only(node);
    node.int_or_string
        && matches!(node.any_of.as_slice(), [first, second] if is_bare(first, "integer") && is_bare(second, "string"))
}

fn is_int_or_string_all_of(node: &Node) -> bool {
    let restated = |child: &Node| {
        let as_extension = Node {
            int_or_string: true,
            any_of: child.any_of.clone(),
            ..Node::default()
        };
        child.kind.is_empty() && is_int_or_string_any_of(&as_extension)
    };
    node.int_or_string && node.all_of.first().is_some_and(restated)
}

fn is_type_only(node: &Node) -> bool {
    node.format.is_empty()
        && node.pattern.is_none()
        && node.allowed.is_empty()
        && node.minimum.is_none()
        && node.maximum.is_none()
        && node.properties.is_empty()
        && node.items.is_none()
        && node.any_of.is_empty()
        && node.all_of.is_empty()
        && node.one_of.is_empty()
        && node.not.is_none()
}

/// Every field that the root's value validations mention must exist in the schema proper.
fn completeness(
    value: &Node,
    schema: Option<&Node>,
    path: &Path,
    value_path: &Path,
    errors: &mut Vec<Error>,
) {
    let lists = [
        ("anyOf", &value.any_of),
        ("allOf", &value.all_of),
        ("oneOf", &value.one_of),
    ];
    for (name, children) in lists {
        for (index, child) in children.iter().enumerate() {
            nested_completeness(child, schema, path, &value_path.child(name).index(index), errors);
        }
    }
    if let Some(not) = &value.not {
        nested_completeness(not, schema, path, &value_path.child("not"), errors);
    }
}

fn nested_completeness(
    value: &Node,
    schema: Option<&Node>,
    path: &Path,
    value_path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(schema) = schema else {
        errors.push(Error::required(
            path.clone(),
            format!("because it is defined in {value_path}"),
        ));
        return;
    };
    completeness(value, Some(schema), path, value_path, errors);
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
        nested_completeness(property, schema.property(name), &path, &value_path, errors);
    }
}
