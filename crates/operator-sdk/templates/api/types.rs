{{ header }}//! The `{{ kind }}` kind: its desired state (spec) and its observed state (status).

use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of {{ kind }}.
///
/// Run `operator-sdk generate manifests` after a change, to update the CRD.
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
    /// An example field: replace it with the fields of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foo: Option<String>,
}

/// The observed state of {{ kind }}.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Status {
    /// The current conditions, by type: Available, Progressing or Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
