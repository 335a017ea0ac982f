//! Decoding of incoming objects, one by one, so that an object that cannot be decoded affects no other. Of
//! `managedFields`, only the fields of the operator are kept. The main type is [`Ingested`].

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::Resource;
use kube::api::ApiResource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::item::{Arrived, Incoming, Intake, Representation, prepare};
use super::packed::{Corrupt, Identity, Packed, Reader, Writer};
use crate::error::panic_text;
use crate::object::View;

/// An object from the API server. It is decoded when it is processed, so that the decoded objects of a whole page are
/// never in memory together.
#[derive(Clone, Debug)]
pub(crate) struct Ingested<K> {
    /// The identity of the object, read without its type.
    metadata: Box<ObjectMeta>,
    /// The object, for a [`Reader`].
    body: Box<[u8]>,
    applied: Vec<Applied>,
    is_deleting: bool,
    kind: PhantomData<fn() -> K>,
}

/// The fields that a field manager applied, for a [`Reader`]. They are kept as text, because trees that live until the
/// end of a list would fragment the heap.
#[derive(Clone, Debug)]
struct Applied {
    manager: String,
    version: String,
    fields: Box<[u8]>,
}

/// An entry of `managedFields`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields {
    #[serde(default)]
    manager: Option<String>,
    #[serde(default)]
    operation: Option<String>,
    #[serde(default)]
    subresource: Option<String>,
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default, rename = "fieldsV1")]
    fields: Option<Loose>,
}

/// Any value, for a [`Reader`].
struct Loose(Box<[u8]>);

/// An object that cannot be decoded as its type, because its schema and the operator's type differ.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Malformed {
    pub(crate) metadata: Box<ObjectMeta>,
    pub(crate) error: String,
}

// === impl Ingested ===

impl<K: View> Ingested<K> {
    /// Returns the object in the form of the store, with the fields that the operator applied to it.
    pub(crate) fn finish(self, intake: &Intake) -> Incoming {
        // The type and its serialization may be the user's code.
        let finished = guarded(|| {
            let mut object = self.decode()?;
            prepare(&mut object, intake);
            let packed = self.pack(&object, intake)?;
            Ok::<_, Corrupt>((object, packed))
        });
        let (object, packed) = match finished {
            Ok(finished) => finished,
            Err(error) => return Err(self.malformed(error)),
        };
        let applied = self
            .applied
            .iter()
            .find(|applied| *applied.manager == *intake.manager);
        let applied = applied.map(|applied| with_marks(&applied.to_text(), object.meta()));
        let form = intake.form(Representation::of::<K>());
        Ok(Arrived {
            object: Arc::new(object),
            stored: intake.stored(packed, applied, form),
        })
    }

    /// Returns true if the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    fn decode(&self) -> Result<K, Corrupt> {
        K::deserialize(&mut Reader::new(&self.body, &[]))
    }

    /// Packs the received bytes, which may contain more fields than `K`, unless a transform changed the object.
    fn pack(&self, object: &K, intake: &Intake) -> Result<Packed, Corrupt> {
        if intake.transforms.change::<K>() {
            let value = serde_json::to_value(object).map_err(Corrupt::custom)?;
            let packed = Packed::new(&identity(object.meta()), value, &intake.dictionary);
            return packed.map_err(Corrupt::custom);
        }
        let body = &mut Reader::new(&self.body, &[]);
        Packed::new(&identity(&self.metadata), body, &intake.dictionary)
    }

    fn malformed(self, error: String) -> Malformed {
        Malformed {
            metadata: self.metadata,
            error,
        }
    }
}

/// Runs code that may be the user's. A panic becomes an error of this object only.
pub(super) fn guarded<T, E: fmt::Display>(run: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(panic) => Err(panic_text(&*panic)),
    }
}

fn identity(metadata: &ObjectMeta) -> Identity<'_> {
    let namespace = metadata.namespace.as_deref();
    Identity {
        namespace: namespace.filter(|namespace| !namespace.is_empty()),
        name: metadata.name.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref(),
        resource_version: metadata.resource_version.as_deref(),
    }
}

impl Applied {
    /// Reads an entry of `managedFields` of an apply to the main resource.
    fn of(entry: ManagedFields) -> Option<Self> {
        let is_apply = entry.operation.as_deref() == Some("Apply") && entry.subresource.is_none();
        let manager = entry.manager.filter(|_| is_apply)?;
        Some(Self {
            manager,
            version: entry.api_version.unwrap_or_default(),
            fields: entry.fields.map(|Loose(fields)| fields).unwrap_or_default(),
        })
    }

    /// Returns the API version and the field set as text.
    fn to_text(&self) -> String {
        let fields = Value::deserialize(&mut Reader::new(&self.fields, &[]));
        format!("{} {}", self.version, fields.unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut loose = Writer::loose();
        loose.value(deserializer)?;
        Ok(Self(loose.into_bytes()))
    }
}

/// Replaces the UIDs of owners in field sets by [`owner_mark`]s, so that similar objects share the text.
fn with_marks(fields: &str, metadata: &ObjectMeta) -> Arc<str> {
    let mut text = fields.to_owned();
    let owners = metadata.owner_references.iter().flatten().enumerate();
    for (index, owner) in owners.filter(|(_, owner)| !owner.uid.is_empty()) {
        text = text.replace(&owner.uid, &owner_mark(index));
    }
    text.into()
}

/// Returns the text of [`Stored::applied`](super::item::Stored::applied) with the UIDs of the object's owners in place of the marks.
pub(crate) fn with_owners(applied: &str, object: &Value) -> String {
    let mut text = applied.to_owned();
    let owners = object["metadata"]["ownerReferences"].as_array();
    for (index, owner) in owners.into_iter().flatten().enumerate() {
        text = text.replace(&owner_mark(index), owner["uid"].as_str().unwrap_or_default());
    }
    text
}

/// Returns a placeholder that cannot be the name of a field.
fn owner_mark(index: usize) -> String {
    format!("$(owner {index})")
}

impl<'de, K: View> Deserialize<'de> for Ingested<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut arriving = Arriving::default();
        deserializer.deserialize_map(Members(&mut arriving, Level::Object))?;
        let ingested = Self {
            metadata: arriving.metadata,
            body: arriving.body.into_bytes(),
            applied: arriving.applied,
            is_deleting: arriving.is_deleting,
            kind: PhantomData,
        };
        if ingested.metadata.name.is_none() && guarded(|| ingested.decode()).is_err() {
            return Err(D::Error::custom("the object has no metadata.name"));
        }
        Ok(ingested)
    }
}

