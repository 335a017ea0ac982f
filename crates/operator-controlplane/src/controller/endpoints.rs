//! Endpoints of Services that select pods.

use std::collections::HashMap;
use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Map, Value, json};

use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{ENDPOINTS, NODE, POD, SERVICE};
use crate::object::{Object, set, unset};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, create, delete, update};
use crate::pod;
use crate::selector::selects_map;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const COMPONENT: &str = "endpoint-controller";
/// The annotation of Endpoints whose addresses are truncated.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The maximum number of addresses in Endpoints. EndpointSlices have no such limit.
const CAPACITY: usize = 1000;
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

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
    key_of(&ENDPOINTS, event, keys);
    keys_of_services(objects, event, keys);
}

/// Adds the keys of the Services that an event affects.
pub(crate) fn keys_of_services(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&SERVICE, event, keys);
    if POD.is(&event.gvr) {
        for pod in std::iter::once(&event.object).chain(&event.old) {
            let labels = pod.texts("/metadata/labels");
            let services = objects.list(&SERVICE, pod.namespace());
            let selected = services.filter(|service| selects_map(&service.texts("/spec/selector"), &labels));
            keys.extend(selected.map(|service| Key::of(service)));
        }
    }
    if NODE.is(&event.gvr) && event.old.is_none() {
        keys.extend(objects.list(&SERVICE, "").map(|service| Key::of(service)));
    }
}

/// Returns the Service of a key, if this controller maintains its endpoints.
pub(crate) fn selecting<'a>(world: &World<'a>, key: &Key) -> Option<&'a Arc<Value>> {
    let service = world.objects.get(&SERVICE, &key.namespace, &key.name)?;
    let is_selecting =
        !service.texts("/spec/selector").is_empty() && service.text("/spec/type") != "ExternalName";
    is_selecting.then_some(service)
}

/// Returns the pods of a Service that have an address on an existing node.
pub(crate) fn pods<'a>(world: &World<'a>, service: &'a Value) -> Vec<&'a Arc<Value>> {
    let selector = service.texts("/spec/selector");
    let mut pods: Vec<_> = world
        .objects
        .list(&POD, service.namespace())
        .filter(|pod| selects_map(&selector, &pod.texts("/metadata/labels")))
        .filter(|pod| !pod::is_finished(pod) && !pod.text("/status/podIP").is_empty())
        .filter(|pod| world.objects.get(&NODE, "", pod.text("/spec/nodeName")).is_some())
        .collect();
    pods.sort_by_key(|pod| pod.text("/status/podIP").to_owned());
    pods
}

/// Returns true if a pod can receive traffic.
pub(crate) fn is_serving(service: &Value, pod: &Value) -> bool {
    pod::is_ready(pod) || service.flag("/spec/publishNotReadyAddresses")
}

/// Returns the labels that are copied from a Service to its endpoints.
pub(crate) fn labels(service: &Value) -> Map<String, Value> {
    let labels = service.texts("/metadata/labels").into_iter();
    let mut labels: Map<String, Value> = labels
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    labels.remove(HEADLESS);
    if service.text("/spec/clusterIP") == "None" {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels
}

/// Returns the ports of a Service for a pod; named ports that the pod does not have are omitted.
pub(crate) fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let ports = service.items("/spec/ports").iter();
    ports
        .filter_map(|port| {
            let number = target(port, pod)?;
            let protocol = match port.text("/protocol") {
                "" => "TCP",
                protocol => protocol,
            };
            let mut endpoint = json!({"name": port.text("/name"), "port": number, "protocol": protocol});
            if let Some(protocol) = port.get("appProtocol") {
                endpoint["appProtocol"] = protocol.clone();
            }
            Some(endpoint)
        })
        .collect()
}

fn target(port: &Value, pod: &Value) -> Option<i64> {
    match port.get("targetPort") {
        Some(Value::String(name)) => {
            let containers = pod.items("/spec/containers").iter();
            let mut ports = containers.flat_map(|container| container.items("/ports"));
            ports
                .find(|found| found.text("/name") == name)?
                .int("/containerPort")
        }
        Some(Value::Number(number)) if number.as_i64() != Some(0) => number.as_i64(),
        _ => port.int("/port"),
    }
}

