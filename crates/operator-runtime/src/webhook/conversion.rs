//! [`Conversion`] converts between the versions of a custom resource through one version, the hub.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::object::{Kind, Object};

/// A version (a spoke) that can be converted to the hub and back without loss. Store values that the other version
/// cannot represent in an annotation. [`round_trip`] and [`hub_round_trip`] test this.
///
/// ```
/// use kube::CustomResource;
/// use operator_runtime::prelude::*;
/// use operator_runtime::webhook::{Conversion, Convertible, Webhook, round_trip};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// /// The hub.
/// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #[kube(group = "cache.example.com", version = "v1", kind = "Memcached", namespaced)]
/// struct MemcachedSpec {
///     size: u16,
/// }
///
/// /// The previous version, which has `replicas` instead.
/// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
/// #[kube(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", root = "OldMemcached", namespaced)]
/// struct OldMemcachedSpec {
///     replicas: u16,
/// }
///
/// impl Convertible for OldMemcached {
///     type Hub = Memcached;
///
///     fn convert_to(self) -> Result<Memcached> {
///         let spec = MemcachedSpec { size: self.spec.replicas };
///         Ok(Memcached { metadata: self.metadata, spec })
///     }
///
///     fn convert_from(hub: Memcached) -> Result<Self> {
///         let spec = OldMemcachedSpec { replicas: hub.spec.size };
///         Ok(OldMemcached { metadata: hub.metadata, spec })
///     }
/// }
///
/// round_trip(&OldMemcached::new("sample", OldMemcachedSpec { replicas: 3 }))?;
/// let webhook = Webhook::new().conversion(Conversion::new().spoke::<OldMemcached>());
/// # let _ = webhook;
/// # Ok::<(), Error>(())
/// ```
pub trait Convertible: Object {
    /// The version through which all others are converted, usually the stored one.
    type Hub: Object;

    /// Converts the object to the hub. The labels and annotations of the result are used; the object keeps its name,
    /// namespace, UID and other metadata.
    ///
    /// # Errors
    /// Fails the conversion and the request that needs it, possibly a list of many objects. Avoid errors if possible.
    fn convert_to(self) -> Result<Self::Hub>;

    /// Converts the hub to this version; for metadata, see [`Convertible::convert_to`].
    ///
    /// # Errors
    /// As for [`Convertible::convert_to`].
    fn convert_from(hub: Self::Hub) -> Result<Self>;
}

/// The versions of one custom resource with the hub `H`, for [`Webhook::conversion`](super::Webhook::conversion). A
/// spoke is converted to another spoke through the hub.
#[must_use = "give it to a `Webhook`"]
pub struct Conversion<H> {
    versions: BTreeMap<String, Version<H>>,
}

struct Version<H> {
    to_hub: ToHub<H>,
    from_hub: FromHub<H>,
}

type ToHub<H> = Box<dyn Fn(&Value) -> Result<H> + Send + Sync>;
type FromHub<H> = Box<dyn Fn(H) -> Result<Value> + Send + Sync>;

/// A [`Conversion`] as a trait object.
pub(super) trait Converter: Send + Sync {
    /// Returns `(group, kind)`.
    fn converts(&self) -> (String, String);

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value>;
}

/// A field that a conversion lost or changed; see [`round_trip`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lossy {
    /// The field, as a JSON pointer.
    pub field: String,
    /// Its JSON before the conversion. Empty if the field was missing.
    pub before: String,
    /// Its JSON after the round trip. Empty if the field is missing.
    pub after: String,
}

// === impl Conversion ===

impl<H: Object> Default for Conversion<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Object> Conversion<H> {
    /// Creates a conversion with only the hub.
    pub fn new() -> Self {
        let hub = Version {
            to_hub: Box::new(typed::<H>),
            from_hub: Box::new(|hub| untyped(&hub)),
        };
        Self {
            versions: [(Kind::of::<H>().api_version(), hub)].into(),
        }
    }

    /// Adds a version. It replaces a version with the same `apiVersion`.
    pub fn spoke<S: Convertible<Hub = H>>(mut self) -> Self {
        let spoke = Version {
            to_hub: Box::new(|object| typed::<S>(object)?.convert_to()),
            from_hub: Box::new(|hub| untyped(&S::convert_from(hub)?)),
        };
        self.versions.insert(Kind::of::<S>().api_version(), spoke);
        self
    }

    fn version(&self, api_version: &str) -> Result<&Version<H>> {
        self.versions
            .get(api_version)
            .ok_or_else(|| Error::msg(format!("unknown version {api_version:?} of {}", Kind::of::<H>())))
    }
}

