//! [`Predicate`] filters the events of a watch.
//!
//! Every closure `Fn(&Event<K>) -> bool` is a predicate. Those of this module whose names end in `changed` filter only
//! updates and accept all other events, as in controller-runtime. Those that use only metadata apply to every kind, as
//! [`Controller::filter_events`](crate::Controller::filter_events) requires.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use operator_runtime::predicate::{self, Predicate};
//!
//! # fn check(_: impl Predicate<Deployment>) {}
//! check(predicate::generation_changed().or(predicate::labels_changed()));
//! ```

use kube::api::DynamicObject;
use kube::core::{ObjectMeta, Selector, SelectorExt as _};
use serde_json::Value;

use crate::event::Event;
use crate::object::Meta;

/// Filters events. Every closure `Fn(&Event<K>) -> bool` is a predicate.
pub trait Predicate<K: ?Sized>: Send + Sync + 'static {
    /// Returns true if the handler receives the event.
    fn test(&self, event: &Event<K>) -> bool;

    /// Returns a predicate that accepts the events that both accept. The second is not called if the first rejects an
    /// event.
    fn and(self, other: impl Predicate<K>) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| self.test(event) && other.test(event)
    }

    /// Returns a predicate that accepts the events that at least one accepts.
    fn or(self, other: impl Predicate<K>) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| self.test(event) || other.test(event)
    }

    /// Returns a predicate that accepts the events that this one rejects.
    ///
    /// Predicates whose names end in `changed` accept all events that are not updates, so their negation rejects those.
    fn not(self) -> impl Predicate<K>
    where
        Self: Sized,
    {
        move |event: &Event<K>| !self.test(event)
    }
}

impl<K: ?Sized, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn test(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

/// Returns a predicate that compares the old and the new state of updates. It accepts all other events.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::event::Event;
/// use operator_runtime::predicate::{self, Predicate};
///
/// let rollout = predicate::on_update(|old: &Deployment, new: &Deployment| old.status != new.status);
/// let (old, new) = (Deployment::default(), Deployment::default());
/// assert!(!rollout.test(&Event::Update { old: old.into(), new: new.into() }));
/// assert!(rollout.test(&Event::Create { object: Deployment::default().into(), initial: true }));
/// ```
pub fn on_update<K: ?Sized + 'static>(
    changed: impl Fn(&K, &K) -> bool + Send + Sync + 'static,
) -> impl Predicate<K> {
    move |event: &Event<K>| match event {
        Event::Update { old, new } => changed(old, new),
        _ => true,
    }
}

/// Accepts updates that change `metadata.generation`: changes of the spec, and the start of a deletion.
///
/// It rejects changes of the status, labels, annotations and finalizers, and all updates of kinds without a generation,
/// such as ConfigMap: combine it with [`no_generation`] for those.
pub fn generation_changed<K: Meta + ?Sized + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.metadata().generation != new.metadata().generation)
}

/// Accepts updates of objects that have no `metadata.generation`.
pub fn no_generation<K: Meta + ?Sized + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| {
        [old, new]
            .iter()
            .all(|object| object.metadata().generation.unwrap_or_default() == 0)
    })
}

/// Accepts updates that change the labels.
pub fn labels_changed<K: Meta + ?Sized + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.metadata().labels != new.metadata().labels)
}

/// Accepts updates that change the annotations.
pub fn annotations_changed<K: Meta + ?Sized + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.metadata().annotations != new.metadata().annotations)
}

/// Accepts updates that change `metadata.resourceVersion`, and rejects resyncs.
pub fn resource_version_changed<K: Meta + ?Sized + 'static>() -> impl Predicate<K> {
    on_update(|old: &K, new: &K| old.metadata().resource_version != new.metadata().resource_version)
}

/// Rejects all events of objects whose annotation `key` is `true` (or `1`, `t`, `T`, `TRUE`, `True`).
pub fn not_paused<K: Meta + ?Sized + 'static>(key: &str) -> impl Predicate<K> {
    let key = key.to_owned();
    move |event: &Event<K>| {
        let annotations = event.object().metadata().annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(&key));
        !value.is_some_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }
}

