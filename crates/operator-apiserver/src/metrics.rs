//! Counters of requests, admission and watches, with the names of kube-apiserver's metrics.
//!
//! Labels come from the served resources and from fixed lists, so that clients cannot fill the memory with them; beyond
//! [`SERIES_MAX`] label sets new ones are not counted.

mod process;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use self::text::render;

/// Maximum number of label sets of one metric.
const SERIES_MAX: usize = 20_000;

/// Upper bounds of the buckets of request durations, in seconds.
const REQUEST_BUCKETS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Upper bounds of the buckets of response sizes, in bytes.
const SIZE_BUCKETS: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const STEP_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const WEBHOOK_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The values of the labels of one series, in the order of its metric's label names.
type Labels = Vec<String>;

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<HashMap<(RequestLabels, u16), Answered>>,
    long_running: Family<i64>,
    steps: Family<Histogram>,
    webhooks: Family<Histogram>,
    webhook_requests: Family<u64>,
    webhook_rejections: Family<u64>,
    authorizations: Family<u64>,
    mutating: AtomicI64,
    read_only: AtomicI64,
}

/// The series of one metric.
#[derive(Debug)]
struct Family<T>(Mutex<BTreeMap<Labels, T>>);

impl<T> Default for Family<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Family<T> {
    fn reset(&self) {
        self.0.lock().clear();
    }

    fn change(&self, labels: Labels, new: impl FnOnce() -> T, change: impl FnOnce(&mut T)) {
        let mut series = self.0.lock();
        if series.len() >= SERIES_MAX && !series.contains_key(&labels) {
            return;
        }
        change(series.entry(labels).or_insert_with(new));
    }
}

/// The completed requests that have the same labels and status code.
#[derive(Clone, Debug)]
struct Answered {
    durations: Histogram,
    sizes: Histogram,
}

impl Family<u64> {
    fn count(&self, labels: Labels) {
        self.change(labels, || 0, |count| *count += 1);
    }
}

impl Family<Histogram> {
    fn observe(&self, labels: Labels, bounds: &'static [f64], value: f64) {
        let new = || Histogram::new(bounds);
        self.change(labels, new, |histogram| histogram.observe(value));
    }
}

/// Observed values by buckets.
#[derive(Clone, Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// The number of values in each bucket; those above the last bound are only in `count`.
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            buckets: vec![0; bounds.len()],
            count: 0,
            sum: 0.0,
        }
    }

    fn observe(&mut self, value: f64) {
        let place = self.bounds.iter().position(|bound| value <= *bound);
        if let Some(bucket) = place.and_then(|place| self.buckets.get_mut(place)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum += value;
    }

    /// Adds the values of another histogram with the same bounds.
    fn add(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += more;
        }
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// One step of admission, or one call of a webhook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// The name of the webhook; empty for a whole step.
    pub(crate) name: &'a str,
    pub(crate) operation: &'static str,
    pub(crate) mutates: bool,
    pub(crate) rejected: bool,
    /// The code of the webhook's response, or of the rejection.
    pub(crate) code: u16,
    pub(crate) time: Duration,
}

impl Metrics {
    /// Removes the counted requests and calls. The numbers of requests in progress stay.
    pub(crate) fn reset(&self) {
        self.requests.lock().clear();
        self.steps.reset();
        self.webhooks.reset();
        self.webhook_requests.reset();
        self.webhook_rejections.reset();
        self.authorizations.reset();
    }

    /// Counts a running request until the guard is dropped.
    pub(crate) fn begin(&self, mutates: bool) -> InFlight<'_> {
        let count = if mutates { &self.mutating } else { &self.read_only };
        count.fetch_add(1, Ordering::Relaxed);
        InFlight(count)
    }

    /// Counts a completed request; the sizes of streams are not counted.
    pub(crate) fn finished(&self, labels: RequestLabels, code: u16, started: Instant, size: Option<usize>) {
        let elapsed = started.elapsed().as_secs_f64();
        let key = (labels, code);
        let mut requests = self.requests.lock();
        if requests.len() >= SERIES_MAX && !requests.contains_key(&key) {
            return;
        }
        let series = requests.entry(key).or_insert_with(|| Answered {
            durations: Histogram::new(REQUEST_BUCKETS),
            sizes: Histogram::new(SIZE_BUCKETS),
        });
        series.durations.observe(elapsed);
        if let Some(size) = size {
            series.sizes.observe(size as f64);
        }
    }

    pub(crate) fn change_long_running(&self, labels: &RequestLabels, by: i64) {
        self.long_running
            .change(labels.plain(), || 0, |count| *count += by);
    }

    /// Counts a step of admission.
    pub(crate) fn admission_step(&self, step: Step<'_>) {
        let labels = vec![
            step.operation.to_owned(),
            step.rejected.to_string(),
            if step.mutates { "admit" } else { "validate" }.to_owned(),
        ];
        self.steps.observe(labels, STEP_BUCKETS, step.time.as_secs_f64());
    }

    /// Counts a call of a webhook; `failed` is true if it returned no verdict.
    pub(crate) fn webhook(&self, step: Step<'_>, failed: bool) {
        let text = |text: &str| text.to_owned();
        let kind = if step.mutates { "admit" } else { "validating" };
        let labels = vec![
            text(step.name),
            text(step.operation),
            step.rejected.to_string(),
            text(kind),
        ];
        self.webhooks
            .observe(labels, WEBHOOK_BUCKETS, step.time.as_secs_f64());
        let code = step.code.min(600).to_string();
        self.webhook_requests.count(vec![
            code.clone(),
            text(step.name),
            text(step.operation),
            step.rejected.to_string(),
            text(kind),
        ]);
        if step.rejected {
            let error = if failed {
                "calling_webhook_error"
            } else {
                "no_error"
            };
            self.webhook_rejections.count(vec![
                text(error),
                text(step.name),
                text(step.operation),
                if failed { text("0") } else { code },
                text(kind),
            ]);
        }
    }

    /// Counts a request that an authorizer allows.
    pub(crate) fn authorized(&self, authorizer: &str) {
        self.authorizations.count(vec![
            "allowed".to_owned(),
            authorizer.to_lowercase(),
            authorizer.to_owned(),
        ]);
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The labels of a request, all of known values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestLabels {
    pub(crate) component: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) scope: &'static str,
    pub(crate) subresource: String,
    pub(crate) verb: &'static str,
    pub(crate) version: String,
}

impl RequestLabels {
    fn plain(&self) -> Labels {
        let Self {
            group,
            resource,
            subresource,
            version,
            ..
        } = self;
        vec![
            self.component.to_owned(),
            group.clone(),
            resource.clone(),
            self.scope.to_owned(),
            subresource.clone(),
            self.verb.to_owned(),
            version.clone(),
        ]
    }

    fn timed(&self) -> Labels {
        let mut labels = self.plain();
        labels.insert(1, self.dry_run.to_owned());
        labels
    }

    fn with_code(&self, code: u16) -> Labels {
        let mut labels = self.timed();
        labels.insert(0, code.to_string());
        labels.insert(labels.len() - 2, String::new());
        labels
    }
}
