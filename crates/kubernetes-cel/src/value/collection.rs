//! Lists ([`List`]) and maps ([`Map`]), in JSON or created by an expression.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value as Json;

use super::compare::{equals, fingerprint};
use super::{Key, Value, from_json, unescape};
use crate::schema::Schema;
use crate::work::Work;

/// The nesting of concatenations from which they are copied into one list.
const MAX_NESTING: usize = 16;

/// A list, in JSON or created by an expression.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// The items and the schema of a JSON list.
    Json(&'a [Json], Option<&'a dyn Schema>),
    /// The items of a list that an expression created.
    Owned(Arc<Vec<Value<'a>>>),
    /// A concatenation of two lists, which are not copied.
    Joined(Arc<Joined<'a>>),
}

/// A concatenation of two lists.
#[derive(Clone, Debug)]
pub struct Joined<'a> {
    left: List<'a>,
    right: List<'a>,
    len: usize,
    nesting: usize,
}

/// A map or object, in JSON or created by an expression.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// The fields and the schema of a JSON object.
    Json(&'a serde_json::Map<String, Json>, Option<&'a dyn Schema>),
    /// The entries of a map that an expression created.
    Owned(Arc<Entries<'a>>),
    /// The type name and the fields of an object that an expression constructed.
    Object(Arc<str>, Arc<Entries<'a>>),
}

/// Keys and values in insertion order.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    list: Vec<(Value<'a>, Value<'a>)>,
    places: BTreeMap<Key, usize>,
}

impl<'a> Entries<'a> {
    /// Inserts an entry. Returns an error if the key exists or has an invalid type.
    pub(crate) fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), InsertError> {
        let found = Key::of(&key).ok_or(InsertError::NoKey)?;
        let place = self.list.len();
        match self.places.entry(found) {
            std::collections::btree_map::Entry::Occupied(_) => return Err(InsertError::Repeated),
            std::collections::btree_map::Entry::Vacant(slot) => slot.insert(place),
        };
        self.list.push((key, value));
        Ok(())
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Value<'a>> {
        let place = self.places.get(key)?;
        self.list.get(*place).map(|(_, value)| value)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&(Value<'a>, Value<'a>)> {
        self.list.get(place)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = (&Key, &Value<'a>)> {
        let value = |place: &usize| self.list.get(*place).map(|(_, value)| value);
        self.places
            .iter()
            .filter_map(move |(key, place)| Some((key, value(place)?)))
    }
}

/// The reason why an entry cannot be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertError {
    NoKey,
    Repeated,
}

impl<'a> List<'a> {
    /// Creates a list.
    pub(crate) fn new(items: Vec<Value<'a>>) -> Self {
        Self::Owned(Arc::new(items))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Owned(items) => items.len(),
            Self::Joined(joined) => joined.len,
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        let (mut list, mut index) = (self, index);
        loop {
            match list {
                Self::Json(items, schema) => {
                    return items.get(index).map(|item| from_json(item, item_schema(*schema)));
                }
                Self::Owned(items) => return items.get(index).cloned(),
                Self::Joined(joined) => match index.checked_sub(joined.left.len()) {
                    Some(rest) => (list, index) = (&joined.right, rest),
                    None => list = &joined.left,
                },
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Returns all items; an empty list if the work limit is exceeded.
    pub(crate) fn items(&self, work: &Work) -> Vec<Value<'a>> {
        if !work.spend(self.len()) || !work.make(self.len().saturating_mul(size_of::<Value<'a>>())) {
            return Vec::new();
        }
        self.iter().collect()
    }

    /// Returns the schema of a list that is a set or a map list.
    pub(super) fn is_set_or_map(&self) -> Option<&'a dyn Schema> {
        match self {
            Self::Json(_, Some(schema)) if matches!(schema.list_type(), Some("set" | "map")) => Some(*schema),
            _ => None,
        }
    }

    fn nesting(&self) -> usize {
        match self {
            Self::Joined(joined) => joined.nesting,
            _ => 0,
        }
    }

    /// Concatenates two lists. Sets and map lists contain each item once; in a map list, a later item replaces the
    /// earlier one in place.
    pub(crate) fn concat(&self, other: &Self, work: &Work) -> Self {
        if let Some(schema) = self.is_set_or_map() {
            return self.merge(other, schema, work);
        }
        if other.len() == 0 {
            return self.clone();
        }
        if self.len() == 0 {
            return other.clone();
        }
        let nesting = 1 + self.nesting().max(other.nesting());
        if nesting > MAX_NESTING {
            let mut items = self.items(work);
            items.extend(other.items(work));
            return Self::new(items);
        }
        Self::Joined(Arc::new(Joined {
            len: self.len().saturating_add(other.len()),
            left: self.clone(),
            right: other.clone(),
            nesting,
        }))
    }

    fn merge(&self, other: &Self, schema: &dyn Schema, work: &Work) -> Self {
        let is_map = schema.list_type() == Some("map");
        let mut items = self.items(work);
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        let identity = |item: &Value<'_>| match item {
            Value::Map(map) if is_map => schema.list_map_keys().iter().fold(0_u64, |sum, key| {
                let field = map.field(key).map_or(1, |value| fingerprint(&value, work));
                sum.wrapping_mul(31).wrapping_add(field)
            }),
            _ => fingerprint(item, work),
        };
        for (place, item) in items.iter().enumerate() {
            places.entry(identity(item)).or_default().push(place);
        }
        for item in other.items(work) {
            let places = places.entry(identity(&item)).or_default();
            let same = places.iter().copied().find(|place| {
                items.get(*place).is_some_and(|found| {
                    if is_map {
                        same_keys(found, &item, schema, work)
                    } else {
                        equals(found, &item, work)
                    }
                })
            });
            match same.and_then(|place| items.get_mut(place)) {
                Some(found) => *found = item,
                None => {
                    places.push(items.len());
                    items.push(item);
                }
            }
        }
        Self::new(items)
    }
}

fn item_schema(schema: Option<&dyn Schema>) -> Option<&dyn Schema> {
    schema.and_then(Schema::items)
}

fn same_keys(a: &Value<'_>, b: &Value<'_>, schema: &dyn Schema, work: &Work) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else {
        return false;
    };
    schema
        .list_map_keys()
        .iter()
        .all(|key| match (a.field(key), b.field(key)) {
            (Some(a), Some(b)) => equals(&a, &b, work),
            (None, None) => true,
            _ => false,
        })
}

