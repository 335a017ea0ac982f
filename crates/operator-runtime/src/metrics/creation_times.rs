//! When the objects of some kinds were created, as of the time of each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::Objects;
use crate::object::Kind;

const NAME: &str = "resource_created_at_seconds";
const HELP: &str = "Timestamp at which a resource was created";

/// The kinds whose objects are shown, by their paths. Clones share them.
#[derive(Clone, Default)]
pub(super) struct CreationTimes {
    kinds: Arc<Mutex<BTreeMap<String, (Kind, Objects)>>>,
}

// === impl CreationTimes ===

impl CreationTimes {
    pub(super) fn add(&self, kind: Kind, objects: Objects) {
        self.kinds.lock().insert(kind.path(), (kind, objects));
    }
}

impl Collector for CreationTimes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.kinds.lock().values().cloned().collect();
        if kinds.is_empty() {
            return Ok(());
        }
        let mut samples = encoder.encode_descriptor(NAME, HELP, None, MetricType::Gauge)?;
        for (kind, objects) in kinds {
            for metadata in objects() {
                let Some(created) = &metadata.creation_timestamp else {
                    continue;
                };
                let labels = [
                    ("name", metadata.name.as_deref().unwrap_or_default()),
                    ("namespace", metadata.namespace.as_deref().unwrap_or_default()),
                    ("group", &kind.group),
                    ("version", &kind.version),
                    ("kind", &kind.kind),
                ];
                samples
                    .encode_family(&labels)?
                    .encode_gauge(&created.0.as_second())?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CreationTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.lock();
        formatter
            .debug_tuple("CreationTimes")
            .field(&kinds.keys())
            .finish()
    }
}
