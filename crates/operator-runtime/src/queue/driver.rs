//! The queue shared between sources, which add, and workers, which wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::limiter::RateLimiter;
use super::state::{Add, Popped, Queue};
use crate::metrics::{QueueMetrics, Running};
use crate::object::ObjectKey;

/// A key that has been ready for this long is served before keys of a higher priority.
const PATIENCE: Duration = Duration::from_secs(60);

/// The queue of one controller.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
    metrics: QueueMetrics,
    /// Whether priorities count; otherwise all keys have the same.
    prioritized: bool,
}

#[derive(Debug)]
struct State {
    queue: Queue<ObjectKey>,
    stopped: bool,
}

/// A key to work on; it counts as being worked on until it is finished.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: ObjectKey,
    pub(crate) priority: i32,
    running: Running,
}

/// What follows from a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until the next event; the failures are forgotten.
    Done,
    /// Again after this time; the failures are forgotten.
    After(Duration),
    /// Again after the backoff; one failure more.
    Backoff,
    /// Nothing until the next event; the failures still count.
    Terminal,
}

// === impl WorkQueue ===

impl WorkQueue {
    pub(crate) fn new(limiter: Box<dyn RateLimiter>, prioritized: bool, metrics: QueueMetrics) -> Arc<Self> {
        let queue = Arc::new(Self {
            state: Mutex::new(State {
                queue: Queue::new(limiter, PATIENCE),
                stopped: false,
            }),
            changed: Notify::new(),
            metrics,
            prioritized,
        });
        let observed = Arc::downgrade(&queue);
        queue.metrics.depth(move || {
            let queue = observed.upgrade();
            queue
                .map(|queue| queue.state.lock().queue.depth(Instant::now()))
                .unwrap_or_default()
        });
        queue
    }

    /// Adds a key that is ready at once.
    pub(crate) fn add(&self, key: ObjectKey, priority: i32) {
        self.add_after(key, priority, Duration::ZERO);
    }

    /// Adds a key that is ready after this time.
    pub(crate) fn add_after(&self, key: ObjectKey, priority: i32, after: Duration) {
        let priority = self.priority(priority);
        if self
            .state
            .lock()
            .queue
            .add(key, Add { priority, after }, Instant::now())
        {
            self.metrics.added();
        }
        self.changed.notify_one();
    }

    /// Waits for the next key; `None` once the queue is stopped.
    pub(crate) async fn next(&self) -> Option<Job> {
        loop {
            let changed = self.changed.notified();
            let wake = {
                let mut state = self.state.lock();
                if state.stopped {
                    self.changed.notify_one();
                    return None;
                }
                if let Some(Popped {
                    key,
                    priority,
                    waited,
                }) = state.queue.pop(Instant::now())
                {
                    drop(state);
                    // One notification may stand for several keys: the next worker looks for itself.
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
                        () = changed => {}
                        () = tokio::time::sleep_until(wake.into()) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Ends the run of a key and schedules what follows from it.
    pub(crate) fn finish(&self, job: Job, next: Next, priority: i32) {
        let Job { key, running, .. } = job;
        let priority = self.priority(priority);
        let now = Instant::now();
        let mut state = self.state.lock();
        if matches!(next, Next::Done | Next::After(_)) {
            state.queue.forget(&key);
        }
        let added = match next {
            Next::After(after) => state.queue.add(key.clone(), Add { priority, after }, now),
            Next::Backoff => state.queue.add_rate_limited(key.clone(), priority, now),
            Next::Done | Next::Terminal => false,
        };
        state.queue.done(&key, now);
        drop(state);
        drop(running);
        if added {
            self.metrics.added();
            self.metrics.retried();
        }
        self.changed.notify_one();
    }

    fn priority(&self, priority: i32) -> i32 {
        if self.prioritized { priority } else { 0 }
    }

    /// Makes every [`WorkQueue::next`] return `None`, at once; what is queued is dropped.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limiter::RateLimit;

    fn queue() -> Arc<WorkQueue> {
        WorkQueue::new(RateLimit::default().limiter(), true, QueueMetrics::default())
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
            queue.add(key(name), 0);
        }
        let mut served = Vec::new();
        for worker in workers {
            served.push(worker.await.unwrap().unwrap().key);
        }
        served.sort();
        assert_eq!(served, [key("a"), key("b"), key("c")]);
    }

    #[tokio::test]
    async fn requeued_key_comes_back_when_its_time_has_come() {
        let queue = queue();
        queue.add(key("a"), 0);
        let job = queue.next().await.unwrap();
        queue.finish(job, Next::After(Duration::from_millis(1)), 0);
        assert_eq!(queue.next().await.unwrap().key, key("a"));
    }

    #[tokio::test]
    async fn stopping_ends_every_worker_and_drops_what_is_queued() {
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
        queue.add(key("late"), 0);
        assert!(queue.next().await.is_none());
    }

    /// What is added while a key is being worked on is worked on afterwards, whoever adds and whoever works.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_key_is_forgotten_or_doubled_between_many_workers() {
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
                        queue.add_after(key(&index.to_string()), [0, -100, 5][number % 3], after);
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
    async fn without_priorities_keys_come_in_their_order() {
        let queue = WorkQueue::new(RateLimit::default().limiter(), false, QueueMetrics::default());
        queue.add(key("first"), -100);
        queue.add(key("second"), 50);
        assert_eq!(queue.next().await.unwrap().key, key("first"));
        assert_eq!(queue.next().await.unwrap().key, key("second"));
    }
}
