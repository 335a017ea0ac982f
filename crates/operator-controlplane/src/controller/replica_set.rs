//! ReplicaSet and ReplicationController: maintains the desired number of pods, and a status with their counts.
//!
//! The two kinds differ only in their names and in the format of the selector.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::claim::claim;
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{Kind, POD, REPLICA_SET, REPLICATION_CONTROLLER};
use crate::object::{Object, counters, time};
use crate::objects::{Key, Objects};
use crate::owner::controller_of;
use crate::plan::{Action, Note, Plan, World, create, delete, sooner, until, update_status};
use crate::pod;
use crate::selector::{selects, selects_map};

/// Returns the controller of ReplicaSets.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "replicaset-controller",
        keys: |objects, event, keys| keys_of(&REPLICA_SET, objects, event, keys),
        plan: Box::new(|world, key| plan(&REPLICA_SET, "replicaset-controller", world, key)),
        initial: Vec::new(),
    }
}

/// Returns the controller of ReplicationControllers.
pub(crate) fn replication_controller() -> Controller {
    Controller {
        name: "replication-controller",
        keys: |objects, event, keys| keys_of(&REPLICATION_CONTROLLER, objects, event, keys),
        plan: Box::new(|world, key| plan(&REPLICATION_CONTROLLER, "replication-controller", world, key)),
        initial: Vec::new(),
    }
}

fn keys_of(kind: &Kind, objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(kind, event, keys);
    if !POD.is(&event.gvr) {
        return;
    }
    keys_of_controller(kind, event, keys);
    if controller_of(&event.object).is_none() {
        let owners = objects.list(kind, event.object.namespace());
        keys.extend(
            owners
                .filter(|owner| is_selected(kind, owner, &event.object))
                .map(|owner| Key::of(owner)),
        );
    }
}

fn is_selected(kind: &Kind, owner: &Value, pod: &Value) -> bool {
    let labels = pod.texts("/metadata/labels");
    if REPLICATION_CONTROLLER.is(&kind.gvr) {
        selects_map(&owner.texts("/spec/selector"), &labels)
    } else {
        selects(owner.pointer("/spec/selector"), &labels)
    }
}

fn plan(kind: &Kind, component: &'static str, world: &World<'_>, key: &Key) -> Plan {
    let Some(owner) = world.objects.get(kind, &key.namespace, &key.name) else {
        return Plan::done();
    };
    let claim = claim(world.objects, kind, owner, &POD, |pod| {
        is_selected(kind, owner, pod)
    });
    let (active, others): (Vec<_>, Vec<_>) = claim.owned.into_iter().partition(|pod| pod::is_active(pod));
    let ending = others.iter().filter(|pod| pod::is_ending(pod)).count();
    let (status, after) = status(owner, &active, ending, world);
    let mut plan = Plan {
        actions: claim.actions,
        status: update_status(kind, owner, status),
        after,
    };
    if plan.actions.is_empty() && !owner.is_terminating() {
        plan.actions = scale(kind, component, owner, active);
    }
    plan
}

/// Creates missing pods, or deletes surplus ones in the order of their rank.
fn scale(kind: &Kind, component: &'static str, owner: &Value, mut active: Vec<Arc<Value>>) -> Vec<Action> {
    let wanted = usize::try_from(owner.int("/spec/replicas").unwrap_or(1)).unwrap_or(0);
    if active.len() < wanted {
        let prefix = format!("{}-", owner.name());
        let template = owner.pointer("/spec/template").unwrap_or(&Value::Null);
        let pod = pod::from_template(kind, owner, template, &prefix);
        let note = Note::normal(
            component,
            kind,
            owner,
            "SuccessfulCreate",
            "Created pod: {name}".to_owned(),
        );
        let missing = (wanted - active.len()).min(pod::burst(template));
        let one = |_| create(&POD, pod.clone(), Some(note.clone().or("FailedCreate")));
        return (0..missing).map(one).collect();
    }
    let surplus = (active.len() - wanted).min(pod::BURST);
    pod::by_usefulness(&mut active);
    let one = |pod: &Arc<Value>| {
        let message = format!("Deleted pod: {}", pod.name());
        let note = Note::normal(component, kind, owner, "SuccessfulDelete", message);
        delete(&POD, pod, Some(note.or("FailedDelete")))
    };
    active.iter().take(surplus).map(one).collect()
}