/// An object that is being read.
struct Arriving {
    body: Writer<'static>,
    metadata: Box<ObjectMeta>,
    applied: Vec<Applied>,
    is_deleting: bool,
}

impl Default for Arriving {
    fn default() -> Self {
        Self {
            body: Writer::loose(),
            metadata: Box::default(),
            applied: Vec::new(),
            is_deleting: false,
        }
    }
}

/// The members of the object, or those of its metadata.
struct Members<'a>(&'a mut Arriving, Level);

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
}

impl Members<'_> {
    /// Reads the value of a member. Returns true if it becomes part of the object.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<bool, A::Error> {
        let Self(arriving, level) = self;
        if *level == Level::Metadata && name == "managedFields" {
            let entries: Option<Vec<ManagedFields>> = members.next_value()?;
            let entries = entries.into_iter().flatten();
            arriving.applied = entries.filter_map(Applied::of).collect();
            return Ok(false);
        }
        arriving.is_deleting |= *level == Level::Metadata && name == "deletionTimestamp";
        arriving.body.text(name);
        if *level == Level::Object && name == "metadata" {
            members.next_value_seed(Members(arriving, Level::Metadata))?;
            return Ok(true);
        }
        let start = arriving.body.bytes().len();
        members.next_value_seed(arriving.body.seed())?;
        if *level == Level::Metadata {
            let value = arriving.body.bytes().get(start..).unwrap_or_default();
            arriving.metadata.note(name, value);
        }
        Ok(true)
    }
}

/// Reads the members of an object that do not depend on its type.
trait Note {
    fn note(&mut self, name: &str, value: &[u8]);
}

impl Note for ObjectMeta {
    fn note(&mut self, name: &str, value: &[u8]) {
        let field = match name {
            "name" => &mut self.name,
            "namespace" => &mut self.namespace,
            "uid" => &mut self.uid,
            "resourceVersion" => &mut self.resource_version,
            _ => return,
        };
        *field = String::deserialize(&mut Reader::new(value, &[])).ok();
    }
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.body.seed().visit_unit()
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let start = self.0.body.begin();
        let mut count = 0;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            count += usize::from(self.read(&name, &mut members)?);
        }
        self.0.body.end_map(start, count);
        Ok(())
    }
}

/// The kind is known at run time, so that one function serves every kind. Whether an object is metadata-only is static.
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
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::object::Kind;

    fn intake(manager: &str) -> Intake {
        let transforms = crate::cache::Transforms::default();
        Intake::new(Kind::of::<ConfigMap>(), manager.into(), &transforms, false)
    }

    fn decode(value: Value) -> Ingested<ConfigMap> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn object_of_another_shape_is_isolated_with_its_identity() {
        let metadata = json!({"name": "a", "namespace": "default", "resourceVersion": "7"});
        let decoded = decode(json!({"metadata": metadata, "data": "not a map"}));
        assert_eq!(decoded.meta().resource_version.as_deref(), Some("7"));
        let malformed = decoded.finish(&intake("mine")).unwrap_err();
        assert_eq!(malformed.metadata.name.as_deref(), Some("a"));
        assert!(malformed.error.contains("not a map"), "{malformed}");
    }

    #[test]
    fn object_without_a_name_is_an_error() {
        for value in [json!({"data": 1}), json!({"metadata": {"name": 1}}), json!([])] {
            assert!(serde_json::from_value::<Ingested<ConfigMap>>(value).is_err());
        }
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
        let intake = intake("mine");
        let stored = decode(object.clone()).finish(&intake).unwrap().stored;
        let config = intake.read::<ConfigMap>(&stored).unwrap();
        assert_eq!(config.metadata.managed_fields, None);
        assert_eq!(stored.applied.as_deref(), Some(format!("v1 {fields}").as_str()));
        let nobody = super::tests::intake("nobody");
        assert_eq!(decode(object).finish(&nobody).unwrap().stored.applied, None);
    }

    #[test]
    fn unknown_fields_are_kept_for_dynamic_readers() {
        let (object, intake) = (
            json!({"metadata": {"name": "a"}, "more": {"x": [1]}}),
            intake("mine"),
        );
        let stored = decode(object).finish(&intake).unwrap().stored;
        assert_eq!(
            intake
                .read::<ConfigMap>(&stored)
                .unwrap()
                .metadata
                .name
                .as_deref(),
            Some("a")
        );
        let whole = intake.read::<DynamicObject>(&stored).unwrap();
        assert_eq!(whole.data["more"], json!({"x": [1]}));
        assert_eq!(whole.types.as_ref().unwrap().kind, "ConfigMap");
    }
}
