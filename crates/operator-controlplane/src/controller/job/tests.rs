//! Tests of Jobs step by step; they simulate the pods.

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
    events: Vec<&'static str>,
}

impl Stage {
    fn new(spec: &Value) -> Self {
        let mut scene = Scene::new();
        scene.put(&JOB, job(spec));
        Self {
            scene,
            created: 0,
            events: Vec::new(),
        }
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

    /// Ends all running pods with a phase.
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
        if let Action::Create { note, .. } | Action::Update { note, .. } | Action::Delete { note, .. } =
            &action
        {
            self.events.extend(note.iter().map(|note| note.reason));
        }
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
                self.put_or_remove(pod);
            }
            Action::Delete { name, .. } => self.delete(&name),
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Deletes a pod as the API server does: it remains while it has finalizers.
    fn delete(&mut self, name: &str) {
        let mut pod = Value::clone(self.scene.objects.get(&POD, "a", name).unwrap());
        pod["metadata"]["deletionTimestamp"] = time(self.scene.now);
        self.put_or_remove(pod);
    }

    fn put_or_remove(&mut self, pod: Value) {
        if pod.is_terminating() && pod.items("/metadata/finalizers").is_empty() {
            self.scene.remove(&POD, "a", pod.name());
        } else {
            self.scene.put(&POD, pod);
        }
    }

    fn change(&mut self, field: &str, value: Value) {
        let mut job = self.job();
        job["spec"][field] = value;
        self.scene.put(&JOB, job);
    }

    /// Ends the pod of an index with an exit code.
    fn exit(&mut self, index: &str, code: i64) {
        let finished = time(self.scene.now);
        let mut pods = self.pods().into_iter();
        let mut pod = pods
            .find(|pod| {
                pod.label("batch.kubernetes.io/job-completion-index") == Some(index) && pod::is_active(pod)
            })
            .unwrap();
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        pod["status"] = json!({
            "phase": phase,
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": finished}}}],
        });
        self.scene.put(&POD, pod);
    }

    fn reason(&self, condition: &str) -> String {
        self.job()
            .condition(condition)
            .unwrap()
            .text("/reason")
            .to_owned()
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
    stage.change("suspend", false.into());
    stage.settle();
    assert_eq!(stage.created, 1);
    assert_eq!(stage.events, ["Suspended", "Resumed", "SuccessfulCreate"]);
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

#[test]
fn suspending_withdraws_pods_without_counting_them() {
    let mut stage = Stage::new(&json!({}));
    stage.settle();
    stage.change("suspend", true.into());
    stage.settle();
    assert!(stage.pods().is_empty());
    let job = stage.job();
    assert_eq!(
        (job.int("/status/active"), job.int("/status/failed")),
        (None, None)
    );
    assert!(job.text("/status/startTime").is_empty());
}

#[test]
fn a_deleted_pod_is_a_failure_and_is_replaced() {
    let mut stage = Stage::new(&json!({}));
    stage.settle();
    stage.delete("p1");
    stage.settle();
    stage.scene.wait(10);
    stage.settle();
    assert_eq!((stage.created, stage.pods().len()), (2, 1));
    assert_eq!(stage.job().int("/status/failed"), Some(1));
}

#[test]
fn a_deadline_counts_the_pods_that_it_ends() {
    let mut stage = Stage::new(&json!({"activeDeadlineSeconds": 60, "parallelism": 2, "completions": 2}));
    stage.settle();
    stage.scene.wait(60);
    stage.settle();
    assert_eq!(stage.reason("Failed"), "DeadlineExceeded");
    assert_eq!(stage.job().int("/status/failed"), Some(2));
    assert_eq!(stage.events.last(), Some(&"DeadlineExceeded"));
}

#[test]
fn lower_parallelism_deletes_pods() {
    let mut stage = Stage::new(&json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}));
    stage.settle();
    stage.change("parallelism", 1.into());
    stage.settle();
    assert_eq!(stage.pods().len(), 1);
    assert_eq!(stage.job().int("/status/failed"), None);
}

#[test]
fn each_index_has_its_own_limit() {
    let mut stage = Stage::new(&json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX,
    }));
    stage.settle();
    assert_eq!(stage.job()["status"]["failedIndexes"], "");
    stage.exit("1", 1);
    assert_eq!(stage.settle(), Some(Duration::from_secs(10)));
    stage.exit("0", 0);
    stage.scene.wait(10);
    stage.settle();
    let pods = stage.pods();
    let again = pods.iter().find(|pod| pod::is_active(pod)).unwrap();
    assert_eq!(
        again.annotation("batch.kubernetes.io/job-index-failure-count"),
        Some("1")
    );
    stage.exit("1", 1);
    stage.settle();
    let job = stage.job();
    assert_eq!(
        (
            job.text("/status/completedIndexes"),
            job.text("/status/failedIndexes")
        ),
        ("0", "1")
    );
    assert_eq!(
        (job.int("/status/succeeded"), job.int("/status/failed")),
        (Some(1), Some(2))
    );
    assert_eq!(stage.conditions(), ["FailureTarget", "Failed"]);
    assert_eq!(stage.reason("Failed"), "FailedIndexes");
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let mut stage = Stage::new(&json!({
        "completions": 5, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 0, "backoffLimit": i32::MAX,
    }));
    stage.settle();
    stage.exit("1", 1);
    stage.settle();
    assert_eq!(stage.reason("Failed"), "MaxFailedIndexesExceeded");
    assert_eq!(stage.job().int("/status/failed"), Some(2));
}

