// SPDX-License-Identifier: Apache-2.0

//! The `User` kind: its desired state (spec) and its observed state (status).

use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of User.
///
/// Run `operator-sdk generate manifests` after a change, to update the CRD.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "db.example.com",
    version = "v1",
    kind = "User",
    plural = "users",
    namespaced,
    status = "UserStatus",
    doc = "User is an account of a Database in the same namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// The name of the Database.
    pub database: String,
}

/// The observed state of User.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// The name of the Secret with the keys `host`, `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,

    /// The current conditions, by type: Available.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
