//! Limits the number of updaters to ten by merging older ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::field_set::FieldSet;
use crate::managed_fields::{Managed, Manager, Operation};

const UPDATERS_MAX: usize = 10;
const OLD_UPDATERS: &str = "ancient-changes";

/// Merges the oldest updaters of each version into one entry until there are no more than the maximum.
pub(super) fn cap_updaters(mut managed: Managed) -> Managed {
    let updaters = managed.owners.iter().filter(|(_, owned)| !owned.applied);
    let mut updaters: Vec<Manager> = updaters.map(|(manager, _)| manager.clone()).collect();
    let mut excess = updaters.len().saturating_sub(UPDATERS_MAX);
    // The sort is stable, so managers with the same time stay in the order of their names.
    updaters.sort_by_key(|manager| managed.seconds(manager));
    let mut first_of: BTreeMap<String, Manager> = BTreeMap::new();
    let mut buckets: BTreeMap<String, Bucket> = BTreeMap::new();
    for manager in updaters {
        if excess == 0 {
            break;
        }
        let Some(version) = managed
            .owners
            .get(&manager)
            .map(|owned| owned.api_version.clone())
        else {
            continue;
        };
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket = buckets
            .entry(version)
            .or_insert_with_key(|version| Bucket::new(version));
        bucket.take(&mut managed, first, &manager);
        excess -= 1;
    }
    for bucket in buckets.into_values() {
        bucket.finish(&mut managed);
    }
    managed
}

/// The entry of one version into which older updaters are merged.
struct Bucket {
    manager: Manager,
    /// The field sets of the entry. They are merged at the end, so that each set is copied only a few times.
    parts: Vec<Arc<FieldSet>>,
}

impl Bucket {
    fn new(version: &str) -> Self {
        Self {
            manager: Manager::new(OLD_UPDATERS, Operation::Update, version, ""),
            parts: Vec::new(),
        }
    }

    /// Merges an updater. The order of the steps is that of the API server: if the updater is itself the bucket, it
    /// disappears with its fields.
    fn take(&mut self, managed: &mut Managed, first: &Manager, updater: &Manager) {
        match managed.owners.get(&self.manager) {
            Some(owned) if self.parts.is_empty() => self.parts.push(owned.fields.clone()),
            Some(_) => {}
            None => {
                self.parts.clear();
                if let Some(owned) = managed.owners.remove(first) {
                    self.parts.push(owned.fields.clone());
                    managed.owners.insert(self.manager.clone(), owned);
                }
            }
        }
        let Some(owned) = managed.owners.remove(updater) else {
            return;
        };
        if *updater != self.manager {
            self.parts.push(owned.fields.clone());
            managed.owners.insert(self.manager.clone(), owned);
        }
        match managed.times.get(updater).cloned() {
            Some(time) => _ = managed.times.insert(self.manager.clone(), time),
            None => _ = managed.times.remove(&self.manager),
        }
    }

    fn finish(self, managed: &mut Managed) {
        let Some(owned) = managed.owners.get_mut(&self.manager) else {
            return;
        };
        let mut parts = self.parts;
        // Sets of similar size are merged, so that the work is O(n log n).
        while parts.len() > 1 {
            parts = parts
                .chunks(2)
                .map(|pair| match pair {
                    [left, right] => Arc::new(right.union(left)),
                    _ => pair.first().cloned().unwrap_or_default(),
                })
                .collect();
        }
        if let Some(fields) = parts.pop() {
            owned.fields = fields;
        }
    }
}
