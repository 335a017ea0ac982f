//! The texts that objects of one kind have in common.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{WORDS, Writer};

/// Longer texts are no words.
const LONGEST: usize = 128;
/// So many bytes all words together have at most.
const SIZE: usize = 128 * 1024;
/// How many texts are remembered that one object has had: in groups by their hashes, in which the newest replaces the
/// oldest.
const CANDIDATES: usize = 1024;
const GROUP: usize = 4;

/// The words of the objects of one kind, and their numbers.
///
/// A text becomes a word when it is met in a second object; it stays one as long as the dictionary lives, so there are
/// bounds to how many there are and how long they are together. When they are reached, what is new is kept as it is.
#[derive(Debug, Default)]
pub(in crate::cache) struct Dictionary {
    words: RwLock<Words>,
}

/// The words, for whoever writes.
#[derive(Debug, Default)]
pub(super) struct Words {
    words: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u16>,
    /// Texts that were met in one object, as parts of their hashes, with the object.
    candidates: Vec<(u32, u32)>,
    hasher: RandomState,
    size: usize,
}

// === impl Dictionary ===

impl Dictionary {
    /// Lets `write` write one object; `object` tells it from others.
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

    /// Takes note that an object has a text that is no word yet; its number, if it became one.
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
