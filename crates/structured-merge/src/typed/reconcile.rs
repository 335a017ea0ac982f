//! Updates a field set after a change of its type.

use crate::field_set::{FieldSet, Node};
use crate::path::PathElement;
use crate::schema::{Arena, DEDUCED, Map, Schema, TypeId};

use super::Form;

/// Replaces fields below a list or map that has become atomic by the list or map itself. Returns `None` if nothing
/// changes. Fields that have become granular are kept.
pub(crate) fn reconcile(schema: &Schema, set: &FieldSet) -> Option<FieldSet> {
    let mut collapsed = Vec::new();
    below(&schema.types, schema.root, set, &mut Vec::new(), &mut collapsed);
    if collapsed.is_empty() {
        return None;
    }
    let collapsed = FieldSet::from_paths(collapsed.iter().map(Vec::as_slice));
    Some(set.recursive_difference(&collapsed).union(&collapsed))
}

fn below<'a>(
    types: &Arena,
    kind: TypeId,
    set: &'a FieldSet,
    path: &mut Vec<&'a PathElement>,
    collapsed: &mut Vec<Vec<PathElement>>,
) {
    for node in set.nodes() {
        let Some(kind) = kind_below(types, kind, node) else {
            continue;
        };
        path.push(&node.element);
        let atomic = is_atomic(types, kind, node);
        match atomic {
            Some(true) => collapsed.push(path.iter().copied().cloned().collect()),
            Some(false) => below(types, kind, &node.children, path, collapsed),
            None => {}
        }
        path.pop();
    }
}

/// Returns true if the set contains fields below an atomic value; `None` if there is nothing to check.
fn is_atomic(types: &Arena, kind: TypeId, node: &Node) -> Option<bool> {
    let already = node.member && node.children.is_empty();
    match super::Deduced::Any.form(types.get(kind)) {
        Form::Map(map) if is_deduced(map) => None,
        Form::Map(map) => Some(map.atomic && !already && !node.children.is_empty()),
        Form::List(list) => Some(!list.associative && !already),
        Form::Scalar(_) | Form::Nothing => None,
    }
}

fn is_deduced(map: &Map) -> bool {
    map.fields.is_empty() && map.element == Some(DEDUCED)
}

fn kind_below(types: &Arena, kind: TypeId, node: &Node) -> Option<TypeId> {
    match super::Deduced::Any.form(types.get(kind)) {
        Form::Map(map) if is_deduced(map) => None,
        Form::Map(map) => match &node.element {
            PathElement::Field(name) => map.entry(name),
            _ => map.element,
        },
        Form::List(list) => Some(list.element),
        Form::Scalar(_) | Form::Nothing => None,
    }
}
