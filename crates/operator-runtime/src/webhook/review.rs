//! The wire form of `admission.k8s.io` reviews, versions v1 and v1beta1. Objects stay the JSON that was sent.

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

/// What the API server asks about: the `request` of an `AdmissionReview`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Tells this request from all others; the answer carries it too.
    pub uid: String,
    /// What the object is.
    #[serde(default)]
    pub kind: GroupVersionKind,
    /// What is written.
    #[serde(default)]
    pub resource: GroupVersionResource,
    /// The subresource that is written, such as `status`.
    #[serde(default)]
    pub sub_resource: Option<String>,
    /// The kind that the client sent, if the object was converted for this webhook.
    #[serde(default)]
    pub request_kind: Option<GroupVersionKind>,
    /// The name; empty where the API server makes one up.
    #[serde(default)]
    pub name: String,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// What is done.
    #[serde(default)]
    pub operation: Operation,
    /// Who does it.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The new object; none when it is deleted.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it was; none when it is created.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether nothing is to be kept: a webhook with side effects must leave them out.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The options of the operation, such as `CreateOptions`.
    #[serde(default)]
    pub options: Option<Value>,
    /// What [`Webhook::with_context`](super::Webhook::with_context) took of the HTTP request.
    #[serde(skip)]
    pub extensions: http::Extensions,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Something is connected to it, as by `kubectl exec`.
    #[default]
    Connect,
}

/// Names a kind, as reviews do.
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

/// Names a resource, as reviews do.
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

/// What an [`AdmissionHandler`](super::AdmissionHandler) answers.
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
    /// Lets the request pass as it is.
    pub fn allowed() -> Self {
        Self {
            allowed: true,
            status: None,
            patch: None,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Refuses the request, with the status that the client gets.
    pub fn denied(denied: Denied) -> Self {
        let (status, warnings) = denied.into_parts();
        Self {
            allowed: false,
            status: Some(status),
            warnings,
            ..Self::allowed()
        }
    }

    /// Refuses the request because it could not be judged: 400 where the request is to blame, 500 where the webhook is.
    pub fn errored(code: StatusCode, message: impl Into<String>) -> Self {
        Self::denied(Denied::with_code(code, "", message))
    }

    /// Lets the request pass with these changes, a JSON patch of the object that was sent.
    pub fn patched(patch: json_patch::Patch) -> Self {
        let patch = (!patch.is_empty()).then_some(patch);
        Self {
            patch,
            ..Self::allowed()
        }
    }

    /// Adds warnings, which clients show to their users; each should have at most 120 characters.
    #[must_use]
    pub fn warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Adds an annotation for the audit log, to whose key the API server adds the name of the webhook in front.
    #[must_use]
    pub fn audit_annotation(mut self, key: &str, value: &str) -> Self {
        self.audit_annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// As JSON, in answer to the request `uid` of a review of this version.
    pub(super) fn to_json(&self, api_version: &str, uid: &str) -> Vec<u8> {
        // An empty patch, and the like, have no form that could fail to serialize.
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
