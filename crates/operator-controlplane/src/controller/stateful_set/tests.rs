//! Tests of StatefulSets step by step; they simulate the pods.

use super::*;
use crate::kind::{CONTROLLER_REVISION, Kind, PERSISTENT_VOLUME_CLAIM};
use crate::testing::Scene;

struct Stage {
    scene: Scene,
}

impl Stage {
    fn new(spec: &Value) -> Self {
        let mut set = json!({
            "metadata": {"namespace": "a", "name": "db", "uid": "db", "generation": 1},
            "spec": {
                "replicas": 3, "serviceName": "db",
                "selector": {"matchLabels": {"app": "db"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
            },
            "status": {},
        });
        for (field, value) in spec.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        let mut scene = Scene::new();
        scene.put(&STATEFUL_SET, set);
        Self { scene }
    }

    fn set(&self) -> Value {
        Value::clone(self.scene.objects.get(&STATEFUL_SET, "a", "db").unwrap())
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut set = self.set();
        change(&mut set);
        self.scene.put(&STATEFUL_SET, set);
    }

    fn pods(&self) -> Vec<String> {
        let pods = self.scene.objects.list(&POD, "a");
        pods.map(|pod| format!("{} {}", pod.name(), pod.text("/spec/containers/0/image")))
            .collect()
    }

    fn make_ready(&mut self) {
        let pods: Vec<Value> = self
            .scene
            .objects
            .list(&POD, "a")
            .map(|pod| Value::clone(pod))
            .collect();
        for mut pod in pods {
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            self.scene.put(&POD, pod);
        }
    }

    fn settle(&mut self) {
        for _ in 0..30 {
            let plan = self.scene.plan(plan, "a", "db");
            let is_last = plan.actions.is_empty();
            for action in plan.actions.into_iter().chain(plan.status) {
                self.carry_out(action);
            }
            if is_last {
                return;
            }
        }
        panic!("never settles");
    }

    fn carry_out(&mut self, action: Action) {
        let kinds: [&'static Kind; 4] = [
            &POD,
            &STATEFUL_SET,
            &CONTROLLER_REVISION,
            &PERSISTENT_VOLUME_CLAIM,
        ];
        let kind =
            |gvr: &operator_apiserver::client::Gvr| kinds.into_iter().find(|kind| kind.is(gvr)).unwrap();
        match action {
            Action::Create { gvr, object, .. } | Action::Update { gvr, object, .. } => {
                let mut object = *object;
                object["metadata"]["uid"] = object.name().into();
                self.scene.put(kind(&gvr), object);
            }
            Action::Delete { gvr, name, .. } => self.scene.remove(kind(&gvr), "a", &name),
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[test]
fn pods_start_one_after_the_other() {
    let template = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
    let mut stage = Stage::new(&json!({"volumeClaimTemplates": template}));
    stage.settle();
    assert_eq!(stage.pods(), ["db-0 x:1"]);
    let pod = stage.scene.objects.get(&POD, "a", "db-0").unwrap().clone();
    assert_eq!(pod.label("apps.kubernetes.io/pod-index"), Some("0"));
    assert_eq!(
        pod.text("/spec/volumes/0/persistentVolumeClaim/claimName"),
        "data-db-0"
    );
    assert!(
        stage
            .scene
            .objects
            .get(&PERSISTENT_VOLUME_CLAIM, "a", "data-db-0")
            .is_some()
    );
    for _ in 0..2 {
        stage.make_ready();
        stage.settle();
    }
    assert_eq!(stage.pods().len(), 3);
}

#[test]
fn parallel_pods_start_at_once() {
    let mut stage = Stage::new(&json!({"podManagementPolicy": "Parallel"}));
    stage.settle();
    assert_eq!(stage.pods().len(), 3);
    let set = stage.set();
    assert_eq!(
        (
            set.int("/status/currentReplicas"),
            set.int("/status/updatedReplicas")
        ),
        (Some(3), Some(3))
    );
}

#[test]
fn an_update_replaces_pods_from_the_highest_ordinal_to_the_partition() {
    let mut stage = Stage::new(&json!({"podManagementPolicy": "Parallel"}));
    stage.settle();
    stage.make_ready();
    stage.settle();
    stage.change(|set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into();
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    });
    stage.settle();
    assert_eq!(stage.pods(), ["db-0 x:1", "db-1 x:1", "db-2 x:2"]);
    for _ in 0..3 {
        stage.make_ready();
        stage.settle();
    }
    assert_eq!(stage.pods(), ["db-0 x:1", "db-1 x:2", "db-2 x:2"]);
    stage.change(|set| set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0.into());
    for _ in 0..2 {
        stage.settle();
        stage.make_ready();
    }
    stage.settle();
    let set = stage.set();
    assert_eq!(stage.pods(), ["db-0 x:2", "db-1 x:2", "db-2 x:2"]);
    assert_eq!(
        set.text("/status/currentRevision"),
        set.text("/status/updateRevision")
    );
}

#[test]
fn scaling_down_stops_the_highest_ordinals() {
    let mut stage = Stage::new(&json!({"podManagementPolicy": "Parallel"}));
    stage.settle();
    stage.make_ready();
    stage.change(|set| set["spec"]["replicas"] = 1.into());
    stage.settle();
    assert_eq!(stage.pods(), ["db-0 x:1"]);
}

#[test]
fn a_set_that_updates_on_delete_leaves_its_pods() {
    let mut stage =
        Stage::new(&json!({"podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}}));
    stage.settle();
    stage.make_ready();
    stage.change(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into());
    stage.settle();
    assert_eq!(stage.pods()[2], "db-2 x:1");
    stage.scene.remove(&POD, "a", "db-2");
    stage.settle();
    assert_eq!(stage.pods()[2], "db-2 x:2");
}

#[test]
fn a_terminating_pod_counts_as_ready_while_it_is_available() {
    let mut stage = Stage::new(&json!({"podManagementPolicy": "Parallel", "replicas": 1}));
    stage.settle();
    stage.make_ready();
    let mut pod = Value::clone(stage.scene.objects.get(&POD, "a", "db-0").unwrap());
    pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:30Z".into();
    stage.scene.put(&POD, pod);
    stage.settle();
    let set = stage.set();
    assert_eq!(
        (
            set.int("/status/readyReplicas"),
            set.int("/status/availableReplicas")
        ),
        (Some(1), Some(1))
    );
    assert_eq!(set.int("/status/updatedReplicas"), None);
}

#[test]
fn billions_of_replicas_are_started_in_portions() {
    for (policy, start, created) in [
        ("OrderedReady", 0, 1),
        ("Parallel", 0, 500),
        ("Parallel", i32::MAX, 500),
    ] {
        let mut stage = Stage::new(&json!({
            "replicas": i32::MAX, "podManagementPolicy": policy, "ordinals": {"start": start},
        }));
        let revision = stage.scene.plan(plan, "a", "db").actions;
        revision.into_iter().for_each(|action| stage.carry_out(action));
        let actions = stage.scene.plan(plan, "a", "db").actions;
        assert_eq!(actions.len(), created, "{policy}");
    }
}

#[test]
fn large_templates_are_started_in_small_portions() {
    let template = json!({
        "metadata": {"labels": {"app": "db"}, "annotations": {"large": "x".repeat(1 << 20)}},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
    });
    let mut stage = Stage::new(&json!({
        "replicas": 500, "podManagementPolicy": "Parallel", "template": template,
    }));
    let revision = stage.scene.plan(plan, "a", "db").actions;
    revision.into_iter().for_each(|action| stage.carry_out(action));
    let actions = stage.scene.plan(plan, "a", "db").actions;
    assert!((1..=32).contains(&actions.len()), "{}", actions.len());
}
