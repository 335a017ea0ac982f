//! The work queue of a controller: deduplicated keys, delays, and a backoff per key ([`Queue`]).
//!
//! [`State`] takes the time as an argument and does no I/O; [`Queue`] drives it with tokio.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::objects::Key;

const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Key>,
    queued: BTreeSet<Key>,
    /// The key that was taken last.
    current: Option<Key>,
    /// The time at which each waiting key becomes ready, and the reverse index.
    due: HashMap<Key, Instant>,
    waiting: BTreeMap<Instant, BTreeSet<Key>>,
    failures: HashMap<Key, u32>,
}

impl State {
    fn add(&mut self, key: Key) {
        self.cancel(&key);
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Adds a key after a delay. If the key has two delays, the shorter one applies.
    fn add_at(&mut self, key: Key, at: Instant) {
        if self.queued.contains(&key) || self.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        self.cancel(&key);
        self.due.insert(key.clone(), at);
        self.waiting.entry(at).or_default().insert(key);
    }

    fn cancel(&mut self, key: &Key) {
        let Some(at) = self.due.remove(key) else { return };
        if let Some(keys) = self.waiting.get_mut(&at) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(&at);
            }
        }
    }

    fn backoff(&mut self, key: &Key) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let factor = 1_u32.checked_shl(*failures).unwrap_or(u32::MAX);
        *failures = failures.saturating_add(1);
        BACKOFF_FIRST.saturating_mul(factor).min(BACKOFF_MAX)
    }

    /// Returns the next ready key, or the time at which the next key becomes ready.
    fn pop(&mut self, now: Instant) -> Result<Key, Option<Instant>> {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= now) {
            for key in entry.remove() {
                self.due.remove(&key);
                if self.queued.insert(key.clone()) {
                    self.ready.push_back(key);
                }
            }
        }
        let Some(key) = self.ready.pop_front() else {
            return Err(self.waiting.keys().next().copied());
        };
        self.queued.remove(&key);
        self.current = Some(key.clone());
        Ok(key)
    }
}

/// A queue with one consumer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

impl Queue {
    /// Adds a key, unless it is already queued.
    pub(crate) fn add(&self, key: Key) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Adds a key after a delay.
    pub(crate) fn add_after(&self, key: Key, delay: Duration) {
        self.state.lock().add_at(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Adds a failed key with a backoff that grows until [`forget`](Self::forget) is called.
    pub(crate) fn retry(&self, key: Key) {
        let mut state = self.state.lock();
        let delay = state.backoff(&key);
        state.add_at(key, Instant::now() + delay);
        drop(state);
        self.changed.notify_one();
    }

    /// Resets the backoff of a key.
    pub(crate) fn forget(&self, key: &Key) {
        self.state.lock().failures.remove(key);
    }

    /// Returns the key that is being processed, and the keys that are ready or wait, in order.
    pub(crate) fn pending(&self) -> Vec<Key> {
        let state = self.state.lock();
        let waiting = state.waiting.values().flatten();
        let all = state.current.iter().chain(&state.ready).chain(waiting);
        all.cloned().collect()
    }

    /// Waits for the next key.
    pub(crate) async fn next(&self) -> Key {
        self.state.lock().current = None;
        loop {
            let wake = match self.state.lock().pop(Instant::now()) {
                Ok(key) => return key,
                Err(wake) => wake,
            };
            match wake {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, self.changed.notified()).await;
                }
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("", name)
    }

    #[test]
    fn a_key_is_queued_once() {
        let mut state = State::default();
        state.add(key("a"));
        state.add(key("b"));
        state.add(key("a"));
        let now = Instant::now();
        assert_eq!(state.pop(now), Ok(key("a")));
        assert_eq!(state.pop(now), Ok(key("b")));
        assert_eq!(state.pop(now), Err(None));
    }

    #[test]
    fn the_earlier_delay_counts_and_an_event_ends_it() {
        let mut state = State::default();
        let now = Instant::now();
        let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_secs(9));
        state.add_at(key("a"), late);
        state.add_at(key("a"), soon);
        state.add_at(key("a"), late);
        assert_eq!(state.pop(now), Err(Some(soon)));
        state.add(key("a"));
        assert_eq!(state.pop(now), Ok(key("a")));
        assert_eq!(state.pop(late), Err(None));
        state.add_at(key("a"), soon);
        assert_eq!(state.pop(soon), Ok(key("a")));
    }

    #[test]
    fn ready_and_waiting_keys_are_pending() {
        let queue = Queue::default();
        queue.add_after(key("later"), Duration::from_secs(9));
        queue.add_after(key("soon"), Duration::from_secs(1));
        queue.add(key("now"));
        assert_eq!(queue.pending(), ["now", "soon", "later"].map(key));
    }

    #[test]
    fn the_backoff_doubles_up_to_its_bound() {
        let mut state = State::default();
        let delays: Vec<u128> = (0..4).map(|_| state.backoff(&key("a")).as_millis()).collect();
        assert_eq!(delays, [5, 10, 20, 40]);
        let last = (0..60).map(|_| state.backoff(&key("a"))).last().unwrap();
        assert_eq!(last, BACKOFF_MAX);
    }
}
