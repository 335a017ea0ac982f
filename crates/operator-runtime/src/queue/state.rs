//! The queue as a value: time comes in as an argument, the next key or the next moment to look goes out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::limiter::RateLimiter;

/// How a key is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Add {
    /// The higher priority is served first.
    pub priority: i32,
    /// Not before that much time has passed.
    pub after: Duration,
}

/// A key that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped<K> {
    /// The key.
    pub key: K,
    /// The priority that it had.
    pub priority: i32,
    /// How long it was ready.
    pub waited: Duration,
}

/// The queue of a controller, as a value: it decides which key is next, and never waits.
///
/// * A key is there once, however often it is added; it keeps the higher priority and the earlier ready time.
/// * Ready keys are served by priority, and in the order of becoming ready within one priority. A key that has been
///   ready for longer than `patience` is served before any priority, so that nothing starves.
/// * A key that was handed out is not handed out again before `done`; added meanwhile, it waits for that.
///
/// ```
/// use std::time::{Duration, Instant};
/// use operator_runtime::queue::{Add, Queue};
/// use operator_runtime::controller::RateLimit;
/// use operator_runtime::ObjectKey;
///
/// let mut queue = Queue::new(RateLimit::default().limiter(), Duration::from_secs(60));
/// let (key, now) = (ObjectKey::namespaced("default", "a"), Instant::now());
/// assert!(queue.add(key.clone(), Add::default(), now));
/// assert_eq!(queue.pop(now).map(|popped| popped.key), Some(key.clone()));
/// // It failed, and comes back when its time has come.
/// queue.add_rate_limited(key.clone(), 0, now);
/// queue.done(&key, now);
/// assert_eq!(queue.pop(now), None);
/// assert_eq!(queue.next_ready(), Some(now + Duration::from_millis(5)));
/// ```
#[derive(Debug)]
pub struct Queue<K> {
    limiter: Box<dyn RateLimiter<K>>,
    patience: Duration,
    entries: HashMap<K, Entry>,
    ready: BTreeMap<(Reverse<i32>, u64), K>,
    by_age: BTreeMap<u64, (Instant, K)>,
    waiting: BTreeSet<(Instant, u64, K)>,
    running: HashSet<K>,
    sequence: u64,
}

/// Where a key that is due some time stands.
#[derive(Clone, Copy, Debug)]
struct Entry {
    priority: i32,
    sequence: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Ready,
    Waiting(Instant),
    /// The key is running; after `done` it is due at this moment.
    Parked(Instant),
}

// === impl Queue ===

impl<K: Clone + Eq + Hash + Ord + Debug> Queue<K> {
    /// An empty queue; a key that has been ready for longer than `patience` is served before any priority.
    pub fn new(limiter: Box<dyn RateLimiter<K>>, patience: Duration) -> Self {
        Self {
            limiter,
            patience,
            entries: HashMap::new(),
            ready: BTreeMap::new(),
            by_age: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: HashSet::new(),
            sequence: 0,
        }
    }

    /// Adds a key, and says whether it was not there before.
    pub fn add(&mut self, key: K, add: Add, now: Instant) -> bool {
        let due = now.checked_add(add.after).unwrap_or(now);
        let known = self.entries.get(&key).copied();
        let (priority, due) = match known {
            Some(old) => {
                let earlier = old.due(now).min(due);
                if old.priority >= add.priority && earlier >= old.due(now) {
                    return false;
                }
                self.remove(&key, old);
                (old.priority.max(add.priority), earlier)
            }
            None => (add.priority, due),
        };
        self.place(key, priority, due, now);
        known.is_none()
    }

    /// Adds a key after the wait that its failures so far demand, and counts one failure more; says whether the key
    /// was not there before.
    pub fn add_rate_limited(&mut self, key: K, priority: i32, now: Instant) -> bool {
        let after = self.limiter.when(&key, now);
        self.add(key, Add { priority, after }, now)
    }

