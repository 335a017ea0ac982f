//! [`Written`], the result of a write.

use std::ops::Deref;
use std::sync::Arc;

/// The object after a write, and whether a request was sent. It dereferences to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written<K> {
    /// A request was sent. The object is the one in the server's response.
    Sent(Arc<K>),
    /// No request was sent, because the write would change nothing according to the cache.
    Unchanged(Arc<K>),
    /// Nothing was written, because the object was deleted or replaced by another one with the same name. This is its
    /// last known state. Only writes of a status or of finalizers return it.
    Gone(Arc<K>),
}

// === impl Written ===

impl<K> Written<K> {
    /// Returns true if a request was sent and the server accepted it.
    pub fn was_sent(&self) -> bool {
        matches!(self, Self::Sent(_))
    }

    /// Returns true if the object no longer existed.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns the object.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Sent(object) | Self::Unchanged(object) | Self::Gone(object) => object,
        }
    }
}

impl<K> Deref for Written<K> {
    type Target = K;

    fn deref(&self) -> &K {
        self.object()
    }
}

impl<K> AsRef<K> for Written<K> {
    fn as_ref(&self) -> &K {
        self.object()
    }
}
