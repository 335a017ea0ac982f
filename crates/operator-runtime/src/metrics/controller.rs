//! Metrics of a controller.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor as _};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Buckets, Label, counters, gauges, histograms};

const RECONCILE_TIME: Buckets = Buckets(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
]);

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    success: Counter,
    error: Counter,
    requeue: Counter,
    requeue_after: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    time: Histogram,
    active_workers: Gauge,
}

/// The result of a reconcile: the label `result` of `controller_runtime_reconcile_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reconcile is complete.
    Success,
    /// The reconcile is repeated with backoff, without an error.
    Requeue,
    /// The reconcile is repeated after a delay.
    RequeueAfter,
    /// The reconcile failed and is retried.
    Error,
    /// The reconcile failed and is not retried.
    TerminalError,
}

/// Counts a worker as active until it is dropped.
#[derive(Debug)]
#[must_use = "hold it for as long as the reconcile runs"]
pub(crate) struct ActiveWorker(Gauge);

#[derive(Debug)]
pub(super) struct Families {
    reconciles: Family<[Label; 2], Counter>,
    errors: Family<[Label; 1], Counter>,
    terminal_errors: Family<[Label; 1], Counter>,
    panics: Family<[Label; 1], Counter>,
    timeouts: Family<[Label; 1], Counter>,
    time: Family<[Label; 1], Histogram, Buckets>,
    max_concurrent: Family<[Label; 1], Gauge>,
    active_workers: Family<[Label; 1], Gauge>,
}

// === impl ControllerMetrics ===

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self {
            success: Counter::default(),
            error: Counter::default(),
            requeue: Counter::default(),
            requeue_after: Counter::default(),
            errors: Counter::default(),
            terminal_errors: Counter::default(),
            panics: Counter::default(),
            timeouts: Counter::default(),
            time: RECONCILE_TIME.new_metric(),
            active_workers: Gauge::default(),
        }
    }
}

impl ControllerMetrics {
    /// Counts a worker as active until the result is dropped.
    pub(crate) fn worker(&self) -> ActiveWorker {
        self.active_workers.inc();
        ActiveWorker(self.active_workers.clone())
    }

    /// Counts a reconcile that ended, and its duration.
    pub(crate) fn finished(&self, outcome: Outcome, took: Duration) {
        self.time.observe(took.as_secs_f64());
        match outcome {
            Outcome::Success => self.success.inc(),
            Outcome::Requeue => self.requeue.inc(),
            Outcome::RequeueAfter => self.requeue_after.inc(),
            Outcome::Error | Outcome::TerminalError => self.error.inc(),
        };
        if matches!(outcome, Outcome::Error | Outcome::TerminalError) {
            self.errors.inc();
        }
        if outcome == Outcome::TerminalError {
            self.terminal_errors.inc();
        }
    }

    /// Counts a reconcile that panicked. It also ends with [`Outcome::Error`].
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts a reconcile that timed out. It also ends with [`Outcome::Error`].
    pub(crate) fn timed_out(&self) {
        self.timeouts.inc();
    }
}

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}

// === impl Families ===

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            reconciles: counters(
                registry,
                "controller_runtime_reconcile",
                "Total number of reconciliations per controller",
            ),
            errors: counters(
                registry,
                "controller_runtime_reconcile_errors",
                "Total number of reconciliation errors per controller",
            ),
            terminal_errors: counters(
                registry,
                "controller_runtime_terminal_reconcile_errors",
                "Total number of terminal reconciliation errors per controller",
            ),
            panics: counters(
                registry,
                "controller_runtime_reconcile_panics",
                "Total number of reconciliation panics per controller",
            ),
            timeouts: counters(
                registry,
                "controller_runtime_reconcile_timeouts",
                "Total number of reconciliations per controller that the reconciliation timeout ended",
            ),
            time: histograms(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                RECONCILE_TIME,
            ),
            max_concurrent: gauges(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
            ),
            active_workers: gauges(
                registry,
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
            ),
        }
    }

    pub(super) fn handle(&self, name: &str, max_concurrent: usize) -> ControllerMetrics {
        let labels = [("controller", name.to_owned())];
        let result = |result: &str| {
            let labels = [("controller", name.to_owned()), ("result", result.to_owned())];
            self.reconciles.get_or_create_owned(&labels)
        };
        let max_concurrent = i64::try_from(max_concurrent).unwrap_or(i64::MAX);
        self.max_concurrent.get_or_create(&labels).set(max_concurrent);
        ControllerMetrics {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: self.errors.get_or_create_owned(&labels),
            terminal_errors: self.terminal_errors.get_or_create_owned(&labels),
            panics: self.panics.get_or_create_owned(&labels),
            timeouts: self.timeouts.get_or_create_owned(&labels),
            time: self.time.get_or_create_owned(&labels),
            active_workers: self.active_workers.get_or_create_owned(&labels),
        }
    }
}
