//! The clock and the random numbers of the machine. Pure modules get these values as arguments.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use jiff::Timestamp;

/// Returns the current wall-clock time. Use it for fields of objects, not to measure durations.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the current time, to measure durations and for deadlines. It is that of tokio's clock, as are the timers: a
/// simulation that pauses the clock would otherwise wait for a deadline in real time.
pub(crate) fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns a random number in `0.0..1.0`.
pub(crate) fn jitter() -> f64 {
    let bits = u32::try_from(random() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

/// Returns random bits that are unique enough for names but not secret.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Returns a random UUID, version 4.
pub(crate) fn uuid() -> String {
    Uuid(random(), random()).to_string()
}

struct Uuid(u64, u64);

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = (self.0 & !0xf000) | 0x4000;
        let low = (self.1 & !(0b11 << 62)) | (0b10 << 62);
        write!(
            formatter,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff,
        )
    }
}
