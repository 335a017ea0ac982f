//! [`RateLimit`], the backoff of keys that failed or requested it. Pure: time is an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::object::ObjectKey;

/// Computes the backoff of keys. Each queue has its own.
pub trait RateLimiter<K = ObjectKey>: fmt::Debug + Send {
    /// Returns the delay before a key is retried at `now`, and counts one more failure.
    fn when(&mut self, key: &K, now: Instant) -> Duration;
    /// Resets the failures of the key after a success.
    fn forget(&mut self, key: &K);
}

/// The rate limiter of a controller.
#[derive(Clone)]
pub enum RateLimit {
    /// Each key has its own delay, which doubles with each failure.
    Exponential(Backoff),
    /// A token bucket for all keys together.
    Bucket {
        /// Tokens per second; more than zero.
        per_second: f64,
        /// Maximum number of tokens (burst).
        burst: u32,
    },
    /// The longest delay of several limiters.
    MaxOf(Vec<RateLimit>),
    /// A function that creates a custom limiter.
    Custom(Arc<dyn Fn() -> Box<dyn RateLimiter> + Send + Sync>),
}

/// The delay of a key after a failure: `base`, doubled with each failure up to `max`. Default: 5 ms up to 1000 s.
///
/// ```
/// use std::time::Duration;
/// use operator_runtime::controller::{Backoff, ControllerOptions};
///
/// let patient = Backoff { base: Duration::from_secs(1), ..Backoff::default() };
/// assert_eq!(patient.max, Duration::from_secs(1000));
/// let options = ControllerOptions { rate_limit: Some(patient.into()), ..ControllerOptions::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub base: Duration,
    /// The maximum delay.
    pub max: Duration,
}

/// Each key has its own delay, which doubles with each failure.
#[derive(Debug)]
pub(crate) struct Exponential<K> {
    backoff: Backoff,
    failures: BTreeMap<K, u32>,
}

/// A token bucket for all keys. A delay is the time until the next free token, which is taken in advance.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    since: Option<Instant>,
}

/// The longest delay of several limiters.
#[derive(Debug)]
pub(crate) struct MaxOf<K>(Vec<Box<dyn RateLimiter<K>>>);

// === impl RateLimit ===

impl RateLimit {
    /// Returns the limiter of controller-runtime's classic queue: the default backoff, and ten retries per second over
    /// all keys after the first hundred.
    pub fn classic() -> Self {
        let (per_second, burst) = (10.0, 100);
        Self::MaxOf(vec![Self::default(), Self::Bucket { per_second, burst }])
    }

    /// Creates a limiter without failures. Every queue has its own.
    pub(crate) fn limiter(&self) -> Box<dyn RateLimiter> {
        match self {
            Self::Exponential(backoff) => Box::new(Exponential::new(*backoff)),
            Self::Bucket { per_second, burst } => Box::new(Bucket::new(*per_second, *burst)),
            Self::MaxOf(limits) => Box::new(MaxOf(limits.iter().map(Self::limiter).collect())),
            Self::Custom(make) => make(),
        }
    }
}

impl Default for RateLimit {
    /// Returns the default [`Backoff`].
    fn default() -> Self {
        Self::Exponential(Backoff::default())
    }
}

impl From<Backoff> for RateLimit {
    fn from(backoff: Backoff) -> Self {
        Self::Exponential(backoff)
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential(backoff) => backoff.fmt(formatter),
            Self::Bucket { per_second, burst } => write!(formatter, "Bucket({per_second}/s, {burst})"),
            Self::MaxOf(limits) => formatter.debug_tuple("MaxOf").field(limits).finish(),
            Self::Custom(_) => formatter.write_str("Custom"),
        }
    }
}

// === impl Backoff ===

impl Default for Backoff {
    /// Returns 5 ms, doubling up to 1000 s.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl Backoff {
    /// Returns the delay after the failure number `failures`, counted from zero.
    fn wait(self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

// === impl Exponential ===

impl<K> Exponential<K> {
    pub(crate) fn new(backoff: Backoff) -> Self {
        let failures = BTreeMap::new();
        Self { backoff, failures }
    }
}

impl<K: Clone + Ord + fmt::Debug + Send> RateLimiter<K> for Exponential<K> {
    fn when(&mut self, key: &K, _: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = self.backoff.wait(*failures);
        *failures = failures.saturating_add(1);
        wait
    }

    fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        Self {
            // A rate of zero would be an infinite delay, which a duration cannot represent.
            per_second: if per_second > 1e-6 { per_second } else { 1e-6 },
            burst: f64::from(burst),
            tokens: f64::from(burst),
            since: None,
        }
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _: &K, now: Instant) -> Duration {
        let passed = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.since = Some(now);
        self.tokens = self
            .burst
            .min(self.tokens + passed.as_secs_f64() * self.per_second)
            - 1.0;
        Duration::try_from_secs_f64((-self.tokens / self.per_second).max(0.0)).unwrap_or(Duration::MAX)
    }

    fn forget(&mut self, _: &K) {}
}

// === impl MaxOf ===

impl<K: fmt::Debug> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        // Every limiter must count the retry.
        let waits = self.0.iter_mut().map(|limiter| limiter.when(key, now));
        waits.max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[test]
    fn failures_double_the_delay_up_to_the_limit() {
        let waits: Vec<_> = (0..20)
            .map(|failures| Backoff::default().wait(failures).as_millis())
            .collect();
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[17], 655_360);
        assert_eq!(waits[18..], [1_000_000, 1_000_000]);
    }

    #[test]
    fn bucket_allows_the_burst_and_then_its_rate() {
        let mut limiter = RateLimit::Bucket {
            per_second: 10.0,
            burst: 2,
        }
        .limiter();
        let now = Instant::now();
        let millis = |limiter: &mut Box<dyn RateLimiter>, after| {
            limiter
                .when(&key("a"), now + Duration::from_millis(after))
                .as_millis()
        };
        let waits = [0, 0, 0, 0, 50].map(|after| millis(&mut limiter, after));
        assert_eq!(waits, [0, 0, 100, 200, 250]);
        // Tokens do not accumulate beyond the burst.
        let waits = [60_000, 60_000, 60_000].map(|after| millis(&mut limiter, after));
        assert_eq!(waits, [0, 0, 100]);
    }

    #[test]
    fn longest_delay_of_several_limiters_counts() {
        let backoff = Backoff {
            base: Duration::from_millis(150),
            max: Duration::from_secs(1),
        };
        let bucket = RateLimit::Bucket {
            per_second: 10.0,
            burst: 1,
        };
        let mut limiter = RateLimit::MaxOf(vec![backoff.into(), bucket]).limiter();
        let now = Instant::now();
        let waits = ["a", "b", "c", "d"].map(|name| limiter.when(&key(name), now).as_millis());
        assert_eq!(waits, [150, 150, 200, 300]);
        limiter.forget(&key("a"));
        let later = now + Duration::from_secs(10);
        assert_eq!(limiter.when(&key("a"), later).as_millis(), 150);
        assert_eq!(limiter.when(&key("a"), later).as_millis(), 300);
    }
}
