//! Metrics of webhooks and of certificates.

use std::time::Instant;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor as _};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::certificates::Certificates;

use super::{Buckets, DECADES, Label, counters, gauges, histograms, registered};

/// The metrics of one webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookMetrics {
    path: String,
    requests: Family<[Label; 2], Counter>,
    latency: Histogram,
    in_flight: Gauge,
    panics: Counter,
    conversion_panics: Counter,
}

/// A running request. It is counted, and its duration measured, until it is dropped.
#[derive(Debug)]
#[must_use = "call `answered` with the status code of the answer"]
pub(crate) struct WebhookRequest {
    metrics: WebhookMetrics,
    since: Instant,
}

/// The counters of certificate reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateMetrics {
    pub(crate) reads: Counter,
    pub(crate) errors: Counter,
}

impl CertificateMetrics {
    /// Counts the reads of these certificates.
    pub(crate) fn count(self, certificates: Certificates) -> Certificates {
        certificates.on_reading(move |is_ok| {
            self.reads.inc();
            if !is_ok {
                self.errors.inc();
            }
        })
    }
}

#[derive(Debug)]
pub(super) struct Families {
    requests: Family<[Label; 2], Counter>,
    latency: Family<[Label; 1], Histogram, Buckets>,
    in_flight: Family<[Label; 1], Gauge>,
    panics: Counter,
    conversion_panics: Counter,
    pub(super) certificates: CertificateMetrics,
}

// === impl WebhookMetrics ===

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self {
            path: String::new(),
            requests: Family::default(),
            latency: DECADES.new_metric(),
            in_flight: Gauge::default(),
            panics: Counter::default(),
            conversion_panics: Counter::default(),
        }
    }
}

impl WebhookMetrics {
    /// Counts a request as running until the result is dropped.
    pub(crate) fn request(&self) -> WebhookRequest {
        self.in_flight.inc();
        WebhookRequest {
            metrics: self.clone(),
            since: Instant::now(),
        }
    }

    /// Counts a panic of an admission webhook.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts a panic of a conversion webhook.
    pub(crate) fn conversion_panicked(&self) {
        self.conversion_panics.inc();
    }

    fn requests(&self, code: StatusCode) -> Counter {
        let labels = [("webhook", self.path.clone()), ("code", code.as_str().to_owned())];
        self.requests.get_or_create_owned(&labels)
    }
}

impl WebhookRequest {
    /// Counts the request with the status code of its response.
    pub(crate) fn answered(self, code: StatusCode) {
        self.metrics.requests(code).inc();
    }
}

impl Drop for WebhookRequest {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        self.metrics.latency.observe(self.since.elapsed().as_secs_f64());
    }
}

// === impl Families ===

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = counters(
            registry,
            "controller_runtime_webhook_requests",
            "Total number of admission requests by HTTP status code",
        );
        let latency = histograms(
            registry,
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests",
            DECADES,
        );
        let in_flight = gauges(
            registry,
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served",
        );
        let mut counter = |name, help| registered(registry, name, help, Counter::default());
        Self {
            requests,
            latency,
            in_flight,
            panics: counter(
                "controller_runtime_webhook_panics",
                "Total number of webhook panics",
            ),
            conversion_panics: counter(
                "controller_runtime_conversion_webhook_panics",
                "Total number of conversion webhook panics",
            ),
            certificates: CertificateMetrics {
                reads: counter(
                    "certwatcher_read_certificate",
                    "Total number of certificate reads",
                ),
                errors: counter(
                    "certwatcher_read_certificate_errors",
                    "Total number of certificate read errors",
                ),
            },
        }
    }

    /// The codes 200 and 500 start as 0.
    pub(super) fn handle(&self, path: &str) -> WebhookMetrics {
        let labels = [("webhook", path.to_owned())];
        let handle = WebhookMetrics {
            path: path.to_owned(),
            requests: self.requests.clone(),
            latency: self.latency.get_or_create_owned(&labels),
            in_flight: self.in_flight.get_or_create_owned(&labels),
            panics: self.panics.clone(),
            conversion_panics: self.conversion_panics.clone(),
        };
        for code in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR] {
            handle.requests(code);
        }
        handle
    }
}
