// SPDX-License-Identifier: Apache-2.0

// ANCHOR: whole
//! The first version of the `Website` kind, which had a single page.

use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of Website.
///
/// Run `operator-sdk generate manifests` after a change, to update the CRD.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "web.example.com",
    version = "v1alpha1",
    kind = "Website",
    plural = "websites",
    storage = false,
    namespaced,
    status = "WebsiteStatus",
    doc = "Website is a static page, served by nginx."
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,

    /// The name at which the site is reachable from outside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,

    /// The number of replicas.
    #[schemars(range(min = 0, max = 20))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The observed state of Website.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The address of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// The current conditions, by type: Available, Progressing or Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
// ANCHOR_END: whole
