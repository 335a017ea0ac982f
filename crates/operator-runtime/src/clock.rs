//! The machine's clock and its randomness, for the rooms that act; the ones that decide are handed values.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;

/// Now, by the wall clock: for texts in objects, never for measuring.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A number from 0 up to 1, to spread what would otherwise happen at once.
pub(crate) fn jitter() -> f64 {
    let bits = u32::try_from(random() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

/// Random bits, good enough to tell names apart, not to keep secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// A random UUID, version 4.
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
