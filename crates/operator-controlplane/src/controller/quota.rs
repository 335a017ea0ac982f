//! ResourceQuota: the status counts what the namespace uses. Refusing what is too much is the API server's part.
//!
//! Scopes are not looked at: a quota with scopes counts as if it had none.

use operator_apiserver::client::Event;
use serde_json::{Map, Value, json};

use crate::engine::Controller;
use crate::kind::{NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, SERVICE};
use crate::object::Object;
use crate::objects::{Id, Key, Objects};
use crate::plan::{Plan, World, update_status};
use crate::pod;
use crate::quantity::{quantity, render};

/// The controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "resourcequota-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let namespace = event.object.namespace();
    if !namespace.is_empty() && !NAMESPACE.is(&event.gvr) {
        keys.extend(
            objects
                .list(&RESOURCE_QUOTA, namespace)
                .map(|quota| Key::of(quota)),
        );
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let found = world.objects.get(&RESOURCE_QUOTA, &key.namespace, &key.name);
    let Some(quota) = found.filter(|quota| !quota.is_terminating()) else {
        return Plan::done();
    };
    let Some(Value::Object(hard)) = quota.pointer("/spec/hard") else {
        return Plan::done();
    };
    let objects = world.objects.in_namespace(&key.namespace);
    let used: Map<String, Value> = hard
        .keys()
        .filter_map(|name| Some((name.clone(), used(name, &objects)?.into())))
        .collect();
    Plan {
        status: update_status(&RESOURCE_QUOTA, quota, json!({"hard": hard, "used": used})),
        ..Plan::default()
    }
}

type Contents<'a> = [(Id, &'a std::sync::Arc<Value>)];

/// How much of a resource is used; `None` if it is not known how to count it.
fn used(name: &str, objects: &Contents<'_>) -> Option<String> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(count(objects, |id, _| {
            id.gvr.resource == resource && id.gvr.group == group
        }));
    }
    let services_of = |kind: &'static str| {
        move |id: &Id, object: &Value| SERVICE.is(&id.gvr) && object.text("/spec/type") == kind
    };
    match name {
        "configmaps"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas"
        | "secrets"
        | "services" => Some(count(objects, |id, _| {
            id.gvr.resource == name && id.gvr.group.is_empty()
        })),
        "pods" => Some(count(objects, |id, object| {
            POD.is(&id.gvr) && !pod::is_finished(object)
        })),
        "services.loadbalancers" => Some(count(objects, services_of("LoadBalancer"))),
        "services.nodeports" => Some(node_ports(objects)),
        "requests.storage" => {
            let claims = objects
                .iter()
                .filter(|(id, _)| PERSISTENT_VOLUME_CLAIM.is(&id.gvr));
            Some(sum(claims.filter_map(|(_, claim)| {
                claim.pointer("/spec/resources/requests/storage")
            })))
        }
        "cpu" | "memory" | "ephemeral-storage" => Some(compute(objects, "requests", name)),
        _ => {
            let (kind, resource) = name.split_once('.')?;
            matches!(kind, "requests" | "limits").then(|| compute(objects, kind, resource))
        }
    }
}

fn count(objects: &Contents<'_>, is_counted: impl Fn(&Id, &Value) -> bool) -> String {
    objects
        .iter()
        .filter(|(id, object)| is_counted(id, object))
        .count()
        .to_string()
}

fn node_ports(objects: &Contents<'_>) -> String {
    let services = objects.iter().filter(|(id, _)| SERVICE.is(&id.gvr));
    let services =
        services.filter(|(_, service)| matches!(service.text("/spec/type"), "NodePort" | "LoadBalancer"));
    services
        .map(|(_, service)| service.items("/spec/ports").len())
        .sum::<usize>()
        .to_string()
}

/// The requests or limits of all containers of all pods that have not ended.
fn compute(objects: &Contents<'_>, kind: &str, resource: &str) -> String {
    let pods = objects
        .iter()
        .filter(|(id, object)| POD.is(&id.gvr) && !pod::is_finished(object));
    let containers = pods.flat_map(|(_, pod)| pod.items("/spec/containers"));
    sum(containers.filter_map(|container| container.get("resources")?.get(kind)?.get(resource)))
}

fn sum<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    let (mut total, mut is_binary) = (0, true);
    for value in values {
        total += quantity(value).unwrap_or(0);
        is_binary &= value.as_str().is_some_and(|text| text.ends_with('i'));
    }
    render(total, is_binary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::CONFIG_MAP;
    use crate::plan::Action;
    use crate::testing::Scene;

    #[test]
    fn what_is_used_is_counted() {
        let mut scene = Scene::new();
        let hard = json!({
            "pods": "1", "configmaps": "5", "count/configmaps": "5", "count/leases.coordination.k8s.io": "1",
            "requests.cpu": "4", "limits.memory": "1Gi",
        });
        scene.put(
            &RESOURCE_QUOTA,
            json!({"metadata": {"namespace": "a", "name": "q", "uid": "q"}, "spec": {"hard": hard}}),
        );
        scene.put(
            &CONFIG_MAP,
            json!({"metadata": {"namespace": "a", "name": "c", "uid": "c"}}),
        );
        for (name, phase) in [("p1", "Running"), ("p2", "Running"), ("p3", "Failed")] {
            let resources = json!({"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}});
            scene.put(
                &POD,
                json!({
                    "metadata": {"namespace": "a", "name": name, "uid": name},
                    "spec": {"containers": [{"resources": resources}]}, "status": {"phase": phase},
                }),
            );
        }
        let Some(Action::Update { object, .. }) = scene.plan(plan, "a", "q").status else {
            panic!("a status")
        };
        let expected = json!({
            "pods": "2", "configmaps": "1", "count/configmaps": "1", "count/leases.coordination.k8s.io": "0",
            "requests.cpu": "500m", "limits.memory": "128Mi",
        });
        assert_eq!(object["status"]["used"], expected);
        assert_eq!(object["status"]["hard"], hard);
    }
}
