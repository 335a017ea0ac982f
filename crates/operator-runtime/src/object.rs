//! What the runtime asks of a type: to be a Kubernetes resource. Kinds and keys name types and objects.
//! It never talks to a server.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that can be watched, cached and written: every type of `k8s-openapi`, and every custom resource that
/// derives `kube::CustomResource`. There is nothing to implement or to register.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no Kubernetes object",
    note = "derive kube::CustomResource, Clone, Debug, Serialize and Deserialize, or use a type of k8s-openapi"
)]
pub trait Object:
    Resource<DynamicType: Clone + Default + fmt::Debug, Scope: 'static>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType: Clone + Default + fmt::Debug, Scope: 'static>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Names a kind of objects: group, version, kind, plural and scope.
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
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// Names one object of a kind: its namespace, unless the kind is cluster-scoped, and its name.
///
/// Copies share their text.
///
/// ```
/// use operator_runtime::ObjectKey;
///
/// let key = ObjectKey::namespaced("default", "sample");
/// assert_eq!(key.namespace(), Some("default"));
/// assert_eq!(key.to_string(), "default/sample");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

// === impl Kind ===

impl Kind {
    /// The kind of `K`.
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

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Kind {
    /// `Deployment.apps`, or the kind alone in the core group.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => formatter.write_str(&self.kind),
            group => write!(formatter, "{}.{group}", self.kind),
        }
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of `object`.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
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

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl From<&ObjectKey> for ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        key.clone()
    }
}

/// `("namespace", "name")`
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

/// The resource version as the number that it is on every conforming API server since Kubernetes 1.35, where versions
/// of one resource may be compared. Zero, the oldest, where it is none.
pub(crate) fn revision(object: &impl Resource) -> u64 {
    let version = object.meta().resource_version.as_deref();
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
    fn kind_says_group_and_scope() {
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
