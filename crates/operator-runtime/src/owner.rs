//! Owner references, which make the garbage collector delete an object with its owner.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::Service;
//! use operator_runtime::owner;
//!
//! let mut deployment = Deployment::default();
//! deployment.metadata.name = Some("web".to_owned());
//! deployment.metadata.namespace = Some("default".to_owned());
//! deployment.metadata.uid = Some("u-1".to_owned());
//! let mut service = Service::default();
//! service.metadata.namespace = Some("default".to_owned());
//! owner::set_controller_reference(&deployment, &mut service)?;
//! let references = service.metadata.owner_references.unwrap_or_default();
//! assert_eq!((references[0].kind.as_str(), references[0].controller), ("Deployment", Some(true)));
//! # Ok::<(), owner::OwnerError>(())
//! ```

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use crate::object::{Kind, Meta, Object, ObjectKey};

/// An error of adding an owner to an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Another object controls it. An object has at most one controller.
    #[error(
        "Object {object} is already owned by another {kind} controller {name}: choose another name, or remove that owner reference"
    )]
    AlreadyOwned {
        /// The object.
        object: String,
        /// The kind of its controller.
        kind: String,
        /// The name of its controller.
        name: String,
    },
    /// Owner and object are in different namespaces.
    #[error(
        "cross-namespace owner references are disallowed: {owner} cannot own {object}; use set_owner_annotations instead"
    )]
    OtherNamespace {
        /// The owner.
        owner: String,
        /// The object.
        object: String,
    },
    /// The owner is namespace-scoped and the object is cluster-scoped.
    #[error(
        "cluster-scoped resource must not have a namespace-scoped owner: {owner} cannot own {object}; use set_owner_annotations instead"
    )]
    ClusterScoped {
        /// The owner.
        owner: String,
        /// The object.
        object: String,
    },
    /// The owner has no UID because it was not read from the API server.
    #[error(
        "{owner} cannot be an owner: it has no name or no uid because it was not read from the API server"
    )]
    NotStored {
        /// The owner.
        owner: String,
    },
}

/// An owner of other objects. Converts from an object whose type defines its kind; [`Owner::of`] is for other objects.
#[derive(Clone, Debug)]
pub struct Owner {
    kind: Kind,
    key: ObjectKey,
    uid: Option<String>,
    blocks: Option<bool>,
}

impl<K: Object> From<&K> for Owner {
    fn from(object: &K) -> Self {
        Self::of(&Kind::of::<K>(), object)
    }
}

// === impl Owner ===

impl Owner {
    /// Returns an object of a kind as an owner.
    pub fn of(kind: &Kind, object: &impl Meta) -> Self {
        Self {
            kind: kind.clone(),
            key: ObjectKey::of(object),
            uid: object.metadata().uid.clone(),
            blocks: None,
        }
    }

    /// Sets `blockOwnerDeletion`: deleting the owner in the foreground waits until the object is gone. Default: true
    /// for the controller, false for other owners.
    #[must_use]
    pub fn block_owner_deletion(mut self, blocks: bool) -> Self {
        self.blocks = Some(blocks);
        self
    }

    /// Returns the namespace of the owner, in which the objects that it owns must be. `None` if it is cluster-scoped.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.key.namespace().filter(|_| self.kind.namespaced)
    }

    /// Sets a controller reference on an object whose type does not define its kind; see [`set_controller_reference`].
    pub(crate) fn control(&self, kind: &Kind, object: &mut impl Resource) -> Result<(), OwnerError> {
        let reference = OwnerReference {
            controller: Some(true),
            block_owner_deletion: Some(self.blocks.unwrap_or(true)),
            ..self.reference()?
        };
        self.set(kind, object.meta_mut(), reference)
    }

    /// Sets a controller reference to the owner, and the owner's namespace if the object has none.
    pub(crate) fn place(&self, kind: &Kind, object: &mut impl Resource) -> Result<(), OwnerError> {
        if kind.namespaced && object.meta().namespace.is_none() {
            object.meta_mut().namespace = self.namespace().map(str::to_owned);
        }
        self.control(kind, object)
    }

    /// Sets an owner reference on an object whose type does not define its kind; see [`set_owner_reference`].
    pub(crate) fn own(&self, kind: &Kind, object: &mut impl Resource) -> Result<(), OwnerError> {
        self.set(kind, object.meta_mut(), self.reference()?)
    }

    fn reference(&self) -> Result<OwnerReference, OwnerError> {
        let uid = self.uid.clone().filter(|_| !self.key.name().is_empty());
        let uid = uid.ok_or_else(|| OwnerError::NotStored {
            owner: self.to_string(),
        })?;
        Ok(OwnerReference {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.clone(),
            name: self.key.name().to_owned(),
            uid,
            block_owner_deletion: self.blocks,
            ..OwnerReference::default()
        })
    }

    fn set(&self, kind: &Kind, object: &mut ObjectMeta, reference: OwnerReference) -> Result<(), OwnerError> {
        let described = describe(kind, object);
        if self.namespace().is_some() && self.namespace() != object.namespace.as_deref() {
            let (owner, object) = (self.to_string(), described);
            return Err(match kind.namespaced {
                true => OwnerError::OtherNamespace { owner, object },
                false => OwnerError::ClusterScoped { owner, object },
            });
        }
        let references = object.owner_references.get_or_insert_default();
        let controller = references.iter().find(|other| other.controller == Some(true));
        if reference.controller == Some(true)
            && let Some(other) = controller.filter(|other| !is_same(other, &reference))
        {
            return Err(OwnerError::AlreadyOwned {
                object: described,
                kind: other.kind.clone(),
                name: other.name.clone(),
            });
        }
        match references.iter_mut().find(|other| is_same(other, &reference)) {
            Some(old) => *old = reference,
            None => references.push(reference),
        }
        Ok(())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Some(self.key.name()).filter(|name| !name.is_empty());
        let metadata = ObjectMeta {
            name: name.map(str::to_owned),
            namespace: self.key.namespace().map(str::to_owned),
            ..ObjectMeta::default()
        };
        formatter.write_str(&describe(&self.kind, &metadata))
    }
}