/// Returns a reference to a pod for endpoints.
pub(crate) fn target_reference(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let found = world.objects.get(&ENDPOINTS, &key.namespace, &key.name);
    let Some(service) = selecting(world, key) else {
        let is_service_gone = world.objects.get(&SERVICE, &key.namespace, &key.name).is_none();
        let ours = found.filter(|found| is_service_gone && found.label(MANAGED_BY) == Some(COMPONENT));
        return Plan::actions(
            ours.map(|found| delete(&ENDPOINTS, found, None))
                .into_iter()
                .collect(),
        );
    };
    let mut labels = labels(service);
    labels.insert(MANAGED_BY.to_owned(), COMPONENT.into());
    let (subsets, is_truncated) = subsets(world, service);
    let annotation = is_truncated.then(|| Value::from("truncated"));
    let Some(found) = found else {
        let mut made = json!({"metadata": {"name": key.name, "namespace": key.namespace, "labels": labels}});
        if !subsets.is_empty() {
            made["subsets"] = Value::Array(subsets);
        }
        if let Some(annotation) = annotation {
            set(&mut made, &["metadata", "annotations", OVER_CAPACITY], annotation);
        }
        return Plan::act(create(&ENDPOINTS, made, None));
    };
    let annotated = found
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(OVER_CAPACITY));
    let is_same = found.items("/subsets") == subsets
        && found.pointer("/metadata/labels") == Some(&json!(labels))
        && annotated == annotation.as_ref();
    if is_same || found.is_terminating() {
        return Plan::done();
    }
    let mut changed = Value::clone(found);
    set(&mut changed, &["metadata", "labels"], Value::Object(labels));
    set(&mut changed, &["subsets"], Value::Array(subsets));
    match annotation {
        Some(annotation) => set(
            &mut changed,
            &["metadata", "annotations", OVER_CAPACITY],
            annotation,
        ),
        None => unset(&mut changed, &["metadata", "annotations", OVER_CAPACITY]),
    }
    Plan::act(update(&ENDPOINTS, changed, None))
}

/// The ports of a subset, its ready addresses, and its other addresses.
type Subset = (Vec<Value>, Vec<Value>, Vec<Value>);

/// Groups the pods by their ports; ready pods and other pods are separate. Returns the subsets, and true if addresses
/// were omitted because of the limit.
fn subsets(world: &World<'_>, service: &Value) -> (Vec<Value>, bool) {
    let mut subsets: Vec<Subset> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let publishes = service.flag("/spec/publishNotReadyAddresses");
    for pod in pods(world, service)
        .into_iter()
        .filter(|pod| publishes || !pod.is_terminating())
    {
        let ports = ports(service, pod);
        if ports.is_empty() && !service.items("/spec/ports").is_empty() {
            continue;
        }
        let at = *places.entry(json!(ports).to_string()).or_insert(subsets.len());
        if at == subsets.len() {
            subsets.push((ports, Vec::new(), Vec::new()));
        }
        if let Some((_, ready, not_ready)) = subsets.get_mut(at) {
            let list = if is_serving(service, pod) {
                ready
            } else {
                not_ready
            };
            list.push(address(service, pod));
        }
    }
    let is_truncated = truncate(&mut subsets);
    let subsets = subsets
        .into_iter()
        .map(|(ports, ready, not_ready)| subset(&ports, ready, not_ready))
        .collect();
    (subsets, is_truncated)
}

/// Limits the number of addresses. Ready addresses are kept first; each subset keeps its share, rounded up.
fn truncate(subsets: &mut Vec<Subset>) -> bool {
    let ready: usize = subsets.iter().map(|(_, ready, _)| ready.len()).sum();
    let not_ready: usize = subsets.iter().map(|(_, _, not_ready)| not_ready.len()).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let (capacity, total) = if ready > CAPACITY {
        (CAPACITY, ready)
    } else {
        (CAPACITY - ready, not_ready)
    };
    let mut left = capacity;
    for (_, addresses, others) in subsets.iter_mut() {
        let list = if ready > CAPACITY {
            others.clear();
            addresses
        } else {
            others
        };
        let share = (list.len() * capacity).div_ceil(total);
        list.truncate(share.min(left));
        left -= list.len();
    }
    subsets.retain(|(_, ready, not_ready)| !ready.is_empty() || !not_ready.is_empty());
    true
}

fn subset(ports: &[Value], ready: Vec<Value>, not_ready: Vec<Value>) -> Value {
    let mut subset = Map::new();
    if !ready.is_empty() {
        subset.insert("addresses".to_owned(), Value::Array(ready));
    }
    if !not_ready.is_empty() {
        subset.insert("notReadyAddresses".to_owned(), Value::Array(not_ready));
    }
    let unnamed = |port: &Value| {
        let mut port = port.clone();
        if port.text("/name").is_empty() {
            unset(&mut port, &["name"]);
        }
        port
    };
    if !ports.is_empty() {
        subset.insert("ports".to_owned(), ports.iter().map(unnamed).collect());
    }
    Value::Object(subset)
}

fn address(service: &Value, pod: &Value) -> Value {
    let mut address = json!({
        "ip": pod.text("/status/podIP"),
        "nodeName": pod.text("/spec/nodeName"),
        "targetRef": target_reference(pod),
    });
    if let Some(name) = host_name(service, pod) {
        address["hostname"] = name.into();
    }
    address
}

