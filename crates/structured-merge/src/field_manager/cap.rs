//! At most ten updaters: older ones are merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::managed_fields::{Managed, Manager, Operation, Owned};

const UPDATERS_MAX: usize = 10;
const OLD_UPDATERS: &str = "ancient-changes";

/// Merges the oldest updaters of each version into one entry until there are no more than the maximum.
pub(super) fn cap_updaters(mut managed: Managed) -> Managed {
    let updaters = managed.owners.iter().filter(|(_, owned)| !owned.applied);
    let mut updaters: Vec<Manager> = updaters.map(|(manager, _)| manager.clone()).collect();
    let mut excess = updaters.len().saturating_sub(UPDATERS_MAX);
    // The sort is stable, and managers of the same second stay in the order of their names.
    updaters.sort_by_key(|manager| managed.seconds(manager));
    let mut first_of: BTreeMap<String, Manager> = BTreeMap::new();
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
        merge_into_bucket(&mut managed, &version, first, &manager);
        excess -= 1;
    }
    managed
}

/// The order of steps is the real server's: an updater that is itself the bucket disappears with what it owned.
fn merge_into_bucket(managed: &mut Managed, version: &str, first: &Manager, manager: &Manager) {
    let bucket = Manager::new(OLD_UPDATERS, Operation::Update, version, "");
    if !managed.owners.contains_key(&bucket)
        && let Some(owned) = managed.owners.remove(first)
    {
        managed.owners.insert(bucket.clone(), owned);
    }
    let Some(owned) = managed.owners.get(manager).cloned() else {
        return;
    };
    let before = managed
        .owners
        .get(&bucket)
        .map(|owned| owned.fields.clone())
        .unwrap_or_default();
    managed.owners.insert(
        bucket.clone(),
        Owned {
            fields: Arc::new(owned.fields.union(&before)),
            ..owned
        },
    );
    managed.owners.remove(manager);
    match managed.times.get(manager).cloned() {
        Some(time) => _ = managed.times.insert(bucket, time),
        None => _ = managed.times.remove(&bucket),
    }
}
