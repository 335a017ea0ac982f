//! [`EventHandler`] maps events to reconcile requests. Most watches need none: [`Watch`](crate::controller::Watch)
//! finds owners and maps objects with a function. Use a custom handler for delays or priorities, with
//! [`Watch::handler`](crate::controller::Watch::handler), and for
//! [`Controller::events_from`](crate::Controller::events_from).

use std::future::Future;
use std::sync::Arc;

use futures::future::try_join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::error::Result;
use crate::event::Event;
use crate::object::{Kind, Meta, ObjectKey};
use crate::owner::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};
use crate::queue::{Add, Requests};

/// Maps an event to the keys to reconcile. Duplicates are allowed.
///
/// Every closure `Fn(&Event<K>) -> Vec<ObjectKey>` is a handler.
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Secret;
/// use operator_runtime::event::Event;
/// use operator_runtime::handler::EventHandler;
/// use operator_runtime::ObjectKey;
///
/// // One object depends on all Secrets.
/// let handler = |_: &Event<Secret>| vec![ObjectKey::cluster("vault")];
/// let event = Event::Delete { object: Arc::new(Secret::default()), stale: false };
/// assert_eq!(handler.requests(&event), [ObjectKey::cluster("vault")]);
/// ```
pub trait EventHandler<K: ?Sized>: Send + Sync + 'static {
    /// Returns the keys to reconcile because of `event`. Default: none.
    fn requests(&self, event: &Event<K>) -> Vec<ObjectKey> {
        let _ = event;
        Vec::new()
    }

    /// Adds keys to the queue because of `event`. Default: adds the keys of [`EventHandler::requests`]. [`queued`]
    /// returns a handler that calls a function instead.
    fn enqueue(&self, event: &Event<K>, queue: &Requests) {
        self.requests(event)
            .into_iter()
            .for_each(|key| queue.add(key, Add::default()));
    }
}

impl<K: ?Sized, F: Fn(&Event<K>) -> Vec<ObjectKey> + Send + Sync + 'static> EventHandler<K> for F {
    fn requests(&self, event: &Event<K>) -> Vec<ObjectKey> {
        self(event)
    }
}

/// Returns a handler that reconciles the object itself, as for the primary kind of a controller.
pub fn for_object<K: Meta + 'static>() -> impl EventHandler<K> {
    |event: &Event<K>| vec![ObjectKey::of(event.object().as_ref())]
}

/// Returns a handler that reconciles the owners of this kind, or only the controlling one. After an update it also
/// reconciles the previous owners.
///
/// Owners are matched by group and kind. The version is ignored, so that an upgrade of the kind loses nothing, and so
/// is the UID. The namespace of the request is that of the object if the kind is namespace-scoped.
pub(crate) fn for_owners<K: Meta + 'static>(owner: Kind, only_controller: bool) -> impl EventHandler<K> {
    move |event: &Event<K>| from_objects(event, |object| owner_keys(&owner, object, only_controller))
}

/// Returns a handler that reconciles the owner in the annotations of the object, which
/// [`set_owner_annotations`](crate::owner::set_owner_annotations) writes. Use it for objects that cannot have an owner
/// reference because they are in another namespace. After an update it also reconciles the previous owner.
pub fn for_annotated<K: Meta + 'static>(owner: impl Into<Kind>) -> impl EventHandler<K> {
    let owner = owner.into();
    move |event: &Event<K>| {
        from_objects(event, |object| {
            annotated_key(&owner, object).into_iter().collect()
        })
    }
}

/// Returns a handler that reconciles the keys that `keys` returns for the object. After an update it also reconciles
/// those of the old state.
pub(crate) fn map<K: 'static, I: IntoIterator<Item = ObjectKey>>(
    keys: impl Fn(&K) -> I + Send + Sync + 'static,
) -> impl EventHandler<K> {
    move |event: &Event<K>| from_objects(event, |object| keys(object).into_iter().collect())
}

/// Returns a handler that reconciles the keys that an asynchronous function returns for the object. Calls are
/// sequential, and failed calls are retried for half a minute. The workers start after the calls for all objects of the
/// first list.
pub(crate) fn map_async<K, F, R>(keys: F) -> impl EventHandler<K>
where
    K: Send + Sync + 'static,
    F: Fn(Arc<K>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<ObjectKey>>> + Send + 'static,
{
    let keys = Arc::new(keys);
    queued(move |event: &Event<K>, queue: &Requests| {
        let (event, keys) = (event.clone(), keys.clone());
        queue.add_later(move || {
            let found = event.objects().map(|object| keys(object.clone()));
            let found = try_join_all(found.collect::<Vec<_>>());
            async move { Ok(found.await?.concat()) }
        });
    })
}

/// Returns a handler that calls `enqueue`, for requests with a delay or a priority.
///
/// ```no_run
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Node;
/// use operator_runtime::queue::{Add, Requests};
/// use operator_runtime::event::Event;
/// use operator_runtime::{handler, prelude::*};
///
/// # fn example(manager: &Manager, reconciler: impl KeyReconciler) -> Result<()> {
/// // Wait until the state of the node is stable.
/// let delayed = handler::queued(|event: &Event<Node>, queue: &Requests| {
///     let name = event.object().metadata.name.as_deref().unwrap_or_default();
///     let later = Add { after: Duration::from_secs(30), ..Add::default() };
///     queue.add(Request::cluster(name), later);
/// });
/// let nodes = Watch::<Node>::new().handler(delayed);
/// manager.add_controller(Controller::without_primary("nodes", reconciler).watches(nodes))?;
/// # Ok(())
/// # }
/// ```
pub fn queued<K: ?Sized + 'static>(
    enqueue: impl Fn(&Event<K>, &Requests) + Send + Sync + 'static,
) -> impl EventHandler<K> {
    Queued(enqueue)
}

