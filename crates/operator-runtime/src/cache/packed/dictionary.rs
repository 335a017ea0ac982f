//! [`Dictionary`], the common strings of the objects of one kind.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{WORDS, Writer};

/// Maximum length of a word, in bytes.
const LONGEST: usize = 128;
/// Maximum total length of all words, in bytes.
const SIZE: usize = 128 * 1024;
/// Number of strings that are recorded as seen in one object. They are grouped by hash; the newest replaces the oldest
/// of its group.
const CANDIDATES: usize = 1024;
const GROUP: usize = 4;

/// The words of the objects of one kind, and their numbers.
///
/// A string becomes a word when it occurs in a second object. Words live as long as the dictionary, so their number and
/// total length are limited. Beyond the limits new strings are stored in full.
#[derive(Debug, Default)]
pub(in crate::cache) struct Dictionary {
    words: RwLock<Words>,
}

/// The words, for writing.
#[derive(Debug, Default)]
pub(super) struct Words {
    words: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u16>,
    /// Strings that were seen in one object: parts of their hashes, and the object.
    candidates: Vec<(u32, u32)>,
    hasher: RandomState,
    size: usize,
}

// === impl Dictionary ===

impl Dictionary {
    /// Calls `write` for one object, which `object` identifies.
    pub(super) fn write<T>(&self, object: u64, write: impl FnOnce(&mut Writer<'_>) -> T) -> T {
        write(&mut Writer::new(&mut self.words.write(), object))
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&[Arc<str>]) -> T) -> T {
        read(&self.words.read().words)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.words.read().words.len()
    }
}

// === impl Words ===

impl Words {
    pub(super) fn number(&self, text: &str) -> Option<u16> {
        self.numbers.get(text).copied()
    }

    /// Records a string of an object that is not a word. Returns its number if it has become one.
    pub(super) fn meet(&mut self, text: &str, object: u64) -> Option<u16> {
        let has_room = self.words.len() < WORDS && self.size + text.len() <= SIZE;
        if text.len() < 2 || text.len() > LONGEST || !has_room {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        let [text_part, object_part] = [hash >> 32, object].map(|part| (part & u64::from(u32::MAX)) as u32);
        self.candidates.resize(CANDIDATES, (0, 0));
        let start = hash as usize % (CANDIDATES / GROUP) * GROUP;
        let group = self.candidates.get_mut(start..start + GROUP)?;
        if let Some((_, by)) = group.iter().find(|(met, _)| *met == text_part) {
            return if *by == object_part {
                None
            } else {
                self.admit(text)
            };
        }
        group.rotate_right(1);
        *group.first_mut()? = (text_part, object_part);
        None
    }

    fn admit(&mut self, text: &str) -> Option<u16> {
        let number = u16::try_from(self.words.len()).ok()?;
        let word: Arc<str> = text.into();
        self.size += word.len();
        self.words.push(word.clone());
        self.numbers.insert(word, number);
        Some(number)
    }
}
