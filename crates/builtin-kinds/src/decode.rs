//! Decoding: converts an object to the form that it has after Go's typed decoding and encoding ([`decode`]).
//!
//! Unknown fields are dropped and reported. Empty optional fields are omitted; required fields are written even if they
//! are empty. Quantities and times get their canonical form. A value of a wrong type is rejected with the text of Go's
//! JSON decoder. Names are case-sensitive.

use std::collections::{HashMap, HashSet};

use apimachinery::go::base64;
use apimachinery::json::FAULT_BYTES_MAX;
use apimachinery::quantity::Quantity;
use apimachinery::time::{self, TimeForm};
use serde_json::{Map, Value};
use structured_merge::builtin::{FieldKind, types};

use crate::go_fields::{GoField, GoStruct, go_struct};
use crate::resource_v1beta1;
use crate::tree::is_zero;
use apimachinery::gvk::Gvk;

/// The error of a body that could not be decoded as its kind: the text of the real decoder, without the prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Converts a body to the result of Go's typed decoding and encoding.
///
/// Returns the paths of the unknown fields that were dropped, such as `spec.containers[0].imge`, for fieldValidation.
/// They are in the order of the object's keys. Objects of kinds that are not built in are not changed.
///
/// # Errors
/// Returns an error if a value has a type that its field cannot hold. The object is then only partly decoded.
pub fn decode(gvk: &Gvk, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    decode_with(Decoder::default(), gvk, object)
}

/// Like [`decode`], for the body of a request. Keeps the empty lists and maps that the API server distinguishes from
/// missing ones. `replaced` are the values that a duplicate of their field replaced, with their paths. They are also
/// decoded, because Go decodes each of them.
///
/// # Errors
/// The same errors as [`decode`].
pub fn decode_body(
    gvk: &Gvk,
    object: &mut Value,
    replaced: Vec<(String, Value)>,
) -> Result<Vec<String>, DecodeError> {
    let mut decoder = Decoder {
        body_of: Some(*gvk),
        ..Decoder::default()
    };
    for (path, value) in replaced {
        decoder.replaced.entry(path).or_default().push(value);
    }
    decode_with(decoder, gvk, object)
}

fn decode_with(mut decoder: Decoder, gvk: &Gvk, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let root = types().for_kind(gvk.group, gvk.version, gvk.kind);
    let Some(root) = root.and_then(go_struct) else {
        return Ok(Vec::new());
    };
    decoder.rounds = matches!(gvk.group, "" | "apps" | "batch");
    let has_replaced = !decoder.replaced.is_empty();
    decoder.object(root, object)?;
    if has_replaced {
        let mut seen = HashSet::new();
        decoder.unknown.retain(|path| seen.insert(path.clone()));
    }
    match decoder.saved {
        Some(error) => Err(error),
        None => Ok(decoder.unknown),
    }
}

/// Like [`decode`], for a part of an object. `name` is the OpenAPI name of its type.
///
/// # Errors
/// The same errors as [`decode`].
pub fn decode_type(name: &str, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    let Some(root) = types().named(name).and_then(go_struct) else {
        return Ok(Vec::new());
    };
    let mut decoder = Decoder {
        rounds: name.contains(".core."),
        ..Decoder::default()
    };
    decoder.object(root, value)?;
    match decoder.saved {
        Some(error) => Err(error),
        None => Ok(decoder.unknown),
    }
}

/// Rounds a quantity up to thousandths.
fn round_to_milli(value: &mut Value) {
    if let Ok(quantity) = Quantity::from_json(value) {
        *value = Value::String(quantity.rounded_to_milli().to_string());
    }
}

/// The Go name of schemas, which are recursive in several ways.
const SCHEMA: &str = "v1.JSONSchemaProps";

