//! `metav1.Status`: every response of the server that is not an object ([`Status`]).
//!
//! The texts follow `k8s.io/apimachinery/pkg/api/errors`.

use std::collections::HashSet;

use apimachinery::field;
use apimachinery::go::quote;
use serde_json::{Map, Value, json};

/// An error response, as `k8s.io/apimachinery/pkg/api/errors` makes it. `body` is the whole Status object.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .body.get("message").and_then(Value::as_str).unwrap_or("unknown"))]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The Status object, ready to be sent.
    pub body: Value,
}

impl Status {
    /// The machine-readable reason, such as `NotFound`, or an empty string.
    pub fn reason(&self) -> &str {
        self.body
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The message, or an empty string.
    pub fn message(&self) -> &str {
        self.body
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the seconds after which the client may retry, for the `Retry-After` header.
    pub(crate) fn retry_after(&self) -> Option<i64> {
        self.body
            .pointer("/details/retryAfterSeconds")
            .and_then(Value::as_i64)
    }
}

/// A resource and its kind in error texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedResource {
    pub(crate) group: String,
    /// The plural.
    pub(crate) resource: String,
    /// The kind.
    pub(crate) kind: String,
}

impl NamedResource {
    /// Returns the resource with its group: `deployments.apps`.
    pub(crate) fn resource_name(&self) -> String {
        qualified(&self.resource, &self.group)
    }

