//! The `admission.k8s.io` reviews, versions v1 and v1beta1: [`AdmissionRequest`] and [`AdmissionResponse`]. They hold
//! objects as JSON.

use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::denied::Denied;

const KIND: &str = "AdmissionReview";
const VERSION: &str = "admission.k8s.io/v1";

/// The `request` of an `AdmissionReview`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// The unique identifier of the request, which is copied to the response.
    pub uid: String,
    /// The kind of the object.
    #[serde(default)]
    pub kind: GroupVersionKind,
    /// The resource that is written.
    #[serde(default)]
    pub resource: GroupVersionResource,
    /// The subresource that is written, such as `status`.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// The kind that the client sent, if the object was converted for this webhook.
    #[serde(default)]
    pub request_kind: Option<GroupVersionKind>,
    /// The name. Empty if the API server generates it.
    #[serde(default)]
    pub name: String,
    /// The namespace. Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// The operation.
    #[serde(default)]
    pub operation: Operation,
    /// The user.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The new object. `None` for a deletion.
    #[serde(default)]
    pub object: Option<Value>,
    /// The old object. `None` for a creation.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// True for a dry run: a webhook must have no side effects.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The options of the operation, such as `CreateOptions`.
    #[serde(default)]
    pub options: Option<Value>,
    /// The values of the HTTP request that [`Webhook::with_context`](super::Webhook::with_context) copied.
    #[serde(skip)]
    pub extensions: http::Extensions,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to an object, as by `kubectl exec`.
    #[default]
    Connect,
}

/// A kind in a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// A resource in a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name.
    pub resource: String,
}

/// The response of an [`AdmissionHandler`](super::AdmissionHandler).
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionResponse {
    allowed: bool,
    status: Option<Box<Status>>,
    patch: Option<json_patch::Patch>,
    warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
}

/// The envelope of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review {
    pub(super) api_version: String,
    pub(super) request: AdmissionRequest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    kind: &'static str,
    api_version: &'a str,
    response: Body<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
}

// === impl AdmissionResponse ===

impl AdmissionResponse {
    /// Allows the request unchanged.
    pub fn allowed() -> Self {
        Self {
            allowed: true,
            status: None,
            patch: None,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Denies the request with a status for the client.
    pub fn denied(denied: Denied) -> Self {
        let (status, warnings) = denied.into_parts();
        Self {
            allowed: false,
            status: Some(status),
            warnings,
            ..Self::allowed()
        }
    }

    /// Denies a request that could not be processed: 400 for an invalid request, 500 for an error of the webhook.
    pub fn errored(code: StatusCode, message: impl Into<String>) -> Self {
        Self::denied(Denied::with_code(code, "", message))
    }

    /// Allows the request with changes, a JSON patch of the object in the request.
    pub fn patched(patch: json_patch::Patch) -> Self {
        let patch = (!patch.is_empty()).then_some(patch);
        Self {
            patch,
            ..Self::allowed()
        }
    }

    /// Adds warnings, which clients show to their users. Each should have at most 120 characters.
    #[must_use]
    pub fn warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Adds an annotation for the audit log. The API server adds the name of the webhook as a prefix of the key.
    #[must_use]
    pub fn audit_annotation(mut self, key: &str, value: &str) -> Self {
        self.audit_annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Returns the response to the request `uid` as JSON, in this API version.
    pub(super) fn to_json(&self, api_version: &str, uid: &str) -> Vec<u8> {
        // Serializing a patch cannot fail.
        let patch = self
            .patch
            .as_ref()
            .map(|patch| ByteString(serde_json::to_vec(patch).unwrap_or_default()));
        let envelope = Envelope {
            kind: KIND,
            api_version: if api_version.is_empty() {
                VERSION
            } else {
                api_version
            },
            response: Body {
                uid,
                allowed: self.allowed,
                status: self.status.as_deref(),
                patch_type: patch.as_ref().map(|_| "JSONPatch"),
                patch,
                warnings: &self.warnings,
                audit_annotations: &self.audit_annotations,
            },
        };
        serde_json::to_vec(&envelope).unwrap_or_default()
    }
}
