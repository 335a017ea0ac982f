//! Sets of objects by the namespace and name that they contain, without separate keys: [`ByKey`].

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use kube::core::ObjectMeta;

use super::packed::Packed;
use crate::object::ObjectKey;

/// A value with a namespace and a name.
pub(super) trait Keyed {
    fn namespace(&self) -> Option<&str>;
    fn name(&self) -> &str;
}

/// A wrapper that hashes, compares and sorts a value by namespace and name.
#[derive(Clone, Debug)]
pub(super) struct ByKey<T>(pub(super) T);

impl Keyed for ObjectKey {
    fn namespace(&self) -> Option<&str> {
        self.namespace()
    }

    fn name(&self) -> &str {
        self.name()
    }
}

/// Must hash and compare as `dyn Keyed`: field by field, namespace first.
impl<'a> Borrow<dyn Keyed + 'a> for ObjectKey {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

impl Keyed for ObjectMeta {
    fn namespace(&self) -> Option<&str> {
        self.namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

impl Keyed for Packed {
    fn namespace(&self) -> Option<&str> {
        self.namespace()
    }

    fn name(&self) -> &str {
        self.name()
    }
}

impl<T: Keyed> Keyed for ByKey<T> {
    fn namespace(&self) -> Option<&str> {
        self.0.namespace()
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl Hash for dyn Keyed + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace().hash(state);
        self.name().hash(state);
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.namespace() == other.namespace()
    }
}

impl Eq for dyn Keyed + '_ {}

/// Sorts by namespace and then by name, like keys.
impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Keyed> Hash for ByKey<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn Keyed).hash(state);
    }
}

impl<T: Keyed> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        (self as &dyn Keyed) == (other as &dyn Keyed)
    }
}

impl<T: Keyed> Eq for ByKey<T> {}

impl<T: Keyed> Ord for ByKey<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self as &dyn Keyed).cmp(other as &dyn Keyed)
    }
}

impl<T: Keyed> PartialOrd for ByKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a, T: Keyed + 'a> Borrow<dyn Keyed + 'a> for ByKey<T> {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keys_find_objects_by_their_metadata() {
        let metadata = |namespace: Option<&str>, name: &str| ObjectMeta {
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let keys = [
            ObjectKey::namespaced("a", "b"),
            ObjectKey::cluster("b"),
            ObjectKey::namespaced("b", "a"),
        ];
        let places: HashMap<_, _> = keys.iter().cloned().zip(0..).collect();
        let find = |metadata: ObjectMeta| places.get(&metadata as &dyn Keyed).copied();
        assert_eq!(find(metadata(Some("a"), "b")), Some(0));
        assert_eq!(find(metadata(None, "b")), Some(1));
        assert_eq!(find(metadata(Some(""), "b")), Some(1));
        assert_eq!(find(metadata(Some("b"), "a")), Some(2));
        assert_eq!(find(metadata(Some("b"), "b")), None);
    }
}
