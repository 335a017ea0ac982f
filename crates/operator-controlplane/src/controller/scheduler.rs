//! Scheduler: binds each pending pod to a matching node.
//!
//! A node matches by name, selector, required node affinity, taints and `unschedulable`. Capacities are not compared,
//! because simulated nodes run nothing. Among the matching nodes, the one with the fewest pods is chosen.

use std::collections::HashMap;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::engine::Controller;
use crate::kind::{NODE, POD};
use crate::object::{Object, set, time};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Note, Plan, World, update_subresource};
use crate::pod;
use crate::selector::expressions;

const COMPONENT: &str = "default-scheduler";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    let mut bindings = HashMap::new();
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(move |world, key| plan(world, key, &mut bindings)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    if POD.is(&event.gvr) && is_waiting(&event.object) {
        keys.push(Key::of(&event.object));
    }
    if NODE.is(&event.gvr) && is_fit_changed(event) {
        let waiting = objects.list(&POD, "").filter(|pod| is_waiting(pod));
        keys.extend(waiting.map(|pod| Key::of(pod)));
    }
}

fn is_fit_changed(event: &Event) -> bool {
    let parts = |node: &Value| {
        (
            node.get("spec").cloned(),
            node.pointer("/metadata/labels").cloned(),
        )
    };
    event.old.as_deref().map(parts) != Some(parts(&event.object))
}

fn is_waiting(pod: &Value) -> bool {
    pod.text("/spec/nodeName").is_empty()
        && pod.text("/spec/schedulerName") == COMPONENT
        && pod.items("/spec/schedulingGates").is_empty()
        && pod::is_active(pod)
}

fn plan(world: &World<'_>, key: &Key, bindings: &mut HashMap<String, u64>) -> Plan {
    let pod = world.objects.get(&POD, &key.namespace, &key.name);
    let Some(pod) = pod.filter(|pod| is_waiting(pod)) else {
        return Plan::done();
    };
    let nodes: Vec<_> = world
        .objects
        .list(&NODE, "")
        .filter(|node| !node.is_terminating())
        .collect();
    let fits = nodes.iter().filter(|node| misfit(pod, node).is_none());
    let count = |node: &Value| bindings.get(node.name()).copied().unwrap_or(0);
    let Some(node) = fits.min_by_key(|node| (count(node), node.name())) else {
        return unschedulable(
            world,
            pod,
            &nodes
                .iter()
                .filter_map(|node| misfit(pod, node))
                .collect::<Vec<_>>(),
        );
    };
    *bindings.entry(node.name().to_owned()).or_default() += 1;
    let message = format!(
        "Successfully assigned {}/{} to {}",
        pod.namespace(),
        pod.name(),
        node.name()
    );
    Plan::act(Action::Bind {
        pod: pod.clone(),
        node: node.name().to_owned(),
        note: Some(Note::normal(COMPONENT, &POD, pod, "Scheduled", message)),
    })
}

/// Returns the reason why a pod does not match a node, with the text of kube-scheduler.
pub(crate) fn misfit(pod: &Value, node: &Value) -> Option<String> {
    let tolerations = pod.items("/spec/tolerations");
    if node.flag("/spec/unschedulable") && !tolerates(tolerations, &unschedulable_taint()) {
        return Some("node(s) were unschedulable".to_owned());
    }
    if !is_selected(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let mut taints = node.items("/spec/taints").iter();
    let taint =
        taints.find(|taint| taint.text("/effect") != "PreferNoSchedule" && !tolerates(tolerations, taint))?;
    Some(match taint.text("/value") {
        "" => format!("node(s) had untolerated taint {{{}: }}", taint.text("/key")),
        value => format!(
            "node(s) had untolerated taint {{{}: {value}}}",
            taint.text("/key")
        ),
    })
}

fn unschedulable_taint() -> Value {
    json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
}

/// Returns true if a pod's selector and required affinity match a node.
pub(crate) fn is_selected(pod: &Value, node: &Value) -> bool {
    let labels = node.texts("/metadata/labels");
    let mut wanted = pod.texts("/spec/nodeSelector").into_iter();
    if !wanted.all(|pair| labels.contains(&pair)) {
        return false;
    }
    const REQUIRED: &str =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = pod.items(REQUIRED);
    let fields = [("metadata.name", node.name())];
    terms.is_empty()
        || terms.iter().any(|term| {
            expressions(term.items("/matchExpressions"), &labels)
                && expressions(term.items("/matchFields"), &fields)
        })
}

/// Returns true if a toleration tolerates a taint.
pub(crate) fn tolerates(tolerations: &[Value], taint: &Value) -> bool {
    tolerations.iter().any(|toleration| {
        let effect = toleration.text("/effect");
        let key = toleration.text("/key");
        let is_any_value = toleration.text("/operator") == "Exists";
        (effect.is_empty() || effect == taint.text("/effect"))
            && (key.is_empty() && is_any_value || key == taint.text("/key"))
            && (is_any_value || toleration.text("/value") == taint.text("/value"))
    })
}

fn unschedulable(world: &World<'_>, pod: &Value, misfits: &[String]) -> Plan {
    let message = explain(misfits);
    let told = pod.condition("PodScheduled");
    if told.is_some_and(|told| told.text("/status") == "False" && told.text("/message") == message) {
        return Plan::done();
    }
    let mut updated = pod.clone();
    let mut conditions = pod.items("/status/conditions").to_vec();
    conditions.retain(|condition| condition.text("/type") != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": time(world.now),
        "reason": "Unschedulable",
        "message": message,
    }));
    set(&mut updated, &["status", "conditions"], Value::Array(conditions));
    let note = Note::warning(COMPONENT, &POD, pod, "FailedScheduling", message);
    Plan::actions(vec![
        update_subresource(&POD, "status", updated),
        Action::Record(note),
    ])
}