#[test]
fn the_failure_policy_ignores_or_ends() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let spec = json!({
        "completions": 1, "completionMode": "Indexed", "backoffLimit": 0, "podFailurePolicy": policy,
        "podReplacementPolicy": "Failed",
    });
    let mut stage = Stage::new(&spec);
    stage.settle();
    stage.exit("0", 3);
    stage.settle();
    assert_eq!(stage.job().int("/status/failed"), None);
    stage.scene.wait(10);
    stage.settle();
    assert_eq!(stage.created, 2);
    stage.exit("0", 42);
    stage.settle();
    assert_eq!(stage.reason("Failed"), "PodFailurePolicy");
    let message = "Container c for pod a/p2 failed with exit code 42 matching FailJob rule at index 1";
    assert_eq!(stage.job().condition("Failed").unwrap().text("/message"), message);
}

#[test]
fn the_success_policy_stops_running_pods() {
    let mut stage = Stage::new(&json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
    }));
    stage.settle();
    stage.exit("1", 0);
    stage.settle();
    assert_eq!(stage.conditions(), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(stage.reason("Complete"), "SuccessPolicy");
    let job = stage.job();
    assert_eq!(
        (job.int("/status/succeeded"), job.int("/status/failed")),
        (Some(1), None)
    );
    assert_eq!(stage.events.last(), Some(&"Completed"));
    assert_eq!(stage.pods().len(), 1);
}

#[test]
fn a_job_of_another_manager_is_left_alone() {
    let mut stage = Stage::new(&json!({"managedBy": "example.com/queue"}));
    stage.settle();
    assert_eq!((stage.created, &stage.job()["status"]), (0, &json!({})));
}

#[test]
fn billions_of_pods_are_started_in_portions() {
    for mode in ["NonIndexed", "Indexed"] {
        let mut stage = Stage::new(&json!({
            "completions": i32::MAX, "parallelism": i32::MAX, "completionMode": mode,
        }));
        let mut job = stage.job();
        job["status"] = json!({"startTime": time(stage.scene.now)});
        stage.scene.put(&JOB, job);
        let plan = stage.scene.plan(plan, "a", "j");
        assert_eq!(plan.actions.len(), 500, "{mode}");
    }
}

#[test]
fn a_status_may_name_billions_of_indexes() {
    for field in ["completedIndexes", "failedIndexes"] {
        let mut stage = Stage::new(&json!({
            "completions": i32::MAX, "parallelism": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
            "successPolicy": {"rules": [{"succeededIndexes": "0-2147483646"}]},
        }));
        let mut job = stage.job();
        job["status"] = json!({"startTime": time(stage.scene.now), field: "0-2147483644,2147483646"});
        stage.scene.put(&JOB, job);
        let mut created = Vec::new();
        for _ in 0..3 {
            let plan = stage.scene.plan(plan, "a", "j");
            for action in plan.actions.into_iter().chain(plan.status) {
                if let Action::Create { object, .. } = &action {
                    created.push(object.text("/spec/hostname").to_owned());
                }
                stage.carry_out(action);
            }
        }
        assert_eq!(created, ["j-2147483645"], "{field}");
    }
}

#[test]
fn ended_pods_are_counted_in_portions() {
    let mut stage = Stage::new(&json!({"completions": 5000, "parallelism": 5000, "backoffLimit": 10_000}));
    let owner = crate::owner::controller_reference(&JOB, &stage.job());
    for number in 0..2000 {
        let name = format!("p{number}");
        let pod = json!({
            "metadata": {
                "namespace": "a", "name": name, "uid": name,
                "labels": {"job": "j"}, "finalizers": [TRACKING], "ownerReferences": [owner],
            },
            "status": {"phase": "Failed"},
        });
        stage.scene.put(&POD, pod);
    }
    let plan = stage.scene.plan(plan, "a", "j");
    let [Action::Update { object, .. }] = plan.actions.as_slice() else {
        panic!("{:?}", names(&plan.actions))
    };
    assert_eq!(object.items("/status/uncountedTerminatedPods/failed").len(), 500);
}
