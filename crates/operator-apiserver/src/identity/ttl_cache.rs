//! A cache with a time to live: [`TtlCache`].

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// The maximum number of entries.
const ENTRIES_MAX: usize = 8192;

/// A cache whose entries expire. It stores only digests of keys, because keys may be secrets.
#[derive(Debug)]
pub(crate) struct TtlCache<T>(Mutex<HashMap<[u8; 32], (T, Instant)>>);

impl<T> Default for TtlCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> TtlCache<T> {
    pub(crate) fn get(&self, key: &str) -> Option<T> {
        let entries = self.0.lock();
        let (value, end) = entries.get(&digest(key))?;
        (Instant::now() < *end).then(|| value.clone())
    }

    /// Stores a value. Has no effect if `ttl` is zero.
    pub(crate) fn set(&self, key: &str, value: T, ttl: Duration) {
        let now = Instant::now();
        let Some(end) = now.checked_add(ttl).filter(|end| *end > now) else {
            return;
        };
        let mut entries = self.0.lock();
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, (_, end)| now < *end);
        }
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(digest(key), (value, end));
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_expires() {
        let cache = TtlCache::default();
        cache.set("a", 1, Duration::from_secs(2));
        cache.set("b", 1, Duration::ZERO);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(cache.get("a"), None);
    }

    #[tokio::test]
    async fn the_number_of_entries_is_limited() {
        let cache = TtlCache::default();
        for key in 0..=ENTRIES_MAX {
            cache.set(&key.to_string(), (), Duration::from_secs(60));
        }
        assert_eq!(cache.0.lock().len(), 1);
    }
}
