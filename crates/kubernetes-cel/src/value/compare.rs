//! Equality and ordering of values.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use apimachinery::time::OffsetTime;

use super::Value;
use super::collection::{List, Walk};
use crate::work::Work;

/// Returns true if two values are equal: numbers of any type by value, lists and maps by content, sets in any order.
/// Returns false if no work is left.
pub(crate) fn equals(a: &Value<'_>, b: &Value<'_>, work: &Work) -> bool {
    if !work.spend(1) {
        return false;
    }
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a.len() == b.len() && work.spend(a.len() / 64) && a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a.len() == b.len() && work.spend(a.len() / 64) && a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => a == b,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equals(a, b, work),
            (None, None) => true,
            _ => false,
        },
        (Value::List(a), Value::List(b)) => lists_equal(a, b, work),
        (Value::Map(a), Value::Map(b)) => {
            let mut entries = Walk::of_map(a);
            a.len() == b.len()
                && std::iter::from_fn(|| entries.next())
                    .all(|(key, value)| b.get(&key).is_some_and(|other| equals(&value, &other, work)))
        }
        _ => compare(a, b) == Some(Ordering::Equal),
    }
}

fn lists_equal(a: &List<'_>, b: &List<'_>, work: &Work) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if a.is_set_or_map().or(b.is_set_or_map()).is_some() {
        return Members::of(b.items(work), work).has_all(a.iter(), work);
    }
    a.iter().zip(b.iter()).all(|(a, b)| equals(&a, &b, work))
}

/// The items of a list, indexed by content.
pub(crate) struct Members<'a> {
    pub(crate) items: Vec<Value<'a>>,
    places: HashMap<u64, Vec<usize>>,
}

impl<'a> Members<'a> {
    pub(crate) fn of(items: Vec<Value<'a>>, work: &Work) -> Self {
        let mut members = Self {
            items: Vec::with_capacity(items.len()),
            places: HashMap::new(),
        };
        for item in items {
            members.insert(item, work);
        }
        members
    }

    /// Adds an item unless an equal one is present.
    pub(crate) fn insert(&mut self, item: Value<'a>, work: &Work) {
        let places = self.places.entry(fingerprint(&item, work)).or_default();
        let items = &self.items;
        let is_equal = |place: &usize| items.get(*place).is_some_and(|found| equals(found, &item, work));
        if !places.iter().any(is_equal) {
            places.push(self.items.len());
            self.items.push(item);
        }
    }

    pub(crate) fn has(&self, item: &Value<'_>, work: &Work) -> bool {
        let places = self.places.get(&fingerprint(item, work)).into_iter().flatten();
        places
            .filter_map(|place| self.items.get(*place))
            .any(|found| equals(found, item, work))
    }

    pub(crate) fn has_all<'b>(&self, mut items: impl Iterator<Item = Value<'b>>, work: &Work) -> bool {
        items.all(|item| self.has(&item, work))
    }
}

/// Returns a hash that is the same for equal values.
pub(super) fn fingerprint(value: &Value<'_>, work: &Work) -> u64 {
    if !work.spend(1) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    match value {
        Value::String(text) => {
            work.spend(text.len() / 16);
            (**text).hash(&mut hasher);
        }
        Value::Bytes(bytes) => {
            work.spend(bytes.len() / 16);
            bytes.hash(&mut hasher);
        }
        Value::Bool(flag) => flag.hash(&mut hasher),
        // Numbers of different types can be equal. Equal numbers have the same double value.
        Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            (number(value).unwrap_or_default() + 0.0)
                .to_bits()
                .hash(&mut hasher);
        }
        Value::Duration(nanos) => nanos.hash(&mut hasher),
        Value::Timestamp(OffsetTime { time, .. }) => time.hash(&mut hasher),
        // A set equals a list with the same items in another order.
        Value::List(list) => {
            let items = list.iter().take_while(|_| !work.is_exhausted());
            return items.fold(1, |sum: u64, item| sum.wrapping_add(fingerprint(&item, work)));
        }
        Value::Map(map) => {
            let mut entries = Walk::of_map(map);
            let entries = std::iter::from_fn(|| entries.next()).take_while(|_| !work.is_exhausted());
            return entries.fold(2, |sum: u64, (key, value)| {
                let entry = fingerprint(&key, work).wrapping_mul(31) ^ fingerprint(&value, work);
                sum.wrapping_add(entry)
            });
        }
        Value::Optional(Some(inner)) => return fingerprint(inner, work).wrapping_add(1),
        Value::Null | Value::Optional(None) | Value::Type(_) | Value::Opaque(_) => {}
    }
    hasher.finish()
}

/// Compares values of ordered types; returns `None` for other types.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) | (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), _) => a.partial_cmp(&number(b)?),
        (_, Value::Double(b)) => number(a)?.partial_cmp(b),
        (Value::String(a), Value::String(b)) => Some((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.time.cmp(&b.time)),
        _ => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of different types are compared as doubles"
)]
fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        _ => None,
    }
}
