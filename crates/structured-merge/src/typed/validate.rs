//! Validates a value against its type.

use std::collections::BTreeSet;

use serde_json::{Map as Object, Value};

use super::{
    Form, NO_FORM, TypedError, TypedErrors, below, check_element, check_scalar, form, list_element, none,
};
use crate::go;
use crate::path::{FieldName, PathElement};
use crate::schema::{Arena, List, Map, Schema, TypeId};

/// The handling of duplicate items in sets and map lists: they are allowed in stored objects, and rejected in applied
/// ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks a value against its type.
pub(crate) fn validate(schema: &Schema, value: &Value, duplicates: Duplicates) -> Result<(), TypedErrors> {
    let walk = Walk {
        types: &schema.types,
        duplicates,
    };
    none(walk.value(schema.root, value))
}

struct Walk<'a> {
    types: &'a Arena,
    duplicates: Duplicates,
}

impl Walk<'_> {
    fn value(&self, kind: TypeId, value: &Value) -> Vec<TypedError> {
        match form(self.types, kind, value) {
            Form::Scalar(scalar) => check_scalar(scalar, Some(value), "")
                .err()
                .map(TypedErrors::one)
                .unwrap_or_default(),
            Form::List(list) => match value {
                Value::Null => Vec::new(),
                Value::Array(items) => self.list(list, items),
                other => TypedErrors::one(format!("expected list, got &{{{}}}", go::plain(other))),
            },
            Form::Map(map) => match value {
                Value::Null => Vec::new(),
                Value::Object(object) => self.map(map, object),
                other => TypedErrors::one(format!("expected map, got &{{{}}}", go::plain(other))),
            },
            Form::Nothing => TypedErrors::one(NO_FORM),
        }
    }

    fn map(&self, map: &Map, object: &Object<String, Value>) -> Vec<TypedError> {
        let mut errors = Vec::new();
        for (name, value) in object {
            let field = map.field(name);
            if field.is_some_and(|field| field.hidden) {
                continue;
            }
            let Some(kind) = field.map(|field| field.kind).or(map.element) else {
                errors.extend(below(
                    TypedErrors::one("field not declared in schema"),
                    FieldName(name),
                ));
                return errors;
            };
            let found = self.value(kind, value);
            if !found.is_empty() {
                errors.extend(below(found, FieldName(name)));
            }
        }
        errors
    }

    fn list(&self, list: &List, items: &[Value]) -> Vec<TypedError> {
        if !list.associative {
            return self.indexed_items(list, items);
        }
        let mut errors = Vec::new();
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if let Err(message) = check_element(self.types, list, item) {
                errors.extend(TypedErrors::one(format!("element {index}: {message}")));
                return errors;
            }
            let element = || list_element(self.types, list, item).ok();
            if self.duplicates == Duplicates::Refused
                && let Some(element) = element()
                && let Some(twice) = seen.replace(element)
            {
                errors.extend(TypedErrors::one(format!("duplicate entries for key {twice}")));
            }
            let found = self.value(list.element, item);
            if !found.is_empty()
                && let Some(element) = element()
            {
                errors.extend(below(found, element));
            }
        }
        errors
    }

    fn indexed_items(&self, list: &List, items: &[Value]) -> Vec<TypedError> {
        let mut errors = Vec::new();
        for (index, item) in (0..).zip(items) {
            let found = self.value(list.element, item);
            if !found.is_empty() {
                errors.extend(below(found, PathElement::Index(index)));
            }
        }
        errors
    }
}
