//! The traits of Kubernetes types, and the names of kinds ([`Kind`]) and objects ([`ObjectKey`]).

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use kube::Resource;
use kube::api::ApiResource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::discovery::{ApiCapabilities, Scope};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type for reading objects: every type of `k8s-openapi`, every custom resource that derives `kube::CustomResource`,
/// `PartialObjectMeta` for metadata only, and `DynamicObject` for kinds without a Rust type.
///
/// It is implemented for all of them. A type that defines its kind is also an [`Object`]; the others need a [`Kind`].
pub trait View: Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<K> View for K where
    K: Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A type that defines its kind and can be watched, cached and written: every type of `k8s-openapi`, and every custom
/// resource that derives `kube::CustomResource`. It is implemented for all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object type that knows its kind",
    note = "derive kube::CustomResource, Clone, Debug, Serialize and Deserialize, or use a type of k8s-openapi; \
            for DynamicObject use the functions that take a Kind"
)]
pub trait Object: View + Resource<DynamicType: Clone + Default + fmt::Debug, Scope: 'static> {}

impl<K> Object for K where K: View + Resource<DynamicType: Clone + Default + fmt::Debug, Scope: 'static> {}

/// The metadata of an object of any type. Predicates and handlers that need only metadata work for all kinds.
pub trait Meta: Send + Sync {
    /// Returns the `metadata` of the object.
    fn metadata(&self) -> &ObjectMeta;
}

impl<K: Resource + Send + Sync> Meta for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

/// A kind of objects: group, version, kind, plural and scope.
///
/// [`Kind::of`] returns the kind of a Rust type. The other functions are for kinds without a type in the operator,
/// whose objects are read as `DynamicObject` or `PartialObjectMeta`:
///
/// ```
/// use kube::api::ApiResource;
/// use kube::discovery::Scope;
/// use operator_runtime::Kind;
///
/// let gateway = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// let class = Kind::in_cluster("gateway.networking.k8s.io/v1", "GatewayClass", "gatewayclasses");
/// assert_eq!((gateway.to_string().as_str(), class.namespaced), ("Gateway.gateway.networking.k8s.io", false));
///
/// let resource = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
/// assert_eq!(Kind::from((&resource, Scope::Namespaced)), Kind::of::<k8s_openapi::api::apps::v1::Deployment>());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The plural name, such as `deployments`.
    pub plural: String,
    /// True if the kind is namespace-scoped.
    pub namespaced: bool,
}

/// The key of an object of a kind: its name, and its namespace unless the kind is cluster-scoped. Clones are cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

// === impl Kind ===

impl Kind {
    /// Returns the kind of `K`.
    pub fn of<K: Object>() -> Self {
        let dynamic = K::DynamicType::default();
        Self {
            group: K::group(&dynamic).into_owned(),
            version: K::version(&dynamic).into_owned(),
            kind: K::kind(&dynamic).into_owned(),
            plural: K::plural(&dynamic).into_owned(),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// Creates a namespace-scoped kind from its API version, such as `apps/v1`, its kind and its plural.
    pub fn in_namespaces(api_version: &str, kind: &str, plural: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
        }
    }

    /// Creates a cluster-scoped kind; see [`Kind::in_namespaces`].
    pub fn in_cluster(api_version: &str, kind: &str, plural: &str) -> Self {
        let namespaced = false;
        Self {
            namespaced,
            ..Self::in_namespaces(api_version, kind, plural)
        }
    }

    /// Returns a path that is unique to the kind on the server.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}/{}", self.group, self.version, self.plural)
    }

    /// Returns `group/version`, or the version in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl From<&Kind> for Kind {
    fn from(kind: &Kind) -> Self {
        kind.clone()
    }
}

/// Converts from kube's dynamic type and the scope, which that type lacks.
impl From<(&ApiResource, Scope)> for Kind {
    fn from((resource, scope): (&ApiResource, Scope)) -> Self {
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespaced: scope == Scope::Namespaced,
        }
    }
}

impl From<&Kind> for ApiResource {
    fn from(kind: &Kind) -> Self {
        Self {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            plural: kind.plural.clone(),
        }
    }
}

/// Converts from the kind and the capabilities that kube's discovery returns.
impl From<(ApiResource, ApiCapabilities)> for Kind {
    fn from((resource, capabilities): (ApiResource, ApiCapabilities)) -> Self {
        let ApiCapabilities { scope, .. } = capabilities;
        Self {
            group: resource.group,
            version: resource.version,
            kind: resource.kind,
            plural: resource.plural,
            namespaced: scope == Scope::Namespaced,
        }
    }
}

impl fmt::Display for Kind {
    /// Writes `Deployment.apps`, or the kind in the core group.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => formatter.write_str(&self.kind),
            group => write!(formatter, "{}.{group}", self.kind),
        }
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    /// Creates the key of a namespace-scoped object.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// Creates the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// Returns the key of `object`. The name is empty if the object has none yet.
    pub fn of(object: &(impl Meta + ?Sized)) -> Self {
        let meta = object.metadata();
        Self::new(
            meta.namespace.as_deref(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.filter(|namespace| !namespace.is_empty()).map(Arc::from),
            name: name.into(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace, or `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl From<&ObjectKey> for ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        key.clone()
    }
}

/// Converts `("namespace", "name")`.
impl From<(&str, &str)> for ObjectKey {
    fn from((namespace, name): (&str, &str)) -> Self {
        Self::namespaced(namespace, name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Returns the resource version as a number. Kubernetes 1.35 and later guarantee numbers that can be compared within a
/// resource. Returns 0, the oldest, for other formats.
pub(crate) fn revision(metadata: &ObjectMeta) -> u64 {
    let version = metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    #[test]
    fn kind_has_group_and_scope() {
        let deployment = Kind::of::<Deployment>();
        assert_eq!(deployment.to_string(), "Deployment.apps");
        assert_eq!(deployment.api_version(), "apps/v1");
        assert!(deployment.namespaced);

        let node = Kind::of::<Node>();
        assert_eq!(
            (node.to_string().as_str(), node.api_version().as_str()),
            ("Node", "v1")
        );
        assert!(!node.namespaced);
    }

    #[test]
    fn empty_namespace_is_none() {
        assert_eq!(ObjectKey::new(Some(""), "node-1"), ObjectKey::cluster("node-1"));
    }
}
