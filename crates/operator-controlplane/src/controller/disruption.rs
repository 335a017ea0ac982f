//! PodDisruptionBudget: computes the number of pods that may be evicted.

use std::collections::BTreeSet;
use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::controller::deployment::scaled;
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{
    DEPLOYMENT, Kind, POD, POD_DISRUPTION_BUDGET, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET,
};
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::owner::controller_of;
use crate::plan::{Plan, World, update_status};
use crate::pod;
use crate::selector::selects;

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "disruption-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&POD_DISRUPTION_BUDGET, event, keys);
    let is_scale = REPLICA_SET.is(&event.gvr) || DEPLOYMENT.is(&event.gvr) || STATEFUL_SET.is(&event.gvr);
    if POD.is(&event.gvr) || is_scale {
        let budgets = objects.list(&POD_DISRUPTION_BUDGET, event.object.namespace());
        keys.extend(budgets.map(|budget| Key::of(budget)));
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(budget) = world
        .objects
        .get(&POD_DISRUPTION_BUDGET, &key.namespace, &key.name)
    else {
        return Plan::done();
    };
    let selector = budget.pointer("/spec/selector");
    let pods: Vec<&Arc<Value>> = world
        .objects
        .list(&POD, &key.namespace)
        .filter(|pod| !pod::is_finished(pod) && selects(selector, &pod.texts("/metadata/labels")))
        .collect();
    let (expected, desired) = wanted(world, budget, &pods);
    let healthy = pods
        .iter()
        .filter(|pod| pod::is_ready(pod) && !pod.is_terminating())
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 {
        0
    } else {
        (healthy - desired).max(0)
    };
    let mut status = json!({
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget.generation(),
        "conditions": [condition(world, budget, allowed > 0)],
    });
    if let Some(disrupted) = disrupted(budget, &pods) {
        status["disruptedPods"] = disrupted;
    }
    Plan {
        status: update_status(&POD_DISRUPTION_BUDGET, budget, status),
        ..Plan::default()
    }
}

/// Returns the expected number of pods, and the number of them that must be healthy.
fn wanted(world: &World<'_>, budget: &Value, pods: &[&Arc<Value>]) -> (i64, i64) {
    let counted = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    match (
        budget.pointer("/spec/minAvailable"),
        budget.pointer("/spec/maxUnavailable"),
    ) {
        (Some(Value::Number(minimum)), _) => (counted, minimum.as_i64().unwrap_or(0)),
        (Some(minimum), _) => {
            let expected = scale(world, pods);
            (expected, scaled(minimum, expected, true))
        }
        (None, Some(maximum)) => {
            let expected = scale(world, pods);
            (expected, (expected - scaled(maximum, expected, true)).max(0))
        }
        (None, None) => (counted, 1),
    }
}

/// Returns the total number of desired replicas of the pods' controllers.
fn scale(world: &World<'_>, pods: &[&Arc<Value>]) -> i64 {
    let mut owners = BTreeSet::new();
    pods.iter()
        .filter_map(|pod| scaled_owner(world, pod))
        .filter(|owner| owners.insert(owner.uid().to_owned()))
        .map(|owner| owner.int("/spec/replicas").unwrap_or(1))
        .sum()
}

/// Returns the object that scales a pod: its controller, or the Deployment of its ReplicaSet.
fn scaled_owner<'a>(world: &World<'a>, pod: &Value) -> Option<&'a Arc<Value>> {
    let (kind, owner) = scale_of(world, pod)?;
    if REPLICA_SET.is(&kind.gvr) && controller_of(owner).is_some() {
        return scale_of(world, owner).map(|(_, owner)| owner);
    }
    Some(owner)
}

/// Returns the controller of an object, if it has a scale.
fn scale_of<'a>(world: &World<'a>, object: &Value) -> Option<(&'static Kind, &'a Arc<Value>)> {
    let owner = controller_of(object)?;
    let kinds: [&'static Kind; 4] = [
        &*REPLICA_SET,
        &*REPLICATION_CONTROLLER,
        &*STATEFUL_SET,
        &*DEPLOYMENT,
    ];
    let kind = kinds.into_iter().find(|kind| kind.name == owner.text("/kind"))?;
    let found = world.objects.get(kind, object.namespace(), owner.text("/name"))?;
    Some((kind, found))
}

