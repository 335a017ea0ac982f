//! Which objects: of a kind, for the cache to keep, and in what form; of the cache, for a reader to get.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::{Selector, SelectorExt};
use kube::runtime::watcher;

use crate::object::{Kind, Object, View};

/// Which objects of a kind to list from the cache: those of a namespace or of all, with certain labels or any, with a
/// certain value of an index or any.
///
/// ```
/// use operator_runtime::cache::ListOptions;
///
/// let web = ListOptions::in_namespace("default").labels([("app", "web")]);
/// let on_node = ListOptions::all().index("node", "worker-1");
/// # let _ = (web, on_node);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    namespace: Option<String>,
    labels: Selector,
    index: Option<(String, String)>,
}

/// Which objects of which kind the cache keeps; all, of kinds that are not mentioned.
///
/// The API server sends no others, so that they cost no memory: but to the operator they do not exist, neither for
/// reads nor for events. An object that changes so that it is not selected any more is deleted, for the operator.
///
/// ```
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use operator_runtime::cache::{CacheOptions, Selectors};
///
/// let selectors = Selectors::default()
///     .labels::<Pod>("app.kubernetes.io/managed-by=memcached-operator")
///     .namespaces::<Secret>(["cert-manager"]);
/// let options = CacheOptions { selectors, ..CacheOptions::default() };
/// # let _ = options;
/// ```
///
/// Each function has a twin with `_of`, for kinds that have no Rust type.
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    by_kind: HashMap<String, Selected>,
}

/// What is kept of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Selected {
    labels: Option<String>,
    fields: Option<String>,
    pub(super) namespaces: Option<Vec<String>>,
}

/// What is done to objects before the cache keeps them: mostly, removing what the operator never reads.
///
/// `metadata.managedFields` is removed in any case. A transform is of one kind, read as one type; it runs whenever the
/// cache makes an object of that type, also from the answer to a write. What it leaves is kept as the type serializes
/// it.
///
/// A field that the operator applies itself must stay, or the cache cannot tell that an apply would change nothing,
/// and every apply is sent.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use operator_runtime::cache::{CacheOptions, Transforms};
///
/// let transforms = Transforms::default().of::<ConfigMap>(|config| config.binary_data = None);
/// let options = CacheOptions { transforms, ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
pub struct Transforms {
    by_type: HashMap<(String, TypeId), Transform>,
}

type Transform = Arc<dyn Fn(&mut dyn Any) + Send + Sync>;

/// Kinds whose objects are kept as they are read, and not packed: for kinds that are listed as a whole again and again.
/// An object takes some ten times as much memory then, and reading it costs nothing.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_runtime::cache::{CacheOptions, Unpacked};
///
/// let options = CacheOptions { unpacked: Unpacked::default().kind::<Pod>(), ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Unpacked {
    kinds: HashSet<String>,
}

// === impl Unpacked ===

impl Unpacked {
    /// Keeps the objects of `K` as they are read. Another call names another kind.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Node, Pod};
    /// use operator_runtime::cache::Unpacked;
    ///
    /// let unpacked = Unpacked::default().kind::<Pod>().kind::<Node>();
    /// # let _ = unpacked;
    /// ```
    #[must_use]
    pub fn kind<K: Object>(self) -> Self {
        self.kind_of(&Kind::of::<K>())
    }

    /// [`Unpacked::kind`] of a kind that has no Rust type.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::cache::Unpacked;
    ///
    /// let routes = Kind::in_namespaces("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes");
    /// let unpacked = Unpacked::default().kind_of(&routes);
    /// # let _ = unpacked;
    /// ```
    #[must_use]
    pub fn kind_of(mut self, kind: &Kind) -> Self {
        self.kinds.insert(kind.path());
        self
    }

    pub(super) fn contains(&self, kind: &Kind) -> bool {
        self.kinds.contains(&kind.path())
    }
}

// === impl ListOptions ===

