//! Rate limiters: how long a key that failed, or asked for it, waits until it is tried again. They are pure: time comes
//! in as an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::object::ObjectKey;

/// Says how long a key waits until it is tried again. Each queue has one of its own.
pub trait RateLimiter<K = ObjectKey>: fmt::Debug + Send {
    /// Returns the delay before a key is tried again, from `now` on, and counts one more failure.
    fn when(&mut self, key: &K, now: Instant) -> Duration;
    /// Forgets what was counted of the key, since it succeeded.
    fn forget(&mut self, key: &K);
}

/// The rate limiter of a controller.
#[derive(Clone)]
pub enum RateLimit {
    /// Each key waits for itself, twice as long after each failure.
    Exponential(Backoff),
    /// All keys together are tried again so often a second, and so many at once after a pause.
    Bucket {
        /// Tries per second; more than zero.
        per_second: f64,
        /// Tries that may come at once (burst).
        burst: u32,
    },
    /// The longest wait of several.
    MaxOf(Vec<RateLimit>),
    /// One of the operator's own; the function makes it.
    Custom(Arc<dyn Fn() -> Box<dyn RateLimiter> + Send + Sync>),
}

/// The delay of a key after a failure: `base`, then twice as long each time, up to `max`. The default is 5 ms up to
/// 1000 s.
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
    /// The wait after the first failure.
    pub base: Duration,
    /// No wait is longer.
    pub max: Duration,
}

/// Each key waits for itself, twice as long after each failure.
#[derive(Debug)]
pub(crate) struct Exponential<K> {
    backoff: Backoff,
    failures: BTreeMap<K, u32>,
}

/// All keys share tokens that come back at a steady pace. A wait is a token that is taken before it is there.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    since: Option<Instant>,
}

/// The longest wait of several.
#[derive(Debug)]
pub(crate) struct MaxOf<K>(Vec<Box<dyn RateLimiter<K>>>);

// === impl RateLimit ===

impl RateLimit {
    /// The limiter of controller-runtime's classic queue: the default backoff, and ten tries a second over all keys
    /// after the first hundred.
    pub fn classic() -> Self {
        let (per_second, burst) = (10.0, 100);
        Self::MaxOf(vec![Self::default(), Self::Bucket { per_second, burst }])
    }

    /// Makes a limiter that has counted nothing yet. Every queue has its own.
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
    /// The default [`Backoff`].
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
    /// 5 ms, doubling up to 1000 s.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl Backoff {
    /// The wait after the failure number `failures`, counted from zero.
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
            // A pace of nothing would be a wait for ever, which no duration is.
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
        // Each of them counts the try, the shorter ones too.
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
    fn failures_double_the_wait_up_to_the_limit() {
        let waits: Vec<_> = (0..20)
            .map(|failures| Backoff::default().wait(failures).as_millis())
            .collect();
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[17], 655_360);
        assert_eq!(waits[18..], [1_000_000, 1_000_000]);
    }

    #[test]
    fn bucket_gives_the_burst_at_once_and_then_its_pace() {
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
        // The tokens do not pile up beyond the burst.
        let waits = [60_000, 60_000, 60_000].map(|after| millis(&mut limiter, after));
        assert_eq!(waits, [0, 0, 100]);
    }

    #[test]
    fn longest_wait_of_several_counts() {
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
