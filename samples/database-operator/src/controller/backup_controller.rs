// SPDX-License-Identifier: Apache-2.0

//! Backs up each Database that has `spec.backup`, with a CronJob.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;

use super::database_controller::{IMAGE, admin_secret, password_from};
use crate::api::v1::{BackupSpec, Database};

/// Returns the controller: it watches Database objects, and the CronJobs that they own.
pub fn controller() -> Controller<Database> {
    Controller::new(reconcile).named("backup").owns::<CronJob>()
}

/// Schedules the backups of one Database when it is available.
async fn reconcile(database: Arc<Database>, ctx: Context<Database>) -> Result<Action> {
    let backup = database.spec.backup.as_ref();
    let is_scheduled = !ctx.list_owned::<CronJob>().await?.is_empty();
    if backup.is_some() && !is_scheduled && !is_available(&database) {
        // A change of the status causes the next reconcile.
        return Err(Error::wait("the database is not available", Duration::ZERO));
    }
    let cron_jobs = ctx
        .apply_owned_set(backup.map(|backup| cron_job_for(&database, backup)))
        .await?;
    ctx.update_status(|status| {
        status.conditions.set(match cron_jobs.first() {
            Some(job) => condition(
                true,
                "Scheduled",
                &format!("CronJob {} runs backups", job.name_any()),
            ),
            None => condition(false, "NoBackup", "spec.backup is not set"),
        });
    })
    .await?;
    Ok(Action::done())
}

fn is_available(database: &Database) -> bool {
    let status = database.status.as_ref();
    status.is_some_and(|status| status.conditions.is_true("Available"))
}

fn condition(is_scheduled: bool, reason: &str, message: &str) -> Condition {
    Condition::new("BackupScheduled", is_scheduled, reason, message)
}

fn cron_job_for(database: &Database, backup: &BackupSpec) -> CronJob {
    let name = database.name_any();
    let pod = PodSpec {
        restart_policy: Some("OnFailure".to_owned()),
        containers: vec![Container {
            name: "backup".to_owned(),
            image: Some(format!("{IMAGE}:{}", database.spec.version)),
            command: Some(
                [
                    "pg_basebackup",
                    "-h",
                    &name,
                    "-U",
                    "postgres",
                    "-D",
                    "/backup",
                ]
                .map(str::to_owned)
                .into(),
            ),
            env: Some(vec![password_from(&admin_secret(&name), "PGPASSWORD")]),
            ..Default::default()
        }],
        ..Default::default()
    };
    let job = JobSpec {
        template: PodTemplateSpec {
            spec: Some(pod),
            ..Default::default()
        },
        ..Default::default()
    };
    CronJob {
        metadata: ObjectMeta {
            name: Some(format!("{name}-backup")),
            ..Default::default()
        },
        spec: CronJobSpec {
            schedule: backup.schedule.clone(),
            concurrency_policy: Some("Forbid".to_owned()),
            job_template: JobTemplateSpec {
                spec: Some(job),
                ..Default::default()
            },
            ..Default::default()
        },
        ..Default::default()
    }
}