impl<'a> Map<'a> {
    pub(crate) fn new(entries: Entries<'a>) -> Self {
        Self::Owned(Arc::new(entries))
    }

    pub(crate) fn object(name: &str, fields: Entries<'a>) -> Self {
        Self::Object(name.into(), Arc::new(fields))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Owned(entries) | Self::Object(_, entries) => entries.list.len(),
        }
    }

    /// Returns a field by its JSON name.
    pub(crate) fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json(fields, schema) => {
                let value = fields.get(name)?;
                Some(from_json(value, schema.and_then(|schema| schema.property(name))))
            }
            Self::Owned(entries) | Self::Object(_, entries) => {
                entries.get(&Key::Text(name.to_owned())).cloned()
            }
        }
    }

    /// Returns a field by its name in expressions, which is escaped in objects and plain in maps. In an object with a
    /// schema, a field that is null is missing.
    pub(crate) fn select(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json(_, Some(schema)) if !schema.is_map() => {
                let found = self.field(&unescape(name));
                found.filter(|value| !matches!(value, Value::Null))
            }
            _ => self.field(name),
        }
    }

    pub(crate) fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Self::Json(..), Value::String(name)) => self.field(name),
            (Self::Json(..), _) => None,
            (Self::Owned(entries) | Self::Object(_, entries), key) => entries.get(&Key::of(key)?).cloned(),
        }
    }

    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        let mut walk = Walk::of_map(self);
        std::iter::from_fn(|| walk.next()).collect()
    }
}

/// The range of a comprehension: items, or keys and values. Nothing is copied in advance.
#[derive(Debug)]
pub(crate) enum Walk<'a> {
    Items(List<'a>, usize),
    /// The items of a list with their indexes.
    Numbered(List<'a>, usize),
    Fields(serde_json::map::Iter<'a>, Option<&'a dyn Schema>),
    Entries(Arc<Entries<'a>>, usize),
}

impl<'a> Walk<'a> {
    pub(crate) fn of_map(map: &Map<'a>) -> Self {
        match map {
            Map::Json(fields, schema) => Self::Fields(fields.iter(), *schema),
            Map::Owned(entries) | Map::Object(_, entries) => Self::Entries(entries.clone(), 0),
        }
    }

    pub(crate) fn next(&mut self) -> Option<(Value<'a>, Value<'a>)> {
        match self {
            Self::Items(list, at) => {
                *at += 1;
                list.get(*at - 1).map(|item| (item, Value::Null))
            }
            Self::Numbered(list, at) => {
                *at += 1;
                let index = Value::Int(i64::try_from(*at - 1).unwrap_or(i64::MAX));
                list.get(*at - 1).map(|item| (index, item))
            }
            Self::Fields(fields, schema) => fields.next().map(|(name, value)| {
                let schema = schema.and_then(|schema| schema.property(name));
                (Value::String(name.as_str().into()), from_json(value, schema))
            }),
            Self::Entries(entries, at) => {
                *at += 1;
                entries.at(*at - 1).cloned()
            }
        }
    }
}
