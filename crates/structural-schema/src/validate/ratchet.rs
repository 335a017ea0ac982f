//! Matches new values with old values for ratcheting, which tolerates errors of unchanged values: [`Correlation`].

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::Value;

use crate::node::Node;

/// A value, its old value, and the schema of both.
#[derive(Clone, Debug)]
pub(crate) struct Correlation<'v> {
    pub(crate) new: &'v Value,
    pub(crate) old: &'v Value,
    schema: &'v Node,
    unchanged: OnceCell<bool>,
    /// The positions of the old items, by their keys.
    by_keys: OnceCell<HashMap<String, usize>>,
}

impl<'v> Correlation<'v> {
    pub(crate) fn new(new: &'v Value, old: &'v Value, schema: &'v Node) -> Self {
        Self {
            new,
            old,
            schema,
            unchanged: OnceCell::new(),
            by_keys: OnceCell::new(),
        }
    }

    /// Returns true if the old and the new value are equal.
    pub(crate) fn is_unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| self.new == self.old)
    }

    /// Returns the field `key` of both values, unless the map is replaced as a whole.
    pub(crate) fn field(&self, key: &str, value: &'v Value) -> Option<Self> {
        if self.schema.map_type.as_deref() == Some("atomic") {
            return None;
        }
        let old = self.old.as_object()?.get(key)?;
        Some(Self::new(value, old, self.schema.property(key)?))
    }

    /// Returns the item of both values. Only items of map lists are matched, by their keys.
    pub(crate) fn item(&self, value: &'v Value) -> Option<Self> {
        if self.schema.list_type.as_deref() != Some("map") {
            return None;
        }
        let items = self.schema.items.as_deref()?;
        let keys = keys_of(value, &self.schema.list_map_keys, items);
        let index = *self.by_keys.get_or_init(|| self.index(items)).get(&keys)?;
        let old = self.old.as_array()?.get(index)?;
        Some(Self::new(value, old, items))
    }

    /// Returns the positions of the old items by their keys; if several have the same keys, the first one.
    fn index(&self, items: &Node) -> HashMap<String, usize> {
        let mut found = HashMap::new();
        for (index, old) in self.old.as_array().into_iter().flatten().enumerate() {
            let keys = keys_of(old, &self.schema.list_map_keys, items);
            found.entry(keys).or_insert(index);
        }
        found
    }
}

/// Returns the keys of a map list's item, with their defaults. A missing key differs from any value.
fn keys_of(item: &Value, keys: &[String], items: &Node) -> String {
    let shown = |key: &String| {
        let default = || items.properties.get(key)?.default.as_ref();
        item.get(key)
            .or_else(default)
            .map_or(String::new(), ToString::to_string)
    };
    keys.iter().map(shown).collect::<Vec<_>>().join("\0")
}
