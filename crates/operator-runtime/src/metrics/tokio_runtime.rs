//! The `operator_runtime_tokio_*` metrics, which are computed at each scrape. They correspond to `go_*` of Go programs.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tokio::runtime::Handle;

/// The runtime of the scrape. Outside a runtime there are no metrics.
#[derive(Debug)]
pub(super) struct TokioRuntime;

impl Collector for TokioRuntime {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(handle) = Handle::try_current() else {
            return Ok(());
        };
        let metrics = handle.metrics();
        let gauges = [
            (
                "operator_runtime_tokio_workers",
                "Number of threads that run tasks",
                metrics.num_workers(),
            ),
            (
                "operator_runtime_tokio_alive_tasks",
                "Number of tasks that have not ended",
                metrics.num_alive_tasks(),
            ),
            (
                "operator_runtime_tokio_global_queue_depth",
                "Number of tasks in the global queue",
                metrics.global_queue_depth(),
            ),
        ];
        for (name, help, value) in gauges {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }
}
