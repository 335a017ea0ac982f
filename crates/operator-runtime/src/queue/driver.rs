//! [`WorkQueue`], the queue that sources and workers share.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::state::{Add, Counts, Popped, Queue};
use crate::cache::skips::Requeue;
use crate::metrics::{QueueMetrics, Running};
use crate::object::ObjectKey;

/// Interval at which the queue is logged at the level TRACE.
const DUMP_EVERY: Duration = Duration::from_secs(10);

/// The queue of one controller.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
    metrics: QueueMetrics,
    /// If false, all keys have the same priority.
    prioritized: bool,
}

#[derive(Debug)]
struct State {
    queue: Queue<ObjectKey>,
    /// The counters that were already added to the metrics.
    counted: Counts,
    stopped: bool,
}

impl Requeue for WorkQueue {
    fn requeue(&self, request: ObjectKey) {
        self.add(request, Add::default());
    }
}

/// A key to reconcile. It counts as running until it is finished.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: ObjectKey,
    pub(crate) priority: i32,
    running: Running,
}

/// The next step of a key after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for the next event. Resets the backoff.
    Done,
    /// Run again after this time. Resets the backoff.
    After(Duration),
    /// Run again after the backoff, which grows.
    Backoff,
    /// Wait for the next event. Keeps the backoff.
    Terminal,
}

// === impl WorkQueue ===

impl WorkQueue {
    pub(crate) fn new(queue: Queue<ObjectKey>, prioritized: bool, metrics: QueueMetrics) -> Arc<Self> {
        let queue = Arc::new(Self {
            state: Mutex::new(State {
                queue,
                counted: Counts::default(),
                stopped: false,
            }),
            changed: Notify::new(),
            metrics,
            prioritized,
        });
        if !prioritized {
            queue.metrics.without_priorities();
        }
        let observed = Arc::downgrade(&queue);
        queue.metrics.depth(move || {
            let queue = observed.upgrade();
            queue.map(|queue| queue.depth()).unwrap_or_default()
        });
        queue
    }

    fn depth(&self) -> Vec<(i32, usize)> {
        let mut state = self.state.lock();
        let depth = state.queue.depth(crate::clock::instant());
        state.count(&self.metrics);
        depth
    }

