//! Node lifecycle: taints nodes by their conditions, and deletes pods that do not tolerate the taints.
//!
//! Semantics: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration, and the node lifecycle and taint
//! eviction controllers of kube-controller-manager. Heartbeats are not checked: a condition keeps its last written
//! status.

use jiff::{SignedDuration, Timestamp};
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::controller::scheduler::tolerates;
use crate::engine::Controller;
use crate::kind::{NODE, POD};
use crate::object::{Object, set, time};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Note, Plan, World, delete, until, update, update_status};

const COMPONENT: &str = "taint-eviction-controller";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition types and statuses, with the corresponding taints.
const CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "node-lifecycle-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

/// Adds the keys of nodes, of pods that were bound, and of pods whose node has changed.
fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    if NODE.is(&event.gvr) {
        let name = event.object.name();
        keys.push(Key::of(&event.object));
        let pods = objects
            .list(&POD, "")
            .filter(|pod| pod.text("/spec/nodeName") == name);
        keys.extend(pods.map(|pod| Key::of(pod)));
    }
    if POD.is(&event.gvr) && !event.object.text("/spec/nodeName").is_empty() {
        keys.push(Key::of(&event.object));
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    if key.namespace.is_empty() {
        let node = world.objects.get(&NODE, "", &key.name);
        return Plan::actions(node.and_then(|node| taint(world, node)).into_iter().collect());
    }
    let pod = world.objects.get(&POD, &key.namespace, &key.name);
    pod.filter(|pod| !pod.is_terminating())
        .map_or_else(Plan::done, |pod| evict(world, pod))
}

/// Returns true if this controller manages a taint.
fn is_own(taint: &Value) -> bool {
    let key = taint.text("/key");
    match taint.text("/effect") {
        "NoSchedule" => key == UNSCHEDULABLE || CONDITIONS.iter().any(|(_, _, known)| *known == key),
        "NoExecute" => [NOT_READY, UNREACHABLE].contains(&key),
        _ => false,
    }
}

