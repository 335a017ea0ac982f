//! Simulated nodes: they register themselves, and report pods as running without running containers.
//!
//! Pods with registered programs run as processes instead: see [`process`](crate::process).
//!
//! A pod on a simulated node becomes ContainerCreating, then Running and Ready. Pods of a Job succeed. A deleted pod is
//! removed after its grace period, or sooner. Probes are ignored; readiness gates are respected. Nodes send no
//! heartbeats, so that an idle control plane uses no CPU.

mod machine;
mod status;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use operator_apiserver::client::Event;
use serde_json::Value;

use crate::engine::Controller;
use crate::hold::{Holds, RETRY};
use crate::kind::{JOB, POD};
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::owner::controller_of;
use crate::plan::{Action, Note, Plan, World, delete_with, until, update_status};
use crate::pod;

pub(crate) use machine::{address, pod_address};
pub(crate) use status::{ContainerView, of_containers};

/// The durations of the phases of a simulated pod.
///
/// By default nothing is delayed, which suits tests. [`Delays::lifelike`] makes the phases visible to a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The time from the binding to a node until the pod is Running and Ready. Default: zero.
    pub start: Duration,
    /// The time from Running until a pod of a Job has succeeded. Default: zero.
    pub job: Duration,
    /// The time from the deletion until the pod is removed, limited by its grace period. Default: zero.
    pub stop: Duration,
}

impl Delays {
    /// Returns short delays that `kubectl get --watch` shows: 0.3 s to start, 1 s for a Job, 0.2 s to stop.
    pub fn lifelike() -> Self {
        Self {
            start: Duration::from_millis(300),
            job: Duration::from_secs(1),
            stop: Duration::from_millis(200),
        }
    }
}

/// Returns true for a pod that runs as local processes, which simulated nodes ignore.
pub(crate) type Claimed = Box<dyn Fn(&Value) -> bool + Send>;

/// The nodes, and the state of their pods.
struct Nodes {
    names: Vec<String>,
    delays: Delays,
    holds: Holds,
    events: bool,
    claimed: Claimed,
    /// The current stage of each pod, and the time when it was first seen.
    since: HashMap<Key, (Stage, Timestamp)>,
    /// The number of addresses that each node has assigned.
    addresses: HashMap<String, u32>,
}

/// The stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Stopping,
}

