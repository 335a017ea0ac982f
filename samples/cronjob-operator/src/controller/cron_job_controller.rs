// SPDX-License-Identifier: Apache-2.0

//! Creates the Jobs of each CronJob at the times of its schedule.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;

use crate::api::v1::{ConcurrencyPolicy, CronJob};
use crate::clock::Clock;
use crate::schedule::Schedule;

/// The annotation of a Job with its scheduled time.
const SCHEDULED_AT: &str = "batch.example.com/scheduled-at";

/// Returns the controller: it watches CronJob objects, and the Jobs that they own.
pub fn controller(clock: impl Clock) -> Controller<CronJob> {
    Controller::new(CronJobs { clock }).owns::<Job>()
}

/// Reconciles CronJob objects with a shared clock.
struct CronJobs<C> {
    clock: C,
}

impl<C: Clock> Reconciler<CronJob> for CronJobs<C> {
    /// Creates the Job that is due, if any, and requeues the CronJob for the next one.
    async fn reconcile(&self, cron: Arc<CronJob>, ctx: Context<CronJob>) -> Result<Action> {
        let now = self.clock.now();
        let jobs = Jobs::new(ctx.list_owned::<Job>().await?);
        let schedule = cron.spec.schedule.parse::<Schedule>();
        let last = last_schedule_time(&cron, &jobs);
        ctx.update_status(|status| {
            status.active = jobs.active.iter().map(|job| job.name_any()).collect();
            status.last_schedule_time = last.map(Time);
            status.conditions.set_all(match &schedule {
                Ok(_) => [
                    Condition::available(true, "Scheduled", "the schedule is valid"),
                    Condition::degraded(false, "AsExpected", "the schedule is valid"),
                ],
                Err(error) => [
                    Condition::available(false, "InvalidSchedule", error),
                    Condition::degraded(true, "InvalidSchedule", error),
                ],
            });
        })
        .await?;

        for job in jobs.surplus(&cron) {
            ctx.delete(&**job).await?;
        }
        // Only a change of the object can correct the schedule.
        let schedule = schedule.map_err(Error::terminal)?;
        if cron.spec.suspend == Some(true) {
            return Ok(Action::done());
        }
        if let Some(due) = due(&cron, &schedule, last, now) {
            start(&cron, &jobs, due, &ctx).await?;
        }
        Ok(match schedule.next_after(now) {
            Some(next) => Action::requeue_after(until(now, next)),
            None => Action::done(),
        })
    }
}

/// Creates the Job of a scheduled time, according to the concurrency policy.
async fn start(cron: &CronJob, jobs: &Jobs, due: Timestamp, ctx: &Context<CronJob>) -> Result<()> {
    match cron.spec.concurrency_policy.unwrap_or_default() {
        ConcurrencyPolicy::Forbid if !jobs.active.is_empty() => {
            ctx.event().normal(
                "JobAlreadyActive",
                "a Job is still running, so none was started",
            );
            return Ok(());
        }
        ConcurrencyPolicy::Replace => {
            for job in &jobs.active {
                ctx.delete(&**job).await?;
            }
        }
        ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {}
    }
    let job = ctx.apply_owned(job_for(cron, due)).await?;
    let message = format!("Created Job {}", job.name_any());
    ctx.event().normal("SuccessfulCreate", &message);
    Ok(())
}

/// The Jobs of a CronJob, oldest first.
struct Jobs {
    active: Vec<Arc<Job>>,
    successful: Vec<Arc<Job>>,
    failed: Vec<Arc<Job>>,
}