struct Queued<F>(F);

impl<K: ?Sized, F: Fn(&Event<K>, &Requests) + Send + Sync + 'static> EventHandler<K> for Queued<F> {
    fn enqueue(&self, event: &Event<K>, queue: &Requests) {
        (self.0)(event, queue);
    }
}

fn from_objects<K>(event: &Event<K>, keys: impl Fn(&K) -> Vec<ObjectKey>) -> Vec<ObjectKey> {
    let of_object = |object: &Arc<K>| keys(object);
    let mut requests: Vec<_> = event.objects().flat_map(of_object).collect();
    requests.sort();
    requests.dedup();
    requests
}

fn owner_keys(owner: &Kind, object: &impl Meta, only_controller: bool) -> Vec<ObjectKey> {
    let meta = object.metadata();
    let references = meta.owner_references.iter().flatten();
    references
        .filter(|reference| is_of(owner, reference))
        .filter(|reference| !only_controller || reference.controller == Some(true))
        .map(|reference| {
            ObjectKey::new(
                meta.namespace.as_deref().filter(|_| owner.namespaced),
                &reference.name,
            )
        })
        .collect()
}

fn annotated_key(owner: &Kind, object: &impl Meta) -> Option<ObjectKey> {
    let annotations = object.metadata().annotations.as_ref()?;
    let kind = annotations.get(PRIMARY_RESOURCE_TYPE)?;
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let is_owner = owner.kind == kind && owner.group == group;
    let key = annotations.get(PRIMARY_RESOURCE).filter(|_| is_owner)?;
    let (namespace, name) = match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key.as_str()),
    };
    (!name.is_empty()).then(|| ObjectKey::new(namespace, name))
}

fn is_of(owner: &Kind, reference: &OwnerReference) -> bool {
    let group = reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    owner.kind == reference.kind && owner.group == group
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: "1".to_owned(),
            controller: Some(controller),
            ..OwnerReference::default()
        }
    }

    fn pod(owners: Vec<OwnerReference>) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.owner_references = Some(owners);
        Arc::new(pod)
    }

    fn created(owners: Vec<OwnerReference>) -> Event<Pod> {
        Event::Create {
            object: pod(owners),
            initial: false,
        }
    }

    #[test]
    fn owner_of_another_version_is_found() {
        let event = created(vec![reference("apps/v1beta2", "ReplicaSet", "web", true)]);
        let keys = for_owners(Kind::of::<ReplicaSet>(), true).requests(&event);
        assert_eq!(keys, [ObjectKey::namespaced("default", "web")]);
    }

    #[test]
    fn owner_of_another_kind_or_group_is_not() {
        let event = created(vec![reference("example.com/v1", "ReplicaSet", "web", true)]);
        assert!(
            for_owners(Kind::of::<ReplicaSet>(), true)
                .requests(&event)
                .is_empty()
        );
        let event = created(vec![reference("apps/v1", "ReplicaSet", "web", true)]);
        assert!(
            for_owners(Kind::of::<Deployment>(), true)
                .requests(&event)
                .is_empty()
        );
    }

    #[test]
    fn owner_that_does_not_control_needs_any_owner() {
        let event = created(vec![reference("apps/v1", "ReplicaSet", "web", false)]);
        assert!(
            for_owners(Kind::of::<ReplicaSet>(), true)
                .requests(&event)
                .is_empty()
        );
        assert_eq!(
            for_owners(Kind::of::<ReplicaSet>(), false).requests(&event).len(),
            1
        );
    }

    #[test]
    fn cluster_scoped_owner_has_no_namespace() {
        let event = created(vec![reference("v1", "Node", "node-1", true)]);
        assert_eq!(
            for_owners(Kind::of::<Node>(), true).requests(&event),
            [ObjectKey::cluster("node-1")]
        );
    }

    #[test]
    fn change_of_the_owner_reconciles_both_owners() {
        let old = pod(vec![reference("apps/v1", "ReplicaSet", "old", true)]);
        let new = pod(vec![reference("apps/v1", "ReplicaSet", "new", true)]);
        let keys = for_owners(Kind::of::<ReplicaSet>(), true).requests(&Event::Update { old, new });
        assert_eq!(
            keys,
            [
                ObjectKey::namespaced("default", "new"),
                ObjectKey::namespaced("default", "old")
            ]
        );
    }

    #[test]
    fn annotations_name_an_owner_in_another_namespace() {
        let mut owner = Deployment::default();
        owner.metadata.name = Some("web".to_owned());
        owner.metadata.namespace = Some("other".to_owned());
        let mut pod = pod(Vec::new());
        crate::owner::set_owner_annotations(&owner, Arc::make_mut(&mut pod));
        let event = Event::Create {
            object: pod,
            initial: false,
        };
        let keys = for_annotated(Kind::of::<Deployment>()).requests(&event);
        assert_eq!(keys, [ObjectKey::namespaced("other", "web")]);
        assert!(
            for_annotated(Kind::of::<ReplicaSet>())
                .requests(&event)
                .is_empty()
        );
    }
}