/// Returns the Go structs between a struct and a field that one of its embedded structs contains; error texts name them.
fn embedded_in(go_name: &str, field: &str) -> &'static [&'static str] {
    match (go_name, field) {
        ("v1.EphemeralContainer", "targetContainerName") | ("v1.Volume", "name") => &[],
        ("v1.EphemeralContainer", _) => &["EphemeralContainerCommon"],
        ("v1.Volume", _) => &["VolumeSource"],
        ("v1.PersistentVolumeSpec", field) if VOLUME_SOURCES.contains(&field) => &["PersistentVolumeSource"],
        (go_name, "name") if REFERENCES.contains(&go_name) => &["LocalObjectReference"],
        ("v1.PersistentVolumeClaim" | "v1.DeleteOptions", "apiVersion" | "kind") => &["TypeMeta"],
        ("v1.Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => &["ProbeHandler"],
        ("v1.IngressRule", "http") => &["IngressRuleValue"],
        ("v1.RuleWithOperations", field) if RULE_FIELDS.contains(&field) => &["Rule"],
        ("v1.NamedRuleWithOperations", field) if RULE_FIELDS.contains(&field) => {
            &["RuleWithOperations", "Rule"]
        }
        ("v1.NamedRuleWithOperations", "operations") => &["RuleWithOperations"],
        (
            "v1.DeviceAllocationConfiguration"
            | "v1.DeviceClaimConfiguration"
            | "v1.DeviceClassConfiguration",
            "opaque",
        ) => &["DeviceConfiguration"],
        _ => &[],
    }
}

/// The fields of `Rule`.
const RULE_FIELDS: &[&str] = &["apiGroups", "apiVersions", "resources", "scope"];

/// The structs that embed `LocalObjectReference`.
const REFERENCES: &[&str] = &[
    "v1.ConfigMapEnvSource",
    "v1.ConfigMapKeySelector",
    "v1.ConfigMapProjection",
    "v1.ConfigMapVolumeSource",
    "v1.SecretEnvSource",
    "v1.SecretKeySelector",
    "v1.SecretProjection",
];

/// The fields of `PersistentVolumeSource`.
const VOLUME_SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

fn is_collection(kind: &FieldKind) -> bool {
    matches!(kind, FieldKind::List(_) | FieldKind::Map(_) | FieldKind::Bytes)
}

/// Returns true if decoding an absent field has no effect.
fn is_omitted_if_absent(field: &GoField) -> bool {
    field.omit_zero
        || field.omit_empty && (field.pointer || is_collection(field.kind) || is_scalar(field.kind))
}

#[derive(Default)]
struct Decoder {
    /// The current path of the decoder, with indexes and map keys.
    path: String,
    /// The current path in Go's error texts: field names only.
    fields: Vec<&'static str>,
    /// The struct of the current field.
    parent: Option<&'static GoStruct>,
    unknown: Vec<String>,
    /// The total length of the paths in `unknown`.
    unknown_bytes: usize,
    /// The kind of the request whose body this is.
    body_of: Option<Gvk>,
    /// The values that a duplicate of their field replaced, by their paths.
    replaced: HashMap<String, Vec<Value>>,
    /// True if quantities are rounded, as those of the older groups are.
    rounds: bool,
    /// The first value of a wrong type. Like Go's decoder, this decoder continues after it, and stops only when a type
    /// with its own decoder rejects a value.
    saved: Option<DecodeError>,
}

type Decoded<T> = Result<T, DecodeError>;

impl Decoder {
    /// Decodes a struct in place.
    fn object(&mut self, go: &'static GoStruct, value: &mut Value) -> Decoded<()> {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(object) = value else {
            self.wrong_type(value, &go.name);
            *value = Value::Object(Map::new());
            return Ok(());
        };
        self.drop_unknown(go, object);
        let outer = self.parent.replace(go);
        for field in &go.fields {
            let found = object.get_mut(field.name);
            if found.is_none() && self.replaced.is_empty() && is_omitted_if_absent(field) {
                continue;
            }
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(field.name);
            let depth = self.fields.len();
            self.fields.extend(embedded_in(&go.name, field.name));
            self.fields.push(field.name);
            match found {
                Some(value) => {
                    if !self.field(field, value)? {
                        object.remove(field.name);
                    }
                }
                None => {
                    let mut value = Value::Null;
                    if self.field(field, &mut value)? {
                        object.insert(field.name.to_owned(), value);
                    }
                }
            }
            self.fields.truncate(depth);
            self.path.truncate(length);
        }
        self.parent = outer;
        Ok(())
    }

    fn drop_unknown(&mut self, go: &GoStruct, object: &mut Map<String, Value>) {
        if object.keys().all(|name| go.has_field(name)) {
            return;
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        for name in object.keys().filter(|name| !go.has_field(name)) {
            if self.unknown_bytes >= FAULT_BYTES_MAX {
                break;
            }
            let path = format!("{}{dot}{name}", self.path);
            self.unknown_bytes += path.len();
            self.unknown.push(path);
        }
        object.retain(|name, _| go.has_field(name));
    }

    /// Decodes a field in place; returns false if it is omitted.
    fn field(&mut self, field: &GoField, value: &mut Value) -> Decoded<bool> {
        self.decode_replaced(field.kind, field.type_name)?;
        if field.pointer && value.is_null() {
            return Ok(!field.omit_empty);
        }
        self.value(field.kind, field.type_name, value)?;
        if is_collection(field.kind) && is_zero(value) {
            let is_kept = |gvk: &Gvk| is_kept(gvk, &self.path);
            let keeps_empty =
                field.keeps_empty || !field.omit_empty || self.body_of.as_ref().is_some_and(is_kept);
            if !value.is_null() && keeps_empty {
                return Ok(true);
            }
            *value = Value::Null;
            return Ok(!field.omit_empty);
        }
        let is_omitted = field.omit_zero || is_scalar(field.kind) && field.omit_empty && !field.pointer;
        Ok(!(is_omitted && is_zero(value)))
    }

    /// Decodes the values at the current path that a duplicate of their field replaced.
    fn decode_replaced(&mut self, kind: &'static FieldKind, type_name: Option<&str>) -> Decoded<()> {
        if self.replaced.is_empty() {
            return Ok(());
        }
        let replaced = self.replaced.remove(&self.path).unwrap_or_default();
        for mut value in replaced {
            self.value(kind, type_name, &mut value)?;
        }
        Ok(())
    }

    /// Decodes a value in place. Null becomes the zero value.
    fn value(&mut self, kind: &'static FieldKind, type_name: Option<&str>, value: &mut Value) -> Decoded<()> {
        match kind {
            FieldKind::Ref(id) => match go_struct(id.resolve()) {
                Some(go) => self.object(go, value),
                None => Ok(()),
            },
            FieldKind::List(item) => self.list(item, type_name, value),
            FieldKind::Map(item) => self.map(item, type_name, value),
            FieldKind::Quantity => self.quantity(value),
            FieldKind::Time => self.time(TimeForm::Seconds, value),
            FieldKind::MicroTime => self.time(TimeForm::Micros, value),
            FieldKind::IntOrString => self.int_or_string(value),
            FieldKind::Bytes => {
                self.bytes(value);
                Ok(())
            }
            FieldKind::Any if self.is_in_schema() => self.schema_part(value),
            FieldKind::Object | FieldKind::Raw | FieldKind::Any => Ok(()),
            scalar => {
                self.scalar(scalar, type_name, value);
                Ok(())
            }
        }
    }

    /// Returns true if the current field belongs to a schema.
    fn is_in_schema(&self) -> bool {
        self.parent.is_some_and(|go| go.name == SCHEMA)
    }

    /// Decodes a part of a schema that is a schema or another type. Such parts have their own decoder in Go, which does
    /// not report unknown fields.
    fn schema_part(&mut self, value: &mut Value) -> Decoded<()> {
        let field = self.fields.last().copied().unwrap_or_default();
        match (field, &mut *value) {
            ("additionalProperties" | "additionalItems", Value::Bool(_)) => Ok(()),
            ("additionalProperties" | "additionalItems" | "items" | "dependencies", Value::Object(_)) => {
                self.nested_schema(value)
            }
            ("additionalProperties" | "additionalItems", _) => {
                Err(DecodeError("boolean or JSON schema expected".to_owned()))
            }
            ("items", Value::Array(items)) if !items.is_empty() => {
                items.iter_mut().try_for_each(|item| self.nested_schema(item))
            }
            ("dependencies", Value::Array(_)) => Ok(()),
            ("items" | "dependencies", _) => {
                *value = Value::Null;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn nested_schema(&mut self, value: &mut Value) -> Decoded<()> {
        let Some(go) = self.parent else { return Ok(()) };
        let mut nested = Self {
            fields: self.fields.clone(),
            parent: self.parent,
            ..Self::default()
        };
        nested.object(go, value)?;
        nested.saved.map_or(Ok(()), Err)
    }

    fn scalar(&mut self, kind: &FieldKind, type_name: Option<&str>, value: &mut Value) {
        let fits = match (kind, &*value) {
            (_, Value::Null)
            | (FieldKind::String, Value::String(_))
            | (FieldKind::Boolean, Value::Bool(_))
            | (FieldKind::Number, Value::Number(_)) => true,
            (FieldKind::Int32, Value::Number(number)) => number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            (FieldKind::Int64, Value::Number(number)) => number.as_i64().is_some(),
            _ => false,
        };
        if !fits {
            let go_name = type_name.unwrap_or_else(|| scalar_name(kind));
            self.wrong_type(value, go_name);
        }
        if !fits || value.is_null() {
            *value = zero(kind);
        }
    }

    fn list(&mut self, item: &'static FieldKind, type_name: Option<&str>, value: &mut Value) -> Decoded<()> {
        if value.is_null() {
            return Ok(());
        }
        let Value::Array(items) = value else {
            let named = type_name.filter(|name| name.starts_with("[]") || *name == EXTRA_VALUE);
            let name = named.map_or_else(|| format!("[]{}", kind_name(item)), str::to_owned);
            self.wrong_type(value, &name);
            *value = Value::Null;
            return Ok(());
        };
        let type_name = type_name.filter(|name| *name != EXTRA_VALUE);
        let type_name = type_name.map(|name| name.strip_prefix("[]").unwrap_or(name));
        let length = self.path.len();
        for (index, value) in items.iter_mut().enumerate() {
            self.path.push_str(&format!("[{index}]"));
            self.value(item, type_name, value)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn map(&mut self, item: &'static FieldKind, type_name: Option<&str>, value: &mut Value) -> Decoded<()> {
        if value.is_null() {
            return Ok(());
        }
        let Value::Object(entries) = value else {
            let name = match type_name {
                Some(name) => name.to_owned(),
                None => map_name(item),
            };
            self.wrong_type(value, &name);
            *value = Value::Null;
            return Ok(());
        };
        let item_name = matches!(item, FieldKind::List(_)).then_some(EXTRA_VALUE);
        let length = self.path.len();
        for (key, value) in entries {
            self.path.push('.');
            self.path.push_str(key);
            self.decode_replaced(item, item_name)?;
            self.value(item, item_name, value)?;
            if value.is_null() && matches!(item, FieldKind::Bytes) {
                *value = "".into();
            }
            self.path.truncate(length);
            if self.rounds && matches!(item, FieldKind::Quantity) {
                round_to_milli(value);
            }
        }
        Ok(())
    }

    fn quantity(&mut self, value: &mut Value) -> Decoded<()> {
        let quantity = match &*value {
            Value::Null => Quantity::parse("0"),
            value => Quantity::from_json(value),
        };
        let quantity = quantity.map_err(|error| DecodeError(error.to_string()))?;
        *value = Value::String(quantity.to_string());
        Ok(())
    }

    fn time(&mut self, form: TimeForm, value: &mut Value) -> Decoded<()> {
        match &*value {
            Value::Null => Ok(()),
            Value::String(text) => {
                *value = time::canonical(text, form).map_err(DecodeError)?.into();
                Ok(())
            }
            other => Err(self.type_error(other, "string")),
        }
    }

    fn int_or_string(&mut self, value: &mut Value) -> Decoded<()> {
        let fits_int32 = |number: i64| i32::try_from(number).is_ok();
        match &*value {
            Value::Null => {
                *value = Value::from(0);
                Ok(())
            }
            Value::String(_) => Ok(()),
            Value::Number(number) if number.as_i64().is_some_and(fits_int32) => Ok(()),
            other => Err(self.type_error(other, "int32")),
        }
    }

    fn bytes(&mut self, value: &mut Value) {
        match &*value {
            Value::Null => {}
            Value::String(text) => match base64::decode(text) {
                Ok(bytes) => *value = Value::String(base64::encode(&bytes)),
                Err(position) => {
                    let text = format!("illegal base64 data at input byte {position}");
                    self.saved.get_or_insert(DecodeError(text));
                }
            },
            Value::Array(items) => {
                // Go reads a list of small numbers as bytes.
                let byte = |item: &Value| item.as_u64().and_then(|number| u8::try_from(number).ok());
                let bytes: Option<Vec<u8>> = items.iter().map(byte).collect();
                if bytes.is_none()
                    && let Some(item) = items.iter().find(|item| byte(item).is_none())
                {
                    self.wrong_type(item, "uint8");
                }
                *value = Value::String(base64::encode(&bytes.unwrap_or_default()));
            }
            other => {
                self.wrong_type(other, "[]uint8");
                *value = Value::Null;
            }
        }
    }

    /// Records a value whose type does not match its field.
    fn wrong_type(&mut self, found: &Value, go_type: &str) {
        if self.saved.is_none() {
            self.saved = Some(self.type_error(found, go_type));
        }
    }

    fn type_error(&self, found: &Value, go_type: &str) -> DecodeError {
        let found = describe(found, go_type);
        let target = match self.parent {
            Some(go) => format!(
                "struct field {}.{} of type {go_type}",
                go.short_name(),
                self.fields.join(".")
            ),
            None => format!("value of type {go_type}"),
        };
        DecodeError(format!("json: cannot unmarshal {found} into Go {target}"))
    }
}

/// Returns true if the decoder keeps an empty list or map at a path of a body. See also [`drop_empty`](crate::drop_empty).
fn is_kept(gvk: &Gvk, path: &str) -> bool {
    // A request with an empty list is an exact one; see `resource_v1beta1`.
    if resource_v1beta1::v1_kind(gvk).is_some() && path.contains("devices.requests") {
        return path.ends_with("].selectors") || path.ends_with("].tolerations");
    }
    // Pod-level resources may not have claims, not even an empty list.
    path.ends_with("spec.resources.claims")
        || match (gvk.group, gvk.kind) {
            ("", "Pod") => path == "spec.overhead",
            ("resource.k8s.io", "ResourceSlice") => matches!(path, "spec.devices" | "spec.sharedCounters"),
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
            ) => path.starts_with("webhooks"),
            ("networking.k8s.io", "NetworkPolicy") => path.starts_with("spec."),
            ("resource.k8s.io", "ResourceClaimTemplate") => matches!(
                path,
                "spec.metadata.finalizers" | "spec.metadata.managedFields" | "spec.metadata.ownerReferences"
            ),
            _ => false,
        }
}

/// Returns Go's description of a value that it cannot store. A number is shown if only its size or its fraction is
/// wrong.
pub(super) fn describe(value: &Value, go_type: &str) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if go_type.starts_with("int") || go_type.starts_with("uint") => {
            format!("number {number}")
        }
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn is_scalar(kind: &FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::String | FieldKind::Boolean | FieldKind::Int32 | FieldKind::Int64 | FieldKind::Number
    )
}

fn zero(kind: &FieldKind) -> Value {
    match kind {
        FieldKind::String => Value::from(""),
        FieldKind::Boolean => Value::from(false),
        _ => Value::from(0),
    }
}

fn scalar_name(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::String => "string",
        FieldKind::Boolean => "bool",
        FieldKind::Int32 => "int32",
        FieldKind::Int64 => "int64",
        _ => "float64",
    }
}

/// The Go type of the lists in maps: only the additional attributes of users have them.
const EXTRA_VALUE: &str = "v1.ExtraValue";

/// Returns the Go type of a map.
fn map_name(item: &FieldKind) -> String {
    match item {
        FieldKind::List(_) => format!("map[string]{EXTRA_VALUE}"),
        item => format!("map[string]{}", kind_name(item)),
    }
}

/// Returns the Go type of the items of a list or map.
fn kind_name(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Ref(id) => go_struct(id.resolve())
            .map(|go| go.name.clone())
            .unwrap_or_default(),
        FieldKind::List(item) => format!("[]{}", kind_name(item)),
        FieldKind::Map(item) => map_name(item),
        FieldKind::Bytes => "[]uint8".to_owned(),
        FieldKind::Quantity => "resource.Quantity".to_owned(),
        FieldKind::Time => "v1.Time".to_owned(),
        FieldKind::MicroTime => "v1.MicroTime".to_owned(),
        FieldKind::IntOrString => "intstr.IntOrString".to_owned(),
        FieldKind::Raw => "runtime.RawExtension".to_owned(),
        FieldKind::Object | FieldKind::Any => "v1.JSON".to_owned(),
        scalar => scalar_name(scalar).to_owned(),
    }
}
