//! [`WatchBackoff`], the delay between attempts of a watch, and [`Overdue`], which detects own writes that the watch
//! misses.

use std::time::Duration;

use tokio::time::Instant;

/// The backoff of failed attempts of a watch. It doubles, with up to 100 % random jitter.
#[derive(Clone, Copy, Debug)]
pub struct WatchBackoff {
    /// The delay after the first failure. Default: 800 ms.
    pub min: Duration,
    /// The maximum delay. Default: 30 s.
    pub max: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self {
            min: Duration::from_millis(800),
            max: Duration::from_secs(30),
        }
    }
}

impl WatchBackoff {
    /// Returns the period after which a watch without events no longer delivers an own write: the object is not
    /// selected, or it was deleted before a list that began before the write. A failed watch has reconnected by then.
    pub(super) fn overdue(self) -> Duration {
        self.max.saturating_mul(2)
    }

    pub(super) fn wait(self, failures: u32) -> Duration {
        let doubled = self
            .min
            .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
            .min(self.max);
        // Watches that failed together should not be retried together.
        doubled.mul_f64(1.0 + crate::clock::jitter())
    }
}

/// Detects an own write that a watch does not deliver.
pub(super) struct Overdue {
    period: Duration,
    at: Instant,
    oldest: Option<u64>,
}

impl Overdue {
    pub(super) fn new(backoff: WatchBackoff) -> Self {
        let period = backoff.overdue();
        Self {
            period,
            at: Instant::now() + period,
            oldest: None,
        }
    }

    /// Returns true if the oldest undelivered write is the same as one period before.
    pub(super) fn is_over(&mut self, oldest: impl FnOnce() -> Option<u64>) -> bool {
        let now = Instant::now();
        if now < self.at {
            return false;
        }
        self.at = now + self.period;
        let before = std::mem::replace(&mut self.oldest, oldest());
        self.oldest.is_some() && self.oldest == before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_jitter_up_to_the_maximum() {
        let backoff = WatchBackoff::default();
        let seconds = |failures| backoff.wait(failures).as_secs_f64();
        for (failures, least) in [(0, 0.8), (1, 1.6), (5, 25.6), (6, 30.0), (40, 30.0)] {
            let waits: Vec<_> = (0..20).map(|_| seconds(failures)).collect();
            assert!(
                waits.iter().all(|wait| (least..=2.0 * least).contains(wait)),
                "{failures}: {waits:?}"
            );
            assert!(
                waits.iter().any(|wait| (wait - waits[0]).abs() > f64::EPSILON),
                "no jitter"
            );
        }
    }
}
