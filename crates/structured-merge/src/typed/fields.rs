//! Lists the fields of a value.

use serde_json::{Map as Object, Value};

use super::{Form, form, list_element};
use crate::field_set::{FieldSet, Node};
use crate::path::PathElement;
use crate::schema::{Arena, List, Map, Schema, TypeId};

/// Returns all leaves, list items and map entries of a value that matches its type.
pub(crate) fn field_set(schema: &Schema, value: &Value) -> FieldSet {
    fields(&schema.types, schema.root, value).1
}

/// Returns true if the value is a field itself, and the fields below it.
fn fields(types: &Arena, kind: TypeId, value: &Value) -> (bool, FieldSet) {
    match (form(types, kind, value), value) {
        (Form::Scalar(_), _) => (true, FieldSet::default()),
        (
            Form::List(List {
                associative: false, ..
            })
            | Form::Map(Map { atomic: true, .. }),
            _,
        ) => (true, FieldSet::default()),
        (Form::List(list), Value::Array(items)) => (false, items_of(types, list, items)),
        (Form::Map(map), Value::Object(object)) => (false, entries_of(types, map, object)),
        _ => (false, FieldSet::default()),
    }
}

fn entries_of(types: &Arena, map: &Map, object: &Object<String, Value>) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in object {
        let field = map.field(name);
        if field.is_some_and(|field| field.hidden) {
            continue;
        }
        let Some(kind) = field.map(|field| field.kind).or(map.element) else {
            continue;
        };
        let (member, children) = fields(types, kind, value);
        let empty = value.is_null() || value.as_object().is_some_and(Object::is_empty);
        set.push(
            field.map_or_else(
                || PathElement::field(name),
                |field| PathElement::Field(field.name.clone()),
            ),
            member || empty || field.is_none(),
            children,
        );
    }
    set.normalize()
}

/// Returns the fields of a list. Duplicate items count once, without the fields below them.
fn items_of(types: &Arena, list: &List, items: &[Value]) -> FieldSet {
    let mut elements: Vec<_> = items
        .iter()
        .filter_map(|item| {
            list_element(types, list, item)
                .ok()
                .map(|element| (element, item))
        })
        .collect();
    elements.sort_by(|left, right| left.0.cmp(&right.0));
    let mut set = FieldSet::default();
    for group in elements.chunk_by(|left, right| left.0 == right.0) {
        match group {
            [(element, item)] => set.push(element.clone(), true, fields(types, list.element, item).1),
            [(element, _), ..] => set.push(element.clone(), true, FieldSet::default()),
            [] => {}
        }
    }
    set
}

/// Adds the declared parent fields of members: for `.spec.replicas` also `.spec`, but never map entries or list items.
pub(crate) fn with_named_fields(schema: &Schema, set: &FieldSet) -> FieldSet {
    named(&schema.types, Some(schema.root), set)
}

fn named(types: &Arena, kind: Option<TypeId>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::default();
    for node in set.nodes() {
        let declared = kind.is_some_and(|kind| is_declared(types, kind, &node.element));
        let member = node.member || (declared && !node.children.is_empty());
        let below = kind.and_then(|kind| kind_below(types, kind, node));
        out.push(node.element.clone(), member, named(types, below, &node.children));
    }
    out
}

fn is_declared(types: &Arena, kind: TypeId, element: &PathElement) -> bool {
    let PathElement::Field(name) = element else {
        return false;
    };
    types
        .get(kind)
        .map
        .as_ref()
        .is_some_and(|map| map.field(name).is_some())
}

fn kind_below(types: &Arena, kind: TypeId, node: &Node) -> Option<TypeId> {
    let atom = types.get(kind);
    match &node.element {
        PathElement::Field(name) => atom.map.as_ref().and_then(|map| map.entry(name)),
        PathElement::Key(_) => atom.list.as_ref().map(|list| list.element),
        PathElement::Value(_) | PathElement::Index(_) => None,
    }
}
