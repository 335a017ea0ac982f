//! New values and the old values that they replace: what has not changed is forgiven.

use std::cell::OnceCell;

use serde_json::Value;

use crate::node::Node;

/// A value, the value that it replaces, and their schema.
#[derive(Clone, Debug)]
pub(crate) struct Correlation<'v> {
    pub(crate) new: &'v Value,
    pub(crate) old: &'v Value,
    schema: &'v Node,
    unchanged: OnceCell<bool>,
}

impl<'v> Correlation<'v> {
    pub(crate) fn new(new: &'v Value, old: &'v Value, schema: &'v Node) -> Self {
        Self {
            new,
            old,
            schema,
            unchanged: OnceCell::new(),
        }
    }

    /// Whether old and new are equal.
    pub(crate) fn is_unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| self.new == self.old)
    }

    /// The field `key` in both, unless the map is replaced as a whole.
    pub(crate) fn field(&self, key: &str, value: &'v Value) -> Option<Self> {
        if self.schema.map_type.as_deref() == Some("atomic") {
            return None;
        }
        let old = self.old.as_object()?.get(key)?;
        Some(Self::new(value, old, self.schema.property(key)?))
    }

    /// The item in both: only items of a list that is a map are the same item by their keys.
    pub(crate) fn item(&self, value: &'v Value, _index: usize) -> Option<Self> {
        if self.schema.list_type.as_deref() != Some("map") {
            return None;
        }
        let items = self.schema.items.as_deref()?;
        let keys = &self.schema.list_map_keys;
        let old = self
            .old
            .as_array()?
            .iter()
            .find(|old| same_keys(old, value, keys, items))?;
        Some(Self::new(value, old, items))
    }
}

fn same_keys(a: &Value, b: &Value, keys: &[String], items: &Node) -> bool {
    keys.iter().all(|key| {
        let default = items
            .properties
            .get(key)
            .and_then(|property| property.default.as_ref());
        a.get(key).or(default) == b.get(key).or(default)
    })
}
