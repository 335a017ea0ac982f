//! [`Target`] and [`Desired`], the objects of reads and writes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::cache::informer::Informer;
use crate::cache::{Cache, CacheError};
use crate::object::{Kind, Object, ObjectKey, View};
use crate::owner::{Owner, OwnerError};

/// The target of a read or a deletion of an object of type `K`.
///
/// Converts from a key, and from an object if `K` defines its kind. For other types, it converts from a tuple of a
/// [`Kind`] and a key or an object. The deletion of an object, instead of a key, deletes no other object with the same
/// name.
pub struct Target<'a, K> {
    kind: KindOf<'a>,
    reader: fn(&Cache, &KindOf<'a>) -> Result<Arc<Informer>, CacheError>,
    pub(super) key: ObjectKey,
    pub(super) uid: Option<String>,
    objects: PhantomData<fn() -> K>,
}

/// An object of type `K` to write. Converts from an object if its type defines its kind, otherwise from a tuple of a
/// [`Kind`] and an object.
pub struct Desired<'a, K> {
    pub(super) kind: Cow<'a, Kind>,
    pub(super) object: K,
}

/// A kind. The kind of a type is computed only if it is needed.
enum KindOf<'a> {
    Type(fn() -> Kind),
    Given(&'a Kind),
}

// === impl Target ===

impl<'a, K> Target<'a, K> {
    /// Returns the kind.
    pub(super) fn kind(&self) -> Cow<'a, Kind> {
        self.kind.get()
    }

    /// Returns the informer to read from.
    pub(super) fn reader(&self, cache: &Cache) -> Result<Arc<Informer>, CacheError> {
        (self.reader)(cache, &self.kind)
    }
}

impl<K: Object> Target<'_, K> {
    fn of_type(key: ObjectKey, uid: Option<String>) -> Self {
        Self {
            kind: KindOf::Type(Kind::of::<K>),
            reader: |cache, _| cache.reader::<K>(),
            key,
            uid,
            objects: PhantomData,
        }
    }
}

impl<'a, K: View> Target<'a, K> {
    fn of_kind(kind: &'a Kind, key: ObjectKey, uid: Option<String>) -> Self {
        Self {
            kind: KindOf::Given(kind),
            reader: |cache, kind| cache.reader_of::<K>(&kind.get()),
            key,
            uid,
            objects: PhantomData,
        }
    }
}

impl<K: Object> From<ObjectKey> for Target<'_, K> {
    fn from(key: ObjectKey) -> Self {
        Self::of_type(key, None)
    }
}

impl<K: Object> From<&ObjectKey> for Target<'_, K> {
    fn from(key: &ObjectKey) -> Self {
        Self::of_type(key.clone(), None)
    }
}

/// Converts `("namespace", "name")`.
impl<K: Object> From<(&str, &str)> for Target<'_, K> {
    fn from(key: (&str, &str)) -> Self {
        Self::of_type(key.into(), None)
    }
}

impl<K: Object> From<&K> for Target<'_, K> {
    fn from(object: &K) -> Self {
        Self::of_type(ObjectKey::of(object), object.meta().uid.clone())
    }
}

impl<'a, K: View> From<(&'a Kind, ObjectKey)> for Target<'a, K> {
    fn from((kind, key): (&'a Kind, ObjectKey)) -> Self {
        Self::of_kind(kind, key, None)
    }
}

impl<'a, K: View> From<(&'a Kind, &ObjectKey)> for Target<'a, K> {
    fn from((kind, key): (&'a Kind, &ObjectKey)) -> Self {
        Self::of_kind(kind, key.clone(), None)
    }
}

impl<'a, K: View> From<(&'a Kind, &K)> for Target<'a, K> {
    fn from((kind, object): (&'a Kind, &K)) -> Self {
        Self::of_kind(kind, ObjectKey::of(object), object.meta().uid.clone())
    }
}

impl<K> fmt::Debug for Target<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind(), self.key)
    }
}

// === impl Desired ===

impl<K: View> Desired<'_, K> {
    /// Sets the owner of the object.
    pub(crate) fn owned_by(&mut self, owner: &Owner) -> Result<(), OwnerError> {
        owner.place(&self.kind, &mut self.object)
    }
}

impl<K: Object> From<K> for Desired<'_, K> {
    fn from(object: K) -> Self {
        Self {
            kind: Cow::Owned(Kind::of::<K>()),
            object,
        }
    }
}

impl<'a, K: View> From<(&'a Kind, K)> for Desired<'a, K> {
    fn from((kind, object): (&'a Kind, K)) -> Self {
        Self {
            kind: Cow::Borrowed(kind),
            object,
        }
    }
}

impl<K: View> fmt::Debug for Desired<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, ObjectKey::of(&self.object))
    }
}

// === impl KindOf ===

impl<'a> KindOf<'a> {
    fn get(&self) -> Cow<'a, Kind> {
        match self {
            Self::Type(kind) => Cow::Owned(kind()),
            Self::Given(kind) => Cow::Borrowed(kind),
        }
    }
}
