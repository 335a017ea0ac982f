//! [`Hot`], the recently decoded objects, which concurrent readers share.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::item::Item;
use super::packed::Packed;
use crate::object::View;

/// The number of objects in a generation, and the total size of their packed form. Decoded objects take about twenty
/// times as much. Workers read the objects of a reconcile several times, but only few at once.
const OBJECTS: usize = 16;
const BYTES: usize = 16 * 1024;

/// Two generations of decoded objects. A read object is put into the young one. When that is full it becomes the old
/// one, and the previous old one is dropped.
#[derive(Default)]
pub(super) struct Hot {
    /// True if every object stays until it changes.
    keeps_all: bool,
    generations: Mutex<Generations>,
    filled: Notify,
}

#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
    /// The number of objects at which replaced states are dropped. Used only if every object stays until it changes.
    limit: usize,
}

/// Decoded objects by the address of the packed object, which is unique as long as this holds it.
#[derive(Default)]
struct Generation {
    objects: HashMap<usize, Decoded>,
    bytes: usize,
}

/// One object as each type that it was read as.
struct Decoded {
    packed: Packed,
    views: Vec<Arc<dyn Item>>,
}

// === impl Hot ===

impl Hot {
    pub(super) fn new(keeps_all: bool) -> Self {
        Self {
            keeps_all,
            ..Self::default()
        }
    }

    pub(super) fn keeps_all(&self) -> bool {
        self.keeps_all
    }

    pub(super) fn get<K: View>(&self, packed: &Packed) -> Option<Arc<K>> {
        let address = packed.address();
        let mut generations = self.generations.lock();
        if let Some(decoded) = generations.young.objects.get(&address) {
            return decoded.view();
        }
        let decoded = generations.old.remove(packed)?;
        let view = decoded.view();
        self.renew(&mut generations, decoded);
        view
    }

    pub(super) fn put(&self, packed: &Packed, view: Arc<dyn Item>) {
        let mut generations = self.generations.lock();
        let old = generations.old.remove(packed);
        let young = generations.young.remove(packed);
        let mut decoded = young.or(old).unwrap_or_else(|| Decoded {
            packed: packed.clone(),
            views: Vec::with_capacity(1),
        });
        decoded.views.push(view);
        self.renew(&mut generations, decoded);
    }

    /// Drops a replaced object.
    pub(super) fn forget(&self, packed: &Packed) {
        let mut generations = self.generations.lock();
        generations.young.remove(packed);
        generations.old.remove(packed);
    }

    /// Drops the objects that were not read since the last call. Returns true if any are left.
    pub(super) fn cool(&self) -> bool {
        let mut generations = self.generations.lock();
        generations.age();
        !generations.old.objects.is_empty()
    }

    /// Waits until there are objects to drop.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    fn renew(&self, generations: &mut Generations, decoded: Decoded) {
        if generations.young.objects.is_empty() && !self.keeps_all {
            self.filled.notify_one();
        }
        if self.keeps_all {
            generations.drop_replaced();
        } else if generations.young.is_full() {
            generations.age();
        }
        generations.young.insert(decoded);
    }
}

impl fmt::Debug for Hot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generations = self.generations.lock();
        let objects = generations.young.objects.len() + generations.old.objects.len();
        formatter
            .debug_struct("Hot")
            .field("objects", &objects)
            .finish_non_exhaustive()
    }
}

// === impl Generations ===

impl Generations {
    /// Drops states that nothing else holds, if the number of objects has doubled since the last time. A slow reader
    /// may have put back a replaced state.
    fn drop_replaced(&mut self) {
        if self.young.objects.len() < self.limit {
            return;
        }
        self.young.objects.retain(|_, decoded| decoded.packed.is_shared());
        let lengths = self.young.objects.values().map(|decoded| decoded.packed.len());
        self.young.bytes = lengths.sum();
        self.limit = 2 * self.young.objects.len() + OBJECTS;
    }

    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }
}

// === impl Generation ===

impl Generation {
    fn is_full(&self) -> bool {
        self.objects.len() >= OBJECTS || self.bytes >= BYTES
    }

    fn insert(&mut self, decoded: Decoded) {
        self.bytes += decoded.packed.len();
        self.objects.insert(decoded.packed.address(), decoded);
    }

    fn remove(&mut self, packed: &Packed) -> Option<Decoded> {
        let decoded = self.objects.remove(&packed.address())?;
        self.bytes -= decoded.packed.len();
        Some(decoded)
    }
}

// === impl Decoded ===

impl Decoded {
    fn view<K: View>(&self) -> Option<Arc<K>> {
        self.views.iter().find_map(|view| {
            let view: Arc<dyn Any + Send + Sync> = view.clone();
            view.downcast().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::cache::packed::{Dictionary, Identity};

    fn packed(index: usize) -> Packed {
        let name = format!("object-{index}");
        let identity = Identity {
            name: &name,
            ..Identity::default()
        };
        Packed::new(&identity, json!({}), &Dictionary::default()).unwrap()
    }

    #[test]
    fn recently_read_objects_stay_and_others_are_dropped() {
        let hot = Hot::new(false);
        let objects: Vec<_> = (0..10 * OBJECTS).map(packed).collect();
        let read = Arc::new(ConfigMap::default());
        hot.put(&objects[0], read.clone());
        for object in &objects[1..] {
            hot.put(object, Arc::new(ConfigMap::default()));
            assert!(Arc::ptr_eq(&hot.get::<ConfigMap>(&objects[0]).unwrap(), &read));
        }
        let still = objects
            .iter()
            .filter(|object| hot.get::<ConfigMap>(object).is_some());
        assert!((OBJECTS / 2..=2 * OBJECTS).contains(&still.count()));
    }

    #[test]
    fn unread_objects_are_dropped() {
        let (hot, object) = (Hot::new(false), packed(1));
        hot.put(&object, Arc::new(ConfigMap::default()));
        assert!(hot.cool());
        assert!(hot.get::<ConfigMap>(&object).is_some());
        assert!(hot.cool());
        assert!(!hot.cool());
        assert!(hot.get::<ConfigMap>(&object).is_none());
    }

    #[test]
    fn unpacked_objects_stay_until_they_are_forgotten() {
        let hot = Hot::new(true);
        let objects: Vec<_> = (0..10 * OBJECTS).map(packed).collect();
        for object in &objects {
            hot.put(object, Arc::new(ConfigMap::default()));
        }
        hot.forget(&objects[7]);
        let kept = objects
            .iter()
            .filter(|object| hot.get::<ConfigMap>(object).is_some());
        assert_eq!(kept.count(), objects.len() - 1);
    }

    #[test]
    fn replaced_states_are_dropped_if_all_are_kept() {
        let hot = Hot::new(true);
        let kept = packed(0);
        hot.put(&kept, Arc::new(ConfigMap::default()));
        for number in 1..100 * OBJECTS {
            // A reader decodes a state that was already replaced.
            hot.put(&packed(number), Arc::new(ConfigMap::default()));
        }
        let objects = hot.generations.lock().young.objects.len();
        assert!(objects <= 4 * OBJECTS, "{objects}");
        assert!(hot.get::<ConfigMap>(&kept).is_some());
    }
}