impl ListOptions {
    /// All objects of the namespaces that are watched; `None` says the same where options are asked for.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # ctx.create(config_map("web", "3")).await?;
    /// let all = ctx.list::<ConfigMap>(ListOptions::all()).await?;
    /// assert_eq!(all, ctx.list::<ConfigMap>(None).await?);
    /// # Ok(()) }) }
    /// ```
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of a namespace; `Some(namespace)` says the same where options are asked for.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # ctx.create(config_map("web", "3")).await?;
    /// let here = ctx.list::<ConfigMap>(ListOptions::in_namespace("default")).await?;
    /// assert!(here.iter().all(|config| config.metadata.namespace.as_deref() == Some("default")));
    /// assert_eq!(here, ctx.list::<ConfigMap>(Some("default")).await?);
    /// # Ok(()) }) }
    /// ```
    pub fn in_namespace(namespace: &str) -> Self {
        Self::from(Some(namespace))
    }

    /// Of these, the objects with all of these labels.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// let mut web = config_map("web", "3");
    /// web.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    /// ctx.create(web).await?;
    /// ctx.create(config_map("other", "3")).await?;
    ///
    /// let web = ctx.list::<ConfigMap>(ListOptions::all().labels([("app", "web")])).await?;
    /// assert_eq!(web.len(), 1);
    /// # Ok(()) }) }
    /// ```
    #[must_use]
    pub fn labels<'a>(self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.selector(labels.into_iter().map(owned).collect())
    }

    /// Of these, the objects whose labels the selector matches: for more than equality.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// use kube::core::{Expression, Selector};
    ///
    /// # let mut web = config_map("web", "3");
    /// # web.metadata.labels = Some([("tier".to_owned(), "front".to_owned())].into());
    /// # ctx.create(web).await?;
    /// let tiers = ["front".to_owned(), "back".to_owned()].into();
    /// let selector = Selector::from(Expression::In("tier".to_owned(), tiers));
    /// let found = ctx.list::<ConfigMap>(ListOptions::all().selector(selector)).await?;
    /// assert_eq!(found.len(), 1);
    /// # Ok(()) }) }
    /// ```
    #[must_use]
    pub fn selector(mut self, selector: Selector) -> Self {
        self.labels.extend(selector);
        self
    }

    /// Of these, the objects that have `value` in the index `name`, which [`Cache::add_index`](super::Cache::add_index)
    /// made. Only they are looked at.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// manager.cache().add_index::<ConfigMap>("size", |config| {
    ///     config.data.iter().filter_map(|data| data.get("size").cloned()).collect()
    /// })?;
    /// ctx.create(config_map("web", "3")).await?;
    /// ctx.create(config_map("api", "5")).await?;
    ///
    /// let found = ctx.list::<ConfigMap>(ListOptions::all().index("size", "5")).await?;
    /// assert_eq!(found[0].metadata.name.as_deref(), Some("api"));
    /// # Ok(()) }) }
    /// ```
    #[must_use]
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.index = Some((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The same of a namespace, or of all.
    pub(crate) fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    pub(crate) fn label_selector(&self) -> &Selector {
        &self.labels
    }

    pub(crate) fn indexed(&self) -> Option<(&str, &str)> {
        let (name, value) = self.index.as_ref()?;
        Some((name, value))
    }

    /// Whether objects of this namespace are wanted.
    pub(crate) fn covers(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }

    /// Whether an object is wanted whose labels are `labels`; they are only asked for if it depends on them.
    pub(super) fn matches(&self, labels: impl FnOnce() -> BTreeMap<String, String>) -> bool {
        self.labels.selects_all() || self.labels.matches(&labels())
    }
}

impl From<Option<&str>> for ListOptions {
    fn from(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }
}

// === impl Selectors ===

impl Selectors {
    /// Keeps the objects of `K` whose labels match, in the form of `kubectl get -l`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # use operator_runtime::cache::{CacheOptions, Selectors};
    /// # fn main() -> Result<()> {
    /// let selectors = Selectors::default().labels::<ConfigMap>("app in (web, api), !legacy");
    /// # let options = CacheOptions { selectors, ..CacheOptions::default() };
    /// # cluster_with(|builder| builder.cache_options(options), async |_, ctx| {
    /// # kube::Api::namespaced(ctx.kube().clone(), "default").create(&Default::default(), &config_map("web", "3")).await?;
    /// // There is a ConfigMap of this name without labels.
    /// assert!(ctx.get::<ConfigMap>(("default", "web")).await?.is_none());
    /// assert!(ctx.live().get::<ConfigMap>(("default", "web")).await?.is_some());
    /// # Ok(()) }) }
    /// ```
    #[must_use]
    pub fn labels<K: Object>(self, selector: &str) -> Self {
        self.labels_of(&Kind::of::<K>(), selector)
    }

    /// [`Selectors::labels`] of a kind that has no Rust type.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::cache::Selectors;
    ///
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// let selectors = Selectors::default().labels_of(&gateways, "team=a");
    /// # let _ = selectors;
    /// ```
    #[must_use]
    pub fn labels_of(mut self, kind: &Kind, selector: &str) -> Self {
        self.entry(kind).labels = Some(selector.to_owned());
        self
    }

    /// Keeps the objects of `K` whose fields match, in the form of `kubectl get --field-selector`. Which fields can be
    /// selected is up to the server: `metadata.name`, `metadata.namespace` and some of each kind.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use operator_runtime::cache::{CacheOptions, Selectors};
    ///
    /// // What a node agent needs, and no more.
    /// let selectors = Selectors::default().fields::<Pod>("spec.nodeName=worker-1,status.phase=Running");
    /// let options = CacheOptions { selectors, ..CacheOptions::default() };
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn fields<K: Object>(self, selector: &str) -> Self {
        self.fields_of(&Kind::of::<K>(), selector)
    }

    /// [`Selectors::fields`] of a kind that has no Rust type.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::cache::Selectors;
    ///
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// let selectors = Selectors::default().fields_of(&gateways, "metadata.name=public");
    /// # let _ = selectors;
    /// ```
    #[must_use]
    pub fn fields_of(mut self, kind: &Kind, selector: &str) -> Self {
        self.entry(kind).fields = Some(selector.to_owned());
        self
    }

    /// Keeps the objects of `K` in these namespaces, instead of those of all watched ones; all if none is named.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use operator_runtime::cache::{CacheOptions, Selectors};
    ///
    /// // ConfigMaps of two namespaces, Secrets of all, everything else of `team-a`.
    /// let options = CacheOptions {
    ///     namespaces: vec!["team-a".to_owned()],
    ///     selectors: Selectors::default().namespaces::<ConfigMap>(["team-a", "shared"]).namespaces::<Secret>([]),
    ///     ..CacheOptions::default()
    /// };
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn namespaces<'a, K: Object>(self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.namespaces_of(&Kind::of::<K>(), namespaces)
    }

    /// [`Selectors::namespaces`] of a kind that has no Rust type.
    ///
    /// ```
    /// use operator_runtime::Kind;
    /// use operator_runtime::cache::Selectors;
    ///
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// let selectors = Selectors::default().namespaces_of(&gateways, ["ingress"]);
    /// # let _ = selectors;
    /// ```
    #[must_use]
    pub fn namespaces_of<'a>(mut self, kind: &Kind, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.entry(kind).namespaces = Some(namespaces.into_iter().map(str::to_owned).collect());
        self
    }

    fn entry(&mut self, kind: &Kind) -> &mut Selected {
        self.by_kind.entry(kind.path()).or_default()
    }

    pub(super) fn of(&self, kind: &Kind) -> Selected {
        self.by_kind.get(&kind.path()).cloned().unwrap_or_default()
    }
}

