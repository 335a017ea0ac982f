//! DaemonSet: one pod on each matching node.
//!
//! Rolling updates replace old pods within `maxUnavailable`. `maxSurge` is added to `maxUnavailable`, because a surge
//! pod has no visible effect on simulated nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::claim::claim;
use crate::controller::deployment::scaled;
use crate::controller::scheduler::{is_selected, tolerates};
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::history::{self, HASH, History};
use crate::kind::{DAEMON_SET, NODE, POD};
use crate::object::{Object, counters, set};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Note, Plan, World, create, delete, sooner, until, update_status};
use crate::pod;
use crate::selector::selects;

const COMPONENT: &str = "daemonset-controller";
const GENERATION: &str = "pod-template-generation";

/// Taints that pods of a DaemonSet tolerate, in addition to those of their template.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: COMPONENT,
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&DAEMON_SET, event, keys);
    keys_of_controller(&DAEMON_SET, event, keys);
    if NODE.is(&event.gvr) {
        keys.extend(objects.list(&DAEMON_SET, "").map(|set| Key::of(set)));
    }
}

/// A DaemonSet with its nodes and pods.
struct Run<'a> {
    set: &'a Value,
    history: History,
    /// The pods of each matching node.
    wanted: BTreeMap<String, Vec<Arc<Value>>>,
    /// The pods on other nodes.
    misplaced: Vec<Arc<Value>>,
}

