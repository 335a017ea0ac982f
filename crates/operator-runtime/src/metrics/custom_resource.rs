//! The custom resources of an operator, each as one sample, as of the time of each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::Objects;

pub(super) struct CustomResources {
    kind: String,
    name: String,
    objects: Objects,
}

// === impl CustomResources ===

impl CustomResources {
    pub(super) fn new(kind: &str, objects: Objects) -> Self {
        Self {
            kind: kind.to_owned(),
            name: format!("{}_info", kind.to_lowercase()),
            objects,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Collector for CustomResources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = format!("Information about the {} custom resource", self.kind);
        let mut samples = encoder.encode_descriptor(&self.name, &help, None, MetricType::Gauge)?;
        let label = self.kind.to_lowercase();
        for metadata in (self.objects)() {
            let labels = [
                ("namespace", metadata.namespace.as_deref().unwrap_or_default()),
                (&label, metadata.name.as_deref().unwrap_or_default()),
            ];
            samples.encode_family(&labels)?.encode_gauge(&1_i64)?;
        }
        Ok(())
    }
}

impl fmt::Debug for CustomResources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("CustomResources")
            .field(&self.name)
            .finish()
    }
}