/// Returns the controller of `count` nodes named `node-1`, `node-2`, ….
pub(crate) fn controller(
    count: usize,
    delays: Delays,
    holds: Holds,
    events: bool,
    claimed: Claimed,
) -> Controller {
    let names: Vec<String> = (1..=count).map(|number| format!("node-{number}")).collect();
    let initial = names.iter().map(|name| Key::new("", name)).collect();
    let mut nodes = Nodes {
        names,
        delays,
        holds,
        events,
        claimed,
        since: HashMap::new(),
        addresses: HashMap::new(),
    };
    Controller {
        name: "node",
        keys,
        plan: Box::new(move |world, key| nodes.plan(world, key)),
        initial,
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    if POD.is(&event.gvr) && !event.object.text("/spec/nodeName").is_empty() {
        keys.push(Key::of(&event.object));
    }
}

impl Nodes {
    fn plan(&mut self, world: &World<'_>, key: &Key) -> Plan {
        if key.namespace.is_empty() {
            return self.register(world, &key.name);
        }
        let pod = world.objects.get(&POD, &key.namespace, &key.name);
        let Some((pod, node)) = pod.and_then(|pod| Some((pod, self.index(pod.text("/spec/nodeName"))?)))
        else {
            self.since.remove(key);
            return Plan::done();
        };
        if (self.claimed)(pod) {
            return Plan::done();
        }
        if pod.is_terminating() {
            return self.stop(world, key, pod);
        }
        match pod::phase(pod) {
            "Succeeded" | "Failed" => Plan::done(),
            "Running" => self.run(world, key, pod),
            _ => self.start(world, key, pod, node),
        }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    fn register(&self, world: &World<'_>, name: &str) -> Plan {
        let Some(index) = self.index(name) else {
            return Plan::done();
        };
        Plan::actions(machine::register(world, name, index))
    }

    /// Returns the remaining time of a stage.
    fn left(&mut self, world: &World<'_>, key: &Key, stage: Stage, length: Duration) -> Option<Duration> {
        let entry = self.since.entry(key.clone()).or_insert((stage, world.now));
        if entry.0 != stage {
            *entry = (stage, world.now);
        }
        let length = jiff::SignedDuration::try_from(length).unwrap_or_default();
        let end = entry.1.checked_add(length).unwrap_or(entry.1);
        (end > world.now).then(|| until(world.now, end))
    }

    fn start(&mut self, world: &World<'_>, key: &Key, pod: &Value, node: usize) -> Plan {
        let left = match self.holds.holds_pods() {
            true => Some(RETRY),
            false => self.left(world, key, Stage::Starting, self.delays.start),
        };
        if let Some(left) = left {
            let creating = status::creating(pod, &machine::address(node), world.now);
            return Plan {
                status: update_status(&POD, pod, creating)
                    .filter(|_| pod.text("/status/startTime").is_empty()),
                after: Some(left),
                ..Plan::default()
            };
        }
        let address = self.allocate(pod.text("/spec/nodeName"), node);
        let running = status::running(pod, &machine::address(node), &address, world.now);
        let mut actions: Vec<Action> = update_status(&POD, pod, running).into_iter().collect();
        if self.events {
            actions.extend(started(pod));
        }
        Plan::actions(actions)
    }

    fn allocate(&mut self, node: &str, index: usize) -> String {
        let next = self.addresses.entry(node.to_owned()).or_insert(1);
        *next = next.wrapping_add(1);
        machine::pod_address(index, *next)
    }

    fn run(&mut self, world: &World<'_>, key: &Key, pod: &Value) -> Plan {
        if controller_of(pod).is_none_or(|owner| owner.text("/kind") != JOB.name) {
            let status = update_status(&POD, pod, status::ready(pod, world.now));
            return Plan {
                status,
                ..Plan::default()
            };
        }
        match self.left(world, key, Stage::Running, self.delays.job) {
            Some(left) => Plan {
                after: Some(left),
                ..Plan::default()
            },
            None => Plan {
                status: update_status(&POD, pod, status::ended(pod, 0, world.now)),
                ..Plan::default()
            },
        }
    }

    fn stop(&mut self, world: &World<'_>, key: &Key, pod: &Value) -> Plan {
        let grace = pod.int("/metadata/deletionGracePeriodSeconds").unwrap_or(0);
        if grace > 0 {
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            if let Some(left) = self.left(world, key, Stage::Stopping, self.delays.stop.min(grace)) {
                return Plan {
                    after: Some(left),
                    ..Plan::default()
                };
            }
        }
        // A controller with a finalizer on the pod, such as the Job controller, needs the outcome of the pod.
        if !pod.items("/metadata/finalizers").is_empty() && !pod::is_finished(pod) {
            return Plan::actions(
                update_status(&POD, pod, status::ended(pod, 137, world.now))
                    .into_iter()
                    .collect(),
            );
        }
        if grace > 0 {
            return Plan::act(delete_with(&POD.gvr, pod, None, Some(0), None));
        }
        Plan::done()
    }
}

/// Returns the Events of a pod whose containers start.
fn started(pod: &Value) -> Vec<Action> {
    let record = |reason, message| Action::Record(Note::normal("kubelet", &POD, pod, reason, message));
    let containers = pod.items("/spec/containers").iter();
    containers
        .flat_map(|container| {
            let name = container.text("/name");
            let image = container.text("/image");
            [
                record(
                    "Pulled",
                    format!("Container image {image:?} already present on machine"),
                ),
                record("Created", format!("Created container: {name}")),
                record("Started", format!("Started container {name}")),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Scene, names};

    fn nodes(delays: Delays) -> Nodes {
        Nodes {
            names: vec!["node-1".to_owned()],
            delays,
            holds: Holds::default(),
            events: false,
            claimed: Box::new(|_| false),
            since: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    fn pod(owner: &str) -> Value {
        json!({
            "metadata": {
                "namespace": "a", "name": "p", "uid": "p",
                "ownerReferences": [{"kind": owner, "name": "o", "uid": "o", "controller": true}],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "x:1"}]},
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    }

    /// Plans once, and applies the new status of the pod.
    fn step(scene: &mut Scene, nodes: &mut Nodes) -> Plan {
        let plan = scene.plan(|world, key| nodes.plan(world, key), "a", "p");
        for action in plan.actions.iter().chain(&plan.status) {
            if let Action::Update { object, .. } = action {
                scene.put(&POD, Value::clone(object));
            }
        }
        plan
    }

    fn phase(scene: &Scene) -> String {
        let pod = scene.objects.get(&POD, "a", "p").unwrap();
        let waiting = pod.text("/status/containerStatuses/0/state/waiting/reason");
        format!("{} {waiting}", pod::phase(pod)).trim().to_owned()
    }

    #[test]
    fn a_pod_starts_in_two_steps_and_then_rests() {
        let mut scene = Scene::new();
        let mut nodes = nodes(Delays {
            start: Duration::from_secs(2),
            ..Delays::default()
        });
        scene.put(&POD, pod("ReplicaSet"));
        assert_eq!(step(&mut scene, &mut nodes).after, Some(Duration::from_secs(2)));
        assert_eq!(phase(&scene), "Pending ContainerCreating");
        scene.wait(2);
        step(&mut scene, &mut nodes);
        assert_eq!(phase(&scene), "Running");
        let pod = scene.objects.get(&POD, "a", "p").unwrap().clone();
        assert!(pod::is_ready(&pod));
        assert_eq!(pod.text("/status/qosClass"), "BestEffort");
        assert_ne!(pod.text("/status/podIP"), "");
        assert_eq!(step(&mut scene, &mut nodes), Plan::done());
    }

    #[test]
    fn a_pod_that_is_held_back_starts_when_it_is_released() {
        let (mut scene, mut nodes) = (Scene::new(), nodes(Delays::default()));
        nodes.holds.hold_pods(true);
        scene.put(&POD, pod("ReplicaSet"));
        assert_eq!(step(&mut scene, &mut nodes).after, Some(RETRY));
        assert_eq!(phase(&scene), "Pending ContainerCreating");
        nodes.holds.hold_pods(false);
        step(&mut scene, &mut nodes);
        assert_eq!(phase(&scene), "Running");
    }

    #[test]
    fn without_delays_a_pod_of_a_job_succeeds_at_once() {
        let mut scene = Scene::new();
        let mut nodes = nodes(Delays::default());
        scene.put(&POD, pod("Job"));
        step(&mut scene, &mut nodes);
        step(&mut scene, &mut nodes);
        assert_eq!(phase(&scene), "Succeeded");
        let pod = scene.objects.get(&POD, "a", "p").unwrap().clone();
        assert_eq!(
            pod.int("/status/containerStatuses/0/state/terminated/exitCode"),
            Some(0)
        );
    }

    #[test]
    fn a_readiness_gate_holds_the_pod_back() {
        let mut scene = Scene::new();
        let mut nodes = nodes(Delays::default());
        let mut gated = pod("ReplicaSet");
        gated["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
        scene.put(&POD, gated);
        step(&mut scene, &mut nodes);
        let mut pod = Value::clone(scene.objects.get(&POD, "a", "p").unwrap());
        assert_eq!(
            pod.condition("Ready").unwrap().text("/reason"),
            "ReadinessGatesNotReady"
        );
        let open = json!({"type": "example.com/gate", "status": "True"});
        pod["status"]["conditions"].as_array_mut().unwrap().push(open);
        scene.put(&POD, pod);
        step(&mut scene, &mut nodes);
        assert!(pod::is_ready(scene.objects.get(&POD, "a", "p").unwrap()));
    }

    #[test]
    fn a_deleted_pod_is_removed_after_the_shorter_of_grace_period_and_delay() {
        let mut scene = Scene::new();
        let mut nodes = nodes(Delays {
            stop: Duration::from_secs(5),
            ..Delays::default()
        });
        let mut pod = pod("ReplicaSet");
        pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:30Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        scene.put(&POD, pod);
        assert_eq!(step(&mut scene, &mut nodes).after, Some(Duration::from_secs(5)));
        scene.wait(5);
        assert_eq!(names(&step(&mut scene, &mut nodes).actions), ["delete pods/p"]);
    }

    #[test]
    fn pods_on_other_nodes_are_ignored() {
        let mut scene = Scene::new();
        let mut pod = pod("ReplicaSet");
        pod["spec"]["nodeName"] = "theirs".into();
        scene.put(&POD, pod);
        assert_eq!(step(&mut scene, &mut nodes(Delays::default())), Plan::done());
    }
}
