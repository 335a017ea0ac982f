//! Compact collections of the store: UIDs of deleted objects and shared strings.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::cache::packed::Packed;

/// The UIDs of recently deleted objects. A late response may still contain them.
#[derive(Debug, Default)]
pub(super) struct Dead(VecDeque<String>);

impl Dead {
    const KEPT: usize = 64;

    pub(super) fn add(&mut self, uid: Option<String>) {
        if self.0.len() >= Self::KEPT {
            self.0.pop_front();
        }
        self.0.extend(uid);
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.0.retain(|dead| dead != uid);
    }

    pub(super) fn has(&self, packed: &Packed) -> bool {
        let uid = packed.uid();
        uid.is_some_and(|uid| self.0.contains(&uid))
    }
}

/// Strings that are kept once for all objects.
#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) texts: HashSet<Arc<str>>,
    /// The number of strings at which unused ones are dropped.
    limit: usize,
}

impl Interned {
    pub(super) fn share(&mut self, text: Arc<str>) -> Arc<str> {
        if let Some(known) = self.texts.get(&text) {
            return known.clone();
        }
        if self.texts.len() >= self.limit {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.limit = 2 * self.texts.len() + 16;
        }
        self.texts.insert(text.clone());
        text
    }
}
