//! [`Queue`], the pure state of a work queue: time is an argument, and the next key or time is the result.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::limiter::RateLimiter;

/// While keys starve, one out of this many served keys is the oldest one.
const SHARE: u32 = 10;

/// Maximum number of keys that become ready in one call, so that many due keys do not block for a long time.
const PROMOTED_AT_ONCE: usize = 1_000;

/// Number of priorities up to which priorities without keys are kept in the metrics.
const REMEMBERED_PRIORITIES: usize = 25;

/// Replacement for a delay that the clock cannot represent.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Options for adding a key. Default: immediately, with priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Add {
    /// The priority; higher ones are served first.
    pub priority: i32,
    /// Delay before the key becomes ready.
    pub after: Duration,
    /// Delays the key by the backoff of its failures, and counts one more failure. With `after`, the shorter delay counts.
    pub rate_limited: bool,
}

/// A key to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Popped<K> {
    /// The key.
    pub key: K,
    /// The priority with which it was queued.
    pub priority: i32,
    /// The time since it became ready.
    pub waited: Duration,
}

/// Counters of a queue since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Keys that became ready, immediately or after their delay: `workqueue_adds_total`.
    pub adds: u64,
    /// Keys that were added with a delay: `workqueue_retries_total`.
    pub retries: u64,
}

/// The queue of a controller as a value. It selects the next key, and never waits.
///
/// * A key is queued once, however often it is added. It keeps the higher priority and the earlier time.
/// * Ready keys are served by priority, and by the time at which they became ready within a priority. Each call makes
///   at most 1,000 due keys ready.
/// * While keys have been ready for longer than `patience`, every tenth key is the oldest of them, so that nothing
///   starves. The other nine are served by priority, so that a backlog delays urgent keys by at most a ninth.
/// * A running key is not returned again before `done`. If it is added in the meantime, it waits for that.
pub(crate) struct Queue<K> {
    limiter: Box<dyn RateLimiter<K>>,
    patience: Duration,
    entries: BTreeMap<K, Entry>,
    ready: BTreeMap<(Reverse<i32>, Instant, u64), K>,
    by_age: BTreeMap<(Instant, u64), K>,
    waiting: BTreeSet<(Instant, u64, K)>,
    running: BTreeSet<K>,
    /// The number of ready keys of each priority.
    depth: BTreeMap<i32, usize>,
    counts: Counts,
    sequence: u64,
    /// The number of keys that were served by priority since the last old one.
    passed: u32,
}

/// The state of a key that is due now or later.
#[derive(Clone, Copy, Debug)]
struct Entry {
    priority: i32,
    sequence: u64,
    place: Place,
    /// True if it is included in `depth`.
    counted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The key is ready since this time.
    Ready(Instant),
    Waiting(Instant),
    /// The key is running. After `done` it is due at this time.
    Parked(Instant),
}

// === impl Queue ===

impl<K: Clone + Ord + Debug> Queue<K> {
    /// Creates an empty queue. While keys have been ready for longer than `patience`, every tenth key is the oldest of
    /// them, regardless of priority.
    pub(crate) fn new(limiter: Box<dyn RateLimiter<K>>, patience: Duration) -> Self {
        Self {
            limiter,
            patience,
            entries: BTreeMap::new(),
            ready: BTreeMap::new(),
            by_age: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            depth: BTreeMap::new(),
            counts: Counts::default(),
            sequence: 0,
            passed: 0,
        }
    }

    /// Adds a key, and returns true if it was not queued. A queued key keeps the higher of the two priorities and the
    /// earlier of the two times.
    pub(crate) fn add(&mut self, key: K, add: Add, now: Instant) -> bool {
        self.promote(now);
        let after = self.wait(&key, add, now);
        if !after.is_zero() {
            self.counts.retries += 1;
        }
        let due = now.checked_add(after).unwrap_or(now + NEVER);
        let known = self.entries.get(&key).copied();
        let (priority, due, was_counted) = match known {
            Some(old) => {
                let earlier = old.due().min(due);
                if old.priority >= add.priority && earlier >= old.due() {
                    return false;
                }
                self.remove(&key, old);
                // With a higher priority, a ready key moves to the end of that priority.
                let is_ready = matches!(old.place, Place::Ready(_));
                let due = if is_ready { now } else { earlier };
                (old.priority.max(add.priority), due, old.counted)
            }
            None => (add.priority, due, false),
        };
        self.sequence += 1;
        let entry = (priority, self.sequence, was_counted);
        self.place(key, entry, due, now);
        known.is_none()
    }

    fn wait(&mut self, key: &K, add: Add, now: Instant) -> Duration {
        if !add.rate_limited {
            return add.after;
        }
        match self.limiter.when(key, now) {
            wait if add.after.is_zero() => wait,
            wait => wait.min(add.after),
        }
    }

