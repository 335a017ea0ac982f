{{ header }}//! The `{{ kind }}` kind: what a user may ask for, and what the operator answers.

use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of {{ kind }}.
///
/// Run `operator-sdk generate manifests` after a change: the definition that the API server checks comes from here.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "{{ api_group }}",
    version = "{{ version }}",
    kind = "{{ kind }}",
    plural = "{{ plural }}",
{% if not storage %}
    storage = false,
{% endif %}
{% if namespaced %}
    namespaced,
{% endif %}
    status = "{{ kind }}Status",
    doc = "{{ kind }} is the Schema for the {{ plural }} API."
)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Spec {
    /// An example field: replace it with what the kind is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
}

/// The observed state of {{ kind }}.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Status {
    /// What the operator has seen so far, by type: Available, Progressing or Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
