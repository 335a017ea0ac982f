//! Garbage collection: deletes objects without any existing owner, and completes foreground and orphan deletion.
//!
//! A key is a uid. Semantics: kubernetes.io/docs/concepts/architecture/garbage-collection and the behaviour of
//! kube-controller-manager 1.36.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use apimachinery::object::meta;
use operator_apiserver::client::{Event, EventType, Gvr, ServedResource};
use serde_json::{Value, json};

use crate::engine::Controller;
use crate::kind::CUSTOM_RESOURCE_DEFINITION;
use crate::object::Object;
use crate::objects::{Id, Key, Objects};
use crate::owner::owners_without;
use crate::plan::{Action, Delete, Note, Plan, World, patch_metadata, reference, remove_finalizer};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const COMPONENT: &str = "garbage-collector-controller";
/// The maximum number of Events of one object about owners in other namespaces.
const NOTES_MAX: usize = 10;

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "garbage-collector",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    let old = event.old.as_deref();
    let key = |uid: &str| Key::new("", uid);
    if event.kind == EventType::Deleted || enters_foreground(object, old) {
        keys.extend(
            objects
                .dependents(object.uid())
                .map(|(_, dependent)| key(dependent.uid())),
        );
    }
    if event.kind != EventType::Deleted && concerns(object, old) {
        keys.push(key(object.uid()));
    }
    // An owner in foreground deletion waits until this object is deleted or no longer blocks it.
    let owners = object.items("/metadata/ownerReferences").iter();
    let owners = owners.chain(old.map_or(&[][..], |old| old.items("/metadata/ownerReferences")));
    for owner in owners {
        let owner = objects.by_uid(owner.text("/uid"));
        if let Some((_, owner)) = owner.filter(|(_, owner)| is_waiting(owner)) {
            keys.push(key(owner.uid()));
        }
    }
    if CUSTOM_RESOURCE_DEFINITION.is(&event.gvr) {
        keys.extend(objects.with_missing_owners().map(|object| key(object.uid())));
    }
}

/// Returns true if a change is relevant to garbage collection.
fn concerns(object: &Value, old: Option<&Value>) -> bool {
    const FIELDS: [&str; 3] = ["ownerReferences", "deletionTimestamp", "finalizers"];
    match old {
        None => FIELDS.iter().any(|field| meta(object, field).is_some()),
        Some(old) => FIELDS.iter().any(|field| meta(object, field) != meta(old, field)),
    }
}

fn enters_foreground(object: &Value, old: Option<&Value>) -> bool {
    is_waiting(object) && !old.is_some_and(is_waiting)
}

/// Returns true if an object waits for its dependents to be deleted.
fn is_waiting(object: &Value) -> bool {
    object.is_terminating() && object.has_finalizer(FOREGROUND)
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some((id, object)) = world.objects.by_uid(&key.name) else {
        return Plan::done();
    };
    if object.is_terminating() {
        return terminate(world, &id.gvr, object);
    }
    if object.items("/metadata/ownerReferences").is_empty() {
        return Plan::done();
    }
    collect(world, id, object)
}

/// Processes the deletion finalizers of a terminating object.
fn terminate(world: &World<'_>, gvr: &Gvr, object: &Value) -> Plan {
    let dependents = || world.objects.dependents(object.uid());
    if object.has_finalizer(ORPHAN) {
        let mut actions: Vec<Action> = dependents()
            .map(|(id, dependent)| disown(&id.gvr, dependent, &HashSet::from([object.uid()])))
            .collect();
        actions.push(remove_finalizer(gvr, object, ORPHAN));
        return Plan::actions(actions);
    }
    let blocked = dependents().any(|(_, dependent)| blocks(dependent, object.uid()));
    if object.has_finalizer(FOREGROUND) && !blocked {
        return Plan::act(remove_finalizer(gvr, object, FOREGROUND));
    }
    Plan::done()
}

/// Returns true if a dependent blocks the deletion of an owner.
fn blocks(dependent: &Value, owner: &str) -> bool {
    let owners = dependent.items("/metadata/ownerReferences");
    owners
        .iter()
        .any(|reference| reference.text("/uid") == owner && reference.flag("/blockOwnerDeletion"))
}

/// The state of an owner reference.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// The owner exists.
    Solid,
    /// The owner exists, and waits for the deletion of its dependents.
    Waiting,
    /// The owner does not exist. The Event is for an owner in another namespace.
    Dangling,
    /// The state is unknown: the kind is not served, or an object of the kind cannot own this object.
    Unknown,
}

fn collect(world: &World<'_>, id: &Id, object: &Arc<Value>) -> Plan {
    let owners = object.items("/metadata/ownerReferences");
    let served = OnceCell::new();
    let served = || served.get_or_init(|| (world.resources)());
    let weighed: Vec<Owner> = owners
        .iter()
        .map(|owner| weigh(world, &served, object, owner))
        .collect();
    let notes: Vec<Action> = owners
        .iter()
        .filter_map(|owner| misplaced(world, object, owner))
        .take(NOTES_MAX)
        .map(|owner| Action::Record(invalid_namespace(id, served(), object, &owner)))
        .collect();
    let mut plan = decide(world, &id.gvr, object, &weighed);
    if !plan.actions.is_empty() {
        plan.actions.splice(0..0, notes);
    }
    plan
}