    /// Returns the kind with its group: `Deployment.apps`.
    pub(crate) fn kind_name(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    fn details(&self, name: &str) -> Map<String, Value> {
        details(name, &self.group, &self.resource)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    details
}

fn failure(
    code: u16,
    reason: &str,
    message: impl Into<String>,
    details: Option<Map<String, Value>>,
) -> Status {
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message.into(), "code": code,
    });
    if !reason.is_empty() {
        body["reason"] = reason.into();
    }
    if let Some(details) = details {
        body["details"] = Value::Object(details);
    }
    Status { code, body }
}

// === impl Status: the errors ===

pub(crate) fn bad_request(message: impl Into<String>) -> Status {
    failure(400, "BadRequest", message, None)
}

/// Returns the error of a request with invalid credentials.
pub(crate) fn unauthorized() -> Status {
    failure(401, "Unauthorized", "Unauthorized", None)
}

pub(crate) fn not_found(subject: &NamedResource, name: &str) -> Status {
    let message = format!("{} {} not found", subject.resource_name(), quote(name));
    failure(404, "NotFound", message, Some(subject.details(name)))
}

/// Returns a 404 for an unknown resource in a known group.
pub(crate) fn unknown_resource() -> Status {
    failure(
        404,
        "NotFound",
        "the server could not find the requested resource",
        Some(Map::new()),
    )
}

pub(crate) fn already_exists(subject: &NamedResource, name: &str) -> Status {
    let message = format!("{} {} already exists", subject.resource_name(), quote(name));
    failure(409, "AlreadyExists", message, Some(subject.details(name)))
}

/// Returns the error of a `generateName` for which no free name was found.
pub(crate) fn generate_name_conflict(subject: &NamedResource, name: &str) -> Status {
    let message = format!(
        "{} {} already exists, the server was not able to generate a unique name for the object",
        subject.resource_name(),
        quote(name)
    );
    let mut details = subject.details(name);
    details.insert("retryAfterSeconds".to_owned(), 1.into());
    failure(409, "AlreadyExists", message, Some(details))
}

/// Returns the error of a create while an object with the same name is still being deleted.
pub(crate) fn exists_while_deleted(subject: &NamedResource, name: &str) -> Status {
    let message = format!(
        "object is being deleted: {} {} already exists",
        subject.resource_name(),
        quote(name)
    );
    failure(409, "AlreadyExists", message, Some(subject.details(name)))
}

pub(crate) fn conflict(subject: &NamedResource, name: &str, why: &str) -> Status {
    let message = format!(
        "Operation cannot be fulfilled on {} {}: {why}",
        subject.resource_name(),
        quote(name)
    );
    failure(409, "Conflict", message, Some(subject.details(name)))
}

/// Returns the conflict of a write that is based on an old version of the object.
pub(crate) fn modified(subject: &NamedResource, name: &str) -> Status {
    conflict(
        subject,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}

/// Returns a conflict between field managers.
pub(crate) fn apply_conflict(message: &str, causes: Vec<(String, String)>) -> Status {
    let causes: Vec<Value> = causes
        .into_iter()
        .map(|(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field}))
        .collect();
    let mut details = Map::new();
    details.insert("causes".to_owned(), causes.into());
    failure(409, "Conflict", message, Some(details))
}

pub(crate) fn invalid(subject: &NamedResource, name: &str, errors: &[field::Error]) -> Status {
    let message = format!(
        "{} {} is invalid: {}",
        subject.kind_name(),
        quote(name),
        aggregate(errors)
    );
    let mut details = details(name, &subject.group, &subject.kind);
    let causes: Vec<Value> = errors.iter().map(cause).collect();
    if !causes.is_empty() {
        details.insert("causes".to_owned(), causes.into());
    }
    failure(422, "Invalid", message, Some(details))
}

/// Joins errors as `[a, b]`, without duplicates.
pub(crate) fn aggregate(errors: &[field::Error]) -> String {
    let mut seen = HashSet::with_capacity(errors.len());
    let texts: Vec<String> = errors
        .iter()
        .map(field_error_text)
        .filter(|text| seen.insert(text.clone()))
        .collect();
    if let [only] = texts.as_slice() {
        return only.clone();
    }
    format!("[{}]", texts.join(", "))
}

fn field_error_text(error: &field::Error) -> String {
    error.to_string()
}

fn cause(error: &field::Error) -> Value {
    json!({"reason": error.kind.reason(), "message": error.message(), "field": error.field.as_str()})
}

pub(crate) fn forbidden(subject: &NamedResource, name: &str, why: &str) -> Status {
    let message = if subject.resource.is_empty() && subject.group.is_empty() {
        format!("forbidden: {why}")
    } else if name.is_empty() {
        format!("{} is forbidden: {why}", subject.resource_name())
    } else {
        format!("{} {} is forbidden: {why}", subject.resource_name(), quote(name))
    };
    failure(403, "Forbidden", message, Some(subject.details(name)))
}

/// Returns `Forbidden` with a machine-readable cause, such as `NamespaceTerminating`.
pub(crate) fn forbidden_because(subject: &NamedResource, name: &str, why: &str, cause: &Value) -> Status {
    let mut status = forbidden(subject, name, why);
    status.body["details"]["causes"] = json!([cause]);
    status
}

/// Changes the code and the reason of an error, and adds its text as a cause.
pub(crate) fn with_reason(mut refused: Status, code: u16, reason: &str, cause: &str) -> Status {
    refused.code = code;
    refused.body["code"] = code.into();
    refused.body["reason"] = reason.into();
    refused.body["details"]["causes"] = json!([{"message": cause}]);
    refused
}

pub(crate) fn method_not_supported(subject: &NamedResource, verb: &str) -> Status {
    let message = format!(
        "{verb} is not supported on resources of kind {}",
        quote(&subject.resource_name())
    );
    failure(
        405,
        "MethodNotAllowed",
        message,
        Some(details("", &subject.group, &subject.resource)),
    )
}

/// Returns the error of a method that no verb of the resource uses.
pub(crate) fn method_not_allowed() -> Status {
    failure(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        Some(Map::new()),
    )
}

pub(crate) fn expired(message: impl Into<String>) -> Status {
    failure(410, "Expired", message, None)
}

/// Returns the error of a backend that does not respond.
pub(crate) fn unavailable(message: impl Into<String>) -> Status {
    failure(503, "ServiceUnavailable", message, None)
}

pub(crate) fn too_large(message: impl Into<String>) -> Status {
    failure(413, "RequestEntityTooLarge", message, None)
}

pub(crate) fn not_acceptable(accepted: &str) -> Status {
    failure(
        406,
        "NotAcceptable",
        format!("only the following media types are accepted: {accepted}"),
        None,
    )
}

/// Returns the router's error for an `Accept` header without a supported type.
pub(crate) fn no_representation(available: &str) -> Status {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    failure(406, "NotAcceptable", message, Some(Map::new()))
}

/// Returns the error of a format for one object that was requested for a list, or vice versa.
pub(crate) fn wrong_transform(wanted: &str, found: &str) -> Status {
    let message = format!("you requested {wanted}, but the requested object {found}");
    failure(406, "NotAcceptable", message, None)
}

pub(crate) fn unsupported_media_type(accepted: &str) -> Status {
    failure(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
        None,
    )
}

/// Returns the error of a patch type that built-in resources do not support.
pub(crate) fn unsupported_patch_type() -> Status {
    failure(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
        Some(Map::new()),
    )
}

/// Returns the error of a patch whose result is not an object of the kind; `shown` is the patched object, or the patch.
pub(crate) fn invalid_patch(shown: &str, why: &str) -> Status {
    let nothing = NamedResource {
        group: String::new(),
        resource: String::new(),
        kind: String::new(),
    };
    let error = field::Error::invalid(field::Path::new("patch"), shown.into(), why);
    invalid(&nothing, "", &[error])
}

/// Returns the error of a commit that could not be written: an internal error with the text of
/// `errors.NewInternalError`.
pub(crate) fn not_persisted(error: &impl std::fmt::Display) -> Status {
    internal(&error.to_string())
}

pub(crate) fn internal(why: &str) -> Status {
    let mut details = Map::new();
    details.insert("causes".to_owned(), json!([{"message": why}]));
    failure(
        500,
        "InternalError",
        format!("Internal error occurred: {why}"),
        Some(details),
    )
}

/// Returns the error of a request that took too long.
pub(crate) fn timeout() -> Status {
    timed_out("request did not complete within the allotted timeout")
}

/// Returns the error of a write that took too long.
pub(crate) fn write_timeout() -> Status {
    timed_out("request did not complete within requested timeout - context deadline exceeded")
}

fn timed_out(why: &str) -> Status {
    failure(504, "Timeout", format!("Timeout: {why}"), Some(Map::new()))
}

/// Returns the error of a request beyond a limit of the server; the client may retry after `retry_after` seconds.
pub(crate) fn too_many_requests(message: &str, retry_after: i64) -> Status {
    let mut details = Map::new();
    details.insert("retryAfterSeconds".to_owned(), retry_after.into());
    failure(429, "TooManyRequests", message, Some(details))
}

/// Returns the answer to a request beyond a rate limit that does not say when to try again.
pub(crate) fn rate_limited(message: &str) -> Status {
    failure(429, "TooManyRequests", message, None)
}

/// Returns the error of an eviction that a disruption budget does not allow now; `retry_after` is in seconds, 0 for
/// none.
pub(crate) fn budget_violated(cause: &str, retry_after: i64) -> Status {
    let mut details = Map::new();
    details.insert(
        "causes".to_owned(),
        json!([{"reason": "DisruptionBudget", "message": cause}]),
    );
    if retry_after > 0 {
        details.insert("retryAfterSeconds".to_owned(), retry_after.into());
    }
    failure(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        Some(details),
    )
}

/// Returns a 500 without a reason, for a Go error that is not a Status.
pub(crate) fn plain(message: impl Into<String>) -> Status {
    failure(500, "", message, None)
}

/// Returns the error of a JSON patch that cannot be applied.
pub(crate) fn unprocessable() -> Status {
    failure(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        Some(Map::new()),
    )
}

/// Returns the error of a patch that cannot be applied, without a machine-readable reason.
pub(crate) fn unprocessable_because(why: &str) -> Status {
    failure(422, "", why, None)
}

/// Returns the error of a read at a revision that does not exist yet.
pub(crate) fn too_large_revision(wanted: u64, current: u64) -> Status {
    let mut details = Map::new();
    details.insert(
        "causes".to_owned(),
        json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
    );
    details.insert("retryAfterSeconds".to_owned(), 1.into());
    failure(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        Some(details),
    )
}

/// Returns the response to a delete that removed the object.
pub(crate) fn deleted(subject: &NamedResource, name: &str, uid: &str) -> Value {
    let mut details = subject.details(name);
    if !uid.is_empty() {
        details.insert("uid".to_owned(), uid.into());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
