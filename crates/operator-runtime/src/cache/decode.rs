//! Objects as they arrive: decoded one by one, so that one that does not decode breaks nothing but itself, and without
//! `managedFields`, of which only what the operator applied itself is kept.

use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::api::ApiResource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::item::{Incoming, Intake, prepare};
use super::store::Stored;
use crate::object::View;

/// An object from the API server, or why it is none of the type.
#[derive(Clone, Debug)]
pub(crate) struct Ingested<K> {
    object: Result<K, Malformed>,
    applied: Vec<Applied>,
}

/// What a field manager applied: API version and field set in one text. Texts are smaller than trees, and trees that
/// lived until the end of a list would leave holes between the objects that stay.
#[derive(Clone, Debug)]
struct Applied {
    manager: String,
    fields: String,
}

/// An object that does not fit its type: its schema and the operator's type disagree.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Malformed {
    pub(crate) metadata: Box<ObjectMeta>,
    pub(crate) error: String,
}

// === impl Ingested ===

impl<K: View> Ingested<K> {
    /// The object as its store keeps it, beside the fields that the operator applied to it.
    pub(super) fn finish(self, intake: &Intake) -> Incoming {
        let mut object = self.object?;
        let applied = self
            .applied
            .iter()
            .find(|applied| *applied.manager == *intake.manager);
        let applied = applied.map(|applied| with_marks(&applied.fields, object.meta()));
        prepare(&mut object, intake);
        Ok(Stored {
            object: Arc::new(object),
            applied,
        })
    }
}

impl Applied {
    /// What an entry of `managedFields` says, if it is about an apply to the object itself.
    fn of(entry: &Value) -> Option<Self> {
        let is_apply = entry["operation"] == "Apply" && entry.get("subresource").is_none();
        let manager = entry["manager"].as_str().filter(|_| is_apply)?;
        let version = entry["apiVersion"].as_str().unwrap_or_default();
        Some(Self {
            manager: manager.to_owned(),
            fields: format!("{version} {}", entry["fieldsV1"]),
        })
    }
}

/// The uids of owners, which are all that differs between objects that are made alike, stand as [`owner_mark`]s, so
/// that these objects share the text.
fn with_marks(fields: &str, metadata: &ObjectMeta) -> Arc<str> {
    let mut text = fields.to_owned();
    let owners = metadata.owner_references.iter().flatten().enumerate();
    for (index, owner) in owners.filter(|(_, owner)| !owner.uid.is_empty()) {
        text = text.replace(&owner.uid, &owner_mark(index));
    }
    text.into()
}

/// The text of [`Stored::applied`] with the uids of the owners of the object back in their places.
pub(crate) fn with_owners(applied: &str, metadata: &ObjectMeta) -> String {
    let mut text = applied.to_owned();
    for (index, owner) in metadata.owner_references.iter().flatten().enumerate() {
        text = text.replace(&owner_mark(index), &owner.uid);
    }
    text
}

/// No field of an object is named like this.
fn owner_mark(index: usize) -> String {
    format!("$(owner {index})")
}

impl<'de, K: View> Deserialize<'de> for Ingested<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        let managed_fields = metadata.and_then(|metadata| metadata.remove("managedFields"));
        let entries = managed_fields.as_ref().and_then(Value::as_array);
        let applied = entries.into_iter().flatten().filter_map(Applied::of).collect();
        drop(managed_fields);
        let metadata = Box::new(identity(&value));
        let object = match serde_json::from_value(value) {
            Ok(object) => Ok(object),
            Err(_) if metadata.name.is_none() => {
                return Err(D::Error::custom("the object has no metadata.name"));
            }
            Err(error) => Err(Malformed {
                metadata,
                error: error.to_string(),
            }),
        };
        Ok(Self { object, applied })
    }
}

/// What tells the object from others, read without its type.
fn identity(object: &Value) -> ObjectMeta {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

/// The kind is known at run time, so that one function serves every kind; whether its metadata is enough is not.
impl<K: Resource> Resource for Ingested<K> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.object {
            Ok(object) => object.meta(),
            Err(malformed) => &malformed.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.object {
            Ok(object) => object.meta_mut(),
            Err(malformed) => &mut malformed.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::cache::item::view;
    use crate::object::Kind;

    fn intake(manager: &str) -> Intake {
        Intake {
            kind: Kind::of::<ConfigMap>(),
            manager: manager.into(),
            transforms: crate::cache::Transforms::default(),
        }
    }

    fn decode(value: Value) -> Ingested<ConfigMap> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn object_of_another_shape_is_isolated_with_its_identity() {
        let metadata = json!({"name": "a", "namespace": "default", "resourceVersion": "7"});
        let decoded = decode(json!({"metadata": metadata, "data": "not a map"}));
        assert_eq!(decoded.meta().resource_version.as_deref(), Some("7"));
        assert!(decoded.object.unwrap_err().error.contains("not a map"));
    }

    #[test]
    fn only_the_own_applied_fields_are_kept() {
        let fields = json!({"f:data": {"f:key": {}}});
        let entry = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let entries = json!([
            entry("other", "Apply"),
            entry("mine", "Update"),
            entry("mine", "Apply")
        ]);
        let object = json!({"metadata": {"name": "a", "managedFields": entries}});
        let stored = decode(object.clone()).finish(&intake("mine")).unwrap();
        let config = view::<ConfigMap>(&stored.object, &intake("mine")).unwrap();
        assert_eq!(config.metadata.managed_fields, None);
        assert_eq!(stored.applied.as_deref(), Some(format!("v1 {fields}").as_str()));
        assert_eq!(decode(object).finish(&intake("nobody")).unwrap().applied, None);
    }
}
