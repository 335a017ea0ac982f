//! The objects of one table: [`Objects`].

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::Stored;

/// Objects by key, and their total memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    by_key: BTreeMap<Arc<str>, Arc<Stored>>,
    memory: usize,
}

impl Objects {
    /// Returns the estimated memory of all objects, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Inserts an object, or replaces its previous version.
    pub(super) fn insert(&mut self, object: Arc<Stored>) {
        self.memory += object.memory;
        if let Some(replaced) = self.by_key.insert(object.key.clone(), object) {
            self.memory -= replaced.memory;
        }
    }

    /// Removes an object, if it exists.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(removed) = self.by_key.remove(key) {
            self.memory -= removed.memory;
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