/// Returns the name of a pod within a headless Service.
pub(crate) fn host_name<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let is_within = pod.text("/spec/subdomain") == service.name();
    Some(pod.text("/spec/hostname")).filter(|name| is_within && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Action;
    use crate::testing::Scene;

    fn scene(publishes: bool) -> Scene {
        let mut scene = Scene::new();
        scene.put(&NODE, json!({"metadata": {"name": "n", "uid": "n"}}));
        scene.put(
            &SERVICE,
            json!({
                "metadata": {"namespace": "a", "name": "web", "uid": "web", "labels": {"l": "1"}},
                "spec": {
                    "clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": publishes,
                    "ports": [{"name": "http", "port": 80, "targetPort": "named"}],
                },
            }),
        );
        for (name, ready, node) in [
            ("p1", "True", "n"),
            ("p2", "False", "n"),
            ("p3", "True", ""),
            ("p4", "True", "gone"),
        ] {
            scene.put(&POD, json!({
                "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
                "spec": {"nodeName": node, "containers": [{"ports": [{"name": "named", "containerPort": 8080}]}]},
                "status": {"phase": "Running", "podIP": format!("10.0.0.{name}"), "conditions": [{"type": "Ready", "status": ready}]},
            }));
        }
        scene
    }

    fn addresses(subset: &Value, list: &str) -> Vec<String> {
        subset
            .items(list)
            .iter()
            .map(|address| address.text("/targetRef/name").to_owned())
            .collect()
    }

    #[test]
    fn ready_and_unready_pods_on_nodes_are_listed_apart() {
        let plan = scene(false).plan(plan, "a", "web");
        let [Action::Create { object, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        let subset = &object["subsets"][0];
        assert_eq!(addresses(subset, "/addresses"), ["p1"]);
        assert_eq!(addresses(subset, "/notReadyAddresses"), ["p2"]);
        assert_eq!(
            subset["ports"],
            json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
        );
        assert_eq!(object.label(HEADLESS), Some(""));
        assert_eq!(object.label("l"), Some("1"));
    }

    #[test]
    fn unready_addresses_are_published_on_request() {
        let plan = scene(true).plan(plan, "a", "web");
        let [Action::Create { object, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        assert_eq!(addresses(&object["subsets"][0], "/addresses"), ["p1", "p2"]);
    }

    #[test]
    fn endpoints_that_are_right_are_left_alone_and_go_with_the_service() {
        let mut scene = scene(false);
        let made = scene.plan(plan, "a", "web");
        let Some(Action::Create { object, .. }) = made.actions.into_iter().next() else {
            panic!("create")
        };
        scene.put(&ENDPOINTS, *object);
        assert_eq!(scene.plan(plan, "a", "web"), Plan::done());
        scene.remove(&SERVICE, "a", "web");
        assert_eq!(
            crate::testing::names(&scene.plan(plan, "a", "web").actions),
            ["delete endpoints/web"]
        );
    }

    #[test]
    fn too_many_addresses_are_truncated() {
        let mut scene = scene(false);
        for index in 0..CAPACITY + 200 {
            let status = if index < 700 { "True" } else { "False" };
            let port = if index % 2 == 0 { 8080 } else { 9090 };
            let name = format!("q{index:04}");
            scene.put(&POD, json!({
                "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
                "spec": {"nodeName": "n", "containers": [{"ports": [{"name": "named", "containerPort": port}]}]},
                "status": {"phase": "Running", "podIP": format!("10.1.{name}"), "conditions": [{"type": "Ready", "status": status}]},
            }));
        }
        let counts = |object: &Value| -> Vec<(usize, usize)> {
            let subsets = object.items("/subsets").iter();
            let count = |subset: &Value, list| subset.items(list).len();
            subsets
                .map(|subset| (count(subset, "/addresses"), count(subset, "/notReadyAddresses")))
                .collect()
        };
        let annotation = |object: &Value| object["metadata"]["annotations"][OVER_CAPACITY].clone();
        let planned = scene.plan(plan, "a", "web");
        let [Action::Create { object, .. }] = &planned.actions[..] else {
            panic!("{planned:?}")
        };
        // All 701 ready addresses are kept, and 299 of the other ones.
        assert_eq!(counts(object), [(351, 150), (350, 149)]);
        assert_eq!(annotation(object), "truncated");
        scene.put(&ENDPOINTS, Value::clone(object));
        assert!(scene.plan(plan, "a", "web").actions.is_empty());
        for index in 700..CAPACITY + 200 {
            scene.remove(&POD, "a", &format!("q{index:04}"));
        }
        let planned = scene.plan(plan, "a", "web");
        let [Action::Update { object, .. }] = &planned.actions[..] else {
            panic!("{planned:?}")
        };
        assert_eq!(counts(object), [(351, 1), (350, 0)]);
        assert!(annotation(object).is_null());
    }

    #[test]
    fn ready_addresses_are_shared_by_proportion_when_they_alone_are_too_many() {
        let addresses = |count: usize| vec![Value::Null; count];
        let mut subsets = vec![
            (Vec::new(), addresses(1500), addresses(10)),
            (Vec::new(), Vec::new(), addresses(10)),
            (Vec::new(), addresses(500), Vec::new()),
        ];
        assert!(truncate(&mut subsets));
        let counts: Vec<_> = subsets.iter().map(|(_, a, b)| (a.len(), b.len())).collect();
        assert_eq!(counts, [(750, 0), (250, 0)]);
    }
}
