//! ResourceQuota: computes the usage of a namespace. The API server rejects writes beyond the quota and counts accepted
//! ones; this controller counts again for new quotas and after deletions.

use builtin_kinds::quota;
use operator_apiserver::client::{Event, EventType};

use crate::engine::Controller;
use crate::kind::{CUSTOM_RESOURCE_DEFINITION, NAMESPACE, RESOURCE_QUOTA};
use crate::object::{Object, with_status};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, update_subresource};

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "resourcequota-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    if RESOURCE_QUOTA.is(&event.gvr) {
        keys.push(Key::of(&event.object));
    }
    if CUSTOM_RESOURCE_DEFINITION.is(&event.gvr) {
        let all = objects.list(&RESOURCE_QUOTA, "");
        keys.extend(all.map(|quota| Key::of(quota)));
    }
    let namespace = event.object.namespace();
    if !namespace.is_empty() && !NAMESPACE.is(&event.gvr) && changes_usage(event) {
        keys.extend(
            objects
                .list(&RESOURCE_QUOTA, namespace)
                .map(|quota| Key::of(quota)),
        );
    }
}

/// Returns true if the usage may differ from the status of a quota. New objects were counted at admission, except
/// objects that were created before the quota had a status.
fn changes_usage(event: &Event) -> bool {
    match (event.kind, &event.old) {
        (EventType::Modified, Some(old)) => quota::releases(&event.gvr, old, &event.object),
        _ => true,
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let found = world.objects.get(&RESOURCE_QUOTA, &key.namespace, &key.name);
    let Some(found) = found.filter(|quota| !quota.is_terminating()) else {
        return Plan::done();
    };
    let objects = world.objects.in_namespace(&key.namespace);
    let objects = objects.iter().map(|(id, object)| (&*id.gvr, &***object));
    let served = std::cell::OnceCell::new();
    let is_served = |group: &str, plural: &str| {
        let mut resources = served.get_or_init(|| (world.resources)()).iter();
        resources.any(|resource| resource.gvr.group == group && resource.gvr.resource == plural)
    };
    let status = quota::status(found, objects, world.now.into(), is_served);
    Plan {
        status: status
            .map(|status| update_subresource(&RESOURCE_QUOTA, "status", with_status(found, status))),
        ..Plan::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kind::{CONFIG_MAP, POD};
    use crate::plan::Action;
    use crate::testing::Scene;

    #[test]
    fn usage_is_counted() {
        let mut scene = Scene::new();
        let hard = json!({"pods": "1", "configmaps": "5", "count/widgets.example.com": "1"});
        let quota = json!({"metadata": {"namespace": "a", "name": "q", "uid": "q"}, "spec": {"hard": hard}});
        scene.put(&RESOURCE_QUOTA, quota);
        for (kind, name) in [(&CONFIG_MAP, "c"), (&POD, "p1"), (&POD, "p2")] {
            let object = json!({"metadata": {"namespace": "a", "name": name, "uid": name}});
            scene.put(kind, object);
        }
        let Some(Action::Update { object, .. }) = scene.plan(plan, "a", "q").status else {
            panic!("a status")
        };
        assert_eq!(
            object["status"],
            json!({"hard": hard, "used": {"pods": "2", "configmaps": "1"}})
        );
        scene.put(&RESOURCE_QUOTA, Value::clone(&object));
        assert_eq!(scene.plan(plan, "a", "q"), Plan::done());
    }
}
