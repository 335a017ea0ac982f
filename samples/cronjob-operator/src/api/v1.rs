// SPDX-License-Identifier: Apache-2.0

//! The kinds in version v1.

pub mod cron_job_types;

pub use cron_job_types::{ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus};
