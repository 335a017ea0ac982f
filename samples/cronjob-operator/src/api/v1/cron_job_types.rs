// SPDX-License-Identifier: Apache-2.0

//! The `CronJob` kind: its desired state (spec) and its observed state (status).

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use operator_runtime::Conditions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of CronJob.
///
/// Run `operator-sdk generate manifests` after a change, to update the CRD.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "batch.example.com",
    version = "v1",
    kind = "CronJob",
    plural = "cronjobs",
    namespaced,
    status = "CronJobStatus",
    doc = "CronJob creates Jobs at the times of a schedule."
)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// The schedule in Cron format, in UTC; see <https://en.wikipedia.org/wiki/Cron>.
    pub schedule: String,

    /// The number of seconds within which a Job must start after its scheduled time. Later it is skipped.
    #[schemars(range(min = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<i64>,

    /// The policy for a Job that is due while another one runs; `Allow` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_policy: Option<ConcurrencyPolicy>,

    /// Creates no further Jobs; Jobs that run are not affected. The default is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// The Job to create.
    pub job_template: JobTemplateSpec,

    /// The number of successful Jobs to keep; 3 by default.
    #[schemars(range(min = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successful_jobs_history_limit: Option<i32>,

    /// The number of failed Jobs to keep; 1 by default.
    #[schemars(range(min = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_jobs_history_limit: Option<i32>,
}

/// The policy for a Job that is due while another one runs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Both Jobs run.
    #[default]
    Allow,
    /// The new Job is skipped.
    Forbid,
    /// The running Job is deleted.
    Replace,
}

/// The observed state of CronJob.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The names of the Jobs that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,

    /// The scheduled time of the newest Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,

    /// The current conditions, by type: Available or Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
