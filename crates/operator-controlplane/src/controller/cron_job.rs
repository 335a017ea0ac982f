//! CronJob: creates Jobs on a schedule, and deletes finished Jobs beyond the history limits.

use std::sync::Arc;

use apimachinery::time::zone;
use builtin_kinds::cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use operator_apiserver::client::Event;
use serde_json::{Map, Value, json};

use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{CRON_JOB, JOB};
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::owner::controller_reference;
use crate::plan::{Action, Note, Plan, World, create, delete, until, update_status};

const COMPONENT: &str = "cronjob-controller";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CRON_JOB, event, keys);
    keys_of_controller(&CRON_JOB, event, keys);
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let found = world.objects.get(&CRON_JOB, &key.namespace, &key.name);
    let Some(cron) = found.filter(|cron| !cron.is_terminating()) else {
        return Plan::done();
    };
    let jobs: Vec<&Arc<Value>> = world.objects.owned(&JOB, cron.uid()).collect();
    let surplus = surplus(cron, &jobs);
    if !surplus.is_empty() {
        return Plan::actions(surplus);
    }
    let active: Vec<_> = jobs
        .iter()
        .copied()
        .filter(|job| end(job).is_none() && !job.is_terminating())
        .collect();
    let mut status = status(cron, &jobs, &active);
    let mut plan = Plan::done();
    if !cron.flag("/spec/suspend")
        && let Ok(schedule) = Schedule::parse(cron.text("/spec/schedule"))
    {
        let zone = zone::named(cron.text("/spec/timeZone")).unwrap_or(TimeZone::UTC);
        let due = due(world, cron, &schedule, &zone);
        plan.after = schedule.next(world.now, &zone).map(|next| until(world.now, next));
        if let Some(at) = due {
            plan.actions = run(world, cron, &active, at);
            let is_running = plan
                .actions
                .iter()
                .any(|action| matches!(action, Action::Create { .. }));
            if is_running || is_made(world, cron, at) {
                status.insert("lastScheduleTime".to_owned(), time(at));
            }
        }
    }
    plan.status = update_status(&CRON_JOB, cron, Value::Object(status));
    if !plan.actions.is_empty() {
        plan.actions.extend(plan.status.take());
    }
    plan
}

/// Returns the last scheduled time without a Job, unless its deadline has passed.
fn due(world: &World<'_>, cron: &Value, schedule: &Schedule, zone: &TimeZone) -> Option<Timestamp> {
    let created = cron.time("/metadata/creationTimestamp")?;
    let mut since = cron.time("/status/lastScheduleTime").unwrap_or(created);
    let deadline = cron
        .int("/spec/startingDeadlineSeconds")
        .map(SignedDuration::from_secs);
    if let Some(earliest) = deadline.and_then(|deadline| world.now.checked_sub(deadline).ok()) {
        since = since.max(earliest);
    }
    schedule.last(since, world.now, zone)
}

fn job_name(cron: &Value, at: Timestamp) -> String {
    format!("{}-{}", cron.name(), at.as_second() / 60)
}

fn is_made(world: &World<'_>, cron: &Value, at: Timestamp) -> bool {
    world
        .objects
        .get(&JOB, cron.namespace(), &job_name(cron, at))
        .is_some()
}

/// Creates the Job of a scheduled time, subject to the concurrency policy.
fn run(world: &World<'_>, cron: &Value, active: &[&Arc<Value>], at: Timestamp) -> Vec<Action> {
    if is_made(world, cron, at) {
        return Vec::new();
    }
    let policy = cron.text("/spec/concurrencyPolicy");
    if policy == "Forbid" && !active.is_empty() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    if policy == "Replace" {
        actions.extend(active.iter().map(|job| remove(cron, job)));
    }
    let name = job_name(cron, at);
    let note = Note::normal(
        COMPONENT,
        &CRON_JOB,
        cron,
        "SuccessfulCreate",
        format!("Created job {name}"),
    );
    actions.push(create(&JOB, job(cron, &name, at), Some(note.or("FailedCreate"))));
    actions
}

fn job(cron: &Value, name: &str, at: Timestamp) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(value) = cron.pointer(&format!("/spec/jobTemplate/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut job = json!({
        "metadata": metadata,
        "spec": cron.pointer("/spec/jobTemplate/spec").cloned().unwrap_or_default(),
    });
    job["metadata"]["name"] = name.into();
    job["metadata"]["namespace"] = cron.namespace().into();
    job["metadata"]["ownerReferences"] = json!([controller_reference(&CRON_JOB, cron)]);
    crate::object::set(
        &mut job,
        &[
            "metadata",
            "annotations",
            "batch.kubernetes.io/cronjob-scheduled-timestamp",
        ],
        time(at),
    );
    job
}

fn remove(cron: &Value, job: &Value) -> Action {
    let message = format!("Deleted job {}", job.name());
    delete(
        &JOB,
        job,
        Some(Note::normal(
            COMPONENT,
            &CRON_JOB,
            cron,
            "SuccessfulDelete",
            message,
        )),
    )
}

