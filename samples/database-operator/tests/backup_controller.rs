// SPDX-License-Identifier: Apache-2.0

//! Tests the backup controller on a control plane in this process.

mod common;

use k8s_openapi::api::batch::v1::CronJob;
use kube::Api;
use operator_runtime::prelude::*;

use common::{create_database, has, start};
use database_operator::api::v1::{BackupSpec, Database};

#[tokio::test]
async fn cron_job_comes_and_goes_with_the_backup() -> Result<()> {
    let env = start().await?;
    let databases: Api<Database> = Api::default_namespaced(env.client());
    let cron_jobs: Api<CronJob> = Api::default_namespaced(env.client());
    let name = create_database(&env, |_| {}).await?;
    let database = env
        .eventually(&databases, name, |database| {
            has(database, "BackupScheduled")
        })
        .await?;
    assert!(has(&database, "Available"), "it waits for the database");
    let has_schedule = |job: &CronJob, schedule| job.spec.schedule == schedule;
    let job = "database-sample-backup";
    env.eventually(&cron_jobs, job, |job| has_schedule(job, "0 3 * * *"))
        .await?;

    let nightly = |database: &mut Database| {
        database.spec.backup = Some(BackupSpec {
            schedule: "0 4 * * *".to_owned(),
        });
    };
    env.update(&databases, name, nightly).await?;
    env.eventually(&cron_jobs, job, |job| has_schedule(job, "0 4 * * *"))
        .await?;

    env.update(&databases, name, |database: &mut Database| {
        database.spec.backup = None
    })
    .await?;
    env.eventually_gone(&cron_jobs, job).await?;
    let is_off =
        |database: &Database| !has(database, "BackupScheduled") && has(database, "Available");
    env.eventually(&databases, name, is_off).await?;
    env.stop().await;
    Ok(())
}
