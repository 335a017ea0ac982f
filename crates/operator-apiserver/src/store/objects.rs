//! The objects of one table: [`Objects`].

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::Stored;

/// Objects by key, their number in each namespace, and their total memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    by_key: BTreeMap<Arc<str>, Arc<Stored>>,
    /// The number of objects of each namespace that has objects. Cluster-scoped objects have no namespace.
    in_namespace: BTreeMap<Box<str>, usize>,
    memory: usize,
}

/// Returns the namespace of the object with a key.
fn namespace(key: &str) -> Option<&str> {
    key.split_once('/').map(|(namespace, _)| namespace)
}

impl Objects {
    /// Returns the estimated memory of all objects, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the number of objects whose keys start with the prefix of a namespace, `NAMESPACE/`, or with no prefix.
    pub(super) fn count(&self, prefix: &str) -> usize {
        match namespace(prefix) {
            Some(namespace) => self.in_namespace.get(namespace).copied().unwrap_or_default(),
            None => self.by_key.len(),
        }
    }

    /// Inserts an object, or replaces its previous version.
    pub(super) fn insert(&mut self, object: Arc<Stored>) {
        self.memory += object.memory;
        let key = object.key.clone();
        if let Some(replaced) = self.by_key.insert(key.clone(), object) {
            self.memory -= replaced.memory;
        } else if let Some(namespace) = namespace(&key) {
            match self.in_namespace.get_mut(namespace) {
                Some(count) => *count += 1,
                None => {
                    self.in_namespace.insert(namespace.into(), 1);
                }
            }
        }
    }

    /// Removes an object, if it exists.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(removed) = self.by_key.remove(key) else {
            return;
        };
        self.memory -= removed.memory;
        if let Some(namespace) = namespace(key)
            && let Some(count) = self.in_namespace.get_mut(namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.in_namespace.remove(namespace);
            }
        }
    }
}

impl Deref for Objects {
    type Target = BTreeMap<Arc<str>, Arc<Stored>>;

    fn deref(&self) -> &Self::Target {
        &self.by_key
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_memory_is_that_of_the_current_objects() {
        let object =
            |key: &str, length: usize| Stored::new(key.into(), 1, json!({"data": "x".repeat(length)}));
        let mut objects = Objects::default();
        objects.insert(object("a", 10));
        let small = objects.memory();
        objects.insert(object("a", 10_000));
        objects.insert(object("b", 10));
        assert!(objects.memory() > 10_000, "{}", objects.memory());
        objects.remove("a");
        objects.remove("a");
        assert_eq!((objects.memory(), objects.len()), (small, 1));
        objects.remove("b");
        assert_eq!(objects.memory(), 0);
    }
}