fn decide(world: &World<'_>, gvr: &Gvr, object: &Value, weighed: &[Owner]) -> Plan {
    if weighed.contains(&Owner::Unknown) {
        return Plan::done();
    }
    let owners = object.items("/metadata/ownerReferences");
    if weighed.contains(&Owner::Solid) {
        let dropped: HashSet<&str> = owners
            .iter()
            .zip(weighed)
            .filter(|(_, weight)| **weight != Owner::Solid)
            .map(|(owner, _)| owner.text("/uid"))
            .collect();
        if dropped.is_empty() {
            return Plan::done();
        }
        return Plan::act(disown(gvr, object, &dropped));
    }
    let mut dependents = world.objects.dependents(object.uid()).peekable();
    if weighed.contains(&Owner::Waiting) && dependents.peek().is_some() {
        // A cycle of objects in foreground deletion would never be deleted.
        let in_cycle = dependents.any(|(_, dependent)| is_waiting(dependent));
        let mut actions = Vec::new();
        if in_cycle && owners.iter().any(|owner| owner.flag("/blockOwnerDeletion")) {
            actions.push(unblock(gvr, object));
        } else {
            actions.push(delete(gvr, object, "Foreground"));
        }
        return Plan::actions(actions);
    }
    let policy = if object.has_finalizer(ORPHAN) {
        "Orphan"
    } else if object.has_finalizer(FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    Plan::act(delete(gvr, object, policy))
}

fn delete(gvr: &Gvr, object: &Value, policy: &'static str) -> Action {
    Action::Delete {
        gvr: gvr.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        options: Delete {
            uid: object.uid().to_owned(),
            version: Some(object.version().to_owned()),
            policy: Some(policy),
            grace: None,
        },
        note: None,
    }
}

/// Removes owner references from an object.
fn disown(gvr: &Gvr, object: &Value, uids: &HashSet<&str>) -> Action {
    let left = owners_without(object, |owner| uids.contains(owner.text("/uid")));
    patch_metadata(gvr, object, json!({"ownerReferences": left}))
}

fn unblock(gvr: &Gvr, object: &Value) -> Action {
    let mut owners = object.items("/metadata/ownerReferences").to_vec();
    for owner in &mut owners {
        owner["blockOwnerDeletion"] = false.into();
    }
    patch_metadata(gvr, object, json!({"ownerReferences": owners}))
}

/// Returns the served resources. The list is long, and computed at most once for each plan.
type Served<'a> = dyn Fn() -> &'a Vec<ServedResource> + 'a;

fn weigh<'a>(world: &World<'_>, served: &Served<'a>, object: &Value, owner: &Value) -> Owner {
    let Some(namespaced) = scope(world, served, owner) else {
        return Owner::Unknown;
    };
    if namespaced && object.namespace().is_empty() {
        return Owner::Unknown;
    }
    match find(world, object, owner) {
        None => Owner::Dangling,
        Some(found) if is_waiting(found) => Owner::Waiting,
        Some(_) => Owner::Solid,
    }
}

/// Returns true if the kind of an owner is namespaced; `None` if it is not served.
fn scope<'a>(world: &World<'_>, served: &Served<'a>, owner: &Value) -> Option<bool> {
    if let Some((_, found)) = world.objects.by_uid(owner.text("/uid"))
        && found.text("/kind") == owner.text("/kind")
        && group(found.text("/apiVersion")) == group(owner.text("/apiVersion"))
    {
        return Some(!found.namespace().is_empty());
    }
    let served = served().iter().find(|served| {
        served.kind == owner.text("/kind") && served.gvr.group == group(owner.text("/apiVersion"))
    });
    served.map(|served| served.namespaced)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the owner of a reference: with this uid, kind and name, cluster-scoped or in the object's namespace.
fn find<'a>(world: &World<'a>, object: &Value, owner: &Value) -> Option<&'a Arc<Value>> {
    let (_, found) = world.objects.by_uid(owner.text("/uid"))?;
    let is_meant = found.name() == owner.text("/name")
        && found.text("/kind") == owner.text("/kind")
        && group(found.text("/apiVersion")) == group(owner.text("/apiVersion"))
        && (found.namespace().is_empty() || found.namespace() == object.namespace());
    is_meant.then_some(found)
}

/// Returns the owner if it is in another namespace than the object.
fn misplaced(world: &World<'_>, object: &Value, owner: &Value) -> Option<Value> {
    let (_, found) = world.objects.by_uid(owner.text("/uid"))?;
    let is_elsewhere = !found.namespace().is_empty() && found.namespace() != object.namespace();
    is_elsewhere.then(|| owner.clone())
}

