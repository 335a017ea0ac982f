//! The custom resources of an operator, each as one sample, looked up in the cache whenever somebody looks.

use std::fmt;
use std::marker::PhantomData;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::cache::Cache;
use crate::object::{Kind, Object};

pub(super) struct CustomResources<K> {
    cache: Cache,
    kind: String,
    name: String,
    objects: PhantomData<fn() -> K>,
}

// === impl CustomResources ===

impl<K: Object> CustomResources<K> {
    pub(super) fn new(cache: Cache) -> Self {
        let kind = Kind::of::<K>().kind;
        let name = format!("{}_info", kind.to_lowercase());
        let objects = PhantomData;
        Self {
            cache,
            kind,
            name,
            objects,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl<K: Object> Collector for CustomResources<K> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = format!("Information about the {} custom resource", self.kind);
        let mut samples = encoder.encode_descriptor(&self.name, &help, None, MetricType::Gauge)?;
        let label = self.kind.to_lowercase();
        let informer = self.cache.existing(&Kind::of::<K>());
        for key in informer.map(|informer| informer.keys()).unwrap_or_default() {
            let labels = [
                ("namespace", key.namespace().unwrap_or_default()),
                (&label, key.name()),
            ];
            samples.encode_family(&labels)?.encode_gauge(&1_i64)?;
        }
        Ok(())
    }
}

impl<K> fmt::Debug for CustomResources<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("CustomResources")
            .field(&self.name)
            .finish()
    }
}
