//! Deletes events some time after their last write: `--event-ttl` of kube-apiserver ([`Expiry`]).
//!
//! Expiry needs no background task: each request for events first deletes expired ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::registry::Registry;
use crate::resource::Definition;
use crate::store::TableId;
use apimachinery::gvk::Gvr;

/// The default time to live of events.
pub(crate) const EVENT_TTL: Duration = Duration::from_secs(3600);
/// The maximum number of events that one request deletes; the next one continues.
const EXPIRED_MAX: usize = 10_000;

/// The table of events; both groups of events share it.
const TABLE: &str = "events";

/// The expiry of events.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// The time to live of events; zero keeps them forever.
    pub(crate) ttl: Duration,
    due: Mutex<Due>,
}

#[derive(Debug, Default)]
struct Due {
    times: HashMap<Arc<str>, SystemTime>,
    order: BTreeSet<(SystemTime, Arc<str>)>,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            ttl: EVENT_TTL,
            due: Mutex::default(),
        }
    }
}

impl Due {
    fn remove(&mut self, key: &str) {
        if let Some((key, time)) = self.times.remove_entry(key) {
            self.order.remove(&(time, key));
        }
    }

    fn set(&mut self, key: &str, time: SystemTime) {
        self.remove(key);
        let key: Arc<str> = key.into();
        self.times.insert(key.clone(), time);
        self.order.insert((time, key));
    }
}

/// Returns true for both resources of events.
pub(crate) fn is_expiring(definition: &Definition) -> bool {
    &*definition.table == TABLE && !definition.is_custom()
}

/// Starts the time to live of the stored events when the server starts.
pub(crate) fn begin(registry: &Registry) {
    for event in registry.store.list(TABLE, "").objects {
        written(registry, &event.key);
    }
}

/// Restarts the time to live of an event after a write, or removes it after a deletion.
pub(crate) fn written(registry: &Registry, key: &str) {
    let expiry = &registry.expiry;
    let end = registry.clock.now().checked_add(expiry.ttl);
    let end = end.filter(|_| !expiry.ttl.is_zero() && registry.store.get(TABLE, key).is_some());
    let mut due = expiry.due.lock();
    match end {
        Some(end) => due.set(key, end),
        None => due.remove(key),
    }
}

/// Deletes expired events. Finalizers do not keep them, as in kube-apiserver.
pub(crate) fn expire(registry: &Registry) {
    let now = registry.clock.now();
    let expired: Vec<Arc<str>> = {
        let due = registry.expiry.due.lock();
        let expired = due.order.iter().take_while(|(time, _)| *time <= now);
        expired.take(EXPIRED_MAX).map(|(_, key)| key.clone()).collect()
    };
    if expired.is_empty() {
        return;
    }
    let table: TableId = TABLE.into();
    let storage = Arc::new(Gvr::new("", "v1", "events"));
    for key in expired {
        if let Some(event) = registry.store.get(TABLE, &key)
            && let Err(error) = registry.store.delete(&table, &storage, &event)
        {
            // Either the event was written again at the same time, which restarts its time to live, or the disk is
            // full.
            tracing::debug!(%key, ?error, "expired event not deleted");
            return;
        }
        registry.expiry.due.lock().remove(&key);
    }
}
