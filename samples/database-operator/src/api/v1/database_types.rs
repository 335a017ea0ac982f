// SPDX-License-Identifier: Apache-2.0

//! The `Database` kind: its desired state (spec) and its observed state (status).

use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of Database.
///
/// Run `operator-sdk generate manifests` after a change, to update the CRD.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "db.example.com",
    version = "v1",
    kind = "Database",
    plural = "databases",
    namespaced,
    status = "DatabaseStatus",
    doc = "Database is a PostgreSQL server with replicas.",
    validation = Rule::new("self.spec.storage == oldSelf.spec.storage").message("spec.storage: cannot be changed"),
    validation = Rule::new("self.spec.version >= oldSelf.spec.version").message("spec.version: cannot be lowered")
)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The major version of PostgreSQL. It can only be raised.
    #[schemars(range(min = 12, max = 99))]
    pub version: i32,

    /// The number of servers. The first one is the primary.
    #[schemars(range(min = 1, max = 9))]
    pub replicas: i32,

    /// The size of the volume of each server, such as `10Gi`. It cannot be changed.
    #[schemars(length(max = 32))]
    pub storage: String,

    /// Backups. Without them, nothing is backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupSpec>,
}

/// When backups are made.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackupSpec {
    /// The schedule in Cron format, such as `0 3 * * *`.
    pub schedule: String,
}

/// The observed state of Database.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The servers, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,

    /// The current conditions, by type: Available, Progressing, Degraded or BackupScheduled.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}

/// A server.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The name of the pod.
    pub name: String,

    /// The version that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,

    /// True if it serves requests.
    pub ready: bool,
}
