//! EndpointSlices for Services that select pods, and copies of Endpoints that others write.

use std::collections::HashMap;
use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::controller::endpoints::{self, is_serving, keys_of_services, ports, selecting};
use crate::controller::{key_of, keys_of_controller};
use crate::engine::Controller;
use crate::kind::{ENDPOINT_SLICE, ENDPOINTS, Kind, SERVICE};
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::owner::controller_reference;
use crate::plan::{Action, Plan, World, create, delete, update};
use crate::pod;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const OURS: &str = "endpointslice-controller.k8s.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

/// The maximum number of endpoints in a slice.
const SLICE_MAX: usize = 100;

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "endpointslice-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    keys_of_services(objects, event, keys);
    key_of(&ENDPOINTS, event, keys);
    if ENDPOINT_SLICE.is(&event.gvr) {
        keys_of_controller(&SERVICE, event, keys);
        keys_of_controller(&ENDPOINTS, event, keys);
    }
}

/// A desired slice without its metadata: its endpoints and its ports.
type Slice = (Vec<Value>, Vec<Value>);

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let service = world.objects.get(&SERVICE, &key.namespace, &key.name);
    if let Some(service) = selecting(world, key) {
        let slices = of_pods(world, service);
        let mut labels = endpoints::labels(service);
        labels.insert(MANAGED_BY.to_owned(), OURS.into());
        labels.insert(SERVICE_NAME.to_owned(), service.name().into());
        return Plan::actions(reconcile(
            world,
            &SERVICE,
            service,
            &Value::Object(labels),
            slices,
        ));
    }
    let endpoints = world.objects.get(&ENDPOINTS, &key.namespace, &key.name);
    let Some(endpoints) = endpoints.filter(|endpoints| service.is_some() && is_mirrored(endpoints)) else {
        return Plan::done();
    };
    let slices = of_endpoints(endpoints);
    let labels = json!({MANAGED_BY: MIRRORED, SERVICE_NAME: endpoints.name()});
    Plan::actions(reconcile(world, &ENDPOINTS, endpoints, &labels, slices))
}

fn is_mirrored(endpoints: &Value) -> bool {
    endpoints.label("endpointslice.kubernetes.io/skip-mirror") != Some("true")
        && endpoints.label("endpoints.kubernetes.io/managed-by").is_none()
}

fn of_pods(world: &World<'_>, service: &Value) -> Vec<Slice> {
    let mut groups: Vec<Slice> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for pod in endpoints::pods(world, service) {
        let ports = ports(service, pod);
        let endpoint = endpoint(service, pod);
        let place = *places.entry(json!(ports).to_string()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    if groups.is_empty() {
        return vec![(Vec::new(), Vec::new())];
    }
    let split = |(ports, endpoints): Slice| -> Vec<Slice> {
        endpoints
            .chunks(SLICE_MAX)
            .map(|part| (ports.clone(), part.to_vec()))
            .collect()
    };
    groups.into_iter().flat_map(split).collect()
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let mut endpoint = json!({
        "addresses": [pod.text("/status/podIP")],
        "conditions": {
            "ready": is_serving(service, pod) && (!pod.is_terminating() || service.flag("/spec/publishNotReadyAddresses")),
            "serving": pod::is_ready(pod),
            "terminating": pod.is_terminating(),
        },
        "nodeName": pod.text("/spec/nodeName"),
        "targetRef": endpoints::target_reference(pod),
    });
    if let Some(name) = endpoints::host_name(service, pod) {
        endpoint["hostname"] = name.into();
    }
    endpoint
}

fn of_endpoints(endpoints: &Value) -> Vec<Slice> {
    let subsets = endpoints.items("/subsets").iter();
    subsets
        .map(|subset| {
            let ports = subset.items("/ports").iter();
            let ports = ports.map(|port| {
                let mut port = port.clone();
                if port.get("name").is_none() {
                    port["name"] = "".into();
                }
                port
            });
            let lists = [("/addresses", true), ("/notReadyAddresses", false)];
            let endpoints = lists.into_iter().flat_map(|(list, is_ready)| {
                subset
                    .items(list)
                    .iter()
                    .map(move |address| mirrored(address, is_ready))
            });
            (ports.collect(), endpoints.collect())
        })
        .collect()
}

fn mirrored(address: &Value, is_ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [address.text("/ip")], "conditions": {"ready": is_ready}});
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.get(field) {
            endpoint[field] = value.clone();
        }
    }
    endpoint
}

