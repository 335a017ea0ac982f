//! Deletes finished Jobs after their `ttlSecondsAfterFinished`.

use jiff::SignedDuration;
use operator_apiserver::client::Event;
use serde_json::Value;

use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::JOB;
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, delete_with, until};

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "ttl-after-finished-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&JOB, event, keys);
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let job = world.objects.get(&JOB, &key.namespace, &key.name);
    let Some(job) = job.filter(|job| !job.is_terminating()) else {
        return Plan::done();
    };
    let Some((seconds, end)) = job.int("/spec/ttlSecondsAfterFinished").zip(end(job)) else {
        return Plan::done();
    };
    match end.checked_add(SignedDuration::from_secs(seconds)) {
        Ok(due) if due > world.now => Plan {
            after: Some(until(world.now, due)),
            ..Plan::default()
        },
        Ok(_) => Plan::act(delete_with(&JOB.gvr, job, Some("Foreground"), None, None)),
        Err(_) => Plan::done(),
    }
}

/// Returns the time when a Job finished, if it has finished.
fn end(job: &Value) -> Option<jiff::Timestamp> {
    let ended = ["Complete", "Failed"]
        .into_iter()
        .find(|kind| job.is_condition_true(kind))?;
    job.condition(ended)?.time("/lastTransitionTime")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::testing::{Scene, names};

    #[test]
    fn a_finished_job_is_deleted_when_its_ttl_expires() {
        let mut scene = Scene::new();
        let complete =
            json!({"type": "Complete", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"});
        let job = json!({
            "metadata": {"namespace": "a", "name": "j", "uid": "j"},
            "spec": {"ttlSecondsAfterFinished": 5},
            "status": {"conditions": [complete]},
        });
        scene.put(&JOB, job);
        assert_eq!(scene.plan(plan, "a", "j").after, Some(Duration::from_secs(5)));
        scene.wait(5);
        assert_eq!(names(&scene.plan(plan, "a", "j").actions), ["delete jobs/j"]);
    }
}
