//! The managers of a scale subresource, which shows one field of the resource: its replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::field_set::FieldSet;
use crate::managed_fields::{DecodeError, Managed, Owned};
use crate::path::PathElement;

const SCALE_API_VERSION: &str = "autoscaling/v1";

/// The path of the replicas of a resource, by apiVersion; `None` for versions without a scale subresource.
pub type ReplicasPaths = BTreeMap<String, Option<Vec<PathElement>>>;

fn scale_path() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}

/// Returns the managedFields of a Scale: the managers that own the replicas of the resource.
///
/// # Errors
/// Returns an error if an entry of the resource is invalid.
pub fn to_scale(entries: &[Value], paths: &ReplicasPaths) -> Result<Vec<Value>, DecodeError> {
    let managed = Managed::decode(entries)?;
    let mut out = Managed::default();
    for (manager, owned) in managed.owners {
        let Some(Some(path)) = paths.get(&owned.api_version) else {
            continue;
        };
        if owned.fields.contains(path) {
            out.times.extend(
                managed
                    .times
                    .get(&manager)
                    .map(|time| (manager.clone(), time.clone())),
            );
            out.owners
                .insert(manager, owns(&scale_path(), SCALE_API_VERSION, owned.applied));
        }
    }
    Ok(out.encode())
}

/// Returns the managedFields of a resource after a write to its Scale. `resource` has the entries before the write,
/// `scale` has the entries of the written Scale, and `api_version` is the version of the request.
///
/// # Errors
/// Returns an error if an entry is invalid.
pub fn to_resource(
    resource: &[Value],
    scale: &[Value],
    paths: &ReplicasPaths,
    api_version: &str,
) -> Result<Vec<Value>, DecodeError> {
    let before = Managed::decode(resource)?;
    let mut scale = Managed::decode(scale)?.owners;
    let mut out = Managed {
        times: before.times,
        ..Managed::default()
    };
    for (manager, mut owned) in before.owners {
        let Some(path) = paths.get(&owned.api_version) else {
            continue;
        };
        if let Some(path) = path.as_ref().filter(|path| owned.fields.contains(path))
            && scale.remove(&manager).is_none()
        {
            owned.fields = Arc::new(owned.fields.difference(&FieldSet::from_paths([path.as_slice()])));
        }
        if !owned.fields.is_empty() {
            out.owners.insert(manager, owned);
        }
    }
    let Some(Some(path)) = paths.get(api_version) else {
        return Ok(out.encode());
    };
    for (manager, owned) in scale
        .into_iter()
        .filter(|(_, owned)| owned.fields.contains(&scale_path()))
    {
        out.owners.insert(manager, owns(path, api_version, owned.applied));
    }
    Ok(out.encode())
}

fn owns(path: &[PathElement], api_version: &str, applied: bool) -> Owned {
    Owned {
        fields: Arc::new(FieldSet::from_paths([path])),
        api_version: api_version.to_owned(),
        applied,
    }
}