impl Jobs {
    fn new(mut jobs: Vec<Arc<Job>>) -> Self {
        jobs.retain(|job| job.metadata.deletion_timestamp.is_none());
        jobs.sort_by_key(|job| scheduled_at(job));
        let is_finished =
            |job: &Arc<Job>| has_condition(job, "Complete") || has_condition(job, "Failed");
        let (finished, active): (Vec<_>, Vec<_>) = jobs.into_iter().partition(is_finished);
        let is_failed = |job: &Arc<Job>| has_condition(job, "Failed");
        let (failed, successful) = finished.into_iter().partition(is_failed);
        Self {
            active,
            successful,
            failed,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.active
            .iter()
            .chain(&self.successful)
            .chain(&self.failed)
    }

    /// Returns the oldest finished Jobs beyond the history limits.
    fn surplus(&self, cron: &CronJob) -> impl Iterator<Item = &Arc<Job>> {
        let beyond = |jobs: &[Arc<Job>], limit: Option<i32>, default: usize| {
            let limit = limit.map_or(default, |limit| usize::try_from(limit).unwrap_or(0));
            jobs.len().saturating_sub(limit)
        };
        let successful = beyond(&self.successful, cron.spec.successful_jobs_history_limit, 3);
        let failed = beyond(&self.failed, cron.spec.failed_jobs_history_limit, 1);
        self.successful
            .iter()
            .take(successful)
            .chain(self.failed.iter().take(failed))
    }
}

fn has_condition(job: &Job, type_: &str) -> bool {
    let conditions = job
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    let mut conditions = conditions.flatten();
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED_AT)?.parse().ok()
}

/// Returns the scheduled time of the newest Job, even if the Job has been deleted.
fn last_schedule_time(cron: &CronJob, jobs: &Jobs) -> Option<Timestamp> {
    let status = cron.status.as_ref();
    let recorded = status.and_then(|status| status.last_schedule_time.as_ref());
    let recorded = recorded.map(|time| time.0);
    recorded.max(jobs.all().filter_map(|job| scheduled_at(job)).max())
}

/// Returns the last scheduled time that has no Job yet and is not past its deadline. If several times were missed, only
/// the last one counts.
fn due(
    cron: &CronJob,
    schedule: &Schedule,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let created = cron.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let after = last.or(created).unwrap_or(now);
    let deadline = cron.spec.starting_deadline_seconds.map(|seconds| {
        let earliest = now.as_second().saturating_sub(seconds).saturating_sub(1);
        Timestamp::from_second(earliest).unwrap_or(Timestamp::MIN)
    });
    schedule.last_between(after.max(deadline.unwrap_or(Timestamp::MIN)), now)
}

fn until(now: Timestamp, next: Timestamp) -> Duration {
    Duration::try_from(next.duration_since(now)).unwrap_or_default()
}

/// Returns the Job of a scheduled time. Its name contains the time, so that it is created only once.
fn job_for(cron: &CronJob, due: Timestamp) -> Job {
    let template = cron.spec.job_template.clone();
    let metadata = template.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), due.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron.name_any(), due.as_second() / 60)),
            labels: metadata.labels,
            annotations: Some(annotations),
            ..Default::default()
        },
        spec: template.spec,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().expect("a timestamp")
    }

    #[test]
    fn time_past_its_deadline_is_not_due() {
        let hourly: Schedule = "@hourly".parse().expect("a schedule");
        let mut cron = CronJob::new("cron", Default::default());
        cron.metadata.creation_timestamp = Some(Time(at("09:30:00")));
        let due = |cron: &CronJob, last, now: &str| due(cron, &hourly, last, at(now));
        let (ten, eleven) = (Some(at("10:00:00")), Some(at("11:00:00")));
        assert_eq!(due(&cron, None, "09:59:59"), None);
        assert_eq!(due(&cron, None, "10:30:00"), ten);
        assert_eq!(due(&cron, ten, "10:30:00"), None);
        assert_eq!(due(&cron, ten, "15:30:00"), Some(at("15:00:00")));

        cron.spec.starting_deadline_seconds = Some(60);
        assert_eq!(due(&cron, ten, "11:00:00"), eleven);
        assert_eq!(due(&cron, ten, "11:01:00"), eleven);
        assert_eq!(due(&cron, ten, "11:01:01"), None);
    }
}
