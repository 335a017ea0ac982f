//! Examples of the queue, and a comparison with a simple model.

use proptest::prelude::*;

use super::*;
use crate::queue::limiter::{Backoff, Exponential};

/// The options for a failed key.
const FAILED: Add = Add {
    priority: 0,
    after: Duration::ZERO,
    rate_limited: true,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A queue and a clock.
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
        self.queue.add(
            key,
            Add {
                priority,
                after,
                ..Add::default()
            },
            self.now,
        );
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
fn many_due_keys_become_ready_in_steps() {
    const KEYS: u32 = 5_000;
    let limiter = Exponential::new(Backoff::default());
    let mut queue = Queue::new(Box::new(limiter), PATIENCE);
    let now = Instant::now();
    let after = Duration::from_secs(1);
    for key in 0..KEYS {
        let add = Add {
            after,
            ..Add::default()
        };
        queue.add(key, add, now);
    }
    let now = now + after;
    assert_eq!(queue.pop(now).map(|popped| popped.key), Some(0));
    assert_eq!(queue.counts().adds, PROMOTED_AT_ONCE as u64);
    let left = std::iter::from_fn(|| queue.pop(now)).map(|popped| popped.key);
    assert_eq!(left.collect::<Vec<_>>(), (1..KEYS).collect::<Vec<_>>());
    assert_eq!(queue.counts().adds, u64::from(KEYS));
}

#[test]
fn higher_priority_is_served_first_and_equal_ones_in_order() {
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
fn running_key_is_not_returned_again_before_done() {
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
fn forget_resets_the_backoff() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.queue.add("a", FAILED, bench.now);
        bench.pass(80);
        assert_eq!(bench.pop(), Some("a"));
        bench.done("a");
    }
    bench.queue.forget(&"a");
    bench.queue.add("a", FAILED, bench.now);
    bench.pass(5);
    assert_eq!(bench.pop(), Some("a"));
}

#[test]
fn low_priority_does_not_starve() {
    let mut bench = Bench::new();
    bench.add("low", -100, 0);
    bench.pass(61_000);
    for turn in 1..SHARE {
        bench.add("high", 0, 0);
        assert_eq!(bench.pop(), Some("high"), "turn {turn}");
        bench.done("high");
    }
    bench.add("high", 0, 0);
    assert_eq!((bench.pop(), bench.pop()), (Some("low"), Some("high")));
}

/// Serves the keys of a first list, one per second, while a user makes a change every few minutes.
#[test]
fn old_backlog_does_not_delay_urgent_keys() {
    let mut queue = Queue::new(Box::new(Exponential::new(Backoff::default())), PATIENCE);
    let start = Instant::now();
    let low = Add {
        priority: -100,
        ..Add::default()
    };
    for number in 0..10_000_u32 {
        queue.add(number, low, start);
    }
    let mut waits = Vec::new();
    for second in 0..5_000 {
        let now = start + Duration::from_secs(second);
        if second % 100 == 0 {
            queue.add(u32::MAX, Add::default(), now);
        }
        let popped = queue.pop(now).unwrap();
        if popped.key == u32::MAX {
            waits.push(popped.waited.as_secs());
        }
        queue.done(&popped.key, now);
    }
    assert_eq!(waits.len(), 50);
    assert!(waits.iter().all(|wait| *wait <= 1), "{waits:?}");
}

#[test]
fn depth_counts_ready_keys_by_priority() {
    let mut bench = Bench::new();
    for (key, priority, after) in [("a", 0, 0), ("b", 0, 0), ("low", -100, 0), ("later", 0, 100)] {
        bench.add(key, priority, after);
    }
    assert_eq!(bench.queue.depth(bench.now), [(0, 2), (-100, 1)]);
    bench.pass(100);
    assert_eq!(bench.queue.depth(bench.now), [(0, 3), (-100, 1)]);
    while bench.pop().is_some() {}
    assert_eq!(bench.queue.depth(bench.now), [(0, 0), (-100, 0)]);
}

#[test]
fn number_of_kept_priorities_is_limited() {
    let mut bench = Bench::new();
    for priority in 0..1000 {
        bench.add("a", priority, 0);
        assert_eq!(bench.pop(), Some("a"));
        bench.done("a");
    }
    assert!(bench.queue.depth(bench.now).len() <= 25);
}

#[test]
fn popped_key_has_its_waiting_time() {
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

/// Steps with up to `pause` milliseconds between them.
fn step(pause: u64) -> impl Strategy<Value = Step> {
    let key = 0..4u8;
    prop_oneof![
        (key.clone(), -2..3i32, 0..50u64).prop_map(|(key, priority, after)| Step::Add(key, priority, after)),
        key.clone().prop_map(Step::Fail),
        key.prop_map(Step::Forget),
        Just(Step::Pop),
        (0..4usize).prop_map(Step::Done),
        (0..pause).prop_map(Step::Pass),
    ]
}

/// The specification of the queue without indexes: every operation examines all keys.
#[derive(Default)]
struct Model {
    keys: Vec<ModelKey>,
    running: Vec<u8>,
    added: u64,
    /// The number of keys that were served since the oldest.
    passed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ModelKey {
    key: u8,
    priority: i32,
    due: Instant,
    added: u64,
}

impl Model {
    fn add(&mut self, key: u8, priority: i32, due: Instant, now: Instant) {
        let is_free = !self.running.contains(&key);
        let fresh = ModelKey {
            key,
            priority,
            due,
            added: 0,
        };
        let known = self.keys.iter().position(|known| known.key == key);
        let merged = match known.map(|at| self.keys[at]) {
            None => fresh,
            Some(old) if old.priority >= priority && old.due <= due => return,
            Some(old) if is_free && old.due <= now => ModelKey { due: now, ..fresh },
            Some(old) => ModelKey {
                priority: old.priority.max(priority),
                due: old.due.min(due),
                ..fresh
            },
        };
        self.keys.retain(|known| known.key != key);
        self.added += 1;
        let added = self.added;
        self.keys.push(ModelKey { added, ..merged });
    }

    /// Returns the first key of the highest priority, or every tenth time the one that has been ready for too long.
    fn pop(&mut self, now: Instant) -> Option<Popped<u8>> {
        let is_ready = |key: &&ModelKey| key.due <= now && !self.running.contains(&key.key);
        let ready: Vec<_> = self.keys.iter().filter(is_ready).copied().collect();
        let oldest = ready.iter().min_by_key(|key| (key.due, key.added)).copied()?;
        let first = ready.iter().min_by_key(|key| (-key.priority, key.due, key.added));
        let is_passed = now - oldest.due > PATIENCE && first != Some(&oldest);
        self.passed = if is_passed { self.passed + 1 } else { 0 };
        let next = match self.passed == 10 {
            true => oldest,
            false => *first?,
        };
        self.passed %= 10;
        self.keys.retain(|key| key.key != next.key);
        self.running.push(next.key);
        Some(Popped {
            key: next.key,
            priority: next.priority,
            waited: now - next.due,
        })
    }
}

proptest! {
    /// Deduplication, priorities, order within a priority, delays and ageing are the same as in the model.
    #[test]
    fn queue_behaves_as_the_model(
        steps in proptest::collection::vec(step(40_000), 0..200)
    ) {
        let limit = Exponential::new(Backoff { base: Duration::from_secs(1), max: Duration::from_secs(8) });
        let mut queue = Queue::new(Box::new(limit), PATIENCE);
        let (mut model, mut now) = (Model::default(), Instant::now());
        let mut failures = [0_u32; 4];
        for step in steps {
            match step {
                Step::Add(key, priority, after) => {
                    let after = Duration::from_millis(after);
                    queue.add(key, Add { priority, after, ..Add::default() }, now);
                    model.add(key, priority, now + after, now);
                }
                Step::Fail(key) => {
                    let failed = &mut failures[usize::from(key)];
                    let wait = Duration::from_secs(8.min(1 << (*failed).min(10)));
                    *failed += 1;
                    queue.add(key, FAILED, now);
                    model.add(key, 0, now + wait, now);
                }
                Step::Forget(key) => {
                    queue.forget(&key);
                    failures[usize::from(key)] = 0;
                }
                Step::Pop => prop_assert_eq!(queue.pop(now), model.pop(now)),
                Step::Done(index) => if !model.running.is_empty() {
                    let key = model.running.swap_remove(index % model.running.len());
                    queue.done(&key, now);
                },
                Step::Pass(millis) => now += Duration::from_millis(millis),
            }
        }
    }

    /// The oldest key is served within its patience and ten turns, whatever other keys are added.
    #[test]
    fn no_key_starves(priorities in proptest::collection::vec(0..1000_i32, 1..40)) {
        let mut queue = Queue::new(Box::new(Exponential::new(Backoff::default())), PATIENCE);
        let start = Instant::now();
        queue.add(u32::MAX, Add { priority: -1000, ..Add::default() }, start);
        let mut turns = 0;
        // One turn per second, and each second adds more keys than are served.
        let served = (0..200).find(|second| {
            let now = start + Duration::from_secs(*second);
            for (number, priority) in (0_u32..).zip(&priorities) {
                queue.add(number, Add { priority: *priority, ..Add::default() }, now);
            }
            turns += 1;
            let Some(Popped { key, .. }) = queue.pop(now) else { return false };
            queue.done(&key, now);
            key == u32::MAX
        });
        prop_assert!(served.is_some_and(|second| second <= 71), "{:?} after {} turns", served, turns);
    }

    /// A key never runs twice concurrently, is never returned unless it was added since the last time, and is never
    /// lost.
    #[test]
    fn keys_are_neither_lost_nor_run_twice(steps in proptest::collection::vec(step(40), 0..200)) {
        let mut queue = Queue::new(Box::new(Exponential::new(Backoff::default())), PATIENCE);
        let mut now = Instant::now();
        let mut running: Vec<u8> = Vec::new();
        let mut owed = std::collections::HashSet::new();
        for step in steps {
            match step {
                Step::Add(key, priority, after) => {
                    queue.add(key, Add { priority, after: Duration::from_millis(after), ..Add::default() }, now);
                    owed.insert(key);
                }
                Step::Fail(key) => {
                    queue.add(key, FAILED, now);
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