    /// Forgets the failures of a key; the key itself stays where it is.
    pub fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }

    /// Hands out the next key; it is running until [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<Popped<K>> {
        self.promote(now);
        let key = self
            .starving(now)
            .or_else(|| self.ready.values().next().cloned())?;
        let entry = self.entries.get(&key).copied()?;
        let since = self.by_age.get(&entry.sequence).map_or(now, |(since, _)| *since);
        self.remove(&key, entry);
        self.running.insert(key.clone());
        let (priority, waited) = (entry.priority, now.saturating_duration_since(since));
        Some(Popped {
            key,
            priority,
            waited,
        })
    }

    /// Says that the run of a key is over; if it was added meanwhile it is due again.
    pub fn done(&mut self, key: &K, now: Instant) {
        self.running.remove(key);
        if let Some(entry) = self.entries.get(key).copied()
            && let Place::Parked(due) = entry.place
        {
            self.entries.remove(key);
            self.place(key.clone(), entry.priority, due, now);
        }
    }

    /// When a waiting key becomes ready, if none is ready now.
    pub fn next_ready(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _, _)| *due)
    }

    /// How many keys of each priority are ready.
    pub fn depth(&self) -> Vec<(i32, usize)> {
        let mut depth: Vec<(i32, usize)> = Vec::new();
        for (Reverse(priority), _) in self.ready.keys() {
            match depth.last_mut().filter(|(last, _)| last == priority) {
                Some((_, count)) => *count += 1,
                None => depth.push((*priority, 1)),
            }
        }
        depth
    }

    fn place(&mut self, key: K, priority: i32, due: Instant, now: Instant) {
        self.sequence += 1;
        let sequence = self.sequence;
        let place = if self.running.contains(&key) {
            Place::Parked(due)
        } else if due <= now {
            self.ready.insert((Reverse(priority), sequence), key.clone());
            self.by_age.insert(sequence, (now, key.clone()));
            Place::Ready
        } else {
            self.waiting.insert((due, sequence, key.clone()));
            Place::Waiting(due)
        };
        self.entries.insert(
            key,
            Entry {
                priority,
                sequence,
                place,
            },
        );
    }

    fn remove(&mut self, key: &K, entry: Entry) {
        self.entries.remove(key);
        match entry.place {
            Place::Ready => {
                self.ready.remove(&(Reverse(entry.priority), entry.sequence));
                self.by_age.remove(&entry.sequence);
            }
            Place::Waiting(due) => {
                self.waiting.remove(&(due, entry.sequence, key.clone()));
            }
            Place::Parked(_) => {}
        }
    }

    /// Moves the keys whose time has come from waiting to ready, in the order of their times.
    fn promote(&mut self, now: Instant) {
        while self.waiting.first().is_some_and(|(due, _, _)| *due <= now) {
            if let Some((due, _, key)) = self.waiting.pop_first()
                && let Some(entry) = self.entries.remove(&key)
            {
                self.place(key, entry.priority, due, now);
            }
        }
    }

    fn starving(&self, now: Instant) -> Option<K> {
        let (_, (since, key)) = self.by_age.first_key_value()?;
        (now.saturating_duration_since(*since) > self.patience).then(|| key.clone())
    }
}

impl Entry {
    /// When the key is due; a key that is ready has been due since at the latest now.
    fn due(&self, now: Instant) -> Instant {
        match self.place {
            Place::Ready => now,
            Place::Waiting(due) | Place::Parked(due) => due,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::limiter::{Backoff, Exponential};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A queue and a clock that the test moves.
    struct Bench {
        queue: Queue<&'static str>,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                queue: Queue::new(Box::new(Exponential::new(Backoff::default())), PATIENCE),
                now: Instant::now(),
            }
        }

        fn add(&mut self, key: &'static str, priority: i32, after_ms: u64) {
            let after = Duration::from_millis(after_ms);
            self.queue.add(key, Add { priority, after }, self.now);
        }

        fn pop(&mut self) -> Option<&'static str> {
            self.queue.pop(self.now).map(|popped| popped.key)
        }

        fn done(&mut self, key: &'static str) {
            self.queue.done(&key, self.now);
        }