/// Makes `owner` the controller of `object`. The garbage collector deletes `object` with it.
///
/// The reference replaces an older one to the same owner (same group, kind and name).
///
/// # Errors
/// Returns an error if another object controls `object`, their namespaces forbid it, or `owner` has no UID.
pub fn set_controller_reference<K: Object>(
    owner: impl Into<Owner>,
    object: &mut K,
) -> Result<(), OwnerError> {
    owner.into().control(&Kind::of::<K>(), object)
}

/// Makes `owner` one of the owners of `object`. The garbage collector deletes `object` when the last owner is gone.
///
/// The reference replaces one to the same owner (same group, kind and name), even a controller reference.
///
/// # Errors
/// Returns an error if their namespaces forbid it, or if `owner` has no UID.
pub fn set_owner_reference<K: Object>(owner: impl Into<Owner>, object: &mut K) -> Result<(), OwnerError> {
    owner.into().own(&Kind::of::<K>(), object)
}

/// Records the owner of `object` in annotations. Use it if an owner reference is impossible: across namespaces, or for
/// a cluster-scoped object of a namespace-scoped owner. The garbage collector ignores the annotations, so the operator
/// deletes `object` itself, usually in a [finalizer](crate::finalizer).
/// [`handler::for_annotated`](crate::handler::for_annotated) maps its events to the owner.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Namespace;
/// use operator_runtime::owner;
///
/// let mut deployment = Deployment::default();
/// deployment.metadata.name = Some("web".to_owned());
/// deployment.metadata.namespace = Some("default".to_owned());
/// let mut namespace = Namespace::default();
/// owner::set_owner_annotations(&deployment, &mut namespace);
/// let annotations = namespace.metadata.annotations.unwrap_or_default();
/// assert_eq!(annotations["operator-sdk/primary-resource"], "default/web");
/// assert_eq!(annotations["operator-sdk/primary-resource-type"], "Deployment.apps");
/// ```
pub fn set_owner_annotations(owner: impl Into<Owner>, object: &mut impl Resource) {
    let owner = owner.into();
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    annotations.insert(PRIMARY_RESOURCE.to_owned(), owner.key.to_string());
    let kind = format!("{}.{}", owner.kind.kind, owner.kind.group);
    annotations.insert(
        PRIMARY_RESOURCE_TYPE.to_owned(),
        kind.trim_end_matches('.').to_owned(),
    );
}

/// The annotation with the owner: `namespace/name`, or `name` if it is cluster-scoped.
pub(crate) const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";

/// The annotation with the kind of the owner: `Kind.group`, or `Kind` in the core group.
pub(crate) const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";

fn is_same(left: &OwnerReference, right: &OwnerReference) -> bool {
    group(left) == group(right) && left.kind == right.kind && left.name == right.name
}

fn group(reference: &OwnerReference) -> &str {
    reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
}

fn describe(kind: &Kind, meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or("(no name)");
    match meta.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn deployment(name: &str) -> Deployment {
        let mut deployment = Deployment::default();
        deployment.metadata.name = Some(name.to_owned());
        deployment.metadata.namespace = Some("default".to_owned());
        deployment.metadata.uid = Some(format!("uid-of-{name}"));
        deployment
    }

    fn config(namespace: &str) -> ConfigMap {
        let mut config = ConfigMap::default();
        config.metadata.name = Some("config".to_owned());
        config.metadata.namespace = Some(namespace.to_owned());
        config
    }

    #[test]
    fn second_controller_is_rejected() {
        let mut config = config("default");
        set_controller_reference(&deployment("a"), &mut config).unwrap();
        set_controller_reference(&deployment("a"), &mut config).unwrap();
        let error = set_controller_reference(&deployment("b"), &mut config).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("is already owned by another Deployment controller a"),
            "{error}"
        );
        set_owner_reference(&deployment("b"), &mut config).unwrap();
        assert_eq!(config.metadata.owner_references.unwrap().len(), 2);
    }

    #[test]
    fn owner_sets_block_owner_deletion() {
        let (mut first, mut second) = (config("default"), config("default"));
        let owner = Owner::from(&deployment("a"));
        set_controller_reference(owner.clone().block_owner_deletion(false), &mut first).unwrap();
        set_owner_reference(owner, &mut second).unwrap();
        let blocks =
            |config: &ConfigMap| config.metadata.owner_references.as_ref().unwrap()[0].block_owner_deletion;
        assert_eq!((blocks(&first), blocks(&second)), (Some(false), None));
    }

    #[test]
    fn owner_in_another_namespace_is_rejected() {
        let error = set_controller_reference(&deployment("a"), &mut config("other")).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }));
    }

    #[test]
    fn owner_in_a_namespace_cannot_own_a_cluster_scoped_object() {
        let error = set_controller_reference(&deployment("a"), &mut Namespace::default()).unwrap_err();
        assert!(matches!(error, OwnerError::ClusterScoped { .. }));
    }

    #[test]
    fn owner_without_uid_is_rejected() {
        let mut owner = deployment("a");
        owner.metadata.uid = None;
        let error = set_owner_reference(&owner, &mut config("default")).unwrap_err();
        assert!(matches!(error, OwnerError::NotStored { .. }));
    }
}