/// Returns the pods with a granted eviction that still exist.
fn disrupted(budget: &Value, pods: &[&Arc<Value>]) -> Option<Value> {
    let granted = budget.pointer("/status/disruptedPods")?.as_object()?;
    let there: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| !pod.is_terminating())
        .map(|pod| pod.name())
        .collect();
    let left: serde_json::Map<_, _> = granted
        .iter()
        .filter(|(name, _)| there.contains(name.as_str()))
        .map(|(name, at)| (name.clone(), at.clone()))
        .collect();
    Some(left).filter(|left| !left.is_empty()).map(Value::Object)
}

fn condition(world: &World<'_>, budget: &Value, is_allowed: bool) -> Value {
    const KIND: &str = "DisruptionAllowed";
    let (status, reason) = if is_allowed {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let before = budget
        .condition(KIND)
        .filter(|before| before.text("/status") == status);
    let since = before.and_then(|before| before.get("lastTransitionTime").cloned());
    json!({
        "type": KIND,
        "status": status,
        "observedGeneration": budget.generation(),
        "lastTransitionTime": since.unwrap_or_else(|| time(world.now)),
        "reason": reason,
        "message": "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Action;
    use crate::testing::Scene;

    fn status(spec: &Value, ready: usize, replicas: i64) -> Value {
        let mut scene = Scene::new();
        let mut budget =
            json!({"metadata": {"namespace": "a", "name": "b", "uid": "b", "generation": 1}, "spec": spec});
        budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        scene.put(&POD_DISRUPTION_BUDGET, budget);
        scene.put(&REPLICA_SET, json!({"metadata": {"namespace": "a", "name": "rs", "uid": "rs"}, "spec": {"replicas": replicas}}));
        for number in 0..ready {
            let name = format!("p{number}");
            scene.put(&POD, json!({
                "metadata": {
                    "namespace": "a", "name": name, "uid": name, "labels": {"app": "web"},
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}],
                },
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }));
        }
        match scene.plan(plan, "a", "b").status {
            Some(Action::Update { object, .. }) => object["status"].clone(),
            other => panic!("unexpected {other:?}"),
        }
    }

    #[test]
    fn a_budget_counts_allowed_disruptions() {
        let cases = [
            (json!({"minAvailable": 1}), 2, 2, (2, 1, 1)),
            (json!({"minAvailable": "50%"}), 3, 4, (4, 2, 1)),
            (json!({"maxUnavailable": 1}), 4, 4, (4, 3, 1)),
            (json!({"maxUnavailable": "25%"}), 2, 4, (4, 3, 0)),
            (json!({"minAvailable": 1}), 0, 0, (0, 1, 0)),
        ];
        for (spec, ready, replicas, (expected, desired, allowed)) in cases {
            let status = status(&spec, ready, replicas);
            assert_eq!(status["expectedPods"], expected, "{spec}");
            assert_eq!(status["desiredHealthy"], desired, "{spec}");
            assert_eq!(status["disruptionsAllowed"], allowed, "{spec}");
            let reason = if allowed > 0 {
                "SufficientPods"
            } else {
                "InsufficientPods"
            };
            assert_eq!(status["conditions"][0]["reason"], reason, "{spec}");
        }
    }

    #[test]
    fn owners_that_own_each_other_are_not_followed() {
        let mut scene = Scene::new();
        let owner =
            |name: &str| json!([{"kind": "ReplicaSet", "name": name, "uid": name, "controller": true}]);
        for (name, other) in [("rs", "rs"), ("x", "y"), ("y", "x")] {
            scene.put(&REPLICA_SET, json!({
                "metadata": {"namespace": "a", "name": name, "uid": name, "ownerReferences": owner(other)},
                "spec": {"replicas": 2},
            }));
            scene.put(&POD, json!({
                "metadata": {"namespace": "a", "name": name, "uid": format!("pod-{name}"), "ownerReferences": owner(name)},
                "status": {"phase": "Running"},
            }));
        }
        scene.put(&POD_DISRUPTION_BUDGET, json!({
            "metadata": {"namespace": "a", "name": "b", "uid": "b"}, "spec": {"selector": {}, "maxUnavailable": 1},
        }));
        assert!(scene.plan(plan, "a", "b").status.is_some());
    }
}
