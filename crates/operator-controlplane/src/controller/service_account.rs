//! Creates the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in every namespace.

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::engine::Controller;
use crate::kind::{CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT};
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, update};

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const CERTIFICATE: &str = "ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// Returns the controller; `root_ca` is the server's CA certificate, in PEM.
pub(crate) fn controller(root_ca: String) -> Controller {
    Controller {
        name: "service-account",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &root_ca)),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    if NAMESPACE.is(&event.gvr) {
        keys.push(Key::new("", object.name()));
    }
    let is_account = SERVICE_ACCOUNT.is(&event.gvr) && object.name() == ACCOUNT;
    let is_root_ca = CONFIG_MAP.is(&event.gvr) && object.name() == ROOT_CA;
    if is_account || is_root_ca {
        keys.push(Key::new("", object.namespace()));
    }
}

fn plan(world: &World<'_>, key: &Key, root_ca: &str) -> Plan {
    let namespace = world.objects.get(&NAMESPACE, "", &key.name);
    if namespace.is_none_or(|namespace| namespace.is_terminating()) {
        return Plan::done();
    }
    let mut actions = Vec::new();
    if world.objects.get(&SERVICE_ACCOUNT, &key.name, ACCOUNT).is_none() {
        let metadata = json!({"name": ACCOUNT, "namespace": key.name});
        actions.push(create(&SERVICE_ACCOUNT, json!({"metadata": metadata}), None));
    }
    let published = world.objects.get(&CONFIG_MAP, &key.name, ROOT_CA);
    actions.extend(publish(published.map(AsRef::as_ref), &key.name, root_ca));
    Plan::actions(actions)
}

fn publish(published: Option<&Value>, namespace: &str, root_ca: &str) -> Option<Action> {
    let data = json!({CERTIFICATE: root_ca});
    let Some(published) = published else {
        let metadata = json!({
            "name": ROOT_CA,
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": DESCRIPTION},
        });
        return Some(create(
            &CONFIG_MAP,
            json!({"metadata": metadata, "data": data}),
            None,
        ));
    };
    if published.get("data") == Some(&data) {
        return None;
    }
    let mut repaired = published.clone();
    set(&mut repaired, &["data"], data);
    Some(update(&CONFIG_MAP, repaired, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, names};

    #[test]
    fn a_namespace_gets_both_and_a_changed_certificate_is_repaired() {
        let mut scene = Scene::new();
        let of = |scene: &Scene| scene.plan(|world, key| plan(world, key, "PEM"), "", "a").actions;
        scene.put(&NAMESPACE, json!({"metadata": {"name": "a", "uid": "a"}}));
        let made = of(&scene);
        assert_eq!(
            names(&made),
            [
                "create serviceaccounts/default",
                "create configmaps/kube-root-ca.crt"
            ]
        );
        for (kind, action) in [&*SERVICE_ACCOUNT, &*CONFIG_MAP].into_iter().zip(made) {
            let Action::Create { object, .. } = action else {
                panic!("create")
            };
            scene.put(kind, *object);
        }
        assert!(of(&scene).is_empty());
        let changed = json!({"metadata": {"namespace": "a", "name": ROOT_CA, "uid": "c"}, "data": {CERTIFICATE: "other"}});
        scene.put(&CONFIG_MAP, changed);
        assert_eq!(names(&of(&scene)), ["update configmaps/kube-root-ca.crt"]);
    }
}