/// Returns the desired taints of a node: keys and effects.
fn wanted(node: &Value) -> Vec<(&'static str, &'static str)> {
    let holds = |kind: &str, status: &str| {
        node.condition(kind)
            .is_some_and(|found| found.text("/status") == status)
    };
    let mut wanted: Vec<_> = CONDITIONS
        .into_iter()
        .filter(|(kind, status, _)| holds(kind, status))
        .map(|(_, _, key)| (key, "NoSchedule"))
        .collect();
    if node.flag("/spec/unschedulable") {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let not_ready = CONDITIONS
        .into_iter()
        .find(|(kind, status, _)| *kind == "Ready" && holds(kind, status));
    wanted.extend(not_ready.map(|(_, _, key)| (key, "NoExecute")));
    wanted
}

/// Returns true if a taint has this key and effect.
fn is(taint: &Value, (key, effect): &(&str, &str)) -> bool {
    taint.text("/key") == *key && taint.text("/effect") == *effect
}

fn taint(world: &World<'_>, node: &Value) -> Option<Action> {
    let wanted = wanted(node);
    let before = node.items("/spec/taints");
    let mut taints: Vec<Value> = before
        .iter()
        .filter(|taint| !is_own(taint) || wanted.iter().any(|one| is(taint, one)))
        .cloned()
        .collect();
    for one in &wanted {
        if !taints.iter().any(|taint| is(taint, one)) {
            let (key, effect) = one;
            taints.push(json!({"key": key, "effect": effect, "timeAdded": time(world.now)}));
        }
    }
    if taints == before {
        return None;
    }
    let mut node = node.clone();
    set(&mut node, &["spec", "taints"], Value::Array(taints));
    Some(update(&NODE, node, None))
}

/// Deletes a pod when its toleration of the node's taints has expired.
fn evict(world: &World<'_>, pod: &Value) -> Plan {
    let Some(node) = world.objects.get(&NODE, "", pod.text("/spec/nodeName")) else {
        return Plan::done();
    };
    let tolerations = pod.items("/spec/tolerations");
    let taints = node.items("/spec/taints").iter();
    let ends = taints
        .filter(|taint| taint.text("/effect") == "NoExecute")
        .filter_map(|taint| end(world.now, tolerations, taint));
    match ends.min() {
        None => Plan::done(),
        Some(end) if end > world.now => Plan {
            after: Some(until(world.now, end)),
            ..Plan::default()
        },
        Some(_) => {
            let name = format!("{}/{}", pod.namespace(), pod.name());
            let message = format!("Marking for deletion Pod {name}");
            let note = Note::normal(COMPONENT, &POD, pod, "TaintManagerEviction", message);
            let told = disrupted(world, pod);
            Plan::actions(told.into_iter().chain([delete(&POD, pod, Some(note))]).collect())
        }
    }
}

/// Returns the time at which a taint evicts a pod; `None` if the pod tolerates it forever.
fn end(now: Timestamp, tolerations: &[Value], taint: &Value) -> Option<Timestamp> {
    let tolerating: Vec<&Value> = tolerations
        .iter()
        .filter(|toleration| tolerates(std::slice::from_ref(*toleration), taint))
        .collect();
    if tolerating.is_empty() {
        return Some(now);
    }
    let seconds = tolerating
        .iter()
        .filter_map(|toleration| toleration.int("/tolerationSeconds"))
        .min()?;
    let since = taint.time("/timeAdded").unwrap_or(now);
    since.checked_add(SignedDuration::from_secs(seconds.max(0))).ok()
}

/// Sets the condition of a pod with the reason of its eviction.
fn disrupted(world: &World<'_>, pod: &Value) -> Option<Action> {
    const KIND: &str = "DisruptionTarget";
    if pod.is_condition_true(KIND) {
        return None;
    }
    let mut status = pod.get("status").cloned().unwrap_or_default();
    let mut conditions = pod.items("/status/conditions").to_vec();
    conditions.push(json!({
        "type": KIND,
        "status": "True",
        "lastTransitionTime": time(world.now),
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }));
    set(&mut status, &["conditions"], Value::Array(conditions));
    update_status(&POD, pod, status)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{Scene, names};

    fn node(ready: &str) -> Value {
        json!({
            "metadata": {"name": "n", "uid": "n"},
            "spec": {"taints": [
                {"key": "own", "effect": "NoSchedule"},
                {"key": NOT_READY, "effect": "NoSchedule"},
            ]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn taints(scene: &Scene) -> Option<Vec<String>> {
        let mut actions = scene.plan(plan, "", "n").actions;
        let Action::Update { object, .. } = actions.pop()? else {
            panic!("an update")
        };
        let named = |taint: &Value| format!("{}:{}", taint.text("/key"), taint.text("/effect"));
        Some(object.items("/spec/taints").iter().map(named).collect())
    }

    #[test]
    fn taints_follow_the_conditions_and_others_stay() {
        let mut scene = Scene::new();
        scene.put(&NODE, node("True"));
        assert_eq!(taints(&scene).unwrap(), ["own:NoSchedule"]);
        scene.put(&NODE, node("Unknown"));
        let unreachable = ["NoSchedule", "NoExecute"].map(|effect| format!("{UNREACHABLE}:{effect}"));
        assert_eq!(taints(&scene).unwrap()[1..], unreachable);
        let mut cordoned = node("True");
        cordoned["spec"] = json!({"unschedulable": true});
        scene.put(&NODE, cordoned);
        assert_eq!(taints(&scene).unwrap(), [format!("{UNSCHEDULABLE}:NoSchedule")]);
        let mut settled = node("True");
        settled["spec"] = json!({});
        scene.put(&NODE, settled);
        assert_eq!(taints(&scene), None);
    }

    #[test]
    fn a_pod_is_deleted_when_it_tolerates_no_longer() {
        let mut scene = Scene::new();
        let mut lost = node("Unknown");
        lost["spec"]["taints"] =
            json!([{"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}]);
        scene.put(&NODE, lost);
        let pod = |name: &str, tolerations: Value| {
            json!({
                "metadata": {"namespace": "a", "name": name, "uid": name},
                "spec": {"nodeName": "n", "tolerations": tolerations},
            })
        };
        scene.put(&POD, pod("never", json!([])));
        scene.put(&POD, pod("ever", json!([{"operator": "Exists"}])));
        let some_time = json!([{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300}]);
        scene.put(&POD, pod("some-time", some_time));
        let step = |scene: &Scene, name: &str| scene.plan(plan, "a", name);
        assert_eq!(
            names(&step(&scene, "never").actions),
            ["update pods/never/status", "delete pods/never"]
        );
        assert_eq!(step(&scene, "ever"), Plan::done());
        assert_eq!(step(&scene, "some-time").after, Some(Duration::from_secs(300)));
        scene.wait(300);
        assert_eq!(step(&scene, "some-time").actions.len(), 2);
    }
}
