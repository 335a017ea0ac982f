//! Own writes of a [`Store`], until the watch has passed them.

use kube::core::ObjectMeta;

use super::list::Gone;
use super::{Consistency, Scope, Store};
use crate::cache::item::{Arrived, Stored};
use crate::cache::own_writes::{Change, Deletion, Written};
use crate::object::ObjectKey;

// === impl Store ===

impl Store {
    /// Returns the response to the own write that produced this state of an object.
    pub(in crate::cache) fn own_write(&self, metadata: &ObjectMeta) -> Option<&Arrived> {
        match self.written.get(metadata) {
            Some(Change::Stored(arrived, _)) if is_at(&arrived.stored, metadata) => Some(arrived),
            _ => None,
        }
    }

    /// Returns the object if a watch has delivered this state of it.
    pub(in crate::cache) fn watched_at(&self, metadata: &ObjectMeta) -> Option<&Stored> {
        self.watched(metadata).filter(|stored| is_at(stored, metadata))
    }

    /// Stores the response to an own write, unless a watch has delivered it or a newer state.
    pub(crate) fn write(&mut self, written: Arrived) {
        let packed = &written.stored.packed;
        let key = ObjectKey::new(packed.namespace(), packed.name());
        let at = packed.revision();
        let stored = self.watched(&key).map_or(0, |stored| stored.packed.revision());
        let before = match self.written.get(&key) {
            Some(Change::Stored(_, at)) => *at,
            // The response to an earlier write arrived after the response to the deletion.
            Some(Change::Deleted(deletion)) if packed.has_uid(&deletion.uid) => return,
            Some(Change::Deleted(deletion)) => deletion.last,
            None => 0,
        };
        let Some((scope, progress)) = self.watch_of(&key) else {
            return;
        };
        if self.dead.has(packed) {
            return;
        }
        if at > progress.revision.max(stored).max(before) {
            self.intake.hot.put(packed, written.object.clone());
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Stored(Box::new(written), at);
            self.set_written(key, Written { scope, lists, change });
        }
    }

    /// Records that the operator deleted the object with this UID, and that it is gone. `at` is the revision of the
    /// deletion, if the response contains it.
    pub(crate) fn deleted(&mut self, key: &ObjectKey, uid: &str, at: Option<u64>) {
        self.dead.add(Some(uid.to_owned()));
        let known = self.get(key, Consistency::OwnWrites);
        let known = known.ok().flatten().filter(|stored| stored.packed.has_uid(uid));
        if let Some((scope, progress)) = self.watch_of(key)
            && let Some(stored) = known
        {
            let (scope, lists) = (scope.clone(), progress.lists);
            let change = Change::Deleted(Deletion {
                uid: uid.to_owned(),
                last: stored.packed.revision(),
                at,
            });
            self.set_written(key.clone(), Written { scope, lists, change });
        }
    }

    pub(super) fn set_written(&mut self, key: ObjectKey, written: Written) {
        if let Some(before) = self.written.insert(key, written) {
            self.cool(&before);
        }
    }

    pub(super) fn remove_written(&mut self, key: &ObjectKey) {
        if let Some(written) = self.written.remove(key) {
            self.cool(&written);
        }
    }

    /// Drops the decoded object of a write, unless the watch has delivered the same one.
    pub(super) fn cool(&self, written: &Written) {
        if let Change::Stored(written, _) = &written.change
            && !self.is_current(&written.stored)
        {
            self.intake.hot.forget(&written.stored.packed);
        }
    }

    /// Removes the record of an own deletion if the watch delivers a later state of the object, because it still
    /// exists.
    pub(super) fn correct_deletion(&mut self, key: &ObjectKey, arrived: &Arrived) {
        let packed = &arrived.stored.packed;
        let is_alive = match self.written.get(key) {
            Some(Change::Deleted(deletion)) => {
                packed.has_uid(&deletion.uid) && deletion.at.is_some_and(|at| at < packed.revision())
            }
            _ => false,
        };
        if is_alive {
            self.restore(key);
            self.remove_written(key);
        }
    }

    /// Records that a watch has passed `at`: earlier own writes were delivered or undone. A watch delivers events in
    /// the order of their revisions, unless the server went back to an older state. Returns the written objects that
    /// are gone without an event, for [`Store::forget_gone`].
    pub(super) fn pass(&mut self, scope: &Scope, at: u64) -> Vec<Gone> {
        let progress = self.watches.entry(scope.clone()).or_default();
        if at > 0 {
            progress.revision = at;
        }
        let mut gone = Vec::new();
        for (key, written) in self.written.take_passed(scope, at) {
            self.cool(&written);
            if let Change::Stored(arrived, _) = written.change
                && self.watched(&key).is_none()
                && !self.malformed.contains_key(&key)
                && !self.dead.has(&arrived.stored.packed)
            {
                self.dead.add(arrived.stored.packed.uid());
                gone.push(Gone::Written(arrived));
            }
        }
        gone
    }
}

/// Returns true if this is the state of an object in `metadata`.
fn is_at(stored: &Stored, metadata: &ObjectMeta) -> bool {
    let version = metadata.resource_version.as_deref();
    let has_version = version.is_some() && stored.packed.resource_version().as_deref() == version;
    has_version
        && metadata
            .uid
            .as_deref()
            .is_some_and(|uid| stored.packed.has_uid(uid))
}