    /// Resets the failures of a key, which stays queued.
    pub(crate) fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }

    /// Returns the next key, which then runs until [`Queue::done`].
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Popped<K>> {
        self.promote(now);
        let key = self.turn(now)?;
        let entry = self.entries.get(&key).copied()?;
        self.remove(&key, entry);
        self.running.insert(key.clone());
        let (priority, waited) = (entry.priority, now.saturating_duration_since(entry.due()));
        Some(Popped {
            key,
            priority,
            waited,
        })
    }

    /// Ends the run of a key. If it was added in the meantime, it is due again.
    pub(crate) fn done(&mut self, key: &K, now: Instant) {
        self.running.remove(key);
        if let Some(entry) = self.entries.get(key).copied()
            && let Place::Parked(due) = entry.place
        {
            self.remove(key, entry);
            let placed = (entry.priority, entry.sequence, entry.counted);
            self.place(key.clone(), placed, due, now);
        }
    }

    /// Returns the time at which the first delayed key becomes ready, for the next [`Queue::pop`].
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _, _)| *due)
    }

    /// Returns the number of ready keys of each priority, the highest first: the metric `workqueue_depth`. It includes
    /// running keys that will run again. Priorities without keys are kept as 0, so that dashboards show that they are
    /// empty, and dropped beyond 25 priorities.
    pub(crate) fn depth(&mut self, now: Instant) -> Vec<(i32, usize)> {
        self.promote(now);
        let depth = self.depth.iter().rev();
        depth.map(|(priority, count)| (*priority, *count)).collect()
    }

    /// Returns the counters. Keys whose delay is over are counted by the next call that returns a key or the depth.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Inserts a key at its position, with its priority, its sequence, and whether it was counted as ready.
    fn place(
        &mut self,
        key: K,
        (priority, sequence, was_counted): (i32, u64, bool),
        due: Instant,
        now: Instant,
    ) {
        let is_ready = due <= now;
        let place = if self.running.contains(&key) {
            Place::Parked(due)
        } else if is_ready {
            self.ready.insert((Reverse(priority), due, sequence), key.clone());
            self.by_age.insert((due, sequence), key.clone());
            Place::Ready(due)
        } else {
            self.waiting.insert((due, sequence, key.clone()));
            Place::Waiting(due)
        };
        if is_ready {
            self.count(priority);
            self.counts.adds += u64::from(!was_counted);
        }
        let entry = Entry {
            priority,
            sequence,
            place,
            counted: is_ready,
        };
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &K, entry: Entry) {
        self.entries.remove(key);
        if entry.counted
            && let Some(count) = self.depth.get_mut(&entry.priority)
        {
            *count = count.saturating_sub(1);
        }
        match entry.place {
            Place::Ready(since) => {
                self.ready
                    .remove(&(Reverse(entry.priority), since, entry.sequence));
                self.by_age.remove(&(since, entry.sequence));
            }
            Place::Waiting(due) => {
                self.waiting.remove(&(due, entry.sequence, key.clone()));
            }
            Place::Parked(_) => {}
        }
    }

    fn count(&mut self, priority: i32) {
        if self.depth.len() >= REMEMBERED_PRIORITIES && !self.depth.contains_key(&priority) {
            self.depth.retain(|_, count| *count > 0);
        }
        *self.depth.entry(priority).or_default() += 1;
    }

    /// Makes due keys ready in the order of their times. If there are too many, the next call continues.
    fn promote(&mut self, now: Instant) {
        for _ in 0..PROMOTED_AT_ONCE {
            if self.waiting.first().is_none_or(|(due, _, _)| *due > now) {
                return;
            }
            if let Some((due, _, key)) = self.waiting.pop_first()
                && let Some(entry) = self.entries.remove(&key)
            {
                self.place(key, (entry.priority, entry.sequence, false), due, now);
            }
        }
    }

    /// Returns the next key: the first by priority, or every tenth time the oldest.
    fn turn(&mut self, now: Instant) -> Option<K> {
        let first = self.ready.values().next()?;
        let ((since, _), oldest) = self.by_age.first_key_value()?;
        let is_starving = now.saturating_duration_since(*since) > self.patience;
        if !is_starving || first == oldest {
            self.passed = 0;
            return Some(first.clone());
        }
        self.passed += 1;
        if self.passed < SHARE {
            return Some(first.clone());
        }
        self.passed = 0;
        Some(oldest.clone())
    }
}

impl<K: Debug> Debug for Queue<K> {
    /// Prints the keys in the order in which they are due, the running ones, and those that will run again.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parked = self.entries.iter();
        let parked = parked.filter(|(_, entry)| matches!(entry.place, Place::Parked(_)));
        let ready = self.ready.iter();
        formatter
            .debug_struct("Queue")
            .field(
                "ready",
                &ready
                    .map(|((Reverse(priority), _, _), key)| (priority, key))
                    .collect::<Vec<_>>(),
            )
            .field(
                "waiting",
                &self.waiting.iter().map(|(_, _, key)| key).collect::<Vec<_>>(),
            )
            .field("running", &self.running)
            .field("again", &parked.map(|(key, _)| key).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

// === impl Entry ===

impl Entry {
    /// Returns the time at which the key is or was due, or became ready.
    fn due(&self) -> Instant {
        match self.place {
            Place::Ready(due) | Place::Waiting(due) | Place::Parked(due) => due,
        }
    }
}

#[cfg(test)]
mod tests;
