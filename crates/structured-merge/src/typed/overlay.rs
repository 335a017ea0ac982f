//! Applies a configuration without a field manager, for mutating admission policies.

use serde_json::Value;

use super::merge::merge;
use super::validate::{Duplicates, validate};
use super::{Errors, Form, Place, form};
use crate::path::{FieldName, PathElement};
use crate::schema::{Arena, Schema, TypeId};

/// Merges a configuration into a live object by its type, without removing fields and without checking ownership, like
/// `ApplyStructuredMergeDiff` of `k8s.io/apiserver`.
///
/// # Errors
/// Returns an error if one of them does not match the type, or if the configuration has an atomic list, map or struct,
/// which would remove fields that it does not contain.
pub fn overlay(schema: &Schema, live: &Value, config: &Value) -> Result<Value, String> {
    validate(schema, config, Duplicates::Refused)
        .map_err(|errors| format!("failed to convert patch object to typed object: {errors}"))?;
    let mut atomics = Errors::default();
    find_atomics(&schema.types, schema.root, config, Place::default(), &mut atomics);
    if !atomics.is_empty() {
        let paths: Vec<String> = atomics.found.iter().map(ToString::to_string).collect();
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            paths.join(", ")
        ));
    }
    validate(schema, live, Duplicates::Allowed)
        .map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    merge(schema, live, config).map_err(|errors| format!("failed to merge patch: {errors}"))
}

fn find_atomics(types: &Arena, kind: TypeId, value: &Value, place: Place<'_>, found: &mut Errors) {
    match (form(types, kind, value), value) {
        (Form::Map(map), Value::Object(_)) if map.atomic => found.push(place, ""),
        (Form::Map(map), Value::Object(fields)) => {
            for (name, value) in fields {
                let Some(kind) = map.entry(name) else { continue };
                find_atomics(types, kind, value, place.below(&FieldName(name)), found);
            }
        }
        (Form::List(list), Value::Array(_)) if !list.associative => found.push(place, ""),
        (Form::List(list), Value::Array(items)) => {
            for (index, item) in (0..).zip(items) {
                let element = PathElement::Index(index);
                find_atomics(types, list.element, item, place.below(&element), found);
            }
        }
        _ => {}
    }
}
