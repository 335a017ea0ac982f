//! What happened to an object, as the cache tells predicates and handlers.
//! It never knows what anybody makes of it.

use std::sync::Arc;

/// A change of one object, with the old state beside the new one.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// The object is new to the cache.
    Create {
        /// Its state.
        object: Arc<K>,
        /// Whether it comes from the first list rather than from a change.
        initial: bool,
    },
    /// The object changed.
    Update {
        /// The state before, as the cache had it. After a gap in the watch several writes are one update.
        old: Arc<K>,
        /// The state now.
        new: Arc<K>,
    },
    /// The object is gone.
    Delete {
        /// Its last state.
        object: Arc<K>,
        /// Whether the deletion was missed and found out by a new list, so that the state may not be the last one.
        stale: bool,
    },
}

impl<K> Event<K> {
    /// The newest state that the event carries.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Create { object, .. } | Self::Delete { object, .. } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// The old state, for updates, and the newest one.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<K>> {
        let old = match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        };
        old.into_iter().chain([self.object()])
    }

    /// Whether it comes from the first list, whose objects may wait behind fresh changes.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Create { initial: true, .. })
    }
}