    /// Adds a key.
    pub(crate) fn add(&self, key: ObjectKey, add: Add) {
        let add = Add {
            priority: self.priority(add.priority),
            ..add
        };
        let mut state = self.state.lock();
        state.queue.add(key, add, crate::clock::instant());
        state.count(&self.metrics);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next key. Returns `None` when the queue is stopped.
    pub(crate) async fn next(&self) -> Option<Job> {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut state = self.state.lock();
                if state.stopped {
                    self.changed.notify_one();
                    return None;
                }
                let popped = state.queue.pop(crate::clock::instant());
                state.count(&self.metrics);
                if let Some(Popped {
                    key,
                    priority,
                    waited,
                }) = popped
                {
                    drop(state);
                    // One notification may announce several keys, so the next worker must check too.
                    self.changed.notify_one();
                    let running = self.metrics.started(waited);
                    return Some(Job {
                        key,
                        priority,
                        running,
                    });
                }
                state.queue.next_ready()
            };
            match wake {
                Some(wake) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(wake.into()) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Ends the run of a key and schedules its next step.
    pub(crate) fn finish(&self, job: Job, next: Next, priority: i32) {
        let Job { key, running, .. } = job;
        let priority = self.priority(priority);
        let now = crate::clock::instant();
        let mut state = self.state.lock();
        if matches!(next, Next::Done | Next::After(_)) {
            state.queue.forget(&key);
        }
        let add = Add {
            priority,
            ..Add::default()
        };
        let add = match next {
            Next::After(after) => Some(Add { after, ..add }),
            Next::Backoff => Some(Add {
                rate_limited: true,
                ..add
            }),
            Next::Done | Next::Terminal => None,
        };
        if let Some(add) = add {
            state.queue.add(key.clone(), add, now);
        }
        state.queue.done(&key, now);
        state.count(&self.metrics);
        drop(state);
        drop(running);
        self.changed.notify_one();
    }

    /// Logs the queue at intervals if the level TRACE is enabled. Never completes.
    pub(crate) async fn dump(&self, controller: &str) -> Infallible {
        while tracing::enabled!(tracing::Level::TRACE) {
            tokio::time::sleep(DUMP_EVERY).await;
            tracing::trace!(controller, queue = ?self.state.lock().queue, "Queued");
        }
        std::future::pending().await
    }

    fn priority(&self, priority: i32) -> i32 {
        if self.prioritized { priority } else { 0 }
    }

    /// Stops the queue: every [`WorkQueue::next`] returns `None` immediately, and queued keys are dropped.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }
}

// === impl State ===

impl State {
    /// Adds the new counts to the metrics.
    fn count(&mut self, metrics: &QueueMetrics) {
        let counts = self.queue.counts();
        metrics.added(counts.adds.saturating_sub(self.counted.adds));
        metrics.retried(counts.retries.saturating_sub(self.counted.retries));
        self.counted = counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::queue::PATIENCE;
    use crate::queue::limiter::{Backoff, RateLimit};

    fn new(prioritized: bool, metrics: QueueMetrics) -> Arc<WorkQueue> {
        let queue = Queue::new(RateLimit::default().limiter(), PATIENCE);
        WorkQueue::new(queue, prioritized, metrics)
    }

    fn queue() -> Arc<WorkQueue> {
        new(true, QueueMetrics::default())
    }

    impl WorkQueue {
        fn add_now(&self, key: ObjectKey, priority: i32) {
            let add = Add {
                priority,
                ..Add::default()
            };
            self.add(key, add);
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    #[tokio::test]
    async fn each_waiting_worker_gets_a_key() {
        let queue = queue();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        for name in ["a", "b", "c"] {
            queue.add_now(key(name), 0);
        }
        let mut served = Vec::new();
        for worker in workers {
            served.push(worker.await.unwrap().unwrap().key);
        }
        served.sort();
        assert_eq!(served, [key("a"), key("b"), key("c")]);
    }

    #[tokio::test]
    async fn requeued_key_returns_after_its_delay() {
        let queue = queue();
        queue.add_now(key("a"), 0);
        let job = queue.next().await.unwrap();
        queue.finish(job, Next::After(Duration::from_millis(1)), 0);
        assert_eq!(queue.next().await.unwrap().key, key("a"));
    }

    /// A simulation pauses the clock of tokio and advances it to the next timer.
    #[tokio::test(start_paused = true)]
    async fn delays_follow_the_clock_of_timers() {
        let queue = queue();
        let hour = Duration::from_secs(3600);
        // The clock of the machine is far behind.
        tokio::time::advance(hour * 24).await;
        queue.add_now(key("a"), 0);
        let job = queue.next().await.unwrap();
        let begin = tokio::time::Instant::now();
        queue.finish(job, Next::After(hour), 0);
        assert_eq!(queue.next().await.unwrap().key, key("a"));
        assert!(begin.elapsed() >= hour);
    }

    #[tokio::test]
    async fn stop_ends_every_worker_and_drops_the_queue() {
        let queue = queue();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        queue.stop();
        for worker in workers {
            assert!(worker.await.unwrap().is_none());
        }
        queue.add_now(key("late"), 0);
        assert!(queue.next().await.is_none());
    }

    /// A key that is added during its run is run again afterwards.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_workers_run_every_key_once() {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

        #[derive(Default)]
        struct Work {
            wanted: AtomicUsize,
            done: AtomicUsize,
            running: AtomicBool,
            doubled: AtomicBool,
        }

        const KEYS: usize = 16;
        let (queue, work) = (
            queue(),
            Arc::new(std::array::from_fn::<Work, KEYS, _>(|_| Work::default())),
        );
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let (queue, work) = (queue.clone(), work.clone());
                tokio::spawn(async move {
                    while let Some(job) = queue.next().await {
                        let work = &work[job.key.name().parse::<usize>().unwrap()];
                        if work.running.swap(true, SeqCst) {
                            work.doubled.store(true, SeqCst);
                        }
                        let wanted = work.wanted.load(SeqCst);
                        tokio::task::yield_now().await;
                        work.done.store(wanted, SeqCst);
                        work.running.store(false, SeqCst);
                        let next = match wanted % 7 {
                            0 => Next::After(Duration::from_micros(300)),
                            1 => Next::Terminal,
                            _ => Next::Done,
                        };
                        queue.finish(job, next, 0);
                    }
                })
            })
            .collect();
        let sources: Vec<_> = (0..4)
            .map(|source| {
                let (queue, work) = (queue.clone(), work.clone());
                tokio::spawn(async move {
                    for number in 0..4000_usize {
                        let index = (number * 7 + source * 5) % KEYS;
                        work[index].wanted.fetch_add(1, SeqCst);
                        let after = Duration::from_micros([0, 0, 200, 900][number % 4]);
                        let priority = [0, -100, 5][number % 3];
                        let add = Add {
                            priority,
                            after,
                            ..Add::default()
                        };
                        queue.add(key(&index.to_string()), add);
                        if number % 64 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for source in sources {
            source.await.unwrap();
        }
        let is_done = |work: &Work| work.done.load(SeqCst) == work.wanted.load(SeqCst);
        let all = async {
            while !work.iter().all(is_done) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), all).await;
        assert!(in_time.is_ok(), "a key was forgotten");
        assert!(!work.iter().any(|work| work.doubled.load(SeqCst)));
        queue.stop();
        for worker in workers {
            worker.await.unwrap();
        }
    }

    #[tokio::test]
    async fn without_priorities_keys_are_served_in_order() {
        let queue = new(false, QueueMetrics::default());
        queue.add_now(key("first"), -100);
        queue.add_now(key("second"), 50);
        assert_eq!(queue.next().await.unwrap().key, key("first"));
        assert_eq!(queue.next().await.unwrap().key, key("second"));
    }
    #[track_caller]
    fn check(metrics: &Metrics, wanted: [u64; 3]) {
        let text = metrics.to_text();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
                .unwrap_or(0)
        };
        let counted = [
            "workqueue_adds_total",
            "workqueue_retries_total",
            "workqueue_depth",
        ]
        .map(of);
        assert_eq!(counted, wanted, "adds, retries and depth");
    }

    #[tokio::test]
    async fn adds_count_ready_keys_and_retries_count_delayed_keys() {
        let metrics = Metrics::default();
        let queue = new(true, metrics.queue("tester"));
        let after = |millis| Add {
            after: Duration::from_millis(millis),
            ..Add::default()
        };
        queue.add(key("a"), Add::default());
        queue.add(key("a"), Add::default());
        check(&metrics, [1, 0, 1]);
        // A delay for a queued key counts only as a retry.
        queue.add(key("a"), after(3_600_000));
        check(&metrics, [1, 1, 1]);
        queue.add(key("later"), after(3_600_000));
        check(&metrics, [1, 2, 1]);
        queue.add(key("later"), Add::default());
        check(&metrics, [2, 2, 2]);
        let job = queue.next().await.unwrap();
        check(&metrics, [2, 2, 1]);
        // A key that was added during its run counts as ready too.
        queue.add(job.key.clone(), Add::default());
        check(&metrics, [3, 2, 2]);
        let priority = job.priority;
        queue.finish(job, Next::Done, priority);
        check(&metrics, [3, 2, 2]);
        for _ in 0..2 {
            let job = queue.next().await.unwrap();
            queue.finish(job, Next::Done, 0);
        }
        check(&metrics, [3, 2, 0]);
    }
    #[tokio::test]
    async fn depth_has_no_priority_without_priorities() {
        let metrics = Metrics::default();
        let queue = new(false, metrics.queue("tester"));
        queue.add_now(key("a"), -100);
        queue.add_now(key("b"), 0);
        let line = r#"workqueue_depth{name="tester",controller="tester",priority=""} 2"#;
        let text = metrics.to_text();
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[tokio::test]
    async fn failures_count_until_success_or_an_explicit_delay() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        let limit = RateLimit::Exponential(Backoff {
            base: hours(1),
            max: hours(100),
        });
        let queue = Queue::new(limit.limiter(), PATIENCE);
        let queue = WorkQueue::new(queue, true, QueueMetrics::default());
        for (next, wait) in [
            (Next::Backoff, Some(hours(1))),
            (Next::Backoff, Some(hours(2))),
            (Next::Terminal, None),
            (Next::Backoff, Some(hours(4))),
            (Next::After(hours(50)), Some(hours(50))),
            (Next::Backoff, Some(hours(1))),
            (Next::Done, None),
            (Next::Backoff, Some(hours(1))),
        ] {
            // Removes any delay.
            queue.add_now(key("a"), 0);
            let (job, began) = (queue.next().await.unwrap(), crate::clock::instant());
            queue.finish(job, next, 0);
            let ready = queue.state.lock().queue.next_ready();
            let waits = ready.map(|ready| ready.saturating_duration_since(began).as_secs() / 60);
            assert_eq!(waits, wait.map(|wait| wait.as_secs() / 60), "after {next:?}");
        }
    }
}
