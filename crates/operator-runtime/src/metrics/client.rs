//! Metrics of the client and of the cache.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, counters, gauges};

/// The counters of a client. `kind` has the form of [`Kind`](crate::Kind)'s `Display`, such as `Deployment.apps`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientMetrics {
    writes_skipped: Family<[Label; 1], Counter>,
    conflicts_retried: Family<[Label; 1], Counter>,
}

/// The metrics of a cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheMetrics {
    quarantined: Family<[Label; 1], Gauge>,
    live: Family<[Label; 3], Gauge>,
    /// The name of another cluster. Empty for the manager's own.
    cluster: Arc<str>,
    skipped_writes_requeued: Family<[Label; 1], Counter>,
}

#[derive(Debug)]
pub(super) struct Families {
    client: ClientMetrics,
    cache: CacheMetrics,
}

// === impl ClientMetrics ===

impl ClientMetrics {
    /// Counts a write that was not sent because it would have changed nothing.
    pub(crate) fn write_skipped(&self, kind: &str) {
        self.writes_skipped.get_or_create(&of_kind(kind)).inc();
    }

    /// Counts a conflict that was resolved by another attempt.
    pub(crate) fn conflict_retried(&self, kind: &str) {
        self.conflicts_retried.get_or_create(&of_kind(kind)).inc();
    }
}

impl CacheMetrics {
    /// Sets the number of objects of a kind that cannot be decoded.
    pub(crate) fn quarantined(&self, kind: &str, objects: usize) {
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        self.quarantined.get_or_create(&of_kind(kind)).set(objects);
    }

    /// Counts requests that are reconciled again because of a skipped write.
    pub(crate) fn skipped_writes_requeued(&self, kind: &str, requests: usize) {
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.skipped_writes_requeued
            .get_or_create(&of_kind(kind))
            .inc_by(requests);
    }
}

impl CacheMetrics {
    /// Returns the metrics of the cache of another cluster.
    pub(crate) fn of_cluster(&self, name: &str) -> Self {
        Self {
            quarantined: Family::default(),
            skipped_writes_requeued: self.skipped_writes_requeued.clone(),
            live: self.live.clone(),
            cluster: name.into(),
        }
    }

    /// Sets whether a watch is live.
    pub(crate) fn watch_live(&self, kind: &str, namespace: Option<&str>, is_live: bool) {
        let labels = self.of_watch(kind, namespace);
        self.live.get_or_create(&labels).set(i64::from(is_live));
    }

    /// Removes the gauge of an ended watch.
    pub(crate) fn watch_removed(&self, kind: &str, namespace: Option<&str>) {
        self.live.remove(&self.of_watch(kind, namespace));
    }

    fn of_watch(&self, kind: &str, namespace: Option<&str>) -> [Label; 3] {
        [
            ("kind", kind.to_owned()),
            ("namespace", namespace.unwrap_or_default().to_owned()),
            ("cluster", self.cluster.to_string()),
        ]
    }
}

fn of_kind(kind: &str) -> [Label; 1] {
    [("kind", kind.to_owned())]
}

// === impl Families ===

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let client = ClientMetrics {
            writes_skipped: counters(
                registry,
                "operator_runtime_writes_skipped",
                "Writes that were not sent because they would have changed nothing",
            ),
            conflicts_retried: counters(
                registry,
                "operator_runtime_conflicts_retried",
                "Conflicts that were resolved by reading the object again",
            ),
        };
        let quarantined = gauges(
            registry,
            "operator_runtime_quarantined_objects",
            "Objects that the cache omits because they cannot be decoded",
        );
        let live = gauges(
            registry,
            "operator_runtime_watch_live",
            "1 if a watch of the cache is live, 0 during its first list and while it fails",
        );
        let skipped_writes_requeued = counters(
            registry,
            "operator_runtime_skipped_writes_requeued",
            "Requests that were reconciled again because the state that a skipped write was compared with has changed",
        );
        Self {
            client,
            cache: CacheMetrics {
                quarantined,
                live,
                cluster: Arc::default(),
                skipped_writes_requeued,
            },
        }
    }

    pub(super) fn client_handle(&self) -> ClientMetrics {
        self.client.clone()
    }

    pub(super) fn cache_handle(&self) -> CacheMetrics {
        self.cache.clone()
    }
}
