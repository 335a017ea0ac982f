//! What a controller watches of a kind: as which type, which events, and who of several owners is meant.

use std::fmt;

use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;

use crate::cache::Cache;
use crate::event::Event;
use crate::manager::Cluster;
use crate::object::{Kind, Object, View};
use crate::predicate::Predicate;

/// A watch of one kind, for [`Controller::for_with`](super::Controller::for_with),
/// [`owns_with`](super::Controller::owns_with) and [`watches_with`](super::Controller::watches_with).
///
/// `for_::<K>()` is short for `for_with(Watch::<K>::new())`. Several watches of one kind, by one controller or by many,
/// are one request to the API server.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::PartialObjectMeta;
/// use operator_runtime::controller::Watch;
/// use operator_runtime::{Kind, predicate, prelude::*};
///
/// # struct Mine;
/// # impl Reconciler for Mine {
/// #     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> { Ok(Action::done()) }
/// # }
/// # fn example(manager: &Manager) -> Result<()> {
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// Controller::managed_by(manager)
///     .for_::<Deployment>()
///     // Metadata alone, which costs the server and the operator less.
///     .owns::<PartialObjectMeta<ConfigMap>>()
///     // A kind without a Rust type, and every owner of the kind of `for_` instead of the controlling one.
///     .owns_with(Watch::dynamic(&gateways).filter(predicate::generation_changed()).every_owner())
///     .complete(Mine)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "hand it to a Controller"]
pub struct Watch<K> {
    pub(super) kind: Kind,
    pub(super) predicates: Vec<Box<dyn Predicate<K>>>,
    pub(super) every_owner: bool,
    /// The cache of another cluster.
    pub(super) cache: Option<Cache>,
}

// === impl Watch ===

impl<K: Object> Watch<K> {
    /// The kind of `K`, with its objects as `K`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::core::PartialObjectMeta;
    /// use operator_runtime::controller::Watch;
    ///
    /// let whole = Watch::<ConfigMap>::new();
    /// let metadata = Watch::<PartialObjectMeta<ConfigMap>>::new();
    /// # let _ = (whole, metadata);
    /// ```
    pub fn new() -> Self {
        Self::of_kind(&Kind::of::<K>())
    }
}

impl<K: Object> Default for Watch<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch<DynamicObject> {
    /// A kind that has no Rust type, with its whole objects.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::controller::Watch;
    ///
    /// let gateways = Watch::dynamic(&Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways"));
    /// assert!(format!("{gateways:?}").contains("Gateway"));
    /// ```
    pub fn dynamic(kind: &Kind) -> Self {
        Self::of_kind(kind)
    }
}

impl Watch<PartialObjectMeta> {
    /// A kind that may have no Rust type, with the metadata of its objects. Of a kind that has one it is
    /// `Watch::<PartialObjectMeta<K>>::new()`.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::controller::Watch;
    ///
    /// let secrets = Watch::metadata(&Kind::in_namespaces("v1", "Secret", "secrets"));
    /// # let _ = secrets;
    /// ```
    pub fn metadata(kind: &Kind) -> Self {
        Self::of_kind(kind)
    }
}

impl<K: View> Watch<K> {
    /// A kind with its objects as `K`: for a type of one's own that does not know its kind.
    ///
    /// ```
    /// use kube::core::Object;
    /// use operator_runtime::Kind;
    /// use operator_runtime::controller::Watch;
    ///
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// let watch = Watch::<Object<serde_json::Value, serde_json::Value>>::of_kind(&gateways);
    /// # let _ = watch;
    /// ```
    pub fn of_kind(kind: &Kind) -> Self {
        Self {
            kind: kind.clone(),
            predicates: Vec::new(),
            every_owner: false,
            cache: None,
        }
    }

    /// Hears only of events that this predicate lets pass, and all others that were given.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use operator_runtime::controller::Watch;
    /// use operator_runtime::predicate;
    ///
    /// // An event has to pass both.
    /// let watch = Watch::<Deployment>::new()
    ///     .filter(predicate::generation_changed())
    ///     .filter(predicate::filter(|web: &Deployment| web.metadata.labels.is_some()));
    /// # let _ = watch;
    /// ```
    pub fn filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// With `owns_with`: reconciles every owner of the kind of `for_`, instead of the one that controls the object.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use operator_runtime::controller::Watch;
    ///
    /// // A Secret that several objects share: each of them owns it, none controls it.
    /// let shared = Watch::<Secret>::new().every_owner();
    /// # let _ = shared;
    /// ```
    pub fn every_owner(mut self) -> Self {
        self.every_owner = true;
        self
    }

    /// Watches the kind in another cluster than that of the manager:
    /// [`Manager::add_cluster`](crate::Manager::add_cluster).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use operator_runtime::cache::CacheOptions;
    /// use operator_runtime::controller::Watch;
    /// use operator_runtime::{handler, prelude::*};
    ///
    /// fn controller(manager: &Manager, hub: kube::Client, mine: impl Reconciler) -> Result<()> {
    ///     let hub = manager.add_cluster("hub", hub, CacheOptions::default())?;
    ///     Controller::managed_by(manager)
    ///         .for_::<ConfigMap>()
    ///         .watches_with(Watch::<ConfigMap>::new().in_cluster(&hub), handler::for_object())
    ///         .complete(mine)?;
    ///     Ok(())
    /// }
    /// ```
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        self.cache = Some(cluster.cache().clone());
        self
    }

    pub(super) fn passes(&self, event: &Event<K>) -> bool {
        self.predicates.iter().all(|predicate| predicate.test(event))
    }
}

impl<K> fmt::Debug for Watch<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut watch = formatter.debug_struct("Watch");
        watch.field("kind", &self.kind).finish_non_exhaustive()
    }
}