/// Deletes the oldest finished Jobs beyond the history limits.
fn surplus(cron: &Value, jobs: &[&Arc<Value>]) -> Vec<Action> {
    let limits = [
        (
            "Complete",
            cron.int("/spec/successfulJobsHistoryLimit").unwrap_or(3),
        ),
        ("Failed", cron.int("/spec/failedJobsHistoryLimit").unwrap_or(1)),
    ];
    let mut actions = Vec::new();
    for (kind, limit) in limits {
        let mut ended: Vec<_> = jobs
            .iter()
            .filter(|job| job.is_condition_true(kind) && !job.is_terminating())
            .collect();
        ended.sort_by_key(|job| (job.text("/status/startTime").to_owned(), job.name().to_owned()));
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        actions.extend(ended.into_iter().take(surplus).map(|job| remove(cron, job)));
    }
    actions
}

fn end(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"]
        .into_iter()
        .find(|kind| job.is_condition_true(kind))
}

fn status(cron: &Value, jobs: &[&Arc<Value>], active: &[&Arc<Value>]) -> Map<String, Value> {
    let mut status = cron
        .get("status")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    status.remove("active");
    let reference = |job: &&Arc<Value>| {
        json!({
            "apiVersion": JOB.api_version(), "kind": JOB.name, "namespace": job.namespace(), "name": job.name(),
            "uid": job.uid(), "resourceVersion": job.version(),
        })
    };
    let before = cron.items("/status/active");
    let known = |job: &&Arc<Value>| {
        before
            .iter()
            .find(|known| known.text("/uid") == job.uid())
            .cloned()
    };
    let active: Vec<Value> = active
        .iter()
        .map(|job| known(job).unwrap_or_else(|| reference(job)))
        .collect();
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    let ends = jobs.iter().filter(|job| end(job) == Some("Complete"));
    if let Some(last) = ends
        .map(|job| job.text("/status/completionTime"))
        .max()
        .filter(|last| !last.is_empty())
    {
        let is_later = cron.text("/status/lastSuccessfulTime") < last;
        if is_later {
            status.insert("lastSuccessfulTime".to_owned(), last.into());
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Scene, names};

    fn scene(spec: &Value) -> Scene {
        let mut scene = Scene::new();
        let mut cron = json!({
            "metadata": {"namespace": "a", "name": "tick", "uid": "tick", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"schedule": "*/5 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": {}}}},
            "status": {},
        });
        for (field, value) in spec.as_object().unwrap() {
            cron["spec"][field] = value.clone();
        }
        scene.put(&CRON_JOB, cron);
        scene
    }

    /// Plans once and applies the writes.
    fn step(scene: &mut Scene) -> Plan {
        let plan = scene.plan(plan, "a", "tick");
        for action in plan.actions.iter().chain(&plan.status) {
            match action {
                Action::Create { object, .. } => {
                    let mut job = Value::clone(object);
                    job["metadata"]["uid"] = job.name().into();
                    scene.put(&JOB, job);
                }
                Action::Update { object, .. } => scene.put(&CRON_JOB, Value::clone(object)),
                Action::Delete { name, .. } => scene.remove(&JOB, "a", name),
                _ => {}
            }
        }
        plan
    }

    #[test]
    fn a_job_is_created_once_at_its_scheduled_time() {
        let mut scene = scene(&json!({}));
        let plan = step(&mut scene);
        assert_eq!(
            (plan.actions.len(), plan.after),
            (0, Some(Duration::from_secs(300)))
        );
        scene.wait(301);
        assert_eq!(names(&step(&mut scene).actions)[0], "create jobs/tick-28401125");
        step(&mut scene);
        assert!(step(&mut scene).actions.is_empty());
        let cron = scene.objects.get(&CRON_JOB, "a", "tick").unwrap();
        assert_eq!(cron.text("/status/lastScheduleTime"), "2024-01-01T00:05:00Z");
        assert_eq!(cron.items("/status/active").len(), 1);
    }

    #[test]
    fn a_suspended_one_does_nothing() {
        let mut scene = scene(&json!({"suspend": true}));
        scene.wait(3600);
        assert_eq!(step(&mut scene), Plan::done());
    }

    #[test]
    fn the_concurrency_policy_decides_about_a_job_that_still_runs() {
        for (policy, expected) in [("Allow", 1), ("Forbid", 0), ("Replace", 2)] {
            let mut scene = scene(&json!({"concurrencyPolicy": policy}));
            scene.wait(301);
            step(&mut scene);
            step(&mut scene);
            scene.wait(300);
            let writes = step(&mut scene).actions;
            let jobs = names(&writes)
                .iter()
                .filter(|name| name.contains(" jobs/"))
                .count();
            assert_eq!(jobs, expected, "{policy}: {writes:?}");
        }
    }

    #[test]
    fn ended_jobs_beyond_the_limit_go() {
        let mut scene = scene(&json!({"successfulJobsHistoryLimit": 1}));
        let owner = controller_reference(&CRON_JOB, scene.objects.get(&CRON_JOB, "a", "tick").unwrap());
        for name in ["one", "two"] {
            scene.put(
                &JOB,
                json!({
                    "metadata": {"namespace": "a", "name": name, "uid": name, "ownerReferences": [owner]},
                    "status": {"startTime": name, "conditions": [{"type": "Complete", "status": "True"}]},
                }),
            );
        }
        assert_eq!(names(&step(&mut scene).actions), ["delete jobs/one"]);
    }
}