        fn pass(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }
    }

    #[test]
    fn key_added_twice_is_served_once() {
        let mut bench = Bench::new();
        bench.add("a", 0, 0);
        bench.add("a", 0, 0);
        assert_eq!(bench.pop(), Some("a"));
        assert_eq!(bench.pop(), None);
    }

    #[test]
    fn higher_priority_goes_first_and_equal_ones_in_order() {
        let mut bench = Bench::new();
        bench.add("low", -100, 0);
        bench.add("first", 0, 0);
        bench.add("second", 0, 0);
        bench.add("low", -200, 0);
        assert_eq!(
            (bench.pop(), bench.pop(), bench.pop()),
            (Some("first"), Some("second"), Some("low"))
        );
    }

    #[test]
    fn raised_priority_moves_a_key_to_the_end_of_that_priority() {
        let mut bench = Bench::new();
        bench.add("raised", -100, 0);
        bench.add("other", 0, 0);
        bench.add("raised", 0, 0);
        assert_eq!((bench.pop(), bench.pop()), (Some("other"), Some("raised")));
    }

    #[test]
    fn running_key_is_not_handed_out_again_before_done() {
        let mut bench = Bench::new();
        bench.add("a", 0, 0);
        assert_eq!(bench.pop(), Some("a"));
        bench.add("a", 0, 0);
        bench.add("a", 0, 0);
        assert_eq!(bench.pop(), None);
        bench.done("a");
        assert_eq!(bench.pop(), Some("a"));
        bench.done("a");
        assert_eq!(bench.pop(), None);
    }

    #[test]
    fn earlier_ready_time_wins() {
        let mut bench = Bench::new();
        bench.add("a", 0, 500);
        bench.add("a", 0, 100);
        bench.add("a", 0, 900);
        assert_eq!(bench.pop(), None);
        bench.pass(100);
        assert_eq!(bench.pop(), Some("a"));
        bench.done("a");
        bench.pass(5000);
        assert_eq!(bench.pop(), None);
    }

    #[test]
    fn immediate_add_cancels_the_delay() {
        let mut bench = Bench::new();
        bench.add("a", 0, 500);
        bench.add("a", 0, 0);
        assert_eq!(bench.pop(), Some("a"));
        bench.done("a");
        bench.pass(500);
        assert_eq!(bench.pop(), None);
    }

    #[test]
    fn delay_set_while_running_counts_from_when_it_was_set() {
        let mut bench = Bench::new();
        bench.add("a", 0, 0);
        bench.pop();
        bench.add("a", 0, 100);
        bench.pass(60);
        bench.done("a");
        assert_eq!(bench.pop(), None);
        bench.pass(40);
        assert_eq!(bench.pop(), Some("a"));
    }

    #[test]
    fn forget_starts_the_backoff_anew() {
        let mut bench = Bench::new();
        for _ in 0..5 {
            bench.queue.add_rate_limited("a", 0, bench.now);
            bench.pass(80);
            assert_eq!(bench.pop(), Some("a"));
            bench.done("a");
        }
        bench.queue.forget(&"a");
        bench.queue.add_rate_limited("a", 0, bench.now);
        bench.pass(5);
        assert_eq!(bench.pop(), Some("a"));
    }

    #[test]
    fn low_priority_does_not_starve() {
        let mut bench = Bench::new();
        bench.add("low", -100, 0);
        bench.pass(61_000);
        bench.add("high", 0, 0);
        assert_eq!((bench.pop(), bench.pop()), (Some("low"), Some("high")));
    }

    #[test]
    fn depth_counts_ready_keys_by_priority() {
        let mut bench = Bench::new();
        for (key, priority, after) in [("a", 0, 0), ("b", 0, 0), ("low", -100, 0), ("later", 0, 100)] {
            bench.add(key, priority, after);
        }
        assert_eq!(bench.queue.depth(), [(0, 2), (-100, 1)]);
    }

    #[test]
    fn popped_key_says_how_long_it_was_ready() {
        let mut bench = Bench::new();
        bench.add("a", 0, 100);
        bench.pass(100);
        assert_eq!(bench.queue.pop(bench.now).unwrap().waited, Duration::ZERO);
        bench.add("b", 0, 0);
        bench.pass(70);
        assert_eq!(
            bench.queue.pop(bench.now).unwrap().waited,
            Duration::from_millis(70)
        );
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, i32, u64),
        Fail(u8),
        Forget(u8),
        Pop,
        Done(usize),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..4u8;
        prop_oneof![
            (key.clone(), -2..3i32, 0..50u64)
                .prop_map(|(key, priority, after)| Step::Add(key, priority, after)),
            key.clone().prop_map(Step::Fail),
            key.prop_map(Step::Forget),
            Just(Step::Pop),
            (0..4usize).prop_map(Step::Done),
            (0..40u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// No key runs twice at once, none is handed out that was not added since, and none that was added is lost.
        #[test]
        fn keys_are_neither_lost_nor_doubled(steps in proptest::collection::vec(step(), 0..200)) {
            let mut queue = Queue::new(Box::new(Exponential::new(Backoff::default())), PATIENCE);
            let mut now = Instant::now();
            let mut running: Vec<u8> = Vec::new();
            let mut owed = std::collections::HashSet::new();
            for step in steps {
                match step {
                    Step::Add(key, priority, after) => {
                        queue.add(key, Add { priority, after: Duration::from_millis(after) }, now);
                        owed.insert(key);
                    }
                    Step::Fail(key) => {
                        queue.add_rate_limited(key, 0, now);
                        owed.insert(key);
                    }
                    Step::Forget(key) => queue.forget(&key),
                    Step::Pop => if let Some(Popped { key, .. }) = queue.pop(now) {
                        prop_assert!(!running.contains(&key));
                        prop_assert!(owed.remove(&key));
                        running.push(key);
                    },
                    Step::Done(index) => if !running.is_empty() {
                        let key = running.swap_remove(index % running.len());
                        queue.done(&key, now);
                    },
                    Step::Pass(millis) => now += Duration::from_millis(millis),
                }
                prop_assert_eq!(queue.ready.len(), queue.by_age.len());
            }
            for key in running.drain(..) {
                queue.done(&key, now);
            }
            now += Duration::from_secs(1000);
            while let Some(Popped { key, .. }) = queue.pop(now) {
                prop_assert!(owed.remove(&key));
                queue.done(&key, now);
            }
            prop_assert!(owed.is_empty(), "lost {:?}", owed);
            prop_assert!(queue.entries.is_empty() && queue.waiting.is_empty());
        }
    }
}
