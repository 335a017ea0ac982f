//! [`Skips`], the records of skipped writes. A write is skipped if the cached object shows that it would change
//! nothing. The cache may be older than the server, so each skip is recorded with its reconcile request, the state that
//! it was compared with, and the relevant part of the object. If the watch delivers a state in which that part differs,
//! the request is reconciled again, regardless of the predicates of the controller. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::keyed::{ByKey, Keyed};
use super::noop;
use crate::object::ObjectKey;

/// Maximum number of skips that are recorded for one object. Further writes to that object are sent.
const LIMIT: usize = 256;

/// Maximum number of distinct interests that the records of one kind share.
const SHARED: usize = 64;

/// Adds a request to the queue of a controller again.
pub(crate) trait Requeue: Send + Sync {
    /// Adds the request.
    fn requeue(&self, request: ObjectKey);
}

/// The reconcile request in which a client wrote.
#[derive(Clone)]
pub(crate) struct Origin {
    queue: Arc<dyn Requeue>,
    request: ObjectKey,
}

/// The part of an object that decided whether a write changes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// The fields that the operator applied.
    Applied,
    /// The values at the leaves of this tree of member names.
    Members(Value),
    /// The complete object, including the resource version.
    Everything,
}

/// One skipped write.
#[derive(Clone)]
struct Skip {
    origin: Origin,
    interest: Arc<Interest>,
    /// The revision of the state that the write was compared with.
    revision: u64,
}

/// A state of an object, for comparing parts of it.
pub(super) struct State {
    /// The whole object.
    pub(super) value: Value,
    /// The fields that the operator applied, with the UIDs of owners in place: see [`noop::is_applied`].
    pub(super) applied: Option<String>,
}

/// The skipped writes of one kind.
#[derive(Default)]
pub(super) struct Skips {
    by_object: BTreeMap<ByKey<ObjectKey>, Vec<Skip>>,
    interests: Vec<Arc<Interest>>,
    /// The requests to reconcile again.
    due: Vec<Origin>,
}

/// A change of an object that the watch delivered.
pub(super) enum Change<'a> {
    /// A state of the same object.
    State {
        revision: u64,
        /// True if the server went back to an older revision, as after the restore of a backup.
        went_back: bool,
        /// Returns the known state with a revision, if it is still known.
        before: &'a dyn Fn(u64) -> Option<State>,
        /// Returns the new state.
        after: &'a dyn Fn() -> Option<State>,
    },
    /// The object is gone, was replaced by another one, or cannot be read.
    Lost,
}

// === impl Origin ===

impl Origin {
    pub(crate) fn new(queue: Arc<dyn Requeue>, request: ObjectKey) -> Self {
        Self { queue, request }
    }

    /// Reconciles the request again.
    pub(crate) fn requeue(self) {
        self.queue.requeue(self.request);
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue) && self.request == other.request
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.request, formatter)
    }
}

// === impl Interest ===

impl Interest {
    /// Returns the interest of a merge patch. A patch with a resource version depends on every change.
    pub(crate) fn of_merge_patch(patch: &Value) -> Self {
        match patch.pointer("/metadata/resourceVersion") {
            None | Some(Value::Null) => Self::Members(leaves(patch)),
            Some(_) => Self::Everything,
        }
    }

    /// Returns true if both states have the same values in this part of the object.
    fn is_same(&self, before: &State, after: &State) -> bool {
        match self {
            Self::Applied => match (&before.applied, &after.applied) {
                (Some(one), Some(other)) if one == other => {
                    noop::has_same_applied_fields(one, &before.value, &after.value)
                }
                _ => false,
            },
            Self::Members(tree) => has_same_members(tree, &before.value, &after.value),
            Self::Everything => false,
        }
    }
}

/// Returns the member names of a merge patch, with null for values.
fn leaves(patch: &Value) -> Value {
    match patch {
        Value::Object(members) if !members.is_empty() => {
            let names = members.iter().map(|(name, value)| (name.clone(), leaves(value)));
            Value::Object(names.collect())
        }
        _ => Value::Null,
    }
}

fn has_same_members(tree: &Value, before: &Value, after: &Value) -> bool {
    match tree {
        Value::Object(members) => members
            .iter()
            .all(|(name, tree)| has_same_members(tree, &before[name.as_str()], &after[name.as_str()])),
        _ => noop::is_same(before, after),
    }
}

// === impl Skips ===

impl Skips {
    pub(super) fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    /// Records a skip. Returns `false` if the limit is reached, so that the write must be sent.
    pub(super) fn add(&mut self, key: &ObjectKey, revision: u64, origin: Origin, interest: Interest) -> bool {
        let interest = self.share(interest);
        let skips = self.by_object.entry(ByKey(key.clone())).or_default();
        let known = skips
            .iter_mut()
            .find(|skip| skip.origin == origin && skip.interest == interest);
        if let Some(known) = known {
            known.revision = revision;
            return true;
        }
        if skips.len() >= LIMIT {
            return false;
        }
        if skips.is_empty() {
            skips.reserve_exact(1);
        }
        skips.push(Skip {
            origin,
            interest,
            revision,
        });
        true
    }

    fn share(&mut self, interest: Interest) -> Arc<Interest> {
        if let Some(known) = self.interests.iter().find(|known| ***known == interest) {
            return known.clone();
        }
        let interest = Arc::new(interest);
        if self.interests.len() < SHARED {
            self.interests.push(interest.clone());
        }
        interest
    }

    /// Removes the records that a sent write of the same request supersedes, because the server has decided.
    pub(super) fn supersede(&mut self, key: &ObjectKey, origin: &Origin, interest: &Interest) {
        self.retain(key, |skip| skip.origin != *origin || *interest != *skip.interest);
    }

    fn retain(&mut self, key: &dyn Keyed, keep: impl FnMut(&Skip) -> bool) {
        if let Some(skips) = self.by_object.get_mut(key) {
            skips.retain(keep);
            if skips.is_empty() {
                self.by_object.remove(key);
            }
        }
    }

    /// Compares the records of an object with a change. Records without a difference continue with the new state. The
    /// requests of the others become due.
    pub(super) fn settle(&mut self, key: &dyn Keyed, change: &Change<'_>) {
        let Some((key, skips)) = self.by_object.remove_entry(key) else {
            return;
        };
        let Change::State {
            revision,
            went_back,
            before,
            after,
        } = change
        else {
            self.due.extend(skips.into_iter().map(|skip| skip.origin));
            return;
        };
        let mut kept = Vec::new();
        let mut after_state = None;
        for mut skip in skips {
            // An older event: the skip was compared with the response to a later own write.
            if *revision == skip.revision || (*revision < skip.revision && !went_back) {
                kept.push(skip);
                continue;
            }
            let is_same = before(skip.revision).is_some_and(|before| {
                let after = after_state.get_or_insert_with(*after);
                after
                    .as_ref()
                    .is_some_and(|after| skip.interest.is_same(&before, after))
            });
            if is_same {
                skip.revision = *revision;
                kept.push(skip);
            } else {
                self.due.push(skip.origin);
            }
        }
        if !kept.is_empty() {
            self.by_object.insert(key, kept);
        }
    }

    /// Returns the objects that have records.
    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_object.keys().map(|ByKey(key)| key)
    }

    /// Removes and returns the requests to reconcile again.
    pub(super) fn take_due(&mut self) -> Vec<Origin> {
        std::mem::take(&mut self.due)
    }
}

impl fmt::Debug for Skips {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Skips")
            .field("objects", &self.by_object.len())
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}
