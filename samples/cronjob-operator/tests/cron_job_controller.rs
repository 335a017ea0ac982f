// SPDX-License-Identifier: Apache-2.0

//! Tests the CronJob controller on a control plane in this process, with a clock that the tests set.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use operator_envtest::{Delays, TestEnv};
use operator_runtime::prelude::*;

use cronjob_operator::api::v1::{ConcurrencyPolicy, CronJob};
use cronjob_operator::clock::Clock;

/// The sample in config/.
const SAMPLE: &str = "config/samples/batch_v1_cronjob.yaml";

/// A clock that only a test advances.
#[derive(Clone)]
struct TestClock(Arc<Mutex<Timestamp>>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no test panics with it")
    }
}

/// A control plane with the operator and one CronJob, which runs hourly.
struct Bench {
    env: TestEnv,
    clock: TestClock,
    crons: Api<CronJob>,
    jobs: Api<Job>,
}

impl Bench {
    /// Starts at half past nine. Jobs take `delay`.
    async fn start(delay: Duration, change: impl FnOnce(&mut CronJob)) -> Result<Self> {
        let delays = Delays {
            job: delay,
            ..Delays::default()
        };
        let env = TestEnv::builder()
            .crd_path("config/crd/bases")
            .delays(delays)
            .start()
            .await?;
        let options = ManagerOptions {
            webhook_bind_address: "127.0.0.1:0".to_owned(),
            ..ManagerOptions::from(env.client())
        };
        let manager = Manager::new("cronjob-operator", options).await?;
        let clock = TestClock(Arc::new(Mutex::new(at("09:30:00"))));
        cronjob_operator::operator_with(clock.clone()).add_to(&manager)?;
        tokio::spawn(manager.run_until(std::future::pending()));
        let crons: Api<CronJob> = Api::default_namespaced(env.client());
        let jobs = Api::default_namespaced(env.client());
        let mut cron: CronJob = operator_envtest::read_object(SAMPLE)?;
        cron.spec.schedule = "@hourly".to_owned();
        change(&mut cron);
        crons.create(&PostParams::default(), &cron).await?;
        let is_scheduled = |cron: &CronJob| cron.status.is_some();
        env.eventually(&crons, "cronjob-sample", is_scheduled)
            .await?;
        Ok(Self {
            env,
            clock,
            crons,
            jobs,
        })
    }

    /// Sets the clock, and changes the object to cause a reconcile.
    async fn set(&self, time: &str) -> Result<()> {
        *self.clock.0.lock().expect("no test panics with it") = at(time);
        let touch = |cron: &mut CronJob| {
            let annotations = cron.metadata.annotations.get_or_insert_default();
            annotations.insert("touched".to_owned(), time.to_owned());
        };
        self.env
            .update(&self.crons, "cronjob-sample", touch)
            .await?;
        Ok(())
    }

    /// Waits until there are Jobs of exactly these times.
    async fn eventually(&self, times: &[&str]) -> Result<()> {
        let name = |time: &&str| format!("cronjob-sample-{}", at(time).as_second() / 60);
        let wanted: BTreeSet<String> = times.iter().map(name).collect();
        let names = |jobs: &[Job]| {
            jobs.iter()
                .map(ResourceExt::name_any)
                .collect::<BTreeSet<_>>()
        };
        self.env
            .eventually_list(&self.jobs, &ListParams::default(), |jobs| {
                names(jobs) == wanted
            })
            .await?;
        Ok(())
    }

    /// Waits until the status has this last schedule time.
    async fn eventually_scheduled(&self, time: &str) -> Result<CronJob> {
        let is_recorded = |cron: &CronJob| {
            let last = cron
                .status
                .as_ref()
                .and_then(|status| status.last_schedule_time.as_ref());
            last.is_some_and(|last| last.0 == at(time))
        };
        let cron = self
            .env
            .eventually(&self.crons, "cronjob-sample", is_recorded);
        Ok(cron.await?)
    }
}

/// Returns a time of a day in the far future.
fn at(time: &str) -> Timestamp {
    format!("2100-01-01T{time}Z").parse().expect("a timestamp")
}

const FOREVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn job_is_created_at_its_time_and_not_after_its_deadline() -> Result<()> {
    let bench = Bench::start(FOREVER, |_| {}).await?;
    bench.set("10:00:10").await?;
    bench.eventually(&["10:00:00"]).await?;
    let cron = bench.eventually_scheduled("10:00:00").await?;
    assert_eq!(cron.status.map(|status| status.active.len()), Some(1));

    // The deadline is one minute.
    bench.set("12:00:59").await?;
    bench.eventually(&["10:00:00", "12:00:00"]).await?;
    bench.eventually_scheduled("12:00:00").await?;
    bench.env.stop().await;
    Ok(())
}

#[tokio::test]
async fn only_the_last_of_several_missed_times_counts() -> Result<()> {
    let bench = Bench::start(FOREVER, |_| {}).await?;
    bench.set("10:00:10").await?;
    bench.eventually(&["10:00:00"]).await?;
    let without_deadline = |cron: &mut CronJob| cron.spec.starting_deadline_seconds = None;
    bench
        .env
        .update(&bench.crons, "cronjob-sample", without_deadline)
        .await?;
    bench.set("15:59:00").await?;
    bench.eventually(&["10:00:00", "15:00:00"]).await?;
    bench.env.stop().await;
    Ok(())
}

#[tokio::test]
async fn concurrency_policy_decides_while_a_job_runs() -> Result<()> {
    let bench = Bench::start(FOREVER, |cron| {
        cron.spec.concurrency_policy = Some(ConcurrencyPolicy::Forbid);
    })
    .await?;
    bench.set("10:00:10").await?;
    bench.eventually(&["10:00:00"]).await?;
    bench.eventually_scheduled("10:00:00").await?;
    bench.set("11:00:10").await?;
    let events: Api<Event> = Api::default_namespaced(bench.env.client());
    let is_forbidden = |event: &Event| event.reason.as_deref() == Some("JobAlreadyActive");
    bench
        .env
        .eventually_list(&events, &ListParams::default(), |events| {
            events.iter().any(is_forbidden)
        })
        .await?;
    bench.eventually(&["10:00:00"]).await?;

    let replace =
        |cron: &mut CronJob| cron.spec.concurrency_policy = Some(ConcurrencyPolicy::Replace);
    bench
        .env
        .update(&bench.crons, "cronjob-sample", replace)
        .await?;
    bench.set("12:00:10").await?;
    bench.eventually(&["12:00:00"]).await?;
    bench.env.stop().await;
    Ok(())
}

#[tokio::test]
async fn history_keeps_the_newest_jobs() -> Result<()> {
    let bench = Bench::start(Duration::ZERO, |cron| {
        cron.spec.successful_jobs_history_limit = Some(1);
    })
    .await?;
    for time in ["10:00:00", "11:00:00", "12:00:00"] {
        bench.set(time).await?;
        bench.eventually_scheduled(time).await?;
    }
    bench.eventually(&["12:00:00"]).await?;
    bench.env.stop().await;
    Ok(())
}

#[tokio::test]
async fn suspended_cron_job_creates_no_job() -> Result<()> {
    let bench = Bench::start(FOREVER, |cron| cron.spec.suspend = Some(true)).await?;
    bench.set("10:00:10").await?;
    let resume = |cron: &mut CronJob| cron.spec.suspend = Some(false);
    bench.set("11:00:10").await?;
    bench
        .env
        .update(&bench.crons, "cronjob-sample", resume)
        .await?;
    bench.eventually(&["11:00:00"]).await?;
    bench.env.stop().await;
    Ok(())
}

#[tokio::test]
async fn invalid_schedule_is_reported_in_the_status() -> Result<()> {
    let bench = Bench::start(FOREVER, |cron| cron.spec.schedule = "never".to_owned()).await?;
    let is_degraded = |cron: &CronJob| {
        let status = cron.status.as_ref();
        status.is_some_and(|status| status.conditions.is_true("Degraded"))
    };
    bench
        .env
        .eventually(&bench.crons, "cronjob-sample", is_degraded)
        .await?;
    bench.env.stop().await;
    Ok(())
}