/// Returns the status, and the time after which it changes without a change of a pod.
fn status(
    owner: &Value,
    active: &[Arc<Value>],
    ending: usize,
    world: &World<'_>,
) -> (Value, Option<Duration>) {
    let min_ready = owner.int("/spec/minReadySeconds").unwrap_or(0);
    let template_labels = owner.texts("/spec/template/metadata/labels");
    let count = |counted: &dyn Fn(&Value) -> bool| {
        let count = active.iter().filter(|pod| counted(pod)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    };
    let is_fully_labelled = |pod: &Value| {
        let labels = pod.texts("/metadata/labels");
        template_labels.iter().all(|pair| labels.contains(pair))
    };
    let mut status = counters(&[
        ("fullyLabeledReplicas", count(&is_fully_labelled)),
        ("readyReplicas", count(&pod::is_ready)),
        (
            "availableReplicas",
            count(&|pod| pod::is_available(pod, min_ready, world.now)),
        ),
        ("observedGeneration", owner.generation()),
    ]);
    status.insert("replicas".to_owned(), json!(active.len()));
    if owner.text("/kind") != REPLICATION_CONTROLLER.name {
        status.insert("terminatingReplicas".to_owned(), json!(ending));
    }
    let conditions = conditions(owner, world);
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    (
        Value::Object(status),
        next_available(active, min_ready, world.now),
    )
}

fn next_available(active: &[Arc<Value>], min_ready: i64, now: Timestamp) -> Option<Duration> {
    let waiting = active.iter().filter_map(|pod| pod::available_at(pod, min_ready));
    let waits = waiting.filter(|at| *at > now).map(|at| Some(until(now, at)));
    waits.fold(None, sooner)
}

/// Returns the existing conditions, and `ReplicaFailure` if the last request was rejected.
fn conditions(owner: &Value, world: &World<'_>) -> Vec<Value> {
    const KIND: &str = "ReplicaFailure";
    let conditions = owner.items("/status/conditions").iter();
    let mut conditions: Vec<Value> = conditions
        .filter(|condition| condition.text("/type") != KIND)
        .cloned()
        .collect();
    let Some(failure) = world.failure else {
        return conditions;
    };
    let same = owner
        .condition(KIND)
        .filter(|old| old.text("/reason") == failure.reason);
    conditions.push(same.cloned().unwrap_or_else(|| {
        json!({
            "type": KIND,
            "status": "True",
            "lastTransitionTime": time(world.now),
            "reason": failure.reason,
            "message": failure.message,
        })
    }));
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::controller_reference;
    use crate::plan::Failure;
    use crate::testing::{Scene, names};

    fn replica_set(replicas: i64) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": "a", "name": "rs", "uid": "rs", "generation": 3},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
            },
        })
    }

    fn pod(name: &str, status: &Value) -> Value {
        let owner = controller_reference(&REPLICA_SET, &replica_set(0));
        json!({
            "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
            "status": status,
        })
    }

    fn planned(scene: &Scene) -> Plan {
        scene.plan(
            |world, key| plan(&REPLICA_SET, "replicaset-controller", world, key),
            "a",
            "rs",
        )
    }

    fn status_of(plan: &Plan) -> Value {
        match &plan.status {
            Some(Action::Update { object, .. }) => object["status"].clone(),
            other => panic!("unexpected {other:?}"),
        }
    }

    #[test]
    fn missing_pods_are_created_and_finished_ones_replaced() {
        let mut scene = Scene::new();
        scene.put(&REPLICA_SET, replica_set(2));
        scene.put(&POD, pod("ended", &json!({"phase": "Failed"})));
        let plan = planned(&scene);
        assert_eq!(names(&plan.actions), ["create pods/rs-", "create pods/rs-"]);
        let Action::Create { object, .. } = &plan.actions[0] else {
            panic!("create")
        };
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "rs");
    }

    #[test]
    fn the_status_counts_pods_by_their_state() {
        let mut scene = Scene::new();
        scene.put(&REPLICA_SET, replica_set(2));
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        scene.put(&POD, pod("one", &ready));
        scene.put(&POD, pod("two", &json!({"phase": "Pending"})));
        let mut ending = pod("three", &json!({"phase": "Running"}));
        ending["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
        scene.put(&POD, ending);
        let plan = planned(&scene);
        assert!(plan.actions.is_empty());
        let expected = json!({
            "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
            "observedGeneration": 3, "terminatingReplicas": 1,
        });
        assert_eq!(status_of(&plan), expected);
    }

    #[test]
    fn a_status_that_is_true_already_is_not_written() {
        let mut scene = Scene::new();
        scene.put(&REPLICA_SET, replica_set(0));
        let status = status_of(&planned(&scene));
        let mut told = replica_set(0);
        told["status"] = status;
        scene.put(&REPLICA_SET, told);
        assert_eq!(planned(&scene), Plan::done());
    }

    #[test]
    fn availability_is_checked_again_when_the_minimum_ready_time_ends() {
        let mut scene = Scene::new();
        let mut owner = replica_set(1);
        owner["spec"]["minReadySeconds"] = 30.into();
        scene.put(&REPLICA_SET, owner);
        let since = "2024-01-01T00:00:00Z";
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]});
        scene.put(&POD, pod("one", &ready));
        scene.wait(10);
        let plan = planned(&scene);
        assert_eq!(status_of(&plan).get("availableReplicas"), None);
        assert_eq!(plan.after, Some(Duration::from_secs(20)));
        scene.wait(20);
        assert_eq!(status_of(&planned(&scene))["availableReplicas"], 1);
    }

    #[test]
    fn a_refused_creation_is_a_condition() {
        let mut scene = Scene::new();
        scene.put(&REPLICA_SET, replica_set(1));
        scene.failure = Some(Failure {
            reason: "FailedCreate",
            message: "exceeded quota".into(),
        });
        let status = status_of(&planned(&scene));
        assert_eq!(status["conditions"][0]["type"], "ReplicaFailure");
        assert_eq!(status["conditions"][0]["reason"], "FailedCreate");
    }

    #[test]
    fn surplus_pods_are_deleted() {
        let mut scene = Scene::new();
        scene.put(&REPLICA_SET, replica_set(1));
        scene.put(&POD, pod("one", &json!({"phase": "Pending"})));
        scene.put(&POD, pod("two", &json!({"phase": "Running"})));
        assert_eq!(names(&planned(&scene).actions), ["delete pods/one"]);
    }
}
