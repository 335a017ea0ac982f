//! [`OwnWrites`], the operator's own writes and deletions that the watches have not delivered yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::item::Arrived;
use super::keyed::Keyed;
use super::packed::Packed;
use super::store::Scope;
use crate::object::ObjectKey;

/// The last own write of an object.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) scope: Scope,
    /// The number of lists that had begun at the time of the write.
    pub(super) lists: u32,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    Stored(Box<Arrived>, u64),
    /// The object was deleted.
    Deleted(Deletion),
}

/// An own deletion after which the object is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// The UID of the object.
    pub(crate) uid: String,
    /// The revision of its last known state.
    pub(crate) last: u64,
    /// The revision of the deletion. `None` if the response does not contain it.
    pub(crate) at: Option<u64>,
}

/// The last own write of each object, until the watch has passed its revision.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    by_object: BTreeMap<ObjectKey, Written>,
    order: HashMap<Scope, Order>,
}

/// The writes that one watch has to pass, by revision.
#[derive(Debug, Default)]
struct Order {
    stored: BTreeSet<(u64, ObjectKey)>,
    deleted: BTreeSet<(u64, ObjectKey)>,
}

// === impl OwnWrites ===

impl OwnWrites {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    pub(super) fn get(&self, key: &dyn Keyed) -> Option<&Change> {
        self.by_object.get(key).map(|written| &written.change)
    }

    /// Returns the number of lists that had begun when an object was written.
    pub(super) fn lists_at(&self, key: &ObjectKey) -> Option<u32> {
        self.by_object.get(key).map(|written| written.lists)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Change)> {
        self.by_object.iter().map(|(key, written)| (key, &written.change))
    }

    /// Returns the revision of the oldest write or deletion that a watch has to pass.
    pub(super) fn oldest(&self, scope: &Scope) -> Option<u64> {
        let order = self.order.get(scope)?;
        let first = [order.stored.first(), order.deleted.first()];
        first.into_iter().flatten().map(|(revision, _)| *revision).min()
    }

    /// Adds a write and returns the previous one of the same object.
    pub(super) fn insert(&mut self, key: ObjectKey, written: Written) -> Option<Written> {
        let before = self.remove(&key);
        let place = (written.change.revision(), key.clone());
        let order = self.order.entry(written.scope.clone()).or_default();
        order.of(&written.change).insert(place);
        self.by_object.insert(key, written);
        before
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Written> {
        let written = self.by_object.remove(key)?;
        if let Some(order) = self.order.get_mut(&written.scope) {
            let place = (written.change.revision(), key.clone());
            order.of(&written.change).remove(&place);
        }
        Some(written)
    }

    /// Removes and returns the written objects up to a revision.
    pub(super) fn take_passed(&mut self, scope: &Scope, at: u64) -> Vec<(ObjectKey, Written)> {
        let Some(order) = self.order.get_mut(scope) else {
            return Vec::new();
        };
        let mut passed = Vec::new();
        while let Some(first) = order.stored.pop_first() {
            if first.0 > at {
                order.stored.insert(first);
                break;
            }
            let (_, key) = first;
            let written = self.by_object.remove(&key);
            passed.extend(written.map(|written| (key, written)));
        }
        passed
    }

    /// Removes and returns the writes for which `is_wanted` returns true.
    pub(super) fn extract_if(&mut self, is_wanted: impl Fn(&Written) -> bool) -> Vec<(ObjectKey, Written)> {
        let wanted = self.by_object.iter().filter(|(_, written)| is_wanted(written));
        let keys: Vec<_> = wanted.map(|(key, _)| key.clone()).collect();
        let taken = keys.into_iter().filter_map(|key| {
            let written = self.remove(&key)?;
            Some((key, written))
        });
        taken.collect()
    }
}

// === impl Order ===

impl Order {
    fn of(&mut self, change: &Change) -> &mut BTreeSet<(u64, ObjectKey)> {
        match change {
            Change::Stored(..) => &mut self.stored,
            Change::Deleted(_) => &mut self.deleted,
        }
    }
}

// === impl Change ===

impl Change {
    /// Returns the revision that the watch has to pass.
    pub(super) fn revision(&self) -> u64 {
        match self {
            Self::Stored(_, revision) => *revision,
            Self::Deleted(deletion) => deletion.last,
        }
    }
}

// === impl Deletion ===

impl Deletion {
    /// Returns true if the object is the deleted one in any state, or an earlier one with its name.
    pub(super) fn is_of(&self, packed: &Packed) -> bool {
        packed.has_uid(&self.uid) || (packed.revision() > 0 && packed.revision() <= self.last)
    }
}
