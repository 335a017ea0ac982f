//! The ownership of objects by controllers ([`Claim`]): a controller adopts selected objects without a controller, and
//! releases objects that it no longer selects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::objects::Objects;
use crate::owner::{controller_of, controller_reference, owners_without};
use crate::plan::{Action, patch_metadata};

/// The objects that a controller owns, and the writes that adopt or release objects.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// The owned objects, by name.
    pub(crate) owned: Vec<Arc<Value>>,
    /// The adoptions and releases, which must be executed first.
    pub(crate) actions: Vec<Action>,
}

/// Finds the objects of `kind` that `owner` manages.
pub(crate) fn claim(
    objects: &Objects,
    owner_kind: &Kind,
    owner: &Value,
    kind: &Kind,
    selects: impl Fn(&Value) -> bool,
) -> Claim {
    let mut claim = Claim::default();
    let mut owned: Vec<&Arc<Value>> = objects.owned(kind, owner.uid()).collect();
    owned.retain(|object| {
        controller_of(object).is_some_and(|controller| controller.text("/uid") == owner.uid())
    });
    for object in owned {
        if selects(object) || owner.is_terminating() {
            claim.owned.push(object.clone());
        } else {
            claim.actions.push(release(kind, object, owner.uid()));
        }
    }
    if !owner.is_terminating() {
        let free = objects.uncontrolled(kind, owner.namespace());
        let adopted = free.filter(|object| is_adoptable(object) && selects(object));
        claim
            .actions
            .extend(adopted.map(|object| adopt(owner_kind, owner, kind, object)));
    }
    claim
}

/// Returns true if an object can be adopted: terminating objects and finished pods are not adopted.
fn is_adoptable(object: &Value) -> bool {
    !object.is_terminating() && !crate::pod::is_finished(object)
}

fn adopt(owner_kind: &Kind, owner: &Value, kind: &Kind, object: &Value) -> Action {
    let mut owners = object.items("/metadata/ownerReferences").to_vec();
    owners.push(controller_reference(owner_kind, owner));
    patch_metadata(&kind.gvr, object, json!({"ownerReferences": owners}))
}

fn release(kind: &Kind, object: &Value, uid: &str) -> Action {
    let owners = owners_without(object, |owner| owner.text("/uid") == uid);
    patch_metadata(&kind.gvr, object, json!({"ownerReferences": owners}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{POD, REPLICA_SET};

    fn pod(name: &str, app: &str, owners: &Value) -> Value {
        json!({"metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": app}, "ownerReferences": owners}})
    }

    #[test]
    fn orphans_are_adopted_and_unselected_objects_are_released() {
        let owner = json!({"metadata": {"namespace": "a", "name": "rs", "uid": "rs"}});
        let mine = json!([controller_reference(&REPLICA_SET, &owner)]);
        let theirs = json!([{"uid": "other", "controller": true}]);
        let mut objects = Objects::default();
        let pods = [
            pod("kept", "web", &mine),
            pod("released", "none", &mine),
            pod("adopted", "web", &json!([])),
            pod("foreign", "web", &theirs),
        ];
        for pod in pods {
            objects.insert(&Arc::new(POD.gvr.clone()), &Arc::new(pod));
        }
        let claim = claim(&objects, &REPLICA_SET, &owner, &POD, |pod| {
            pod.label("app") == Some("web")
        });
        let owned: Vec<_> = claim.owned.iter().map(|pod| pod.name()).collect();
        assert_eq!(owned, ["kept"]);
        let patched: Vec<_> = claim
            .actions
            .iter()
            .map(|action| match action {
                Action::Patch { name, patch, .. } => {
                    (name.as_str(), patch["metadata"]["ownerReferences"].clone())
                }
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(patched, [("released", Value::Null), ("adopted", mine)]);
    }
}
