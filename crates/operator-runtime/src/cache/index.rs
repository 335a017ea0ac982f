//! An [`Index`] of the objects of a kind by values that a function returns.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use super::item::{Arrived, Item};
use super::keyed::{ByKey, Keyed};
use super::packed::Packed;

/// Returns the values of an object, possibly none.
pub(super) type Values = Arc<dyn Fn(&Arc<dyn Item>) -> Vec<String> + Send + Sync>;

/// One index of one kind. The objects of a value are a tree, because rehashing a large hash table would block for a
/// long time.
pub(super) struct Index {
    values: Values,
    objects: HashMap<String, BTreeSet<ByKey<Packed>>>,
}

// === impl Index ===

impl Index {
    pub(super) fn new(values: Values) -> Self {
        let objects = HashMap::new();
        Self { values, objects }
    }

    pub(super) fn insert(&mut self, object: &Arc<dyn Item>, packed: &Packed) {
        for value in (self.values)(object) {
            self.objects
                .entry(value)
                .or_default()
                .replace(ByKey(packed.clone()));
        }
    }

    pub(super) fn remove(&mut self, object: &Arc<dyn Item>, packed: &Packed) {
        for value in (self.values)(object) {
            if let Some(objects) = self.objects.get_mut(&value) {
                objects.remove(packed as &dyn Keyed);
                if objects.is_empty() {
                    self.objects.remove(&value);
                }
            }
        }
    }

    /// Returns the number of objects with a value.
    pub(super) fn count(&self, value: &str) -> usize {
        self.objects.get(value).map_or(0, BTreeSet::len)
    }

    /// Returns the objects with a value in the order of their keys, after `last`.
    pub(super) fn after(&self, value: &str, last: Option<&Packed>) -> impl Iterator<Item = &Packed> {
        let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last as &dyn Keyed));
        let objects = self.objects.get(value).into_iter();
        let objects =
            objects.flat_map(move |objects| objects.range::<dyn Keyed, _>((start, Bound::Unbounded)));
        objects.map(|ByKey(packed)| packed)
    }

    /// Returns true if the index has an object with a value.
    pub(super) fn contains(&self, packed: &Packed, value: &str) -> bool {
        let objects = self.objects.get(value);
        objects.is_some_and(|objects| objects.contains(packed as &dyn Keyed))
    }

    /// Returns true if an object has a value, even if it is not in the index.
    pub(super) fn has(&self, object: &Arrived, value: &str) -> bool {
        (self.values)(&object.object).iter().any(|own| own == value)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut index = formatter.debug_struct("Index");
        index.field("values", &self.objects.len()).finish_non_exhaustive()
    }
}
