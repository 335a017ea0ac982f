//! The result of a write.

use std::ops::Deref;
use std::sync::Arc;

/// The object after a write, and whether a request was sent for it. It dereferences to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written<K> {
    /// A request was sent; the object is the server's answer.
    Sent(Arc<K>),
    /// No request was sent: the object is as it should be, as far as the cache knows.
    Unchanged(Arc<K>),
    /// The object was deleted meanwhile, or replaced by another one of its name, and nothing was written; this is its last
    /// known state. Only status and finalizer writes return it: for them it is not an error.
    Gone(Arc<K>),
}

// === impl Written ===

impl<K> Written<K> {
    /// Returns true if a request was sent and the server accepted it.
    pub fn was_sent(&self) -> bool {
        matches!(self, Self::Sent(_))
    }

    /// Returns true if the object did not exist any more.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// The object.
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
