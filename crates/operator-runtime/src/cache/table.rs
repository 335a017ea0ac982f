//! [`Table`], a set of objects by namespace and name whose snapshots have a constant cost.

use std::collections::{HashSet, hash_map::RandomState};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::vec;

use super::keyed::{ByKey, Keyed};

/// Number of shards of a table. A shard is copied when it is changed while a snapshot holds it, which takes a fraction
/// of a millisecond with a hundred thousand objects.
pub(super) const SHARDS: usize = 64;

type Shard<T> = HashSet<ByKey<T>>;

/// Objects by the namespace and name that they contain. Clones share the shards.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    shards: Box<[Arc<Shard<T>>]>,
    hasher: RandomState,
}

/// The objects of a table at one time, unordered.
pub(super) struct Snapshot<T> {
    shards: vec::IntoIter<Arc<Shard<T>>>,
    current: vec::IntoIter<T>,
}

// === impl Table ===

impl<T: Keyed + Clone> Table<T> {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Arc::default()).collect();
        let hasher = RandomState::new();
        Self { shards, hasher }
    }

    pub(super) fn get(&self, key: &dyn Keyed) -> Option<&T> {
        self.shards[self.shard_of(key)]
            .get(key)
            .map(|ByKey(object)| object)
    }

    /// Adds an object, replacing the one with the same name.
    pub(super) fn replace(&mut self, object: T) {
        let shard = self.shard_of(&object);
        Arc::make_mut(&mut self.shards[shard]).replace(ByKey(object));
    }

    pub(super) fn take(&mut self, key: &dyn Keyed) -> Option<T> {
        let shard = self.shard_of(key);
        let shard = &mut self.shards[shard];
        if !shard.contains(key) {
            return None;
        }
        Arc::make_mut(shard).take(key).map(|ByKey(object)| object)
    }

    /// Removes and returns the objects of one shard for which `is_wanted` returns true.
    pub(super) fn extract_if(&mut self, shard: usize, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let is_wanted = |object: &ByKey<T>| is_wanted(&object.0);
        match self.shards.get_mut(shard) {
            Some(shard) if shard.iter().any(is_wanted) => {
                let objects = Arc::make_mut(shard).extract_if(is_wanted);
                objects.map(|ByKey(object)| object).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot<T> {
        Snapshot {
            shards: self.shards.clone().into_iter(),
            current: Vec::new().into_iter(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }

    fn shard_of(&self, key: &dyn Keyed) -> usize {
        // The hash tables of the shards use the other bits of the hash.
        (self.hasher.hash_one(key) >> 32) as usize % SHARDS
    }
}

// === impl Snapshot ===

impl<T: Clone> Iterator for Snapshot<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(object) = self.current.next() {
                return Some(object);
            }
            // The shard is dropped immediately, so that a later change does not copy it.
            let shard = self.shards.next()?;
            let objects: Vec<_> = shard.iter().map(|ByKey(object)| object.clone()).collect();
            self.current = objects.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::object::ObjectKey;

    fn key(number: u8) -> ObjectKey {
        ObjectKey::namespaced(&format!("namespace-{}", number % 3), &format!("name-{number}"))
    }

    proptest! {
        #[test]
        fn snapshots_do_not_change(changes in proptest::collection::vec((any::<bool>(), any::<u8>()), 0..300)) {
            let (mut table, mut expected) = (Table::new(), BTreeSet::new());
            let mut snapshots = Vec::new();
            for (is_added, number) in changes {
                if number % 16 == 0 {
                    snapshots.push((table.snapshot(), expected.clone()));
                }
                if is_added {
                    table.replace(key(number));
                    expected.insert(key(number));
                } else {
                    prop_assert_eq!(table.take(&key(number)).is_some(), expected.remove(&key(number)));
                }
                prop_assert_eq!(table.get(&key(number)).is_some(), expected.contains(&key(number)));
            }
            let is_of_one = |key: &ObjectKey| key.namespace() == Some("namespace-1");
            snapshots.push((table.snapshot(), expected.clone()));
            let taken: BTreeSet<_> = (0..SHARDS).flat_map(|shard| table.extract_if(shard, is_of_one)).collect();
            let (of_one, others): (BTreeSet<_>, BTreeSet<_>) = expected.into_iter().partition(is_of_one);
            prop_assert_eq!(taken, of_one);
            prop_assert_eq!(table.is_empty(), others.is_empty());
            snapshots.push((table.snapshot(), others));
            for (snapshot, expected) in snapshots {
                prop_assert_eq!(snapshot.collect::<BTreeSet<_>>(), expected);
            }
        }
    }
}