impl Selected {
    /// Whether every object is kept.
    pub(super) fn is_all(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    pub(super) fn apply(&self, mut config: watcher::Config) -> watcher::Config {
        config.label_selector.clone_from(&self.labels);
        config.field_selector.clone_from(&self.fields);
        config
    }
}

// === impl Transforms ===

impl Transforms {
    /// Changes each object of `K` before it is kept. A second transform of `K` takes the place of the first.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # use operator_runtime::cache::{CacheOptions, Transforms};
    /// # fn main() -> Result<()> {
    /// let transforms = Transforms::default().of::<ConfigMap>(|config| config.data = None);
    /// # let options = CacheOptions { transforms, ..CacheOptions::default() };
    /// # cluster_with(|builder| builder.cache_options(options), async |_, ctx| {
    /// ctx.create(config_map("web", "3")).await?;
    /// let config = ctx.get::<ConfigMap>(("default", "web")).await?.expect("it was created");
    /// assert_eq!(config.data, None);
    /// # Ok(()) }) }
    /// ```
    #[must_use]
    pub fn of<K: Object>(self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.of_kind(&Kind::of::<K>(), transform)
    }

    /// Changes each object of a kind that is read as `K`, such as `DynamicObject`, before it is kept.
    ///
    /// ```
    /// use kube::api::DynamicObject;
    /// use operator_runtime::Kind;
    /// use operator_runtime::cache::Transforms;
    ///
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// let transforms = Transforms::default().of_kind::<DynamicObject>(&gateways, |gateway| {
    ///     gateway.metadata.annotations = None;
    /// });
    /// # let _ = transforms;
    /// ```
    #[must_use]
    pub fn of_kind<K: View>(
        mut self,
        kind: &Kind,
        transform: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Self {
        let transform = move |object: &mut dyn Any| {
            if let Some(object) = object.downcast_mut() {
                transform(object);
            }
        };
        let key = (kind.path(), TypeId::of::<K>());
        self.by_type.insert(key, Arc::new(transform));
        self
    }

    /// The transforms of one kind alone.
    pub(super) fn only(&self, kind: &Kind) -> Self {
        let path = kind.path();
        let of_kind = self.by_type.iter().filter(|((of, _), _)| *of == path);
        Self {
            by_type: of_kind
                .map(|((_, type_id), transform)| ((String::new(), *type_id), transform.clone()))
                .collect(),
        }
    }

    /// Whether objects of a type are changed, if these are the transforms of its kind alone.
    pub(super) fn change<K: View>(&self) -> bool {
        self.by_type.contains_key(&(String::new(), TypeId::of::<K>()))
    }

    /// Changes an object, if these are the transforms of its kind alone. One that panics leaves it as it is then.
    pub(super) fn apply<K: View>(&self, object: &mut K) {
        if self.by_type.is_empty() {
            return;
        }
        if let Some(transform) = self.by_type.get(&(String::new(), TypeId::of::<K>()))
            && catch_unwind(AssertUnwindSafe(|| transform(object))).is_err()
        {
            let meta = object.meta();
            tracing::error!(
                namespace = meta.namespace.as_deref(),
                name = meta.name.as_deref(),
                "A transform panicked"
            );
        }
    }
}

impl fmt::Debug for Transforms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.by_type.keys().map(|(kind, _)| kind);
        formatter.debug_set().entries(kinds).finish()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    fn labelled<const N: usize>(labels: [(&str, &str); N]) -> impl FnOnce() -> BTreeMap<String, String> {
        let owned = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        move || owned.into()
    }

    #[test]
    fn every_label_must_match() {
        let options = ListOptions::all().labels([("app", "web"), ("tier", "front")]);
        assert!(options.matches(labelled([("app", "web"), ("tier", "front"), ("more", "x")])));
        assert!(!options.matches(labelled([("app", "web")])));
        assert!(!options.matches(labelled([])));
        assert!(ListOptions::all().matches(labelled([])));
    }

    #[test]
    fn selectors_are_of_one_kind() {
        let selectors = Selectors::default()
            .labels::<Pod>("app=web")
            .fields::<Pod>("spec.nodeName=n");
        let pods = selectors.of(&Kind::of::<Pod>()).apply(watcher::Config::default());
        assert_eq!(
            (pods.label_selector.as_deref(), pods.field_selector.as_deref()),
            (Some("app=web"), Some("spec.nodeName=n"))
        );
        assert_eq!(
            selectors
                .of(&Kind::of::<ConfigMap>())
                .apply(watcher::Config::default())
                .label_selector,
            None
        );
    }
}
