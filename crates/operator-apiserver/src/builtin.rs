//! The built-in resources of Kubernetes 1.36, as tables and pure functions: what is served, how objects are decoded
//! and normalised, defaults, validation, printer columns, field labels, reset fields.
//!
//! Knows no HTTP, no store and no clock: values in, values out. `kind` is always the pair (group/version, kind) of
//! the object as it is served.

use serde_json::Value;
use structural_schema::field;

/// The type of a built-in object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gvk {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
}

/// A built-in resource, or a subresource such as `deployments/scale`.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The group and version it is served under, and the kind of its body.
    pub(crate) gvk: Gvk,
    /// Plural (`deployments`), or plural/subresource (`deployments/status`). For a subresource `gvk` is the kind of
    /// the body (`Scale` of `autoscaling/v1`) and `served_group`/`served_version` differ from it.
    pub(crate) name: &'static str,
    pub(crate) served_group: &'static str,
    pub(crate) served_version: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
}

/// How a kind behaves where kinds differ (spec/apiserver.md 1.5, 1.10): data, read by the generic registry.
#[derive(Debug)]
pub(crate) struct Strategy {
    /// PUT without a resourceVersion overwrites.
    pub(crate) allow_unconditional_update: bool,
    /// PUT of a missing object creates it.
    pub(crate) allow_create_on_update: bool,
    /// DELETE answers with the object rather than with a Status.
    pub(crate) returns_deleted_object: bool,
    /// Dependents are orphaned unless the request says otherwise.
    pub(crate) orphans_by_default: bool,
    /// Has a `status` subresource: writes to the main resource leave status alone, and the other way round.
    pub(crate) has_status: bool,
    /// `metadata.generation` is kept: 1 on create, +1 when the part that `generation_changed` looks at changes.
    pub(crate) has_generation: bool,
}

/// Why a body could not be decoded as its kind: the text that the real decoder gives, without the prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DecodeError(pub(crate) String);

/// One column of a Table: name, type, format, description, priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i32,
}

/// Everything that is served, subresources after their resource, in discovery order.
pub(crate) fn resources() -> &'static [Resource] {
    &[]
}

/// The behaviour of a kind.
pub(crate) fn strategy(gvk: &Gvk) -> &'static Strategy {
    let _ = gvk;
    &Strategy {
        allow_unconditional_update: true,
        allow_create_on_update: false,
        returns_deleted_object: false,
        orphans_by_default: false,
        has_status: false,
        has_generation: false,
    }
}

/// Brings a body into the form that Go's typed decoding and encoding would give it: unknown fields dropped (their
/// paths are returned, for fieldValidation), empty optional fields dropped, wrong types refused.
pub(crate) fn decode(gvk: &Gvk, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let _ = (gvk, object);
    Ok(Vec::new())
}

/// Fills in the defaults of a kind. Idempotent.
pub(crate) fn default(gvk: &Gvk, object: &mut Value) {
    let _ = (gvk, object);
}

/// What the strategy does before a create: drops status, sets `spec.finalizers` of a Namespace, and so on.
pub(crate) fn prepare_for_create(gvk: &Gvk, object: &mut Value) {
    let _ = (gvk, object);
}

/// What the strategy does before an update of the resource (`subresource` empty) or of a subresource: copies what the
/// request must not change from `old`.
pub(crate) fn prepare_for_update(gvk: &Gvk, subresource: &str, object: &mut Value, old: &Value) {
    let _ = (gvk, subresource, object, old);
}

/// Whether the difference between two versions of an object bumps `metadata.generation`.
pub(crate) fn generation_changed(gvk: &Gvk, old: &Value, new: &Value) -> bool {
    let _ = (gvk, old, new);
    false
}

/// Checks a new object, metadata apart.
pub(crate) fn validate_create(gvk: &Gvk, object: &Value) -> Vec<field::Error> {
    let _ = (gvk, object);
    Vec::new()
}

/// Checks a changed object, metadata apart; `subresource` is empty for the resource itself.
pub(crate) fn validate_update(
    gvk: &Gvk,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> Vec<field::Error> {
    let _ = (gvk, subresource, object, old);
    Vec::new()
}

/// Warnings that the server sends for a written object (deprecated fields and the like).
pub(crate) fn warnings(gvk: &Gvk, object: &Value, old: Option<&Value>) -> Vec<String> {
    let _ = (gvk, object, old);
    Vec::new()
}

/// Whether names of this kind are checked as DNS labels, subdomains, path segments: the text of each fault.
pub(crate) fn validate_name(gvk: &Gvk, name: &str, is_prefix: bool) -> Vec<String> {
    let _ = (gvk, name, is_prefix);
    Vec::new()
}

/// The printer columns of a kind; the generic Name and Age where it has none of its own.
pub(crate) fn columns(gvk: &Gvk) -> Vec<Column> {
    let _ = gvk;
    Vec::new()
}

/// The cells of one object under [`columns`]; `now` is in Unix seconds, for ages.
pub(crate) fn cells(gvk: &Gvk, object: &Value, now: i64) -> Vec<Value> {
    let _ = (gvk, object, now);
    Vec::new()
}

/// The value of a field label such as `status.phase`; `Err` carries the text for a label that is not supported.
pub(crate) fn field_label(gvk: &Gvk, object: &Value, label: &str) -> Result<String, String> {
    let _ = (gvk, object, label);
    Ok(String::new())
}

/// The fields (as FieldsV1 JSON sets) that a writer of the resource or subresource never owns.
pub(crate) fn reset_fields(gvk: &Gvk, subresource: &str) -> Value {
    let _ = (gvk, subresource);
    Value::Null
}
