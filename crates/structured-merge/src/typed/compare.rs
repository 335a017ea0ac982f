//! Compares two values of one type ([`Comparison`]).

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::{Deduced, Errors, Form, NO_FORM, Place, TypedErrors, check_scalar, list_element};
use crate::field_set::FieldSet;
use crate::go;
use crate::path::{FieldName, PathElement};
use crate::schema::{Arena, List, Map, Scalar, Schema, TypeId};

/// The differences between an old and a new value. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that exist only in the old value.
    pub removed: FieldSet,
    /// The fields that exist in both values and differ.
    pub modified: FieldSet,
    /// The fields that exist only in the new value.
    pub added: FieldSet,
}

impl Comparison {
    /// Removes fields, including their children.
    #[must_use]
    pub fn without(self, fields: Option<&FieldSet>) -> Self {
        let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
            return self;
        };
        Self {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// Compares two values of one type.
pub(crate) fn compare(schema: &Schema, old: &Value, new: &Value) -> Result<Comparison, TypedErrors> {
    compare_with(schema, old, new, false)
}

/// Compares two values of one type that are known to be valid, so that their equal parts need no check.
pub(crate) fn compare_valid(schema: &Schema, old: &Value, new: &Value) -> Result<Comparison, TypedErrors> {
    compare_with(schema, old, new, true)
}

fn compare_with(
    schema: &Schema,
    old: &Value,
    new: &Value,
    are_valid: bool,
) -> Result<Comparison, TypedErrors> {
    let mut walk = Walk {
        types: &schema.types,
        errors: Errors::default(),
        depth: 0,
        are_valid,
    };
    let found = walk.values(schema.root, Some(old), Some(new), Place::default());
    walk.errors.finish()?;
    Ok(found.below)
}

/// The differences of one field, and of its children.
#[derive(Default)]
struct Difference {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl Difference {
    fn below(below: Comparison) -> Self {
        Self {
            below,
            ..Self::default()
        }
    }

    fn is_nothing(&self) -> bool {
        let Comparison {
            removed,
            modified,
            added,
        } = &self.below;
        !(self.removed || self.modified || self.added)
            && removed.is_empty()
            && modified.is_empty()
            && added.is_empty()
    }

    /// Combines the differences of values that are interpreted in two forms.
    fn or(self, other: &Self) -> Self {
        Self {
            removed: self.removed || other.removed,
            modified: self.modified || other.modified,
            added: self.added || other.added,
            below: Comparison {
                removed: self.below.removed.union(&other.below.removed),
                modified: self.below.modified.union(&other.below.modified),
                added: self.below.added.union(&other.below.added),
            },
        }
    }
}

impl Comparison {
    fn push_field(&mut self, name: &str, found: Difference) {
        if !found.is_nothing() {
            self.push(&PathElement::field(name), found);
        }
    }

    fn push(&mut self, element: &PathElement, found: Difference) {
        self.removed
            .push(element.clone(), found.removed, found.below.removed);
        self.modified
            .push(element.clone(), found.modified, found.below.modified);
        self.added.push(element.clone(), found.added, found.below.added);
    }

    fn normalize(self) -> Self {
        Self {
            removed: self.removed.normalize(),
            modified: self.modified.normalize(),
            added: self.added.normalize(),
        }
    }
}

struct Walk<'a> {
    types: &'a Arena,
    errors: Errors,
    /// The number of maps around the current value.
    depth: usize,
    /// True if the values are known to be valid.
    are_valid: bool,
}

/// The depth from which equal parts are not skipped, because each level would be read again for each level above it.
const SKIPPING_DEPTH_MAX: usize = 4;

impl Walk<'_> {
    fn values(
        &mut self,
        kind: TypeId,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> Difference {
        let atom = self.types.get(kind);
        let (of_old, of_new) = (Deduced::of(atom, old), Deduced::of(atom, new));
        let (found, leaf) = if new.is_none() {
            self.form(of_old.form(atom), old, new, place)
        } else if old.is_none() || of_old == of_new {
            self.form(of_new.form(atom), old, new, place)
        } else {
            let (first, _) = self.form(of_old.form(atom), old, new, place);
            let (second, leaf) = self.form(of_new.form(atom), old, new, place);
            (second.or(&first), leaf)
        };
        if leaf {
            return found;
        }
        let (removed, added) = (old.is_some() && new.is_none(), old.is_none());
        Difference {
            removed: found.removed || removed,
            added: found.added || added,
            ..found
        }
    }

    /// Returns the differences of values that are interpreted in this form, and true if they are leaves.
    fn form(
        &mut self,
        form: Form<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> (Difference, bool) {
        match form {
            Form::Scalar(scalar) => self.scalars(scalar, old, new, place),
            Form::List(list) => {
                let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
                if !list.associative || empty {
                    return (leaves(old, new), true);
                }
                let (left, right) = (
                    left.map_or(&[][..], Vec::as_slice),
                    right.map_or(&[][..], Vec::as_slice),
                );
                (Difference::below(self.items(list, left, right, place)), false)
            }
            Form::Map(map) => {
                let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let empty = left.is_none_or(Object::is_empty) && right.is_none_or(Object::is_empty);
                if map.atomic || empty {
                    return (leaves(old, new), true);
                }
                (Difference::below(self.entries(map, left, right, place)), false)
            }
            Form::Nothing => {
                self.errors.push(place, NO_FORM);
                (Difference::default(), false)
            }
        }
    }

    fn scalars(
        &mut self,
        scalar: Scalar,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> (Difference, bool) {
        let sides = (
            check_scalar(scalar, old, "lhs: "),
            check_scalar(scalar, new, "rhs: "),
        );
        if let (Err(left), Err(right)) = sides {
            self.errors.push(place, left);
            self.errors.push(place, right);
            return (Difference::default(), false);
        }
        (leaves(old, new), true)
    }

    fn entries(
        &mut self,
        map: &Map,
        old: Option<&Object<String, Value>>,
        new: Option<&Object<String, Value>>,
        place: Place<'_>,
    ) -> Comparison {
        let mut out = Comparison::default();
        for (name, left) in old.into_iter().flatten() {
            let right = new.and_then(|new| new.get(name));
            let found = self.entry(map, name, Some(left), right, place);
            out.push_field(name, found);
        }
        let only_new = |name: &String| old.is_none_or(|old| !old.contains_key(name));
        for (name, right) in new.into_iter().flatten().filter(|(name, _)| only_new(name)) {
            let found = self.entry(map, name, None, Some(right), place);
            out.push_field(name, found);
        }
        out.normalize()
    }

    fn entry(
        &mut self,
        map: &Map,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> Difference {
        if map.field(name).is_some_and(|field| field.hidden) {
            return Difference::default();
        }
        if self.are_valid && self.depth < SKIPPING_DEPTH_MAX && old == new {
            return Difference::default();
        }
        let Some(kind) = map.entry(name) else {
            return Difference::default();
        };
        self.depth += 1;
        let found = self.values(kind, old, new, place.below(&FieldName(name)));
        self.depth -= 1;
        found
    }

    fn items(&mut self, list: &List, old: &[Value], new: &[Value], place: Place<'_>) -> Comparison {
        let mut sides: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (element, item) in self.elements(list, old, place) {
            sides.entry(element).or_default().0.push(item);
        }
        for (element, item) in self.elements(list, new, place) {
            sides.entry(element).or_default().1.push(item);
        }
        let mut out = Comparison::default();
        for (element, (old, new)) in &sides {
            let found = self.item(list, old, new, place.below(element));
            out.push(element, found);
        }
        out
    }

    fn elements<'v>(
        &mut self,
        list: &List,
        items: &'v [Value],
        place: Place<'_>,
    ) -> Vec<(PathElement, &'v Value)> {
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match list_element(self.types, list, item) {
                Ok(element) => out.push((element, item)),
                Err(message) => self.errors.push(place, format!("element {index}: {message}")),
            }
        }
        out
    }

    /// Compares list items with the same identity. Duplicate items are compared as a whole.
    fn item(&mut self, list: &List, old: &[&Value], new: &[&Value], place: Place<'_>) -> Difference {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.values(list.element, old.first().copied(), new.first().copied(), place)
            }
            ([_, _, ..], [_, _, ..]) => {
                let same =
                    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| go::equal(old, new));
                Difference {
                    modified: !same,
                    ..Difference::default()
                }
            }
            ([_, _, ..], _) => {
                let only = new
                    .first()
                    .map(|new| self.values(list.element, None, Some(new), place));
                Difference {
                    removed: true,
                    ..only.unwrap_or_default()
                }
            }
            (_, _) => {
                let only = old
                    .first()
                    .map(|old| self.values(list.element, Some(old), None, place));
                Difference {
                    added: true,
                    ..only.unwrap_or_default()
                }
            }
        }
    }
}

fn leaves(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let modified = old.zip(new).is_some_and(|(old, new)| !go::equal(old, new));
    Difference {
        removed: new.is_none(),
        added: old.is_none(),
        modified,
        below: Comparison::default(),
    }
}
