//! Namespaces: deletes the objects in a terminating namespace, pods first, and then removes its finalizer.
//!
//! Five status conditions report objects that wait for their own finalizers.

use std::collections::BTreeMap;
use std::sync::Arc;

use operator_apiserver::client::{Event, ServedResource};
use serde_json::{Value, json};

use crate::engine::Controller;
use crate::kind::{NAMESPACE, POD};
use crate::object::{Object, set, time};
use crate::objects::{Id, Key, Objects};
use crate::plan::{Action, Plan, World, delete_with, update_status, update_subresource};

const FINALIZER: &str = "kubernetes";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "namespace",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let namespace = if NAMESPACE.is(&event.gvr) {
        event.object.name()
    } else {
        event.object.namespace()
    };
    let namespace = objects.get(&NAMESPACE, "", namespace);
    if let Some(namespace) = namespace.filter(|namespace| namespace.is_terminating()) {
        keys.push(Key::new("", namespace.name()));
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(namespace) = world.objects.get(&NAMESPACE, "", &key.name) else {
        return Plan::done();
    };
    let finalizers = namespace.items("/spec/finalizers");
    if !namespace.is_terminating() || !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Plan::done();
    }
    let contents = contents(world, &key.name);
    let deletions = deletions(&contents);
    if !deletions.is_empty() {
        return Plan::actions(deletions);
    }
    let status = status(namespace, &contents, world);
    let told = update_status(&NAMESPACE, namespace, status);
    match told {
        Some(told) => Plan::act(told),
        None if contents.is_empty() => Plan::act(finalize(namespace)),
        None => Plan::done(),
    }
}

/// Returns the objects of the namespace that can be deleted.
fn contents<'a>(world: &World<'a>, namespace: &str) -> Vec<(Id, &'a Arc<Value>)> {
    let found = world.objects.in_namespace(namespace);
    if found.is_empty() {
        return found;
    }
    let resources = (world.resources)();
    let deletable = |id: &Id| {
        let served = resources.iter().find(|served| is_same(served, id));
        served.is_some_and(|served| served.namespaced && served.deletable)
    };
    found.into_iter().filter(|(id, _)| deletable(id)).collect()
}

fn is_same(served: &ServedResource, id: &Id) -> bool {
    served.gvr.group == id.gvr.group && served.gvr.resource == id.gvr.resource
}

/// Deletes the objects that are not terminating yet: first pods, then other objects.
fn deletions(contents: &[(Id, &Arc<Value>)]) -> Vec<Action> {
    let pods_left = contents.iter().any(|(id, _)| POD.is(&id.gvr));
    contents
        .iter()
        .filter(|(id, object)| !object.is_terminating() && (!pods_left || POD.is(&id.gvr)))
        .map(|(id, object)| delete_with(&id.gvr, object, Some("Background"), None, None))
        .collect()
}

fn finalize(namespace: &Value) -> Action {
    let mut finalized = namespace.clone();
    let finalizers = namespace.items("/spec/finalizers");
    let left: Vec<&Value> = finalizers
        .iter()
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    set(&mut finalized, &["spec", "finalizers"], json!(left));
    update_subresource(&NAMESPACE, "finalize", finalized)
}

fn status(namespace: &Value, contents: &[(Id, &Arc<Value>)], world: &World<'_>) -> Value {
    let mut status = namespace.get("status").cloned().unwrap_or_else(|| json!({}));
    let conditions: Vec<Value> = conditions(contents)
        .into_iter()
        .map(|(kind, is_true, reason, message)| {
            let value = if is_true { "True" } else { "False" };
            let before = namespace
                .condition(kind)
                .filter(|before| before.text("/status") == value);
            let since = before.and_then(|before| before.get("lastTransitionTime").cloned());
            json!({
                "type": kind,
                "status": value,
                "lastTransitionTime": since.unwrap_or_else(|| time(world.now)),
                "reason": reason,
                "message": message,
            })
        })
        .collect();
    set(&mut status, &["conditions"], Value::Array(conditions));
    status
}

type Condition = (&'static str, bool, &'static str, String);

