//! Merges an applied configuration into a value.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map as Object, Value};

use super::{Deduced, Errors, Form, NO_FORM, Place, TypedErrors, check_scalar, list_element};
use crate::path::{FieldName, PathElement};
use crate::schema::{Arena, List, Map, Schema, TypeId};

/// Merges `new` into `old` without removing anything. If both have a leaf, that of `new` is used. The items of sets and
/// map lists that both have are in the order of `new`; other items keep their position among them.
pub(crate) fn merge(schema: &Schema, old: &Value, new: &Value) -> Result<Value, TypedErrors> {
    let mut walk = Walk {
        types: &schema.types,
        errors: Errors::default(),
    };
    let merged = walk.values(schema.root, Some(old), Some(new), Place::default());
    walk.errors.finish()?;
    Ok(merged.unwrap_or_default())
}

struct Walk<'a> {
    types: &'a Arena,
    errors: Errors,
}

impl Walk<'_> {
    fn values(
        &mut self,
        kind: TypeId,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> Option<Value> {
        let atom = self.types.get(kind);
        let (of_old, of_new) = (Deduced::of(atom, old), Deduced::of(atom, new));
        if new.is_none() {
            return self.form(of_old.form(atom), old, new, place);
        }
        if old.is_some() && of_old != of_new {
            // Called only for its errors: the form of the new value determines the result.
            self.form(of_old.form(atom), old, new, place);
        }
        self.form(of_new.form(atom), old, new, place)
    }

    fn form(
        &mut self,
        form: Form<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> Option<Value> {
        let latest = || new.or(old).cloned();
        match form {
            Form::Scalar(scalar) => {
                let sides = (
                    check_scalar(scalar, old, "lhs: "),
                    check_scalar(scalar, new, "rhs: "),
                );
                if let (Err(left), Err(right)) = sides {
                    self.errors.push(place, left);
                    self.errors.push(place, right);
                    return None;
                }
                latest()
            }
            Form::List(list) => {
                let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                if !list.associative || (left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty)) {
                    return latest();
                }
                self.items(
                    list,
                    left.map_or(&[], Vec::as_slice),
                    right.map_or(&[], Vec::as_slice),
                    place,
                )
            }
            Form::Map(map) => {
                let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if map.atomic || (left.is_none_or(Object::is_empty) && right.is_none_or(Object::is_empty)) {
                    return latest();
                }
                self.entries(map, left, right, place)
            }
            Form::Nothing => {
                self.errors.push(place, NO_FORM);
                None
            }
        }
    }

    fn entries(
        &mut self,
        map: &Map,
        old: Option<&Object<String, Value>>,
        new: Option<&Object<String, Value>>,
        place: Place<'_>,
    ) -> Option<Value> {
        let mut out = Object::new();
        for (name, left) in old.into_iter().flatten() {
            let right = new.and_then(|new| new.get(name));
            let merged = self.entry(map, name, Some(left), right, place);
            out.extend(merged.map(|merged| (name.clone(), merged)));
        }
        let only_new = |name: &String| old.is_none_or(|old| !old.contains_key(name));
        for (name, right) in new.into_iter().flatten().filter(|(name, _)| only_new(name)) {
            let merged = self.entry(map, name, None, Some(right), place);
            out.extend(merged.map(|merged| (name.clone(), merged)));
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn entry(
        &mut self,
        map: &Map,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
    ) -> Option<Value> {
        if map.field(name).is_some_and(|field| field.hidden) {
            return None;
        }
        match map.entry(name) {
            Some(kind) => self.values(kind, old, new, place.below(&FieldName(name))),
            None => new.or(old).cloned(),
        }
    }

    fn items(&mut self, list: &List, old: &[Value], new: &[Value], place: Place<'_>) -> Option<Value> {
        let old = self.index(list, old, true, place);
        let new = self.index(list, new, false, place);
        if !self.errors.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(old.items.len().max(new.items.len()));
        for step in order(&old, &new) {
            let (element, left, right) = match step {
                Step::Old(index) => {
                    let Some((element, item)) = old.items.get(index) else {
                        continue;
                    };
                    (element, Some(*item), None)
                }
                Step::New(index) => {
                    let Some((element, item)) = new.items.get(index) else {
                        continue;
                    };
                    (element, old.by_element.get(element).copied(), Some(*item))
                }
            };
            out.extend(self.values(list.element, left, right, place.below(element)));
        }
        (!out.is_empty()).then_some(Value::Array(out))
    }

    /// Indexes the items of a list. Duplicate items of the old list are not merged.
    fn index<'v>(
        &mut self,
        list: &List,
        items: &'v [Value],
        twice_allowed: bool,
        place: Place<'_>,
    ) -> Index<'v> {
        let mut index = Index {
            items: Vec::with_capacity(items.len()),
            by_element: BTreeMap::new(),
        };
        for (position, item) in items.iter().enumerate() {
            let element = match list_element(self.types, list, item) {
                Ok(element) => element,
                Err(message) => {
                    self.errors.push(place, format!("element {position}: {message}"));
                    continue;
                }
            };
            let twice = index.by_element.contains_key(&element);
            if twice && !twice_allowed {
                let message = format!("duplicate entries for key {element}");
                self.errors.push(place, message);
                continue;
            }
            index
                .by_element
                .insert(element.clone(), if twice { &Value::Null } else { item });
            index.items.push((element, item));
        }
        index
    }
}

/// The items of one list, in its order and by element.
struct Index<'v> {
    items: Vec<(PathElement, &'v Value)>,
    by_element: BTreeMap<PathElement, &'v Value>,
}

/// The next item of the merged list: an item that only the old list has, or an item of the new list.
enum Step {
    Old(usize),
    New(usize),
}

/// Returns the order of the merged list. Shared items are in the order of the new list; an old item out of this order
/// is skipped. Items of only one list keep their position.
fn order(old: &Index<'_>, new: &Index<'_>) -> Vec<Step> {
    let mut shared: VecDeque<&PathElement> = new
        .items
        .iter()
        .map(|(element, _)| element)
        .filter(|element| old.by_element.contains_key(element))
        .collect();
    let mut next = shared.pop_front();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut steps = Vec::new();
    let (mut left, mut right) = (0, 0);
    loop {
        let (of_old, of_new) = (old.items.get(left), new.items.get(right));
        if let (Some((element, _)), Some((other, _))) = (of_old, of_new) {
            if element == other {
                merged.insert(element);
                steps.push(Step::New(right));
                left += 1;
                right += 1;
                next = shared.pop_front();
                continue;
            }
            if new.by_element.contains_key(element) && next.is_some_and(|next| next != element) {
                left += 1;
                continue;
            }
        }
        if let Some((element, _)) = of_old {
            if !new.by_element.contains_key(element) {
                steps.push(Step::Old(left));
                left += 1;
                continue;
            }
            if merged.contains(element) {
                left += 1;
            }
        }
        match of_new {
            Some((element, _)) => {
                merged.insert(element);
                steps.push(Step::New(right));
                right += 1;
                if next == Some(element) {
                    next = shared.pop_front();
                }
            }
            None if of_old.is_none() => return steps,
            None => {}
        }
    }
}
