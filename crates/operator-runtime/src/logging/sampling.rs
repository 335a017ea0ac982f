//! [`Sampling`] limits the number of repeated messages.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const SECOND: Duration = Duration::from_secs(1);

/// The limits of repeated messages, separately for each call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// The number of messages in each second that are logged.
    pub(super) first: u32,
    /// Of the further messages in that second, every n-th is logged: 100 logs every hundredth. 0 logs none.
    pub(super) thereafter: u32,
}

/// Counts messages and drops those beyond the limits.
#[derive(Debug)]
pub(super) struct Sampler {
    sampling: Sampling,
    counts: Mutex<HashMap<Identifier, Count>>,
}

/// The messages of one call site within a second.
#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    messages: u32,
}

// === impl Sampling ===

impl Default for Sampling {
    /// 100 per second, and every 100th of the others.
    fn default() -> Self {
        Self {
            first: 100,
            thereafter: 100,
        }
    }
}

impl Sampling {
    /// Returns true if the message with this number, from 1 on, is logged.
    fn admits(self, number: u32) -> bool {
        match number.checked_sub(self.first) {
            None | Some(0) => true,
            Some(over) => self.thereafter != 0 && over.is_multiple_of(self.thereafter),
        }
    }
}

// === impl Sampler ===

impl Sampler {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self {
            sampling,
            counts: Mutex::default(),
        }
    }

    fn admits(&self, place: Identifier, now: Instant) -> bool {
        let mut counts = self.counts.lock();
        let number = counts.entry(place).or_insert(Count::begun(now)).next(now);
        self.sampling.admits(number)
    }
}

// === impl Count ===

impl Count {
    fn begun(now: Instant) -> Self {
        Self {
            since: now,
            messages: 0,
        }
    }

    /// Returns the number of a message within its second.
    fn next(&mut self, now: Instant) -> u32 {
        if now.saturating_duration_since(self.since) >= SECOND {
            *self = Self::begun(now);
        }
        self.messages = self.messages.saturating_add(1);
        self.messages
    }
}

impl<S: Subscriber> Layer<S> for Sampler {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.admits(event.metadata().callsite(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_and_every_hundredth_are_logged() {
        let (mut count, now) = (Count::begun(Instant::now()), Instant::now());
        let mut logged = |messages: u32, now| {
            let numbers = (0..messages).map(|_| count.next(now));
            numbers
                .filter(|number| Sampling::default().admits(*number))
                .count()
        };
        assert_eq!(logged(100, now), 100);
        assert_eq!(logged(250, now + SECOND / 2), 2);
        assert_eq!(logged(99, now + 2 * SECOND), 99, "a new second");
    }

    #[test]
    fn rest_can_be_dropped_altogether() {
        let sampling = Sampling {
            first: 2,
            thereafter: 0,
        };
        let admitted: Vec<_> = (1..6).map(|number| sampling.admits(number)).collect();
        assert_eq!(admitted, [true, true, false, false, false]);
    }
}