impl<H: Object> Converter for Conversion<H> {
    fn converts(&self) -> (String, String) {
        let hub = Kind::of::<H>();
        (hub.group, hub.kind)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value> {
        let (from, to) = (
            self.version(text(object, "apiVersion"))?,
            self.version(api_version)?,
        );
        let mut converted = (to.from_hub)((from.to_hub)(object)?)?;
        converted["apiVersion"] = api_version.into();
        converted["kind"] = text(object, "kind").into();
        converted["metadata"] = metadata(&object["metadata"], &converted["metadata"]);
        Ok(converted)
    }
}

/// The API server rejects a conversion that changes more of the metadata than labels and annotations.
fn metadata(sent: &Value, converted: &Value) -> Value {
    let mut metadata = sent.as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match converted.get(field).filter(|value| !is_empty(value)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.into()
}

/// Returns true for missing or empty labels or annotations.
fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Converts all objects of a review, or none.
pub(super) fn convert(converters: &[Arc<dyn Converter>], request: ConversionRequest) -> ConversionResponse {
    let converted: Result<Vec<Value>> = request
        .objects
        .iter()
        .map(|object| convert_one(converters, object, &request.desired_api_version))
        .collect();
    let response = ConversionResponse::for_request(request);
    match converted {
        Ok(objects) => response.success(objects),
        Err(error) => response.failure(Status::failure(&error.to_string(), "")),
    }
}

fn convert_one(converters: &[Arc<dyn Converter>], object: &Value, api_version: &str) -> Result<Value> {
    let (from, kind) = (text(object, "apiVersion"), text(object, "kind"));
    if from == api_version {
        return Ok(object.clone());
    }
    if let Some(items) = items(object) {
        return convert_list(converters, object, items, api_version);
    }
    let (group, _) = from.split_once('/').unwrap_or(("", from));
    let converter = converters
        .iter()
        .find(|converter| converter.converts() == (group.to_owned(), kind.to_owned()));
    let converter = converter.ok_or_else(|| Error::msg(format!("no conversion of {kind}.{group}")))?;
    converter.convert(object, api_version)
}

/// Returns the objects of a list.
fn items(object: &Value) -> Option<&Vec<Value>> {
    let is_list = text(object, "kind").ends_with("List");
    object.get("items")?.as_array().filter(|_| is_list)
}

/// Converts each object of a list, or none.
fn convert_list(
    converters: &[Arc<dyn Converter>],
    list: &Value,
    items: &[Value],
    api_version: &str,
) -> Result<Value> {
    let convert = |(index, item): (usize, &Value)| {
        convert_one(converters, item, api_version)
            .map_err(|error| Error::msg(format!("items[{index}]: {error}")))
    };
    let items: Vec<Value> = items.iter().enumerate().map(convert).collect::<Result<_>>()?;
    let mut converted = list.clone();
    converted["apiVersion"] = api_version.into();
    converted["items"] = items.into();
    Ok(converted)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn typed<K: Object>(object: &Value) -> Result<K> {
    Ok(K::deserialize(object)?)
}

fn untyped<K: Object>(object: &K) -> Result<Value> {
    Ok(serde_json::to_value(object)?)
}

/// Converts an object to the hub and back, and compares the result. Use it in tests, for example with proptest.
///
/// # Errors
/// Returns the first field that changed, or the error of the conversion with the field `""`.
pub fn round_trip<S: Convertible>(spoke: &S) -> Result<(), Lossy> {
    compare(spoke, |spoke: S| S::convert_from(spoke.convert_to()?))
}

/// Converts the hub to `S` and back, and compares the result; the counterpart of [`round_trip`].
///
/// # Errors
/// As for [`round_trip`].
pub fn hub_round_trip<S: Convertible>(hub: &S::Hub) -> Result<(), Lossy> {
    compare(hub, |hub: S::Hub| S::convert_from(hub)?.convert_to())
}

fn compare<K: Object>(object: &K, there_and_back: impl FnOnce(K) -> Result<K>) -> Result<(), Lossy> {
    let failed = |error: Error| Lossy {
        field: String::new(),
        before: format!("{object:?}"),
        after: error.to_string(),
    };
    let mut before = untyped(object).map_err(failed)?;
    let mut after = there_and_back(object.clone())
        .and_then(|object| untyped(&object))
        .map_err(failed)?;
    for value in [&mut before, &mut after] {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.retain(|field, value| {
                !["labels", "annotations"].contains(&field.as_str()) || !is_empty(value)
            });
        }
    }
    let patch = json_patch::diff(&before, &after);
    let Some(first) = patch.first() else { return Ok(()) };
    let field = first.path().to_string();
    let at = |object: &Value| object.pointer(&field).map(Value::to_string).unwrap_or_default();
    let (before, after) = (at(&before), at(&after));
    Err(Lossy { field, before, after })
}

impl fmt::Display for Lossy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, before, after } = self;
        write!(
            formatter,
            "conversion round trip changed {field:?} from {before:?} to {after:?}"
        )
    }
}

impl std::error::Error for Lossy {}
