//! The server's random numbers for uids and generated names, repeatable from a seed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use parking_lot::Mutex;

/// The characters of generated name suffixes: no vowels, so that no words appear.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A SplitMix64 sequence.
#[derive(Debug)]
pub(crate) struct Random(Mutex<u64>);

impl Random {
    /// Returns the sequence of `seed`, or an unpredictable one.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Self(Mutex::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a version 4 UUID.
    pub(crate) fn uuid(&self) -> String {
        let high = (self.next() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.next() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let digits = u128::from(high) << 64 | u128::from(low);
        let mut text = String::with_capacity(36);
        for position in 0..32_u32 {
            if matches!(position, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            let digit = (digits >> (124 - 4 * position)) & 0xf;
            text.extend(char::from_digit(digit as u32, 16));
        }
        text
    }

    /// Returns five characters for a generated name.
    pub(crate) fn suffix(&self) -> String {
        let mut bits = self.next();
        let count = SUFFIX_ALPHABET.len() as u64;
        let mut suffix = String::with_capacity(5);
        for _ in 0..5 {
            let index = usize::try_from(bits % count).unwrap_or(0);
            suffix.push(char::from(SUFFIX_ALPHABET.get(index).copied().unwrap_or(b'b')));
            bits /= count;
        }
        suffix
    }
}
