//! [`Candidates`], the objects of a kind that a list may return.

use std::collections::HashMap;
use std::vec;

use super::item::Stored;
use super::keyed::Keyed;
use super::own_writes::Deletion;
use super::packed::Packed;
use super::selection::ListOptions;
use super::store::Slot;
use super::table::{Snapshot, Table};
use crate::object::ObjectKey;

/// The objects that match the namespace and the name of a list, unordered. Labels are not compared. The results of a
/// large index are returned in parts: [`Store::find_more`](super::store::Store::find_more).
pub(crate) struct Candidates<'a> {
    pub(super) options: &'a ListOptions,
    pub(super) watched: Watched,
    pub(super) hidden: HashMap<ObjectKey, Hidden>,
    pub(super) written: vec::IntoIter<Stored>,
}

/// Objects from the watches.
pub(super) enum Watched {
    All(Snapshot<Slot>),
    /// A part of the objects in indexes.
    Found(Found),
}

/// Objects in indexes, in the order of their keys.
pub(super) struct Found {
    pub(super) objects: vec::IntoIter<Packed>,
    /// The last object of this part, if there may be more.
    pub(super) last: Option<Packed>,
    /// The table of the store at the time of the lookup.
    pub(super) table: Table<Slot>,
}

/// The reason why an object from a watch is not a candidate.
pub(super) enum Hidden {
    /// An own write replaced it, or it cannot be decoded as its type.
    Replaced,
    /// The operator deleted it. Another object with its name is a candidate.
    Deleted(Deletion),
}

// === impl Candidates ===

impl Candidates<'_> {
    fn is_hidden(&self, stored: &Stored) -> bool {
        if self.hidden.is_empty() {
            return false;
        }
        match self.hidden.get(&stored.packed as &dyn Keyed) {
            Some(Hidden::Replaced) => true,
            Some(Hidden::Deleted(deletion)) => deletion.is_of(&stored.packed),
            None => false,
        }
    }
}

impl Iterator for Candidates<'_> {
    /// An object, or `None` for one that is not a candidate. Many of those may follow each other, so the caller can
    /// yield between them.
    type Item = Option<Stored>;

    fn next(&mut self) -> Option<Option<Stored>> {
        let next = match &mut self.watched {
            Watched::All(snapshot) => snapshot.next().map(|slot| slot.stored),
            Watched::Found(found) => match found.objects.next() {
                Some(packed) => match found.table.get(&packed) {
                    Some(slot) => Some(slot.stored.clone()),
                    None => return Some(None),
                },
                None => None,
            },
        };
        let stored = match next {
            Some(watched) if self.is_hidden(&watched) => return Some(None),
            Some(watched) => watched,
            None => self.written.next()?,
        };
        let packed = &stored.packed;
        let is_covered = self.options.covers(packed.namespace(), packed.name());
        Some(is_covered.then_some(stored))
    }
}
