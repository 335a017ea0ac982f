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
    namespaced,
    status = "{{ kind }}Status",
    doc = "{{ kind }} is the Schema for the {{ plural }} API.",
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Available')].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Spec {
    /// The number of instances.
    #[schemars(range(min = 1, max = {{ image.size_max }}))]
    pub size: i32,
}

/// The observed state of {{ kind }}.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct {{ kind }}Status {
    /// The current conditions, by type: Available, Progressing or Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The names of the pods of the instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}
