//! What happened to an object, as the cache tells predicates and handlers.
//! It never knows what anybody makes of it.
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use operator_runtime::event::Event;
//!
//! fn what(event: &Event<ConfigMap>) -> &'static str {
//!     match event {
//!         Event::Create { initial: true, .. } => "it was there when the operator started",
//!         Event::Create { .. } => "it is new",
//!         Event::Update { .. } => "it changed",
//!         Event::Delete { .. } => "it is gone",
//!         Event::Generic { .. } => "somebody says so",
//!     }
//! }
//! assert_eq!(what(&Event::Delete { object: Arc::new(ConfigMap::default()), stale: false }), "it is gone");
//! ```

use std::sync::Arc;

use crate::object::Meta;

/// A change of one object, with the old state beside the new one.
#[derive(Debug)]
pub enum Event<K: ?Sized> {
    /// The object is new to the cache.
    Create {
        /// Its state.
        object: Arc<K>,
        /// True if it comes from the first list rather than from a change.
        initial: bool,
    },
    /// The object changed; or nothing did, and the cache says again what it knows (a resync).
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
        /// True if the deletion was missed and found out by a new list, so that the state may not be the last one.
        stale: bool,
    },
    /// Something that no watch tells has to do with the object: what a stream of the operator's own brings.
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
    /// The newest state that the event carries: of an update the new one, of a deletion the last one.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Create { object, .. } | Self::Delete { object, .. } | Self::Generic { object } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// All states that the event carries: of an update the old one and then the new one, otherwise [`Event::object`]
    /// alone. Whoever looks at both hears of what an object was taken away from.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<K>> {
        let old = match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        };
        old.into_iter().chain([self.object()])
    }

    /// Returns true if it comes from the first list, whose objects may wait behind fresh changes.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Create { initial: true, .. })
    }

    /// The same event of the objects that `view` makes of these.
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
    /// Returns true if nothing happened: the cache says again what it knows, as it does now and then
    /// ([`sync_period`](crate::cache::CacheOptions::sync_period)).
    pub fn is_resync(&self) -> bool {
        match self {
            Self::Update { old, new } => old.metadata().resource_version == new.metadata().resource_version,
            _ => false,
        }
    }
}
