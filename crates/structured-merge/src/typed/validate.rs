//! Validates a value against its type.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map as Object, Value};

use super::{Errors, Form, NO_FORM, Place, TypedErrors, check_element, check_scalar, form, list_element};
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
    let mut walk = Walk {
        types: &schema.types,
        duplicates,
        errors: Errors::default(),
    };
    walk.value(schema.root, value, Place::default());
    walk.errors.finish()
}

struct Walk<'a> {
    types: &'a Arena,
    duplicates: Duplicates,
    errors: Errors,
}

impl Walk<'_> {
    fn value(&mut self, kind: TypeId, value: &Value, place: Place<'_>) {
        match form(self.types, kind, value) {
            Form::Scalar(scalar) => {
                if let Err(message) = check_scalar(scalar, Some(value), "") {
                    self.errors.push(place, message);
                }
            }
            Form::List(list) => match value {
                Value::Null => {}
                Value::Array(items) => self.list(list, items, place),
                other => self
                    .errors
                    .push(place, format!("expected list, got &{{{}}}", go::plain(other))),
            },
            Form::Map(map) => match value {
                Value::Null => {}
                Value::Object(object) => self.map(map, object, place),
                other => self
                    .errors
                    .push(place, format!("expected map, got &{{{}}}", go::plain(other))),
            },
            Form::Nothing => self.errors.push(place, NO_FORM),
        }
    }

    fn map(&mut self, map: &Map, object: &Object<String, Value>, place: Place<'_>) {
        for (name, value) in object {
            let field = map.field(name);
            if field.is_some_and(|field| field.hidden) {
                continue;
            }
            let element = FieldName(name);
            let place = place.below(&element);
            let Some(kind) = field.map(|field| field.kind).or(map.element) else {
                return self.errors.push(place, "field not declared in schema");
            };
            self.value(kind, value, place);
        }
    }

    fn list(&mut self, list: &List, items: &[Value], place: Place<'_>) {
        if !list.associative {
            for (index, item) in (0..).zip(items) {
                let element = PathElement::Index(index);
                self.value(list.element, item, place.below(&element));
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if let Err(message) = check_element(self.types, list, item) {
                return self.errors.push(place, format!("element {index}: {message}"));
            }
            if self.duplicates == Duplicates::Refused
                && let Ok(element) = list_element(self.types, list, item)
                && let Some(twice) = seen.replace(element)
            {
                let message = format!("duplicate entries for key {twice}");
                self.errors.push(place, message);
            }
            let element = Identified {
                types: self.types,
                list,
                item,
            };
            self.value(list.element, item, place.below(&element));
        }
    }
}

/// An item of an associative list, as the path element that identifies it.
struct Identified<'a> {
    types: &'a Arena,
    list: &'a List,
    item: &'a Value,
}

impl fmt::Display for Identified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match list_element(self.types, self.list, self.item) {
            Ok(element) => element.fmt(f),
            Err(_) => Ok(()),
        }
    }
}
