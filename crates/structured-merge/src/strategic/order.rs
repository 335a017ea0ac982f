//! The order of a merged list: items of the patch are in the patch's order, other items keep their position among them.

use std::collections::HashMap;

use serde_json::Value;

use super::{StrategicError, no_merge_key};

/// Identifies items by the value of this key, or by the item itself if the key is empty.
#[derive(Clone, Copy)]
pub(super) struct Keyed<'a>(pub(super) &'a str);

impl<'a> Keyed<'a> {
    pub(super) fn value(self, item: &'a Value) -> Result<&'a Value, StrategicError> {
        self.find(item).ok_or_else(|| no_merge_key(item, self.0))
    }

    fn find(self, item: &Value) -> Option<&Value> {
        if self.0.is_empty() {
            Some(item)
        } else {
            item.get(self.0)
        }
    }

    pub(super) fn same(self, left: &Value, right: &Value) -> Result<bool, StrategicError> {
        let left = self.find(left).ok_or_else(|| no_merge_key(left, self.0))?;
        let right = self.find(right).ok_or_else(|| no_merge_key(right, self.0))?;
        Ok(left == right)
    }

    /// Returns the first position of each item, by its key.
    pub(super) fn positions(self, list: &'a [Value]) -> HashMap<&'a Value, usize> {
        let mut positions = HashMap::with_capacity(list.len());
        for (position, item) in list.iter().enumerate() {
            if let Some(key) = self.find(item) {
                positions.entry(key).or_insert(position);
            }
        }
        positions
    }

    fn position(self, item: &Value, positions: &HashMap<&Value, usize>) -> Option<usize> {
        positions.get(self.find(item)?).copied()
    }

    /// Splits a list into items that are also in `by`, and other items.
    pub(super) fn partition(
        self,
        items: Vec<Value>,
        by: &'a [Value],
    ) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
        if let Some(item) = items.iter().find(|item| self.find(item).is_none()) {
            return Err(no_merge_key(item, self.0));
        }
        let by = self.positions(by);
        Ok(items
            .into_iter()
            .partition(|item| self.position(item, &by).is_some()))
    }

    /// Merges the items of the patch, in their order, with the items that only the server has, in their order. An item
    /// of the server precedes the first item of the patch that follows it on the server.
    pub(super) fn normalized(
        self,
        patched: Vec<Value>,
        server_only: Vec<Value>,
        patch_order: &'a [Value],
        server_order: &'a [Value],
    ) -> Result<Vec<Value>, StrategicError> {
        let patched = self.sorted(patched, patch_order)?;
        let server_only = self.sorted(server_only, server_order)?;
        let server_order = self.positions(server_order);
        let comes_first = |left: &Value, right: &Value| {
            let places = (
                self.position(left, &server_order),
                self.position(right, &server_order),
            );
            matches!(places, (Some(left), Some(right)) if left < right)
        };
        let mut out = Vec::with_capacity(patched.len() + server_only.len());
        let mut server_only = server_only.into_iter().peekable();
        for item in patched {
            while let Some(other) = server_only.next_if(|other| comes_first(other, &item)) {
                out.push(other);
            }
            out.push(item);
        }
        out.extend(server_only);
        Ok(out)
    }

    fn sorted(self, mut items: Vec<Value>, order: &'a [Value]) -> Result<Vec<Value>, StrategicError> {
        if let Some(item) = items.iter().chain(order).find(|item| self.find(item).is_none()) {
            return Err(no_merge_key(item, self.0));
        }
        let order = self.positions(order);
        items.sort_by_key(|item| self.position(item, &order));
        Ok(items)
    }
}
