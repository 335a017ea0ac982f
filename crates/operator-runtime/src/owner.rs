//! Owner references: who an object belongs to, so that the garbage collector removes it with its owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::object::{Kind, Object};

/// Why an owner cannot own an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Another object controls it already; an object has one controller.
    #[error(
        "{object} is already controlled by {kind} {name}: give it another name, or remove that owner reference"
    )]
    AlreadyOwned {
        /// The object.
        object: String,
        /// The kind of its controller.
        kind: String,
        /// The name of its controller.
        name: String,
    },
    /// Owner and object live in different namespaces, or the owner in one and the object in none.
    #[error("{owner} cannot own {object}: an owner in a namespace owns objects of that namespace only")]
    OtherNamespace {
        /// The owner.
        owner: String,
        /// The object.
        object: String,
    },
    /// The owner was not read from the API server: it has no uid.
    #[error("{owner} cannot own anything: it has no name or no uid, so it was not read from the API server")]
    NotStored {
        /// The owner.
        owner: String,
    },
}

/// Makes `owner` the controller of `object`, which the garbage collector deletes with it.
///
/// The reference replaces an older one to the same owner (same group, kind and name).
///
/// # Errors
/// If another object controls `object`, if their namespaces forbid it, or if `owner` has no uid.
pub fn set_controller_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> Result<(), OwnerError> {
    let reference = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..reference_to(owner)?
    };
    set(owner, object, reference)
}

/// Makes `owner` one of the owners of `object`, which the garbage collector deletes when the last of them is gone.
///
/// # Errors
/// If their namespaces forbid it, or if `owner` has no uid.
pub fn set_owner_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> Result<(), OwnerError> {
    set(owner, object, reference_to(owner)?)
}

/// Whether some object controls `object`.
pub fn has_controller<K: Object>(object: &K) -> bool {
    let mut references = object.meta().owner_references.iter().flatten();
    references.any(|reference| reference.controller == Some(true))
}

/// Whether `owner` is one of the owners of `object`: by group, kind and name.
pub fn has_owner_reference<O: Object, K: Object>(owner: &O, object: &K) -> bool {
    let wanted = names(owner);
    let mut references = object.meta().owner_references.iter().flatten();
    references.any(|reference| is_same(reference, &wanted))
}

/// Takes the reference to `owner` away, controlling or not, and says whether there was one.
pub fn remove_owner_reference<O: Object, K: Object>(owner: &O, object: &mut K) -> bool {
    let wanted = names(owner);
    let Some(references) = &mut object.meta_mut().owner_references else {
        return false;
    };
    let before = references.len();
    references.retain(|reference| !is_same(reference, &wanted));
    references.len() < before
}

/// What tells the references to `owner` from others; it need not have been stored.
fn names<O: Object>(owner: &O) -> OwnerReference {
    let kind = Kind::of::<O>();
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        name: owner.meta().name.clone().unwrap_or_default(),
        ..OwnerReference::default()
    }
}

fn reference_to<O: Object>(owner: &O) -> Result<OwnerReference, OwnerError> {
    let reference = owner.owner_ref(&O::DynamicType::default());
    reference.ok_or_else(|| OwnerError::NotStored {
        owner: describe::<O>(owner.meta()),
    })
}

fn set<O: Object, K: Object>(owner: &O, object: &mut K, reference: OwnerReference) -> Result<(), OwnerError> {
    let owner_namespace = owner
        .meta()
        .namespace
        .as_deref()
        .filter(|_| Kind::of::<O>().namespaced);
    if owner_namespace.is_some() && owner_namespace != object.meta().namespace.as_deref() {
        return Err(OwnerError::OtherNamespace {
            owner: describe::<O>(owner.meta()),
            object: describe::<K>(object.meta()),
        });
    }
    let described = describe::<K>(object.meta());
    let references = object.meta_mut().owner_references.get_or_insert_default();
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

fn is_same(left: &OwnerReference, right: &OwnerReference) -> bool {
    group(left) == group(right) && left.kind == right.kind && left.name == right.name
}

fn group(reference: &OwnerReference) -> &str {
    reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
}

fn describe<K: Object>(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or("(no name)");
    match meta.namespace.as_deref() {
        Some(namespace) => format!("{} {namespace}/{name}", Kind::of::<K>()),
        None => format!("{} {name}", Kind::of::<K>()),
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
    fn second_controller_is_refused() {
        let mut config = config("default");
        set_controller_reference(&deployment("a"), &mut config).unwrap();
        set_controller_reference(&deployment("a"), &mut config).unwrap();
        let error = set_controller_reference(&deployment("b"), &mut config).unwrap_err();
        assert!(
            error.to_string().contains("already controlled by Deployment a"),
            "{error}"
        );
        set_owner_reference(&deployment("b"), &mut config).unwrap();
        assert_eq!(config.metadata.owner_references.unwrap().len(), 2);
    }

    #[test]
    fn reference_that_is_removed_is_gone() {
        let mut config = config("default");
        assert!(!remove_owner_reference(&deployment("a"), &mut config));
        set_controller_reference(&deployment("a"), &mut config).unwrap();
        set_owner_reference(&deployment("b"), &mut config).unwrap();
        assert!(has_controller(&config) && has_owner_reference(&deployment("a"), &config));
        assert!(remove_owner_reference(&deployment("a"), &mut config));
        assert!(!has_controller(&config) && !has_owner_reference(&deployment("a"), &config));
        assert!(has_owner_reference(&deployment("b"), &config));
    }

    #[test]
    fn owner_of_another_namespace_is_refused() {
        let error = set_controller_reference(&deployment("a"), &mut config("other")).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }));
    }

    #[test]
    fn owner_in_a_namespace_cannot_own_a_cluster_scoped_object() {
        let error = set_controller_reference(&deployment("a"), &mut Namespace::default()).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }));
    }

    #[test]
    fn owner_without_uid_is_refused() {
        let mut owner = deployment("a");
        owner.metadata.uid = None;
        let error = set_owner_reference(&owner, &mut config("default")).unwrap_err();
        assert!(matches!(error, OwnerError::NotStored { .. }));
    }
}