fn conditions(contents: &[(Id, &Arc<Value>)]) -> Vec<Condition> {
    let fine = |kind, reason, message: &str| (kind, false, reason, message.to_owned());
    vec![
        fine(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        fine(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        remaining(contents),
        finalizers_remaining(contents),
    ]
}

fn remaining(contents: &[(Id, &Arc<Value>)]) -> Condition {
    const KIND: &str = "NamespaceContentRemaining";
    if contents.is_empty() {
        return (
            KIND,
            false,
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        );
    }
    let mut counts = BTreeMap::<String, usize>::new();
    for (id, _) in contents {
        *counts
            .entry(format!("{}.{}", id.gvr.resource, id.gvr.group))
            .or_default() += 1;
    }
    let list = join(counts, |resource, count| {
        format!("{resource} has {count} resource instances")
    });
    (
        KIND,
        true,
        "SomeResourcesRemain",
        format!("Some resources are remaining: {list}"),
    )
}

fn finalizers_remaining(contents: &[(Id, &Arc<Value>)]) -> Condition {
    const KIND: &str = "NamespaceFinalizersRemaining";
    let mut counts = BTreeMap::<String, usize>::new();
    for (_, object) in contents {
        for finalizer in object
            .items("/metadata/finalizers")
            .iter()
            .filter_map(Value::as_str)
        {
            *counts.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    if counts.is_empty() {
        let message = "All content-preserving finalizers finished";
        return (KIND, false, "ContentHasNoFinalizers", message.to_owned());
    }
    let list = join(counts, |finalizer, count| {
        format!("{finalizer} in {count} resource instances")
    });
    let message = format!("Some content in the namespace has finalizers remaining: {list}");
    (KIND, true, "SomeFinalizersRemain", message)
}

fn join(counts: BTreeMap<String, usize>, text: impl Fn(String, usize) -> String) -> String {
    let texts: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| text(name, count))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::CONFIG_MAP;
    use crate::testing::{Scene, names};

    fn terminating(conditions: &Value) -> Value {
        json!({
            "metadata": {"name": "a", "uid": "ns", "deletionTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes", "example.com/own"]},
            "status": {"phase": "Terminating", "conditions": conditions},
        })
    }

    #[test]
    fn pods_go_before_everything_else() {
        let mut scene = Scene::new();
        scene.put(&NAMESPACE, terminating(&json!([])));
        scene.put(
            &POD,
            json!({"metadata": {"namespace": "a", "name": "p", "uid": "p"}}),
        );
        scene.put(
            &CONFIG_MAP,
            json!({"metadata": {"namespace": "a", "name": "c", "uid": "c"}}),
        );
        assert_eq!(names(&scene.plan(plan, "", "a").actions), ["delete pods/p"]);
        scene.remove(&POD, "a", "p");
        assert_eq!(names(&scene.plan(plan, "", "a").actions), ["delete configmaps/c"]);
    }

    #[test]
    fn contents_with_finalizers_are_reported() {
        let mut scene = Scene::new();
        scene.put(&NAMESPACE, terminating(&json!([])));
        let held = json!({"metadata": {
            "namespace": "a", "name": "c", "uid": "c",
            "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["example.com/hold"],
        }});
        scene.put(&CONFIG_MAP, held);
        let plan = scene.plan(plan, "", "a");
        let [Action::Update { object, .. }] = plan.actions.as_slice() else {
            panic!("{plan:?}");
        };
        let messages: Vec<_> = object
            .items("/status/conditions")
            .iter()
            .map(|condition| condition.text("/message"))
            .collect();
        assert_eq!(
            messages[3],
            "Some resources are remaining: configmaps. has 1 resource instances"
        );
        assert_eq!(
            messages[4],
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
    }

    #[test]
    fn an_empty_namespace_is_finalized_after_its_conditions_are_written() {
        let mut scene = Scene::new();
        scene.put(&NAMESPACE, terminating(&json!([])));
        let [
            Action::Update {
                subresource, object, ..
            },
        ] = &scene.plan(plan, "", "a").actions[..]
        else {
            panic!("one update");
        };
        assert_eq!(
            (*subresource, object.items("/status/conditions").len()),
            (Some("status"), 5)
        );
        scene.put(&NAMESPACE, (**object).clone());
        let [
            Action::Update {
                subresource, object, ..
            },
        ] = &scene.plan(plan, "", "a").actions[..]
        else {
            panic!("one update");
        };
        assert_eq!(*subresource, Some("finalize"));
        assert_eq!(object["spec"]["finalizers"], json!(["example.com/own"]));
    }
}
