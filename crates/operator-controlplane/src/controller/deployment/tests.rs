//! Tests of rollouts step by step; they simulate the ReplicaSet controller.

use serde_json::json;

use super::*;
use crate::testing::{Scene, names};

const NAME: &str = "web";

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "a", "name": NAME, "uid": "d", "generation": 1, "annotations": {"note": "n"}},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
        "status": {},
    })
}

/// An environment in which writes take effect, and pods become available on request.
struct Stage {
    scene: Scene,
    created: i64,
}

impl Stage {
    fn new(deployment: Value) -> Self {
        let mut scene = Scene::new();
        scene.put(&DEPLOYMENT, deployment);
        Self { scene, created: 0 }
    }

    fn deployment(&self) -> Value {
        Value::clone(self.scene.objects.get(&DEPLOYMENT, "a", NAME).unwrap())
    }

    fn sets(&self) -> Vec<Value> {
        let mut sets: Vec<_> = self
            .scene
            .objects
            .list(&REPLICA_SET, "a")
            .map(|set| Value::clone(set))
            .collect();
        sets.sort_by_key(|set| set.text("/metadata/creationTimestamp").to_owned());
        sets
    }

    fn sizes(&self) -> Vec<i64> {
        self.sets().iter().map(replicas).collect()
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut deployment = self.deployment();
        change(&mut deployment);
        deployment["metadata"]["generation"] = (deployment.generation() + 1).into();
        self.scene.put(&DEPLOYMENT, deployment);
    }

    /// Gives every ReplicaSet its pods; at most `ready` of them are available.
    fn run_pods(&mut self, ready: i64) {
        for mut set in self.sets() {
            let size = replicas(&set);
            set["status"] = json!({
                "replicas": size, "availableReplicas": size.min(ready), "readyReplicas": size.min(ready),
                "observedGeneration": set.generation(),
            });
            self.scene.put(&REPLICA_SET, set);
        }
    }