impl Run<'_> {
    fn hash(&self) -> String {
        history::label(&self.history.latest, self.set, true)
    }

    fn min_ready(&self) -> i64 {
        self.set.int("/spec/minReadySeconds").unwrap_or(0)
    }

    fn is_old(&self, pod: &Value) -> bool {
        pod.label(HASH) != Some(self.hash().as_str())
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(set) = world.objects.get(&DAEMON_SET, &key.namespace, &key.name) else {
        return Plan::done();
    };
    let selector = set.pointer("/spec/selector");
    let claim = claim(world.objects, &DAEMON_SET, set, &POD, |pod| {
        selects(selector, &pod.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Plan::actions(claim.actions);
    }
    let history = match history::history(world.objects, &DAEMON_SET, set) {
        Ok(history) => history,
        Err(_) if set.is_terminating() => return Plan::done(),
        Err(actions) => return Plan::actions(actions),
    };
    let run = sort(world, set, history, claim.owned);
    let (status, after) = status(world, &run);
    let actions = if set.is_terminating() {
        Vec::new()
    } else {
        steps(world, &run)
    };
    Plan {
        actions,
        status: update_status(&DAEMON_SET, set, status),
        after,
    }
}

fn sort<'a>(world: &World<'_>, set: &'a Value, history: History, pods: Vec<Arc<Value>>) -> Run<'a> {
    let template = tolerant(set.pointer("/spec/template").cloned().unwrap_or_default());
    let nodes = world.objects.list(&NODE, "").filter(|node| fits(&template, node));
    let mut wanted: BTreeMap<String, Vec<Arc<Value>>> =
        nodes.map(|node| (node.name().to_owned(), Vec::new())).collect();
    let mut misplaced = Vec::new();
    for pod in pods {
        match node_of(&pod).and_then(|node| wanted.get_mut(node)) {
            Some(pods) => pods.push(pod),
            None => misplaced.push(pod),
        }
    }
    Run {
        set,
        history,
        wanted,
        misplaced,
    }
}

/// Returns the node of a pod, or its target node.
fn node_of(pod: &Value) -> Option<&str> {
    const TERMS: &str =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    match pod.text("/spec/nodeName") {
        "" => {
            let fields = pod
                .items(TERMS)
                .iter()
                .flat_map(|term| term.items("/matchFields"));
            let mut names = fields.filter(|field| field.text("/key") == "metadata.name");
            names.next()?.items("/values").first()?.as_str()
        }
        name => Some(name),
    }
}

fn fits(template: &Value, node: &Value) -> bool {
    let tolerations = template.items("/spec/tolerations");
    let taints = node.items("/spec/taints").iter();
    let mut hard = taints.filter(|taint| taint.text("/effect") != "PreferNoSchedule");
    is_selected(template, node) && hard.all(|taint| tolerates(tolerations, taint))
}

/// Returns the template with the tolerations of all DaemonSets.
fn tolerant(mut template: Value) -> Value {
    let mut tolerations = template.items("/spec/tolerations").to_vec();
    for (key, effect) in TOLERATED {
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    set(&mut template, &["spec", "tolerations"], Value::Array(tolerations));
    template
}

fn steps(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    let burst = pod::burst(&history::template(&run.history.latest));
    let mut actions: Vec<Action> = run
        .misplaced
        .iter()
        .filter(|pod| pod::is_active(pod))
        .map(|pod| kill(run, pod))
        .collect();
    for (node, pods) in &run.wanted {
        let (ended, alive): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod::is_finished(pod));
        actions.extend(
            ended
                .into_iter()
                .filter(|pod| !pod.is_terminating())
                .map(|pod| kill(run, pod)),
        );
        let mut active: Vec<_> = alive.iter().filter(|pod| !pod.is_terminating()).collect();
        active.sort_by_key(|pod| pod.text("/metadata/creationTimestamp").to_owned());
        actions.extend(active.iter().skip(1).map(|pod| kill(run, pod)));
        if alive.is_empty() && pods.is_empty() {
            actions.push(start(run, node));
        }
        if actions.len() >= burst {
            return actions;
        }
    }
    if actions.is_empty() && run.set.text("/spec/updateStrategy/type") != "OnDelete" {
        actions = replace(world, run);
    }
    if actions.is_empty() {
        let pods = run.wanted.values().flatten().chain(&run.misplaced);
        let hashes: BTreeSet<&str> = pods.filter_map(|pod| pod.label(HASH)).collect();
        let live = run.history.revisions.iter();
        let live = live.filter(|revision| hashes.contains(history::label(revision, run.set, true).as_str()));
        let live: BTreeSet<String> = live.map(|revision| revision.name().to_owned()).collect();
        actions = history::surplus(&run.history, run.set, &live);
    }
    actions
}

/// Deletes old pods within `maxUnavailable`; unavailable pods are deleted first.
fn replace(world: &World<'_>, run: &Run<'_>) -> Vec<Action> {
    let nodes = i64::try_from(run.wanted.len()).unwrap_or(i64::MAX);
    let bound = |field: &str| {
        let value = run
            .set
            .pointer(&format!("/spec/updateStrategy/rollingUpdate/{field}"));
        value.map_or(0, |value| scaled(value, nodes, true))
    };
    let unavailable = (bound("maxUnavailable") + bound("maxSurge")).max(1);
    let is_available =
        |pod: &Value| !pod.is_terminating() && pod::is_available(pod, run.min_ready(), world.now);
    let down = run
        .wanted
        .values()
        .filter(|pods| !pods.iter().any(|pod| is_available(pod)))
        .count();
    let mut left = unavailable - i64::try_from(down).unwrap_or(i64::MAX);
    let mut actions = Vec::new();
    for pod in run
        .wanted
        .values()
        .flatten()
        .filter(|pod| run.is_old(pod) && !pod.is_terminating())
    {
        if is_available(pod) {
            if left <= 0 {
                continue;
            }
            left -= 1;
        }
        actions.push(kill(run, pod));
    }
    actions
}

fn start(run: &Run<'_>, node: &str) -> Action {
    let template = tolerant(history::template(&run.history.latest));
    let mut made = pod::from_template(&DAEMON_SET, run.set, &template, &format!("{}-", run.set.name()));
    set(&mut made, &["metadata", "labels", HASH], json!(run.hash()));
    let generation = run.set.annotation("deprecated.daemonset.template.generation");
    if let Some(generation) = generation {
        set(&mut made, &["metadata", "labels", GENERATION], json!(generation));
    }
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let required = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    set(&mut made, &required, json!({"nodeSelectorTerms": [term]}));
    let note = Note::normal(
        COMPONENT,
        &DAEMON_SET,
        run.set,
        "SuccessfulCreate",
        "Created pod: {name}".to_owned(),
    );
    create(&POD, made, Some(note.or("FailedCreate")))
}

fn kill(run: &Run<'_>, pod: &Value) -> Action {
    let message = format!("Deleted pod: {}", pod.name());
    let note = Note::normal(COMPONENT, &DAEMON_SET, run.set, "SuccessfulDelete", message);
    delete(&POD, pod, Some(note.or("FailedDelete")))
}

fn status(world: &World<'_>, run: &Run<'_>) -> (Value, Option<Duration>) {
    let min_ready = run.min_ready();
    let nodes_with = |counted: &dyn Fn(&Value) -> bool| {
        let is_counted =
            |pods: &&Vec<Arc<Value>>| pods.iter().any(|pod| !pod.is_terminating() && counted(pod));
        i64::try_from(run.wanted.values().filter(is_counted).count()).unwrap_or(i64::MAX)
    };
    let desired = i64::try_from(run.wanted.len()).unwrap_or(i64::MAX);
    let available = nodes_with(&|pod| pod::is_available(pod, min_ready, world.now));
    let mut status = counters(&[
        ("updatedNumberScheduled", nodes_with(&|pod| !run.is_old(pod))),
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
        ("observedGeneration", run.set.generation()),
    ]);
    let misplaced: BTreeSet<_> = run
        .misplaced
        .iter()
        .filter(|pod| pod::is_active(pod))
        .map(|pod| node_of(pod))
        .collect();
    status.insert("desiredNumberScheduled".to_owned(), json!(desired));
    status.insert("currentNumberScheduled".to_owned(), json!(nodes_with(&|_| true)));
    status.insert("numberReady".to_owned(), json!(nodes_with(&pod::is_ready)));
    status.insert("numberMisscheduled".to_owned(), json!(misplaced.len()));
    for field in ["collisionCount", "conditions"] {
        if let Some(value) = run.set.pointer(&format!("/status/{field}")) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    let pods = run.wanted.values().flatten();
    let waiting = pods
        .filter_map(|pod| pod::available_at(pod, min_ready))
        .filter(|at| *at > world.now);
    let after = waiting.map(|at| Some(until(world.now, at))).fold(None, sooner);
    (Value::Object(status), after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::CONTROLLER_REVISION;
    use crate::testing::{Scene, names};

    fn scene(nodes: &[&str]) -> Scene {
        let mut scene = Scene::new();
        for name in nodes {
            scene.put(&NODE, json!({"metadata": {"name": name, "uid": name}}));
        }
        scene.put(&DAEMON_SET, json!({
            "metadata": {"namespace": "a", "name": "agent", "uid": "agent", "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
                "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
            },
        }));
        scene
    }

    /// Applies plans until there are no more actions; pods become ready at once.
    fn settle(scene: &mut Scene) -> Vec<String> {
        let mut done = Vec::new();
        for round in 0..20 {
            let plan = scene.plan(plan, "a", "agent");
            if plan.actions.is_empty() {
                if let Some(Action::Update { object, .. }) = plan.status {
                    scene.put(&DAEMON_SET, *object);
                }
                return done;
            }
            done.extend(names(&plan.actions));
            for (number, action) in plan.actions.into_iter().enumerate() {
                match action {
                    Action::Create { gvr, object, .. } => {
                        let mut object = *object;
                        if object.name().is_empty() {
                            object["metadata"]["name"] = format!("agent-{round}-{number}").into();
                            object["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
                        }
                        object["metadata"]["uid"] = object.name().into();
                        let kind = if POD.is(&gvr) {
                            &*POD
                        } else {
                            &*CONTROLLER_REVISION
                        };
                        scene.put(kind, object);
                    }
                    Action::Delete { name, .. } => scene.remove(&POD, "a", &name),
                    other => panic!("unexpected {other:?}"),
                }
            }
        }
        panic!("never settles: {done:?}");
    }

    fn images(scene: &Scene) -> Vec<String> {
        let pods = scene.objects.list(&POD, "a");
        pods.map(|pod| pod.text("/spec/containers/0/image").to_owned())
            .collect()
    }

    #[test]
    fn each_node_gets_one_pod_which_is_deleted_with_the_node() {
        let mut scene = scene(&["n1", "n2"]);
        settle(&mut scene);
        assert_eq!(images(&scene).len(), 2);
        let set = scene.objects.get(&DAEMON_SET, "a", "agent").unwrap();
        assert_eq!(set.int("/status/desiredNumberScheduled"), Some(2));
        assert_eq!(set.int("/status/numberAvailable"), Some(2));
        scene.remove(&NODE, "", "n2");
        settle(&mut scene);
        assert_eq!(images(&scene).len(), 1);
    }

    #[test]
    fn without_nodes_the_status_is_all_zeros() {
        let mut scene = scene(&[]);
        settle(&mut scene);
        let set = scene.objects.get(&DAEMON_SET, "a", "agent").unwrap();
        let expected = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            "observedGeneration": 1,
        });
        assert_eq!(set["status"], expected);
    }

    #[test]
    fn an_update_replaces_one_pod_after_the_other() {
        let mut scene = scene(&["n1", "n2", "n3"]);
        settle(&mut scene);
        let mut set = Value::clone(scene.objects.get(&DAEMON_SET, "a", "agent").unwrap());
        set["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into();
        scene.put(&DAEMON_SET, set);
        let done = settle(&mut scene);
        assert_eq!(images(&scene), ["x:2", "x:2", "x:2"]);
        let steps: Vec<&str> = done
            .iter()
            .skip(1)
            .map(|step| step.split(' ').next().unwrap())
            .collect();
        assert_eq!(
            steps,
            ["delete", "create", "delete", "create", "delete", "create"]
        );
    }

    #[test]
    fn a_tainted_node_is_left_out() {
        let mut scene = scene(&["n1"]);
        let taint = json!({"key": "k", "effect": "NoSchedule"});
        scene.put(
            &NODE,
            json!({"metadata": {"name": "n2", "uid": "n2"}, "spec": {"taints": [taint]}}),
        );
        settle(&mut scene);
        assert_eq!(images(&scene).len(), 1);
    }
}