/// Accepts the events of objects for which `wanted` returns true. For updates it gets the new state.
///
/// No event reports that an object has left the selection. With [`KindOptions`](crate::cache::KindOptions) instead,
/// this appears as a deletion.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_runtime::event::Event;
/// use operator_runtime::predicate::{self, Predicate};
///
/// let failed = predicate::filter(|pod: &Pod| {
///     pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
/// });
/// assert!(!failed.test(&Event::Create { object: Pod::default().into(), initial: false }));
/// ```
pub fn filter<K: ?Sized + 'static>(wanted: impl Fn(&K) -> bool + Send + Sync + 'static) -> impl Predicate<K> {
    move |event: &Event<K>| wanted(event.object())
}

/// Accepts the events of objects whose labels match. For updates it tests the new state, like [`filter`].
pub fn labels_match<K: Meta + ?Sized + 'static>(selector: Selector) -> impl Predicate<K> {
    filter(move |object: &K| match &object.metadata().labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Default::default()),
    })
}

/// Filters the events of objects that the operator created for others. It accepts deletions, and updates that change
/// more than the status and the resource version. It rejects creations and generic events.
///
/// It needs the complete object of any kind, so it is a predicate of `DynamicObject`.
///
/// ```
/// use kube::api::{ApiResource, DynamicObject};
/// use operator_runtime::Kind;
/// use operator_runtime::event::Event;
/// use operator_runtime::predicate::{self, Predicate};
///
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// let mut old = DynamicObject::new("public", &ApiResource::from(&gateways));
/// old.data = serde_json::json!({"spec": {"gatewayClassName": "example"}});
/// let mut new = old.clone();
/// new.data["status"] = serde_json::json!({"addresses": ["10.0.0.1"]});
/// let event = Event::Update { old: old.into(), new: new.into() };
/// assert!(!predicate::dependent().test(&event));
/// ```
pub fn dependent() -> impl Predicate<DynamicObject> {
    |event: &Event<DynamicObject>| match event {
        Event::Create { .. } | Event::Generic { .. } => false,
        Event::Delete { .. } => true,
        Event::Update { old, new } => essence(old) != essence(new),
    }
}

fn essence(object: &DynamicObject) -> (ObjectMeta, Value) {
    let metadata = ObjectMeta {
        resource_version: None,
        managed_fields: None,
        ..object.metadata.clone()
    };
    let mut data = object.data.clone();
    if let Some(data) = data.as_object_mut() {
        data.remove("status");
    }
    (metadata, data)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

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
    fn updates_without_a_generation_pass_no_generation() {
        let predicate = generation_changed().or(no_generation());
        assert!(predicate.test(&update(object(0, "a"), object(0, "b"))));
        assert!(!predicate.test(&update(object(1, "a"), object(1, "b"))));
        assert!(!no_generation().test(&update(object(0, "a"), object(1, "a"))));
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

    #[test]
    fn labels_of_the_new_state_count() {
        let wanted: Selector = [("tier".to_owned(), "b".to_owned())].into_iter().collect();
        let predicate = labels_match(wanted);
        assert!(predicate.test(&update(object(1, "a"), object(1, "b"))));
        assert!(!predicate.test(&update(object(1, "b"), object(1, "a"))));
    }

    #[test]
    fn dependent_accepts_changes_beyond_the_status() {
        let made = |version: &str, size: i32, ready: i32| -> Arc<DynamicObject> {
            let metadata = json!({"name": "a", "resourceVersion": version});
            Arc::new(
                serde_json::from_value(
                    json!({"metadata": metadata, "spec": {"size": size}, "status": {"ready": ready}}),
                )
                .unwrap(),
            )
        };
        let update = |old, new| dependent().test(&Event::Update { old, new });
        assert!(!update(made("1", 1, 0), made("2", 1, 1)));
        assert!(update(made("1", 1, 0), made("2", 2, 0)));
        let (object, stale, initial) = (made("1", 1, 0), false, true);
        assert!(!dependent().test(&Event::Create {
            object: object.clone(),
            initial
        }));
        assert!(dependent().test(&Event::Delete { object, stale }));
    }
}