    /// Plans and applies until there are no more actions; returns all actions.
    fn settle(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        for _ in 0..20 {
            let plan = self.scene.plan(plan, "a", NAME);
            let is_last = plan.actions.is_empty();
            done.extend(names(&plan.actions));
            for action in plan.actions.into_iter().chain(plan.status) {
                self.carry_out(action);
            }
            if is_last {
                return done;
            }
        }
        panic!("never settles: {done:?}");
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Create { object, .. } => {
                let mut object = *object;
                self.created += 1;
                object["metadata"]["uid"] = object.name().into();
                object["metadata"]["creationTimestamp"] =
                    format!("2024-01-01T00:00:{:02}Z", self.created).into();
                self.scene.put(&REPLICA_SET, object);
            }
            Action::Update {
                gvr,
                object,
                subresource,
                ..
            } if gvr == DEPLOYMENT.gvr => {
                let mut next = self.deployment();
                assert_eq!(subresource, Some("status"));
                next["status"] = object["status"].clone();
                next["metadata"]["annotations"] = object["metadata"]["annotations"].clone();
                self.scene.put(&DEPLOYMENT, next);
            }
            Action::Update { object, .. } => self.scene.put(&REPLICA_SET, *object),
            Action::Delete { name, .. } => self.scene.remove(&REPLICA_SET, "a", &name),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn reason(&self, kind: &str) -> String {
        let deployment = self.deployment();
        deployment
            .condition(kind)
            .map(|condition| condition.text("/reason").to_owned())
            .unwrap_or_default()
    }
}

#[test]
fn the_first_replica_set_is_annotated_and_reported() {
    let mut stage = Stage::new(deployment(2, "x:1"));
    stage.settle();
    let [set] = &stage.sets()[..] else {
        panic!("one set")
    };
    assert_eq!(replicas(set), 2);
    assert_eq!(set.annotation("deployment.kubernetes.io/revision"), Some("1"));
    assert_eq!(
        set.annotation("deployment.kubernetes.io/desired-replicas"),
        Some("2")
    );
    assert_eq!(set.annotation("deployment.kubernetes.io/max-replicas"), Some("3"));
    assert_eq!(set.annotation("note"), Some("n"));
    assert_eq!(
        set.text("/spec/selector/matchLabels/pod-template-hash"),
        set.label("pod-template-hash").unwrap()
    );
    assert_eq!(stage.reason("Progressing"), "NewReplicaSetCreated");
    stage.run_pods(0);
    stage.settle();
    assert_eq!(stage.reason("Progressing"), "ReplicaSetUpdated");
    assert_eq!(stage.reason("Available"), "MinimumReplicasUnavailable");
    stage.run_pods(2);
    stage.settle();
    assert_eq!(stage.reason("Progressing"), "NewReplicaSetAvailable");
    assert_eq!(
        stage.deployment().annotation("deployment.kubernetes.io/revision"),
        Some("1")
    );
    assert!(stage.settle().is_empty());
}

#[test]
fn a_rolling_update_keeps_its_bounds_at_every_step() {
    let mut stage = Stage::new(deployment(4, "x:1"));
    stage.settle();
    stage.run_pods(4);
    stage.settle();
    stage
        .change(|deployment| deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into());
    let mut sizes = Vec::new();
    for _ in 0..20 {
        stage.settle();
        let total: i64 = stage.sizes().iter().sum();
        assert!((3..=5).contains(&total), "{:?}", stage.sizes());
        sizes.push(stage.sizes());
        stage.run_pods(4);
    }
    assert_eq!(sizes.first(), Some(&vec![3, 2]));
    assert_eq!(sizes.last(), Some(&vec![0, 4]));
    assert_eq!(stage.reason("Progressing"), "NewReplicaSetAvailable");
}

#[test]
fn a_rollout_over_pods_that_never_become_ready_stalls() {
    let mut stage = Stage::new(deployment(1, "x:1"));
    stage.settle();
    stage.run_pods(1);
    stage.settle();
    stage
        .change(|deployment| deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into());
    stage.settle();
    for mut set in stage.sets() {
        let available = i64::from(set.text("/spec/template/spec/containers/0/image") == "x:1");
        set["status"] = json!({"replicas": 1, "availableReplicas": available, "readyReplicas": available});
        stage.scene.put(&REPLICA_SET, set);
    }
    stage.settle();
    assert_eq!(stage.sizes(), [1, 1]);
    stage.scene.wait(700);
    stage.settle();
    assert_eq!(stage.reason("Progressing"), "ProgressDeadlineExceeded");
}

#[test]
fn going_back_to_an_old_template_reuses_its_replica_set() {
    let mut stage = Stage::new(deployment(1, "x:1"));
    for image in ["x:1", "x:2", "x:1"] {
        stage.change(|deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        });
        for _ in 0..4 {
            stage.settle();
            stage.run_pods(1);
        }
    }
    assert_eq!(stage.sizes(), [1, 0]);
    let first = &stage.sets()[0];
    assert_eq!(first.annotation("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(
        first.annotation("deployment.kubernetes.io/revision-history"),
        Some("1")
    );
}

#[test]
fn old_replica_sets_beyond_the_history_limit_go() {
    let mut stage = Stage::new(deployment(1, "x:0"));
    stage.change(|deployment| deployment["spec"]["revisionHistoryLimit"] = 1.into());
    for round in 0..4 {
        stage.change(|deployment| {
            deployment["spec"]["template"]["spec"]["containers"][0]["image"] = format!("x:{round}").into();
        });
        for _ in 0..5 {
            stage.settle();
            stage.run_pods(1);
        }
    }
    assert_eq!(stage.sizes(), [0, 1]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut stage = Stage::new(deployment(1, "x:1"));
    stage.settle();
    stage.run_pods(1);
    stage.settle();
    stage.change(|deployment| {
        deployment["spec"]["paused"] = true.into();
        deployment["spec"]["replicas"] = 3.into();
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into();
    });
    stage.settle();
    assert_eq!(stage.sizes(), [3]);
    assert_eq!(stage.reason("Progressing"), "DeploymentPaused");
}

#[test]
fn recreation_stops_the_old_pods_first() {
    let mut stage = Stage::new(deployment(2, "x:1"));
    stage.change(|deployment| deployment["spec"]["strategy"] = json!({"type": "Recreate"}));
    stage.settle();
    stage.run_pods(2);
    stage.settle();
    let set = stage.sets().remove(0);
    let owner = crate::owner::controller_reference(&REPLICA_SET, &set);
    let pod = json!({"metadata": {"namespace": "a", "name": "p", "uid": "p", "ownerReferences": [owner]}});
    stage.scene.put(&POD, pod);
    stage
        .change(|deployment| deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into());
    stage.settle();
    assert_eq!(stage.sizes(), [0]);
    stage.scene.remove(&POD, "a", "p");
    stage.settle();
    assert_eq!(stage.sizes(), [0, 2]);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut stage = Stage::new(deployment(10, "x:1"));
    stage.settle();
    stage.run_pods(10);
    stage.settle();
    stage
        .change(|deployment| deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into());
    stage.settle();
    let before = stage.sizes();
    stage.change(|deployment| deployment["spec"]["replicas"] = 20.into());
    stage.settle();
    let after = stage.sizes();
    assert_eq!(after.iter().sum::<i64>(), 25, "{before:?} {after:?}");
    assert!(
        after[0] > before[0] && after[1] > before[1],
        "{before:?} {after:?}"
    );
}

#[test]
fn an_existing_name_counts_as_a_collision() {
    let mut stage = Stage::new(deployment(1, "x:1"));
    let rollout = Rollout {
        deployment: &stage.deployment(),
        new: None,
        old: Vec::new(),
    };
    let mut taken = revision::new_set(&rollout, 1);
    taken["metadata"]["uid"] = "taken".into();
    taken["metadata"]["ownerReferences"] = json!([{"uid": "other", "controller": true}]);
    stage.scene.put(&REPLICA_SET, taken);
    stage.settle();
    assert_eq!(stage.deployment()["status"]["collisionCount"], 1);
    assert_eq!(stage.sets().len(), 2);
}
