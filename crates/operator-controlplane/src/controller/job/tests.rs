//! Jobs step by step, with the pods played by the test.

use serde_json::json;

use super::*;
use crate::testing::{Scene, names};

fn job(spec: &Value) -> Value {
    let mut job = json!({
        "metadata": {"namespace": "a", "name": "j", "uid": "j"},
        "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 6,
            "selector": {"matchLabels": {"job": "j"}},
            "template": {"metadata": {"labels": {"job": "j"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
        },
        "status": {},
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

struct Stage {
    scene: Scene,
    created: usize,
}

impl Stage {
    fn new(spec: &Value) -> Self {
        let mut scene = Scene::new();
        scene.put(&JOB, job(spec));
        Self { scene, created: 0 }
    }

    fn job(&self) -> Value {
        Value::clone(self.scene.objects.get(&JOB, "a", "j").unwrap())
    }

    fn pods(&self) -> Vec<Value> {
        self.scene
            .objects
            .list(&POD, "a")
            .map(|pod| Value::clone(pod))
            .collect()
    }

    /// Ends every pod that runs.
    fn end(&mut self, phase: &str) {
        let finished = time(self.scene.now);
        for mut pod in self.pods() {
            if !pod::is_finished(&pod) {
                pod["status"] = json!({
                    "phase": phase,
                    "containerStatuses": [{"state": {"terminated": {"finishedAt": finished}}}],
                });
                self.scene.put(&POD, pod);
            }
        }
    }

    fn settle(&mut self) -> Option<Duration> {
        for _ in 0..30 {
            let plan = self.scene.plan(plan, "a", "j");
            let is_last = plan.actions.is_empty() && plan.status.is_none();
            for action in plan.actions.into_iter().chain(plan.status) {
                self.carry_out(action);
            }
            if is_last {
                return plan.after;
            }
        }
        panic!("never settles");
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Create { object, .. } => {
                let mut pod = *object;
                self.created += 1;
                pod["metadata"]["name"] = format!("p{}", self.created).into();
                pod["metadata"]["uid"] = format!("p{}", self.created).into();
                pod["status"] = json!({"phase": "Pending"});
                self.scene.put(&POD, pod);
            }
            Action::Update { object, .. } => self.scene.put(&JOB, *object),
            Action::Patch { name, patch, .. } => {
                let mut pod = Value::clone(self.scene.objects.get(&POD, "a", &name).unwrap());
                pod["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone();
                self.scene.put(&POD, pod);
            }
            Action::Delete { name, .. } => self.scene.remove(&POD, "a", &name),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn conditions(&self) -> Vec<String> {
        let job = self.job();
        job.items("/status/conditions")
            .iter()
            .map(|condition| condition.text("/type").to_owned())
            .collect()
    }
}

#[test]
fn a_job_completes_when_its_pod_succeeds() {
    let mut stage = Stage::new(&json!({}));
    stage.settle();
    let job = stage.job();
    assert_eq!(
        (job.int("/status/active"), job.int("/status/ready")),
        (Some(1), Some(0))
    );
    assert!(stage.pods()[0].has_finalizer(TRACKING));
    stage.end("Succeeded");
    stage.settle();
    assert_eq!(stage.conditions(), ["SuccessCriteriaMet", "Complete"]);
    let job = stage.job();
    assert_eq!(
        (job.int("/status/succeeded"), job.int("/status/active")),
        (Some(1), None)
    );
    assert_eq!(job["status"]["uncountedTerminatedPods"], json!({}));
    assert!(!job.text("/status/completionTime").is_empty());
    assert!(!stage.pods()[0].has_finalizer(TRACKING));
}

#[test]
fn too_many_failures_fail_the_job() {
    let mut stage = Stage::new(&json!({"backoffLimit": 0}));
    stage.settle();
    stage.end("Failed");
    stage.settle();
    assert_eq!(stage.conditions(), ["FailureTarget", "Failed"]);
    let failed = stage.job();
    let failed = failed.condition("Failed").unwrap();
    assert_eq!(failed.text("/reason"), "BackoffLimitExceeded");
    assert_eq!(stage.job().int("/status/failed"), Some(1));
}

#[test]
fn a_failed_pod_is_replaced_after_a_wait_that_doubles() {
    let mut stage = Stage::new(&json!({}));
    stage.settle();
    stage.end("Failed");
    assert_eq!(stage.settle(), Some(Duration::from_secs(10)));
    assert_eq!(stage.created, 1);
    stage.scene.wait(10);
    stage.settle();
    assert_eq!(stage.created, 2);
    stage.end("Failed");
    assert_eq!(stage.settle(), Some(Duration::from_secs(20)));
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    let mut stage = Stage::new(&json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"}));
    stage.settle();
    let indexes: Vec<_> = stage
        .pods()
        .iter()
        .map(|pod| pod.text("/spec/hostname").to_owned())
        .collect();
    assert_eq!(indexes, ["j-0", "j-1"]);
    for _ in 0..3 {
        stage.end("Succeeded");
        stage.settle();
    }
    assert_eq!(stage.created, 3);
    assert_eq!(stage.job().text("/status/completedIndexes"), "0-2");
    assert_eq!(stage.conditions(), ["SuccessCriteriaMet", "Complete"]);
}

#[test]
fn a_deadline_ends_the_job_and_its_pods() {
    let mut stage = Stage::new(&json!({"activeDeadlineSeconds": 60}));
    assert_eq!(stage.settle(), Some(Duration::from_secs(60)));
    stage.scene.wait(60);
    stage.settle();
    assert_eq!(stage.conditions(), ["FailureTarget", "Failed"]);
    assert!(stage.pods().is_empty());
}

#[test]
fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let mut stage = Stage::new(&json!({"suspend": true}));
    stage.settle();
    assert_eq!(
        (stage.created, stage.conditions()),
        (0, vec!["Suspended".to_owned()])
    );
    let mut job = stage.job();
    job["spec"]["suspend"] = false.into();
    stage.scene.put(&JOB, job);
    stage.settle();
    assert_eq!(stage.created, 1);
    let resumed = stage.job();
    assert_eq!(resumed.condition("Suspended").unwrap().text("/status"), "False");
}

#[test]
fn pods_of_a_job_that_is_gone_lose_the_finalizer() {
    let mut scene = Scene::new();
    let pod = json!({"metadata": {
        "namespace": "a", "name": "p", "uid": "p", "finalizers": [TRACKING], "labels": {"batch.kubernetes.io/job-name": "j"},
    }});
    scene.put(&POD, pod);
    assert_eq!(names(&scene.plan(plan, "a", "j").actions), ["patch pods/p"]);
}
