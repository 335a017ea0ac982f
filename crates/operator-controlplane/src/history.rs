//! ControllerRevisions: the template history of a StatefulSet or a DaemonSet ([`History`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::claim::claim;
use crate::hash::template_hash;
use crate::kind::{CONTROLLER_REVISION, Kind};
use crate::object::{Object, set};
use crate::objects::Objects;
use crate::owner::controller_reference;
use crate::plan::{Action, create, delete, update, update_subresource};
use crate::selector::selects;

/// The label of pods with their revision.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The revisions of an owner, and the revision of its current template.
pub(crate) struct History {
    /// The revisions, oldest first.
    pub(crate) revisions: Vec<Arc<Value>>,
    pub(crate) latest: Arc<Value>,
}

impl History {
    /// Returns the revision with a name, or the latest one.
    pub(crate) fn named(&self, name: &str) -> Arc<Value> {
        let found = self.revisions.iter().find(|revision| revision.name() == name);
        found.unwrap_or(&self.latest).clone()
    }
}

/// Returns the template in a revision.
pub(crate) fn template(revision: &Value) -> Value {
    let mut template = revision
        .pointer("/data/spec/template")
        .cloned()
        .unwrap_or_default();
    if let Value::Object(fields) = &mut template {
        fields.remove("$patch");
    }
    template
}

/// Returns the revision label of pods. If `hash_only` is true, it omits the owner's name, as for DaemonSets.
pub(crate) fn label(revision: &Value, owner: &Value, hash_only: bool) -> String {
    let name = revision.name();
    let hash = name.strip_prefix(&format!("{}-", owner.name())).unwrap_or(name);
    if hash_only {
        hash.to_owned()
    } else {
        name.to_owned()
    }
}

/// Returns the revisions of an owner, or the actions that create the revision of its template.
pub(crate) fn history(objects: &Objects, kind: &Kind, owner: &Value) -> Result<History, Vec<Action>> {
    let selector = owner.pointer("/spec/selector");
    let claim = claim(objects, kind, owner, &CONTROLLER_REVISION, |revision| {
        selects(selector, &revision.texts("/metadata/labels"))
    });
    if !claim.actions.is_empty() {
        return Err(claim.actions);
    }
    let mut revisions = claim.owned;
    revisions.sort_by_cached_key(|revision| (number(revision), revision.name().to_owned()));
    let wanted = owner.pointer("/spec/template").cloned().unwrap_or_default();
    let last = revisions.last().map_or(0, |revision| number(revision));
    let found = revisions
        .iter()
        .rev()
        .find(|revision| template(revision) == wanted)
        .cloned();
    match found {
        Some(latest) if number(&latest) == last => Ok(History { revisions, latest }),
        Some(earlier) => {
            let mut again = Value::clone(&earlier);
            set(&mut again, &["revision"], json!(last + 1));
            Err(vec![update(&CONTROLLER_REVISION, again, None)])
        }
        None => Err(vec![make(objects, kind, owner, &wanted, last + 1)]),
    }
}

fn number(revision: &Value) -> i64 {
    revision.int("/revision").unwrap_or(0)
}

fn make(objects: &Objects, kind: &Kind, owner: &Value, template: &Value, number: i64) -> Action {
    let collisions = owner.int("/status/collisionCount").filter(|count| *count > 0);
    let hash = template_hash(template, collisions);
    let name = format!("{}-{hash}", owner.name());
    if objects
        .get(&CONTROLLER_REVISION, owner.namespace(), &name)
        .is_some()
    {
        let mut counted = owner.clone();
        set(
            &mut counted,
            &["status", "collisionCount"],
            json!(collisions.unwrap_or(0) + 1),
        );
        return update_subresource(kind, "status", counted);
    }
    let mut data = template.clone();
    set(&mut data, &["$patch"], json!("replace"));
    let mut labels = template
        .pointer("/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    set(&mut labels, &["controller.kubernetes.io/hash"], json!(hash));
    let mut revision = json!({
        "metadata": {
            "name": name,
            "namespace": owner.namespace(),
            "labels": labels,
            "ownerReferences": [controller_reference(kind, owner)],
        },
        "data": {"spec": {"template": data}},
        "revision": number,
    });
    if let Some(annotations) = owner.pointer("/metadata/annotations") {
        set(&mut revision, &["metadata", "annotations"], annotations.clone());
    }
    create(&CONTROLLER_REVISION, revision, None)
}

/// Deletes the oldest unused revisions beyond the history limit.
pub(crate) fn surplus(history: &History, owner: &Value, live: &BTreeSet<String>) -> Vec<Action> {
    let limit = owner.int("/spec/revisionHistoryLimit").unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    let is_dead =
        |revision: &&Arc<Value>| revision.name() != history.latest.name() && !live.contains(revision.name());
    let dead: Vec<_> = history.revisions.iter().filter(is_dead).collect();
    let surplus = dead.len().saturating_sub(limit);
    dead.into_iter()
        .take(surplus)
        .map(|revision| delete(&CONTROLLER_REVISION, revision, None))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::STATEFUL_SET;
    use crate::testing::Scene;

    fn owner(image: &str) -> Value {
        json!({
            "metadata": {"namespace": "a", "name": "db", "uid": "db"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}}, "image": image}},
        })
    }

    fn advance(scene: &mut Scene, image: &str) -> History {
        for _ in 0..5 {
            match history(&scene.objects, &STATEFUL_SET, &owner(image)) {
                Ok(history) => return history,
                Err(actions) => {
                    for action in actions {
                        let (Action::Create { object, .. } | Action::Update { object, .. }) = action else {
                            panic!("write")
                        };
                        let mut object = *object;
                        object["metadata"]["uid"] = object.name().into();
                        scene.put(&CONTROLLER_REVISION, object);
                    }
                }
            }
        }
        panic!("never settles");
    }

    #[test]
    fn a_template_that_comes_back_takes_its_revision_to_the_end() {
        let mut scene = Scene::new();
        let first = advance(&mut scene, "x:1").latest.name().to_owned();
        let second = advance(&mut scene, "x:2");
        assert_eq!((number(&second.latest), second.revisions.len()), (2, 2));
        let again = advance(&mut scene, "x:1");
        assert_eq!(
            (again.latest.name(), number(&again.latest), again.revisions.len()),
            (first.as_str(), 3, 2)
        );
        assert_eq!(template(&again.latest)["image"], "x:1");
    }
}
