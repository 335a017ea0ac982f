// SPDX-License-Identifier: Apache-2.0

// ANCHOR: whole
//! The `Website` kind: its desired state (spec) and its observed state (status).

use std::collections::BTreeMap;

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
    version = "v1",
    kind = "Website",
    plural = "websites",
    namespaced,
    status = "WebsiteStatus",
    doc = "Website is a set of static pages, served by nginx."
)]
// ANCHOR: spec
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The pages by file name, such as `index.html`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, String>,

    /// The name at which the site is reachable from outside the cluster. Without it, no Ingress and no DNS record are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,

    /// The number of replicas. The default is 2 if the site has a host, and 1 otherwise.
    #[schemars(range(min = 0, max = 20))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}
// ANCHOR_END: spec

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
