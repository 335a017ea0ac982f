//! Predicates: which events reach the handler. They see updates with the old and the new state.
//! They never change anything.
//!
//! Every closure `Fn(&Event<K>) -> bool` is a predicate. The ones here judge updates only and let the rest pass,
//! as controller-runtime's do.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use operator_runtime::predicate::{self, Predicate};
//!
//! # fn check(_: impl Predicate<Deployment>) {}
//! check(predicate::generation_changed().or(predicate::labels_changed()));
//! ```

use kube::Resource;

use crate::event::Event;

/// Decides whether an event matters.
pub trait Predicate<K>: Send + Sync + 'static {
    /// Whether the event goes on to the handler.
    fn test(&self, event: &Event<K>) -> bool;

    /// Both must agree.
    fn and(self, other: impl Predicate<K>) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| self.test(event) && other.test(event)
    }

    /// One is enough.
    fn or(self, other: impl Predicate<K>) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| self.test(event) || other.test(event)
    }

    /// The opposite.
    fn not(self) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| !self.test(event)
    }
}

impl<K, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn test(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

/// Judges updates by the old and the new state; all other events pass.
pub fn on_update<K: 'static>(changed: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> impl Predicate<K> {
    move |event: &Event<K>| match event {
        Event::Update { old, new } => changed(old, new),
        _ => true,
    }
}

/// Passes updates that change `metadata.generation`: of the spec, or the beginning of a deletion.
///
/// Changes of the status, labels, annotations and finalizers are dropped; and so is every update of a kind that has
/// no generation, such as ConfigMap: combine it with [`no_generation`] for those.
pub fn generation_changed<K: Resource + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.meta().generation != new.meta().generation)
}

/// Passes updates of objects that have no `metadata.generation`.
pub fn no_generation<K: Resource + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| {
        [old, new]
            .iter()
            .all(|object| object.meta().generation.unwrap_or_default() == 0)
    })
}

/// Passes updates that change the labels.
pub fn labels_changed<K: Resource + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.meta().labels != new.meta().labels)
}

/// Passes updates that change the annotations.
pub fn annotations_changed<K: Resource + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.meta().annotations != new.meta().annotations)
}

/// Passes updates that are no mere repetition.
pub fn resource_version_changed<K: Resource + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.meta().resource_version != new.meta().resource_version)
}

/// Drops every event of objects whose annotation `key` is `true` (or `1`, `t`, `T`, `TRUE`, `True`).
pub fn not_paused<K: Resource + 'static>(key: &str) -> impl Predicate<K> {
    let key = key.to_owned();
    move |event: &Event<K>| {
        let annotations = event.object().meta().annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(&key));
        !value.is_some_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(generation: i64, label: &str) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.generation = Some(generation);
        object.metadata.labels = Some([("tier".to_owned(), label.to_owned())].into());
        object.metadata.annotations = Some([("example.com/paused".to_owned(), "true".to_owned())].into());
        Arc::new(object)
    }

    fn update(old: Arc<ConfigMap>, new: Arc<ConfigMap>) -> Event<ConfigMap> {
        Event::Update { old, new }
    }

    #[test]
    fn only_changed_generations_pass() {
        let predicate = generation_changed();
        assert!(predicate.test(&update(object(1, "a"), object(2, "a"))));
        assert!(!predicate.test(&update(object(1, "a"), object(1, "b"))));
    }

    #[test]
    fn events_other_than_updates_pass() {
        let (object, stale) = (object(1, "a"), true);
        assert!(generation_changed().test(&Event::Delete { object, stale }));
    }

    #[test]
    fn combinations_follow_logic() {
        let event = update(object(1, "a"), object(1, "b"));
        assert!(generation_changed().or(labels_changed()).test(&event));
        assert!(!generation_changed().and(labels_changed()).test(&event));
        assert!(generation_changed().not().test(&event));
    }

    #[test]
    fn paused_objects_are_dropped() {
        assert!(!not_paused("example.com/paused").test(&update(object(1, "a"), object(2, "a"))));
        assert!(not_paused("example.com/other").test(&update(object(1, "a"), object(2, "a"))));
    }
}
