//! Metrics of an operator, with the names, labels and buckets of controller-runtime, so that its dashboards work
//! unchanged.
//!
//! [`Metrics`] is the registry of one manager; several managers in a process do not share it. [`Metrics::register`]
//! adds metrics of the operator.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

mod client;
mod controller;
mod election;
mod exposition;
mod process;
mod queue;
mod rest_client;
mod retry;
mod tokio_runtime;
mod webhook;

pub(crate) use self::client::{CacheMetrics, ClientMetrics};
pub(crate) use self::controller::{ControllerMetrics, Outcome};
pub use self::election::LeaderMetrics;
pub(crate) use self::queue::{QueueMetrics, Running};
pub(crate) use self::rest_client::RestClientLayer;
pub(crate) use self::webhook::{CertificateMetrics, WebhookMetrics};
/// The crate to define metrics of the operator; see [`Metrics::register`].
pub use prometheus_client;

type Label = (&'static str, String);

/// The metrics of one manager. Clones share the registry.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    families: Arc<Families>,
}

/// All metric families. Each module defines the names and help texts of its own.
#[derive(Debug)]
struct Families {
    controller: controller::Families,
    queue: queue::Families,
    client: client::Families,
    rest_client: rest_client::Families,
    election: election::Families,
    webhook: webhook::Families,
}

// === impl Metrics ===

impl Default for Metrics {
    /// Creates a registry with the `process_*` metrics of this process (Linux only), the `operator_runtime_tokio_*`
    /// metrics of the runtime that reads it, and the metrics of the whole operator, such as panics of webhooks, with
    /// the value 0.
    fn default() -> Self {
        let mut registry = Registry::default();
        let families = Families {
            controller: controller::Families::register(&mut registry),
            queue: queue::Families::register(&mut registry),
            client: client::Families::register(&mut registry),
            rest_client: rest_client::Families::register(&mut registry),
            election: election::Families::register(&mut registry),
            webhook: webhook::Families::register(&mut registry),
        };
        registry.register_collector(Box::new(process::Process));
        registry.register_collector(Box::new(tokio_runtime::TokioRuntime));
        Self {
            registry: Arc::new(Mutex::new(registry)),
            families: Arc::new(families),
        }
    }
}

impl Metrics {
    /// Returns the metrics of a controller. Its counters start as 0, and `controller_runtime_max_concurrent_reconciles`
    /// is set.
    pub(crate) fn controller(&self, name: &str, max_concurrent_reconciles: usize) -> ControllerMetrics {
        self.families.controller.handle(name, max_concurrent_reconciles)
    }

    /// Returns the metrics of a work queue. As in controller-runtime, the queue has the name of its controller.
    pub(crate) fn queue(&self, name: &str) -> QueueMetrics {
        self.families.queue.handle(name)
    }

    /// Returns the metrics of a [`Client`](crate::Client).
    pub(crate) fn client(&self) -> ClientMetrics {
        self.families.client.client_handle()
    }

    /// Returns the metrics of the cache.
    pub(crate) fn cache(&self) -> CacheMetrics {
        self.families.client.cache_handle()
    }

    /// Returns the layer that counts and measures the requests of a [`kube::Client`]. `host` is the value of the label:
    /// host and port of the API server.
    pub(crate) fn rest_client_layer(&self, host: &str) -> RestClientLayer {
        self.families.rest_client.layer(host)
    }

    /// Returns the metrics of a leader election. `name` is the name of the lock.
    pub fn leader(&self, name: &str) -> LeaderMetrics {
        self.families.election.handle(name)
    }

    /// Returns the metrics of the webhook at `path`. Its counters for the codes 200 and 500 start as 0.
    pub(crate) fn webhook(&self, path: &str) -> WebhookMetrics {
        self.families.webhook.handle(path)
    }

    /// Returns the metrics of certificate files: `certwatcher_read_certificate_total` and
    /// `certwatcher_read_certificate_errors_total`.
    pub(crate) fn certificates(&self) -> CertificateMetrics {
        self.families.webhook.certificates.clone()
    }

    /// Registers metrics of the operator.
    ///
    /// prometheus-client adds `_total` to the names of counters.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// Returns the metrics in the Prometheus text format, version 0.0.4, like Go programs.
    pub fn to_text(&self) -> String {
        exposition::to_text(&self.to_open_metrics())
    }

    /// Returns the metrics in the OpenMetrics text format, version 1.0.0, in which descriptions name counters without
    /// `_total`.
    pub(crate) fn to_open_metrics(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _infallible = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        text
    }
}

/// Registers `metric` and returns it.
fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Creates a family of counters with `N` labels. `name` must not end in `_total`.
fn counters<const N: usize>(registry: &mut Registry, name: &str, help: &str) -> Family<[Label; N], Counter> {
    registered(registry, name, help, Family::default())
}

fn gauges<const N: usize>(registry: &mut Registry, name: &str, help: &str) -> Family<[Label; N], Gauge> {
    registered(registry, name, help, Family::default())
}

fn histograms<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    buckets: Buckets,
) -> Family<[Label; N], Histogram, Buckets> {
    registered(registry, name, help, Family::new_with_constructor(buckets))
}

/// The buckets of a histogram.
#[derive(Clone, Copy, Debug)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Powers of ten from 10 ns to 1000 s, with the rounding errors of the Go client.
const DECADES: Buckets = Buckets(&[
    1e-8,
    1e-7,
    1e-6,
    9.999999999999999e-6,
    9.999999999999999e-5,
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
    100.0,
    1000.0,
]);

#[cfg(test)]
mod tests;
