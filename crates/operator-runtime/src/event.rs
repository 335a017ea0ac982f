//! [`Event`], a change of an object as predicates and handlers receive it from the cache.
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use operator_runtime::event::Event;
//!
//! fn what(event: &Event<ConfigMap>) -> &'static str {
//!     match event {
//!         Event::Create { initial: true, .. } => "it existed when the operator started",
//!         Event::Create { .. } => "it is new",
//!         Event::Update { .. } => "it changed",
//!         Event::Delete { .. } => "it is gone",
//!         Event::Generic { .. } => "something outside the watched resources changed",
//!     }
//! }
//! assert_eq!(what(&Event::Delete { object: Arc::new(ConfigMap::default()), stale: false }), "it is gone");
//! ```

use std::sync::Arc;

use crate::object::Meta;

/// A change of one object, with its old and new state.
#[derive(Debug)]
pub enum Event<K: ?Sized> {
    /// The object is new to the cache.
    Create {
        /// The object.
        object: Arc<K>,
        /// True if it comes from the first list.
        initial: bool,
    },
    /// The object changed. In a resync both states are the same.
    Update {
        /// The previous state in the cache. After a gap in the watch, several writes are one update.
        old: Arc<K>,
        /// The new state.
        new: Arc<K>,
    },
    /// The object was deleted.
    Delete {
        /// Its last known state.
        object: Arc<K>,
        /// True if a new list revealed the deletion, so that the state may be outdated.
        stale: bool,
    },
    /// A generic event: something outside the watched resources changed for this object.
    Generic {
        /// The object.
        object: Arc<K>,
    },
}

impl<K: ?Sized> Clone for Event<K> {
    fn clone(&self) -> Self {
        self.map(Arc::clone)
    }
}

impl<K: ?Sized> Event<K> {
    /// Returns the newest state in the event.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Create { object, .. } | Self::Delete { object, .. } | Self::Generic { object } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// Returns all states in the event: the old and the new one of an update, otherwise only [`Event::object`]. Both
    /// matter if the update removed a reference.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<K>> {
        let old = match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        };
        old.into_iter().chain([self.object()])
    }

    /// Returns true if the event comes from the first list. Such events have a low priority.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Create { initial: true, .. })
    }

    /// Returns the event with its objects converted by `view`.
    pub(crate) fn map<T: ?Sized>(&self, view: impl Fn(&Arc<K>) -> Arc<T>) -> Event<T> {
        match self {
            Self::Create { object, initial } => Event::Create {
                object: view(object),
                initial: *initial,
            },
            Self::Update { old, new } => Event::Update {
                old: view(old),
                new: view(new),
            },
            Self::Delete { object, stale } => Event::Delete {
                object: view(object),
                stale: *stale,
            },
            Self::Generic { object } => Event::Generic { object: view(object) },
        }
    }
}

impl<K: Meta + ?Sized> Event<K> {
    /// Returns true for an update without a change: a resync repeats the cached state at intervals
    /// ([`sync_period`](crate::cache::CacheOptions::sync_period)).
    pub fn is_resync(&self) -> bool {
        match self {
            Self::Update { old, new } => old.metadata().resource_version == new.metadata().resource_version,
            _ => false,
        }
    }
}