fn invalid_namespace(id: &Id, resources: &[ServedResource], object: &Value, owner: &Value) -> Note {
    let is_same = |gvr: &Gvr| gvr.group == id.gvr.group && gvr.resource == id.gvr.resource;
    let kind = resources
        .iter()
        .find(|served| is_same(&served.gvr))
        .map(|served| served.kind.clone());
    let api_version = match id.gvr.group.as_str() {
        "" => id.gvr.version.clone(),
        group => format!("{group}/{}", id.gvr.version),
    };
    let namespace = object.namespace();
    Note {
        about: reference(&api_version, &kind.unwrap_or_default(), object),
        kind: "Warning",
        reason: "OwnerRefInvalidNamespace",
        message: format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
            owner.text("/apiVersion"),
            owner.text("/kind"),
            owner.text("/name"),
            owner.text("/uid"),
        ),
        component: COMPONENT,
        refused: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{CONFIG_MAP, NODE};
    use crate::testing::{Scene, names};

    fn config_map(namespace: &str, name: &str, owners: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1", "ownerReferences": owners},
        })
    }

    fn owner(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name})
    }

    fn blocking(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "blockOwnerDeletion": true})
    }

    fn waiting(name: &str) -> Value {
        let mut object = config_map("a", name, &json!([]));
        object["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
        object["metadata"]["finalizers"] = json!([FOREGROUND]);
        object
    }

    fn planned(scene: &Scene, uid: &str) -> Vec<String> {
        names(&scene.plan(plan, "", uid).actions)
    }

    #[test]
    fn an_object_without_owners_left_is_deleted() {
        let mut scene = Scene::new();
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([owner("gone")])));
        assert_eq!(planned(&scene, "child"), ["delete configmaps/child"]);
    }

    #[test]
    fn an_object_with_one_owner_left_loses_the_other_references() {
        let mut scene = Scene::new();
        scene.put(&CONFIG_MAP, config_map("a", "there", &json!([])));
        scene.put(
            &CONFIG_MAP,
            config_map("a", "child", &json!([owner("gone"), owner("there")])),
        );
        let [Action::Patch { patch, .. }] = &scene.plan(plan, "", "child").actions[..] else {
            panic!("one patch");
        };
        assert_eq!(patch["metadata"]["ownerReferences"], json!([owner("there")]));
    }

    #[test]
    fn an_owner_of_an_unknown_kind_keeps_the_object() {
        let mut scene = Scene::new();
        let unknown = json!({"apiVersion": "nope.example.com/v1", "kind": "Gadget", "name": "g", "uid": "g"});
        scene.put(
            &CONFIG_MAP,
            config_map("a", "child", &json!([unknown, owner("gone")])),
        );
        assert!(planned(&scene, "child").is_empty());
    }

    #[test]
    fn an_owner_in_another_namespace_is_absent_and_reported() {
        let mut scene = Scene::new();
        scene.put(&CONFIG_MAP, config_map("b", "owner", &json!([])));
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([owner("owner")])));
        let expected = ["record OwnerRefInvalidNamespace", "delete configmaps/child"];
        assert_eq!(planned(&scene, "child"), expected);
    }

    #[test]
    fn a_cluster_scoped_object_of_a_namespaced_owner_stays() {
        let mut scene = Scene::new();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n", "ownerReferences": [owner("gone")]}});
        scene.put(&NODE, node);
        assert!(planned(&scene, "n").is_empty());
    }

    #[test]
    fn foreground_deletion_waits_for_the_dependents_that_block_it() {
        let mut scene = Scene::new();
        scene.put(&CONFIG_MAP, waiting("owner"));
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([blocking("owner")])));
        assert!(planned(&scene, "owner").is_empty());
        assert_eq!(planned(&scene, "child"), ["delete configmaps/child"]);
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([owner("owner")])));
        assert_eq!(planned(&scene, "owner"), ["patch configmaps/owner"]);
    }

    #[test]
    fn foreground_deletion_deletes_dependents_first() {
        let mut scene = Scene::new();
        scene.put(&CONFIG_MAP, waiting("owner"));
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([blocking("owner")])));
        scene.put(
            &CONFIG_MAP,
            config_map("a", "grandchild", &json!([blocking("child")])),
        );
        let [Action::Delete { options, .. }] = &scene.plan(plan, "", "child").actions[..] else {
            panic!("one delete");
        };
        assert_eq!(options.policy, Some("Foreground"));
    }

    #[test]
    fn a_cycle_of_foreground_deletions_is_broken() {
        let mut scene = Scene::new();
        let mut a = waiting("a");
        a["metadata"]["ownerReferences"] = json!([blocking("b")]);
        scene.put(&CONFIG_MAP, a);
        scene.put(&CONFIG_MAP, config_map("a", "b", &json!([blocking("a")])));
        assert_eq!(planned(&scene, "b"), ["patch configmaps/b"]);
    }

    #[test]
    fn orphan_deletion_releases_dependents_before_the_owner_is_deleted() {
        let mut scene = Scene::new();
        let mut owned = waiting("owner");
        owned["metadata"]["finalizers"] = json!([ORPHAN]);
        scene.put(&CONFIG_MAP, owned);
        scene.put(&CONFIG_MAP, config_map("a", "child", &json!([owner("owner")])));
        assert_eq!(
            planned(&scene, "owner"),
            ["patch configmaps/child", "patch configmaps/owner"]
        );
    }
}