fn explain(misfits: &[String]) -> String {
    if misfits.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for misfit in misfits {
        *counts.entry(misfit).or_default() += 1;
    }
    let reasons: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!("0/{} nodes are available: {}.", misfits.len(), reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, names};

    fn node(name: &str, spec: &Value) -> Value {
        json!({"metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})
    }

    fn pod(name: &str, mut spec: Value) -> Value {
        spec["schedulerName"] = COMPONENT.into();
        json!({"metadata": {"namespace": "a", "name": name, "uid": name}, "spec": spec})
    }

    #[test]
    fn pods_are_spread_over_the_nodes() {
        let mut scene = Scene::new();
        scene.put(&NODE, node("n1", &json!({})));
        scene.put(&NODE, node("n2", &json!({})));
        let mut bindings = HashMap::new();
        let mut bound = Vec::new();
        for name in ["p1", "p2", "p3"] {
            scene.put(&POD, pod(name, json!({})));
            bound.extend(names(
                &scene
                    .plan(|world, key| plan(world, key, &mut bindings), "a", name)
                    .actions,
            ));
        }
        assert_eq!(bound, ["bind p1 to n1", "bind p2 to n2", "bind p3 to n1"]);
    }

    #[test]
    fn a_node_has_to_fit() {
        let tainted = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        let by_name = |name: &str| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
            ]}}}})
        };
        let cases = [
            (json!({}), json!({}), true),
            (
                json!({"nodeSelector": {"kubernetes.io/hostname": "n"}}),
                json!({}),
                true,
            ),
            (
                json!({"nodeSelector": {"kubernetes.io/hostname": "m"}}),
                json!({}),
                false,
            ),
            (json!({}), tainted.clone(), false),
            (
                json!({"tolerations": [{"key": "k", "operator": "Exists"}]}),
                tainted.clone(),
                true,
            ),
            (json!({"tolerations": [{"operator": "Exists"}]}), tainted, true),
            (json!({}), json!({"unschedulable": true}), false),
            (by_name("n"), json!({}), true),
            (by_name("m"), json!({}), false),
        ];
        for (pod_spec, node_spec, fits) in cases {
            let found = misfit(&pod("p", pod_spec.clone()), &node("n", &node_spec));
            assert_eq!(found.is_none(), fits, "{pod_spec} {node_spec}: {found:?}");
        }
    }

    #[test]
    fn an_unschedulable_pod_is_reported_once() {
        let mut scene = Scene::new();
        scene.put(&NODE, node("n", &json!({"unschedulable": true})));
        scene.put(&POD, pod("p", json!({})));
        let planned = |scene: &Scene| {
            scene
                .plan(|world, key| plan(world, key, &mut HashMap::new()), "a", "p")
                .actions
        };
        let mut actions = planned(&scene);
        assert_eq!(
            names(&actions),
            ["update pods/p/status", "record FailedScheduling"]
        );
        let Action::Update { object, .. } = actions.remove(0) else {
            panic!("update")
        };
        assert_eq!(
            object.condition("PodScheduled").unwrap().text("/message"),
            "0/1 nodes are available: 1 node(s) were unschedulable."
        );
        scene.put(&POD, *object);
        assert!(planned(&scene).is_empty());
    }
}
