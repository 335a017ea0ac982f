//! Lists replace the known state: objects that a list does not contain are removed.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Scope, Slot, Store, key_of, revision_of};
use crate::cache::item::{Arrived, Incoming, Item, Representation, Stored};
use crate::cache::keyed::Keyed;
use crate::cache::own_writes::{Change, Written};
use crate::event::Event;
use crate::object::ObjectKey;

/// An object that a list did not contain.
#[derive(Debug)]
pub(in crate::cache) enum Gone {
    /// It came from an earlier list or a watch.
    Watched(Stored),
    /// An own write that no watch has delivered.
    Written(Box<Arrived>),
}

// === impl Store ===

impl Store {
    pub(super) fn begin_list(&mut self, scope: &Scope) {
        let progress = self.watches.entry(scope.clone()).or_default();
        progress.lists = progress.lists.wrapping_add(1);
        progress.listing = Some(0);
        progress.went_back = false;
    }

    /// Stores an item of a list. Items are ordered by name, so the revision of one says nothing about other objects.
    pub(super) fn listed(&mut self, scope: &Scope, object: Incoming) -> Option<Event<dyn Item>> {
        let (key, at) = (key_of(&object), revision_of(&object));
        let known = self.watched(&key).map(|known| &known.packed);
        let went_back = match (&object, known) {
            (Ok(listed), Some(known)) => listed.stored.packed.has_uid_of(known) && at < known.revision(),
            _ => false,
        };
        let progress = self.watches.entry(scope.clone()).or_default();
        let newest = progress.listing.get_or_insert_default();
        *newest = at.max(*newest);
        progress.went_back |= went_back;
        let list = progress.lists;
        let is_known = self.written.get(&key).is_some_and(|change| match change {
            Change::Stored(_, revision) => *revision <= at,
            Change::Deleted(deletion) => match &object {
                // The list began after the response to the deletion, so the server has not deleted the object.
                Ok(listed) if listed.stored.packed.has_uid(&deletion.uid) => {
                    self.written.lists_at(&key) != Some(list)
                }
                // Another object has this name.
                Ok(_) => deletion.last < at,
                Err(_) => false,
            },
        });
        let event = self.put(scope, object, went_back);
        if is_known {
            self.restore(&key);
            self.remove_written(&key);
        }
        event
    }

    /// Records that an object exists which was recorded as deleted.
    pub(super) fn restore(&mut self, key: &ObjectKey) {
        if let Some(Change::Deleted(deletion)) = self.written.get(key) {
            self.dead.remove(&deletion.uid);
        }
    }

    /// Ends a list: removes the objects that it did not contain. Pass the returned written objects to
    /// [`Store::forget_gone`], and then the watched ones of each shard from [`Store::take_missing`].
    pub(in crate::cache) fn end_list(&mut self, scope: &Scope, representation: Representation) -> Vec<Gone> {
        let named = self.named_beside(scope);
        let progress = self.watches.entry(scope.clone()).or_default();
        let list = progress.lists;
        let newest = progress.listing.take().unwrap_or_default();
        progress.listed = Some(representation);
        if progress.went_back {
            progress.revision = newest;
        }
        self.malformed
            .retain(|key, (_, listed)| *listed == list || !is_covered(scope, &named, key));
        let mut gone = Vec::new();
        let went_back = progress.went_back;
        // A write that was answered before the list began is in the list, or has been undone since.
        let is_over = |written: &Written| written.scope == *scope && written.lists != list;
        let mut answered = 0;
        for (key, written) in self.written.extract_if(is_over) {
            answered = written.change.revision().max(answered);
            self.cool(&written);
            if let Change::Stored(arrived, _) = written.change
                && self.watched(&key).is_none()
            {
                gone.push(Gone::Written(arrived));
            }
        }
        gone.iter()
            .for_each(|gone| self.dead.add(gone.stored().packed.uid()));
        let is_dead = |written: &Written| match &written.change {
            Change::Stored(arrived, _) => written.scope == *scope && self.dead.has(&arrived.stored.packed),
            Change::Deleted(_) => false,
        };
        let dead = self.written.extract_if(is_dead);
        dead.iter().for_each(|(_, written)| self.cool(written));
        // The list is at least as new as these writes, even if it does not contain them. A response to an earlier write
        // that has not arrived yet is older than the list.
        let listed = if went_back { newest } else { newest.max(answered) };
        gone.extend(self.pass(scope, listed.max(self.revision_of_watch(scope))));
        gone
    }

    /// Removes and returns the objects of one shard that the last list did not contain. Pass them to
    /// [`Store::forget_gone`].
    pub(in crate::cache) fn take_missing(&mut self, scope: &Scope, shard: usize) -> Vec<Gone> {
        let named = self.named_beside(scope);
        let list = self.watches.get(scope).map_or(0, |progress| progress.lists);
        let is_missing = |slot: &Slot| slot.list != list && is_covered(scope, &named, slot);
        let mut gone = Vec::new();
        for Slot { stored, .. } in self.objects.extract_if(shard, is_missing) {
            self.dead.add(stored.packed.uid());
            let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
            // The object was deleted after this write, whose response arrived during the list.
            if let Some(Change::Stored(own, _)) = self.written.get(&key)
                && own.stored.packed.has_uid_of(&stored.packed)
            {
                self.remove_written(&key);
            }
            gone.push(Gone::Watched(stored));
        }
        gone
    }

    /// Returns the namespaces with their own watches, which the watch of all namespaces does not cover.
    fn named_beside(&self, scope: &Scope) -> HashSet<Arc<str>> {
        match scope {
            Some(_) => HashSet::new(),
            None => self.watches.keys().flatten().cloned().collect(),
        }
    }

    /// Removes an object that a list did not contain from the indexes, and returns the event of its deletion.
    pub(in crate::cache) fn forget_gone(&mut self, gone: Gone) -> Option<Event<dyn Item>> {
        let stored = gone.stored();
        let key = ObjectKey::new(stored.packed.namespace(), stored.packed.name());
        self.settle(&key, None, false);
        let object = match gone {
            Gone::Watched(stored) => self.forget(&stored)?,
            Gone::Written(arrived) => arrived.object,
        };
        Some(Event::Delete { object, stale: true })
    }
}

// === impl Gone ===

impl Gone {
    pub(super) fn stored(&self) -> &Stored {
        match self {
            Self::Watched(stored) => stored,
            Self::Written(arrived) => &arrived.stored,
        }
    }
}

/// Returns true if the watch of a scope covers an object, given the namespaces with their own watches.
fn is_covered(scope: &Scope, named: &HashSet<Arc<str>>, key: &dyn Keyed) -> bool {
    match scope {
        Some(_) => key.namespace() == scope.as_deref(),
        None => !key.namespace().is_some_and(|namespace| named.contains(namespace)),
    }
}
