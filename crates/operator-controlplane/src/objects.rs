//! The shared index: all objects of all resources at one revision, by name, uid and owner ([`Objects`]).
//!
//! The engine updates it from watch events; controllers read it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::json;
use operator_apiserver::client::{Event, EventType, Gvr};
use serde_json::Value;

use crate::kind::{Kind, POD};
use crate::object::Object;
use crate::owner::controller_of;

/// The namespace (empty if cluster-scoped) and the name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the key of an object.
    pub(crate) fn of(object: &Value) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

/// The resource, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) gvr: Arc<Gvr>,
    pub(crate) key: Arc<Key>,
}

/// The objects of a resource, and the set of those without a controller.
#[derive(Clone, Debug, Default)]
struct Resource {
    objects: BTreeMap<Arc<Key>, (Arc<Gvr>, Arc<Value>)>,
    uncontrolled: BTreeSet<Arc<Key>>,
}

/// The index of all objects. Every read is a lookup or a range query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// The resources by group, then plural: an object is in one version at a time.
    resources: HashMap<String, HashMap<String, Resource>>,
    uids: HashMap<String, Id>,
    dependents: HashMap<String, BTreeSet<Id>>,
    /// The number of pods, and their memory.
    pods: (usize, usize),
}

impl Objects {
    /// Returns an object of a built-in kind.
    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.find(&kind.gvr, &Key::new(namespace, name))
    }

    /// Returns an object of any resource.
    pub(crate) fn find(&self, gvr: &Gvr, key: &Key) -> Option<&Arc<Value>> {
        self.resource(gvr)?.objects.get(key).map(|(_, object)| object)
    }

    /// Returns the objects of a kind in a namespace (in all namespaces if empty), by namespace and name.
    pub(crate) fn list<'a>(
        &'a self,
        kind: &Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        let objects = self.resource(&kind.gvr);
        objects
            .into_iter()
            .flat_map(move |resource| resource.objects.range(Key::new(namespace, "")..))
            .take_while(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
            .map(|(_, (_, object))| object)
    }

    /// Returns the object with a uid.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<(&Id, &Arc<Value>)> {
        let id = self.uids.get(uid)?;
        Some((id, self.find(&id.gvr, &id.key)?))
    }

    /// Returns the objects with a uid among their owner references.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Id, &Arc<Value>)> {
        let ids = self.dependents.get(uid).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.find(&id.gvr, &id.key)?)))
    }

    /// Returns the objects of a kind with a uid among their owner references.
    pub(crate) fn owned<'a>(&'a self, kind: &'a Kind, uid: &str) -> impl Iterator<Item = &'a Arc<Value>> {
        self.dependents(uid)
            .filter(|(id, _)| kind.is(&id.gvr))
            .map(|(_, object)| object)
    }

    /// Returns the objects of a kind in a namespace that have no controller.
    pub(crate) fn uncontrolled<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        let resource = self.resource(&kind.gvr).into_iter();
        let keys = resource.flat_map(move |resource| resource.uncontrolled.range(Key::new(namespace, "")..));
        let keys = keys.take_while(move |key| key.namespace == namespace);
        keys.filter_map(|key| self.find(&kind.gvr, key))
    }

    /// Returns every object of every resource in a namespace, in order of group, plural and name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<(Id, &Arc<Value>)> {
        let mut found: Vec<_> = self
            .resources
            .values()
            .flat_map(HashMap::values)
            .flat_map(|resource| {
                resource
                    .objects
                    .range(Key::new(namespace, "")..)
                    .take_while(|(key, _)| key.namespace == namespace)
            })
            .map(|(key, (gvr, object))| {
                let id = Id {
                    gvr: gvr.clone(),
                    key: key.clone(),
                };
                (id, object)
            })
            .collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// Returns the objects with an owner reference to a missing object.
    pub(crate) fn with_missing_owners(&self) -> impl Iterator<Item = &Arc<Value>> {
        let missing = self
            .dependents
            .iter()
            .filter(|(uid, _)| !self.uids.contains_key(*uid));
        missing
            .flat_map(|(_, ids)| ids)
            .filter_map(|id| self.find(&id.gvr, &id.key))
    }

    /// Returns the number of pods, and their memory as counted by [`json::memory`].
    pub(crate) fn pods(&self) -> (usize, usize) {
        self.pods
    }

    /// Returns every object, for a comparison with a new snapshot.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<Gvr>, &Arc<Value>)> {
        let objects = self
            .resources
            .values()
            .flat_map(HashMap::values)
            .flat_map(|resource| resource.objects.values());
        objects.map(|(gvr, object)| (gvr, object))
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event.kind {
            EventType::Added | EventType::Modified => self.insert(&event.gvr, &event.object),
            EventType::Deleted => self.remove(&event.gvr, &Key::of(&event.object)),
        }
    }

    /// Inserts an object, or replaces its previous state.
    pub(crate) fn insert(&mut self, gvr: &Arc<Gvr>, object: &Arc<Value>) {
        let key = Arc::new(Key::of(object));
        self.remove(gvr, &key);
        let id = Id {
            gvr: gvr.clone(),
            key: key.clone(),
        };
        for owner in object.items("/metadata/ownerReferences") {
            let owned = self.dependents.entry(owner.text("/uid").to_owned());
            owned.or_default().insert(id.clone());
        }
        self.uids.insert(object.uid().to_owned(), id);
        let group = self.resources.entry(gvr.group.clone()).or_default();
        let resource = group.entry(gvr.resource.clone()).or_default();
        if POD.is(gvr) {
            self.pods.0 += 1;
            self.pods.1 += json::memory(object);
        }
        if controller_of(object).is_none() {
            resource.uncontrolled.insert(key.clone());
        }
        resource.objects.insert(key, (gvr.clone(), object.clone()));
    }

    fn remove(&mut self, gvr: &Gvr, key: &Key) {
        let group = self.resources.get_mut(&gvr.group);
        let Some(resource) = group.and_then(|group| group.get_mut(&gvr.resource)) else {
            return;
        };
        resource.uncontrolled.remove(key);
        let Some((key, (gvr, object))) = resource.objects.remove_entry(key) else {
            return;
        };
        if POD.is(&gvr) {
            self.pods.0 -= 1;
            self.pods.1 -= json::memory(&object);
        }
        let id = Id { gvr, key };
        self.uids.remove(object.uid());
        for owner in object.items("/metadata/ownerReferences") {
            let uid = owner.text("/uid");
            if let Some(owned) = self.dependents.get_mut(uid) {
                owned.remove(&id);
                if owned.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
    }

    fn resource(&self, gvr: &Gvr) -> Option<&Resource> {
        self.resources.get(&gvr.group)?.get(&gvr.resource)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::CONFIG_MAP;

    fn put(objects: &mut Objects, kind: &Kind, object: Value) {
        objects.insert(&Arc::new(kind.gvr.clone()), &Arc::new(object));
    }

    fn child(uid: &str, owner: &str) -> Value {
        json!({"metadata": {"namespace": "a", "name": "child", "uid": uid, "ownerReferences": [{"uid": owner}]}})
    }

    #[test]
    fn a_list_is_limited_to_its_namespace() {
        let mut objects = Objects::default();
        for (namespace, name) in [("a", "x"), ("a-b", "x"), ("b", "y")] {
            put(
                &mut objects,
                &POD,
                json!({"metadata": {"namespace": namespace, "name": name, "uid": namespace}}),
            );
        }
        assert_eq!(objects.list(&POD, "a").count(), 1);
        assert_eq!(objects.list(&POD, "").count(), 3);
        assert_eq!(objects.list(&CONFIG_MAP, "").count(), 0);
        assert_eq!(objects.in_namespace("b").len(), 1);
    }

    #[test]
    fn an_owner_finds_its_dependents_until_the_reference_changes() {
        let mut objects = Objects::default();
        put(&mut objects, &POD, child("c", "owner"));
        assert_eq!(objects.owned(&POD, "owner").count(), 1);
        assert_eq!(objects.with_missing_owners().count(), 1);
        put(&mut objects, &POD, child("c", "other"));
        assert_eq!(objects.owned(&POD, "owner").count(), 0);
        assert_eq!(objects.dependents("other").count(), 1);
        objects.remove(&POD.gvr, &Key::new("a", "child"));
        assert_eq!(objects.dependents("other").count(), 0);
        assert!(objects.by_uid("c").is_none());
    }
}
