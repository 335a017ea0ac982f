//! [`Watch`] selects the events of a kind, and the objects that a controller reconciles for them.

use std::fmt;
use std::sync::Arc;

use super::source::{Filters, Source};
use super::{ControllerError, Use, UseRole};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::handler::{self, EventHandler};
use crate::object::{Kind, Object, ObjectKey, View};
use crate::predicate::Predicate;

/// A watch of one kind.
///
/// For [`Controller::from_watch`](super::Controller::from_watch) it selects the events of the primary kind. For
/// [`Controller::watches`](super::Controller::watches) it also maps an event to the objects to reconcile:
/// [`Watch::owned`], [`Watch::every_owner`], [`Watch::map`] or [`Watch::handler`].
///
/// Several watches of one kind, by one controller or by many, share one request to the API server.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kube::ResourceExt;
/// use kube::api::DynamicObject;
/// use kube::core::PartialObjectMeta;
/// use operator_runtime::{Kind, prelude::*};
///
/// // Pods that refer to their object with a label.
/// let pods = Watch::<Pod>::new().label("app.kubernetes.io/managed-by", "memcached-operator").map(|pod: &Pod| {
///     let instance = pod.labels().get("app.kubernetes.io/instance")?;
///     Some(ObjectKey::namespaced(&pod.namespace()?, instance))
/// });
/// // The metadata is enough to find the owners.
/// let configs = Watch::<PartialObjectMeta<ConfigMap>>::new().every_owner();
/// // A kind without a Rust type.
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// let gateways = Watch::<DynamicObject>::of_kind(&gateways).owned();
/// # let _ = (pods, configs, gateways);
/// ```
#[must_use = "pass it to a Controller"]
pub struct Watch<K, M = Unmapped> {
    pub(super) kind: Kind,
    predicates: Vec<Box<dyn Predicate<K>>>,
    cluster: Option<Client>,
    mapping: M,
}

/// The type parameter of a [`Watch`] without a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Unmapped;

/// The type parameter of a [`Watch`] with a mapping.
pub struct Mapped<K>(Mapping<K>);

enum Mapping<K> {
    Owners {
        only_controller: bool,
    },
    Handler(Box<dyn EventHandler<K>>),
    /// Creates a handler that reads with a client.
    Find(Box<dyn FnOnce(Client) -> Box<dyn EventHandler<K>> + Send>),
}

// === impl Watch ===

impl<K: Object> Watch<K> {
    /// Watches the kind of `K`.
    pub fn new() -> Self {
        Self::of_kind(&Kind::of::<K>())
    }
}

impl<K: Object> Default for Watch<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: View> Watch<K> {
    /// Watches a kind and reads its objects as `K`, a type that does not define its kind: `DynamicObject`, or
    /// `PartialObjectMeta` for metadata only. For the metadata of a kind with a type,
    /// `Watch::<PartialObjectMeta<K>>::new()` is shorter.
    pub fn of_kind(kind: &Kind) -> Self {
        Self {
            kind: kind.clone(),
            predicates: Vec::new(),
            cluster: None,
            mapping: Unmapped,
        }
    }

    /// Reconciles the object of the primary kind that controls the changed object, by the owner reference with
    /// `controller: true`. After an update, the previous controller is reconciled too.
    ///
    /// [`Controller::owns`](super::Controller::owns) is short for `watches(Watch::<K>::new().owned())`.
    pub fn owned(self) -> Watch<K, Mapped<K>> {
        self.mapped(Mapping::Owners {
            only_controller: true,
        })
    }

    /// Reconciles all objects of the primary kind that own the changed object, controlling or not.
    pub fn every_owner(self) -> Watch<K, Mapped<K>> {
        self.mapped(Mapping::Owners {
            only_controller: false,
        })
    }

