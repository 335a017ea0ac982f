//! Metrics of a work queue. Counters are updated by the queue; depths are computed at each scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor as _};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Buckets, DECADES, Label, counters, histograms};

/// Maximum number of priorities with their own label, to limit the memory of the monitoring system.
const PRIORITIES_MAX: usize = 25;
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// The metrics of one work queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    live: Arc<Mutex<Live>>,
}

/// A running key. It is counted, and its duration measured, until it is dropped.
#[derive(Debug)]
#[must_use = "hold it for as long as the key is worked on"]
pub(crate) struct Running {
    id: u64,
    since: Instant,
    work_duration: Histogram,
    live: Arc<Mutex<Live>>,
}

type Depth = Box<dyn Fn() -> Vec<(i32, usize)> + Send>;

/// The values that are computed at each scrape.
#[derive(Default)]
struct Live {
    last_id: u64,
    running: BTreeMap<u64, Instant>,
    depth: Option<Depth>,
    /// The priorities with their own label.
    named: BTreeSet<i32>,
    /// True if the queue has no priorities.
    plain: bool,
}

#[derive(Debug)]
pub(super) struct Families {
    adds: Family<[Label; 2], Counter>,
    retries: Family<[Label; 2], Counter>,
    queue_duration: Family<[Label; 2], Histogram, Buckets>,
    work_duration: Family<[Label; 2], Histogram, Buckets>,
    live: Arc<LiveQueues>,
}

#[derive(Debug, Default)]
struct LiveQueues(Mutex<BTreeMap<String, Arc<Mutex<Live>>>>);

// === impl QueueMetrics ===

impl Default for QueueMetrics {
    fn default() -> Self {
        Self {
            adds: Counter::default(),
            retries: Counter::default(),
            queue_duration: DECADES.new_metric(),
            work_duration: DECADES.new_metric(),
            live: Arc::default(),
        }
    }
}

impl QueueMetrics {
    /// Counts keys that became ready.
    pub(crate) fn added(&self, keys: u64) {
        self.adds.inc_by(keys);
    }

    /// Counts keys that were added with a delay. They count as [added](QueueMetrics::added) when they become ready.
    pub(crate) fn retried(&self, keys: u64) {
        self.retries.inc_by(keys);
    }

    /// Counts a key that a worker took, after it `waited` in the queue, as running until the result is dropped.
    pub(crate) fn started(&self, waited: Duration) -> Running {
        self.queue_duration.observe(waited.as_secs_f64());
        let since = Instant::now();
        let mut live = self.live.lock();
        live.last_id += 1;
        let id = live.last_id;
        live.running.insert(id, since);
        drop(live);
        Running {
            id,
            since,
            work_duration: self.work_duration.clone(),
            live: self.live.clone(),
        }
    }

    /// Exports the depth without priorities, as controller-runtime does for a queue without priorities.
    pub(crate) fn without_priorities(&self) {
        self.live.lock().plain = true;
    }

    /// Sets the function that returns the number of ready keys for each priority, for scrapes. The first 25 priorities
    /// have their own label; all others share `exceeded_cardinality_limit`.
    ///
    /// The function should hold a `Weak` to the queue, so that the queue can be dropped.
    pub(crate) fn depth(&self, depth: impl Fn() -> Vec<(i32, usize)> + Send + 'static) {
        self.live.lock().depth = Some(Box::new(depth));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.live.lock().running.remove(&self.id);
        self.work_duration.observe(self.since.elapsed().as_secs_f64());
    }
}

// === impl Families ===

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let live = Arc::new(LiveQueues::default());
        registry.register_collector(Box::new(live.clone()));
        Self {
            adds: counters(
                registry,
                "workqueue_adds",
                "Total number of adds handled by workqueue",
            ),
            retries: counters(
                registry,
                "workqueue_retries",
                "Total number of retries handled by workqueue",
            ),
            queue_duration: histograms(
                registry,
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                DECADES,
            ),
            work_duration: histograms(
                registry,
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
                DECADES,
            ),
            live,
        }
    }

    pub(super) fn handle(&self, name: &str) -> QueueMetrics {
        let labels = labels(name);
        QueueMetrics {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            live: self.live.0.lock().entry(name.to_owned()).or_default().clone(),
        }
    }
}

/// controller-runtime repeats the name of the controller as the name of the queue.
fn labels(name: &str) -> [Label; 2] {
    [("name", name.to_owned()), ("controller", name.to_owned())]
}

// === impl LiveQueues ===

impl Collector for LiveQueues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues: Vec<_> = self
            .0
            .lock()
            .iter()
            .map(|(name, live)| (name.clone(), live.clone()))
            .collect();
        let mut depths = gauge(
            &mut encoder,
            "workqueue_depth",
            "Current depth of workqueue by priority",
        )?;
        for (name, live) in &queues {
            for (priority, depth) in live.lock().depth_by_label() {
                let [queue, controller] = labels(name);
                depths
                    .encode_family(&[queue, controller, ("priority", priority)])?
                    .encode_gauge(&depth)?;
            }
        }
        let now = Instant::now();
        let mut unfinished = gauge(
            &mut encoder,
            "workqueue_unfinished_work_seconds",
            "How many seconds of work are in progress and not yet observed by work_duration; \
             large values indicate stuck workers",
        )?;
        for (name, live) in &queues {
            // `sum` returns -0 for an empty iterator.
            let seconds = live.lock().ages(now).fold(0.0, |sum, age| sum + age);
            unfinished.encode_family(&labels(name))?.encode_gauge(&seconds)?;
        }
        let mut longest = gauge(
            &mut encoder,
            "workqueue_longest_running_processor_seconds",
            "How many seconds the longest running worker of workqueue has been running",
        )?;
        for (name, live) in &queues {
            let seconds = live.lock().ages(now).fold(0.0, f64::max);
            longest.encode_family(&labels(name))?.encode_gauge(&seconds)?;
        }
        Ok(())
    }
}

fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<prometheus_client::encoding::MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

// === impl Live ===

impl Live {
    fn ages(&self, now: Instant) -> impl Iterator<Item = f64> {
        self.running
            .values()
            .map(move |since| now.saturating_duration_since(*since).as_secs_f64())
    }

    /// Returns the depth for each label. Priorities beyond the limit share one.
    fn depth_by_label(&mut self) -> BTreeMap<String, i64> {
        let depths = self.depth.as_ref().map(|depth| depth()).unwrap_or_default();
        let as_number = |depth| i64::try_from(depth).unwrap_or(i64::MAX);
        if self.plain {
            let depth = depths.iter().map(|(_, depth)| *depth).sum::<usize>();
            return [(String::new(), as_number(depth))].into();
        }
        let mut labelled = BTreeMap::new();
        for (priority, depth) in depths {
            if self.named.len() < PRIORITIES_MAX {
                self.named.insert(priority);
            }
            let label = match self.named.contains(&priority) {
                true => priority.to_string(),
                false => OTHER_PRIORITIES.to_owned(),
            };
            *labelled.entry(label).or_default() += as_number(depth);
        }
        for priority in &self.named {
            labelled.entry(priority.to_string()).or_default();
        }
        labelled
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Live")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}
