//! Endpoints of Services that select pods.

use std::collections::HashMap;
use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Map, Value, json};

use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{ENDPOINTS, NODE, POD, SERVICE};
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, create, delete, update};
use crate::pod;
use crate::selector::selects_map;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const COMPONENT: &str = "endpoint-controller";
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The controller.
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

/// The keys of the Services that an event concerns.
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

/// The Service of a key, if its endpoints are ours to keep.
pub(crate) fn selecting<'a>(world: &World<'a>, key: &Key) -> Option<&'a Arc<Value>> {
    let service = world.objects.get(&SERVICE, &key.namespace, &key.name)?;
    let is_selecting =
        !service.texts("/spec/selector").is_empty() && service.text("/spec/type") != "ExternalName";
    is_selecting.then_some(service)
}

/// The pods of a Service that have an address on a node that exists.
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

/// Whether a pod is to be sent traffic.
pub(crate) fn is_serving(service: &Value, pod: &Value) -> bool {
    pod::is_ready(pod) || service.flag("/spec/publishNotReadyAddresses")
}

/// The labels that the endpoints of a Service take from it.
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

/// The ports of a Service as a pod has them; those that the pod does not name are left out.
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

/// A reference to a pod as endpoints have it.
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
    let subsets = subsets(world, service);
    let Some(found) = found else {
        let mut made = json!({"metadata": {"name": key.name, "namespace": key.namespace, "labels": labels}});
        if !subsets.is_empty() {
            made["subsets"] = Value::Array(subsets);
        }
        return Plan::act(create(&ENDPOINTS, made, None));
    };
    let is_same =
        found.items("/subsets") == subsets && found.pointer("/metadata/labels") == Some(&json!(labels));
    if is_same || found.is_terminating() {
        return Plan::done();
    }
    let mut changed = Value::clone(found);
    set(&mut changed, &["metadata", "labels"], Value::Object(labels));
    set(&mut changed, &["subsets"], Value::Array(subsets));
    Plan::act(update(&ENDPOINTS, changed, None))
}

/// The pods by the ports that they have, ready and not ready apart.
fn subsets(world: &World<'_>, service: &Value) -> Vec<Value> {
    let mut subsets: Vec<(Vec<Value>, Vec<Value>, Vec<Value>)> = Vec::new();
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
    subsets
        .into_iter()
        .map(|(ports, ready, not_ready)| subset(&ports, ready, not_ready))
        .collect()
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
            crate::object::unset(&mut port, &["name"]);
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

/// The name that a pod has within a headless Service.
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
}