/// Reconciles the slices of an owner with the desired ones: updates changed ones, creates missing ones, deletes others.
fn reconcile(
    world: &World<'_>,
    kind: &Kind,
    owner: &Value,
    labels: &Value,
    wanted: Vec<Slice>,
) -> Vec<Action> {
    let mut found: Vec<&Arc<Value>> = world.objects.owned(&ENDPOINT_SLICE, owner.uid()).collect();
    found.retain(|slice| !slice.is_terminating());
    let (kept, mut missing): (Vec<Slice>, Vec<Slice>) = wanted.into_iter().partition(|slice| {
        let at = found.iter().position(|found| is_right(found, labels, slice));
        at.map(|at| found.remove(at)).is_some()
    });
    drop(kept);
    let mut actions = Vec::new();
    for slice in found {
        actions.push(match missing.pop() {
            Some(content) => {
                let mut changed = Value::clone(slice);
                set(&mut changed, &["metadata", "labels"], labels.clone());
                fill(&mut changed, content);
                update(&ENDPOINT_SLICE, changed, None)
            }
            None => delete(&ENDPOINT_SLICE, slice, None),
        });
    }
    actions.extend(missing.into_iter().map(|content| {
        let mut made = json!({
            "metadata": {
                "generateName": format!("{}-", owner.name()),
                "namespace": owner.namespace(),
                "labels": labels,
                "ownerReferences": [controller_reference(kind, owner)],
            },
            "addressType": "IPv4",
        });
        fill(&mut made, content);
        create(&ENDPOINT_SLICE, made, None)
    }));
    actions
}

fn is_right(slice: &Value, labels: &Value, (ports, endpoints): &Slice) -> bool {
    slice.pointer("/metadata/labels") == Some(labels)
        && slice.items("/ports") == ports
        && slice.items("/endpoints") == endpoints
}

fn fill(slice: &mut Value, (ports, endpoints): Slice) {
    let list = |items: Vec<Value>| {
        if items.is_empty() {
            Value::Null
        } else {
            Value::Array(items)
        }
    };
    set(slice, &["ports"], list(ports));
    set(slice, &["endpoints"], list(endpoints));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{NODE, POD};
    use crate::testing::{Scene, names};

    fn scene() -> Scene {
        let mut scene = Scene::new();
        scene.put(&NODE, json!({"metadata": {"name": "n", "uid": "n"}}));
        scene.put(&SERVICE, json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "web"},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        }));
        scene
    }

    fn add_pod(scene: &mut Scene, name: &str) {
        scene.put(&POD, json!({
            "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "podIP": name, "conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }

    fn carry_out(scene: &mut Scene, count: &mut usize) -> Vec<String> {
        let plan = scene.plan(plan, "a", "web");
        for action in &plan.actions {
            let (Action::Create { object, .. } | Action::Update { object, .. }) = action else {
                continue;
            };
            let mut object = Value::clone(object);
            if object.name().is_empty() {
                *count += 1;
                object["metadata"]["name"] = format!("web-{count}").into();
                object["metadata"]["uid"] = format!("web-{count}").into();
            }
            scene.put(&ENDPOINT_SLICE, object);
        }
        names(&plan.actions)
    }

    #[test]
    fn a_slice_is_made_filled_and_then_left_alone() {
        let (mut scene, mut count) = (scene(), 0);
        assert_eq!(carry_out(&mut scene, &mut count), ["create endpointslices/web-"]);
        let empty = scene.objects.get(&ENDPOINT_SLICE, "a", "web-1").unwrap();
        assert_eq!(
            (&empty["endpoints"], &empty["ports"]),
            (&Value::Null, &Value::Null)
        );
        add_pod(&mut scene, "10.0.0.1");
        assert_eq!(carry_out(&mut scene, &mut count), ["update endpointslices/web-1"]);
        assert!(carry_out(&mut scene, &mut count).is_empty());
    }

    #[test]
    fn many_pods_take_several_slices() {
        let (mut scene, mut count) = (scene(), 0);
        for number in 0..150 {
            add_pod(&mut scene, &format!("10.0.0.{number}"));
        }
        assert_eq!(carry_out(&mut scene, &mut count).len(), 2);
        assert!(carry_out(&mut scene, &mut count).is_empty());
    }

    #[test]
    fn endpoints_of_other_writers_are_mirrored() {
        let mut scene = Scene::new();
        scene.put(
            &SERVICE,
            json!({"metadata": {"namespace": "a", "name": "web", "uid": "web"}, "spec": {}}),
        );
        scene.put(
            &ENDPOINTS,
            json!({
                "metadata": {"namespace": "a", "name": "web", "uid": "e"},
                "subsets": [{"addresses": [{"ip": "10.1.2.9"}], "ports": [{"port": 80, "protocol": "TCP"}]}],
            }),
        );
        let plan = scene.plan(plan, "a", "web");
        let [Action::Create { object, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        assert_eq!(object.label(MANAGED_BY), Some(MIRRORED));
        assert_eq!(
            object["endpoints"],
            json!([{"addresses": ["10.1.2.9"], "conditions": {"ready": true}}])
        );
        assert_eq!(
            object["ports"],
            json!([{"name": "", "port": 80, "protocol": "TCP"}])
        );
    }
}