    /// Reconciles the keys that a function returns for the changed object. After an update, the keys for the previous
    /// state are reconciled too.
    pub fn map<I: IntoIterator<Item = ObjectKey>>(
        self,
        keys: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Watch<K, Mapped<K>> {
        self.handler(handler::map(keys))
    }

    /// Reconciles the keys that an asynchronous function finds with the client, such as those of all objects that refer
    /// to the changed object. After an update, the function is also called for the previous state. Failed calls are
    /// retried for half a minute.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use operator_runtime::{Client, prelude::*};
    ///
    /// /// All Deployments in the namespace of a ConfigMap.
    /// async fn deployments(client: Client, changed: Arc<ConfigMap>) -> Result<Vec<ObjectKey>> {
    ///     let namespace = changed.metadata.namespace.as_deref().unwrap_or_default();
    ///     let deployments = client.list::<Deployment>().namespace(namespace).await?;
    ///     Ok(deployments.iter().map(|deployment| ObjectKey::of(&**deployment)).collect())
    /// }
    ///
    /// let watch = Watch::<ConfigMap>::new().find(deployments);
    /// # let _ = watch;
    /// ```
    pub fn find<F, R>(self, find: F) -> Watch<K, Mapped<K>>
    where
        F: Fn(Client, Arc<K>) -> R + Send + Sync + 'static,
        R: Future<Output = crate::Result<Vec<ObjectKey>>> + Send + 'static,
    {
        self.mapped(Mapping::Find(Box::new(move |client| {
            Box::new(handler::map_async(move |object| find(client.clone(), object)))
        })))
    }

    /// Reconciles the keys that a [`handler`] adds to the queue for an event.
    pub fn handler(self, handler: impl EventHandler<K>) -> Watch<K, Mapped<K>> {
        self.mapped(Mapping::Handler(Box::new(handler)))
    }

    fn mapped(self, mapping: Mapping<K>) -> Watch<K, Mapped<K>> {
        let Self {
            kind,
            predicates,
            cluster,
            mapping: Unmapped,
        } = self;
        Watch {
            kind,
            predicates,
            cluster,
            mapping: Mapped(mapping),
        }
    }

    /// Returns the client of the watch's cluster, if it is not the manager's own.
    pub(super) fn client(&self) -> Option<Client> {
        self.cluster.clone()
    }

    pub(super) fn into_primary(self) -> Watch<K, Mapped<K>> {
        self.handler(handler::for_object())
    }
}

impl<K: View, M> Watch<K, M> {
    /// Ignores events that `predicate` rejects. Several predicates must all accept an event.
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Ignores objects that do not have this label, both before and after an update.
    ///
    /// The cache still contains these objects; [`CacheOptions`](crate::cache::CacheOptions) selects the objects that
    /// are watched.
    pub fn label(self, key: &str, value: &str) -> Self {
        let (key, value) = (key.to_owned(), value.to_owned());
        let has_label = move |object: &K| {
            let labels = object.meta().labels.as_ref();
            labels.is_some_and(|labels| labels.get(&key) == Some(&value))
        };
        self.filter(move |event: &Event<K>| match event {
            Event::Update { old, new } => has_label(old) || has_label(new),
            other => has_label(other.object()),
        })
    }

    /// Watches the kind in another cluster, which [`Manager::add_cluster`](crate::Manager::add_cluster) returned.
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        self.cluster = Some(cluster.client().clone());
        self
    }
}

impl<K: View> Watch<K, Mapped<K>> {
    /// Returns the use of the kind in the manager's own cluster.
    pub(super) fn role(&self) -> Option<Use> {
        let role = match self.mapping.0 {
            Mapping::Owners { .. } => UseRole::Owns,
            Mapping::Handler(_) | Mapping::Find(_) => UseRole::Watches,
        };
        let kind = self.kind.clone();
        self.cluster.is_none().then_some(Use { role, kind })
    }

    pub(super) fn source(
        self,
        client: &Client,
        primary: Option<&Kind>,
        filters: Filters,
    ) -> Result<Source, ControllerError> {
        let handler = match self.mapping.0 {
            Mapping::Handler(handler) => handler,
            Mapping::Find(make) => make(client.clone()),
            Mapping::Owners { only_controller } => {
                let owner = primary.ok_or_else(|| ControllerError::NoOwnerKind(self.kind.to_string()))?;
                Box::new(handler::for_owners::<K>(owner.clone(), only_controller))
            }
        };
        let cache = self.cluster.as_ref().unwrap_or(client).cache();
        Ok(Source::kind(cache, &self.kind, self.predicates, handler, filters))
    }
}

impl<K, M> fmt::Debug for Watch<K, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut watch = formatter.debug_struct("Watch");
        watch.field("kind", &self.kind).finish_non_exhaustive()
    }
}
