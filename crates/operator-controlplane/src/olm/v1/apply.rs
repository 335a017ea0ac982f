//! Compares the rendered objects of a bundle with the cluster.

use std::sync::Arc;

use serde_json::{Value, json};

use super::preflight;
use super::render::Rendered;
use super::revision::Revision;
use super::{REVISION, is_owned, owner_labels, owner_reference};
use crate::kind::{CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SERVICE};
use crate::object::{Object, set};
use crate::objects::{Id, Key, Objects};
use crate::olm::csv::install::{Health, rollout};
use crate::olm::install_plan::merged;
use crate::olm::kinds::SECRET;
use crate::plan::{Action, delete_with};

/// Returns the reason why an object of a bundle cannot be written; checked before the first write.
pub(super) fn refusal(
    objects: &Objects,
    extension: &Value,
    rendered: &[Rendered],
    is_strict: bool,
) -> Option<String> {
    rendered.iter().find_map(|Rendered { gvr, object }| {
        let known = objects.find(gvr, &Key::of(object))?;
        if !is_owned(known, extension) {
            let place = match known.namespace() {
                "" => known.name().to_owned(),
                namespace => format!("{namespace}/{}", known.name()),
            };
            let kind = object.text("/kind");
            return Some(format!(
                "{kind} {place} exists and does not belong to the ClusterExtension {}",
                extension.name()
            ));
        }
        let is_checked = is_strict && CUSTOM_RESOURCE_DEFINITION.is(gvr);
        is_checked.then(|| preflight::refusal(known, object)).flatten()
    })
}

/// Returns the missing writes.
pub(super) fn actions(
    objects: &Objects,
    extension: &Value,
    revision: &Revision<'_>,
    rendered: &[Rendered],
) -> Vec<Action> {
    let number = revision.number.to_string();
    let wanted = rendered
        .iter()
        .map(|Rendered { gvr, object }| (gvr, managed(object, extension, &number)));
    let writes = wanted.filter_map(|(gvr, object)| match objects.find(gvr, &Key::of(&object)) {
        None => Some(Action::Create {
            gvr: gvr.clone(),
            object: Box::new(object),
            note: None,
        }),
        Some(known) => {
            let object = changed(known, &object, SERVICE.is(gvr), &number)?;
            Some(Action::Put {
                gvr: gvr.clone(),
                object: Box::new(object),
            })
        }
    });
    writes.collect()
}

/// Returns an object with its owner and its revision.
fn managed(object: &Value, extension: &Value, number: &str) -> Value {
    let mut object = object.clone();
    for (name, value) in owner_labels(extension).as_object().into_iter().flatten() {
        set(&mut object, &["metadata", "labels", name], value.clone());
    }
    set(&mut object, &["metadata", "annotations", REVISION], number.into());
    set(
        &mut object,
        &["metadata", "ownerReferences"],
        json!([owner_reference(extension)]),
    );
    object
}

/// Returns the live object with the desired content, or `None` if they do not differ. Within a revision, fields
/// that the bundle does not set are kept; a new revision replaces all fields, except allocated ones of a Service.
fn changed(known: &Value, wanted: &Value, keeps: bool, number: &str) -> Option<Value> {
    if keeps || known.annotation(REVISION) == Some(number) {
        return merged(known, wanted);
    }
    let mut changed = merged(known, wanted)?;
    for (name, value) in wanted.as_object()? {
        if !["metadata", "apiVersion", "kind", "status"].contains(&name.as_str()) {
            changed[name] = value.clone();
        }
    }
    Some(changed)
}

/// Returns the first object that is not ready, with the reason.
pub(super) fn unready(objects: &Objects, rendered: &[Rendered]) -> Option<String> {
    rendered.iter().find_map(|Rendered { gvr, object }| {
        let known = objects.find(gvr, &Key::of(object))?;
        if CUSTOM_RESOURCE_DEFINITION.is(gvr) && !known.is_condition_true("Established") {
            return Some(format!(
                "Object CustomResourceDefinition.apiextensions.k8s.io/v1 {}: condition \"Established\" == \"True\" not met",
                known.name()
            ));
        }
        if !DEPLOYMENT.is(gvr) {
            return None;
        }
        let (Health::Waiting(reason) | Health::Failed(reason)) = rollout(known)? else {
            return None;
        };
        Some(format!(
            "Object Deployment.apps/v1 {}/{}: {reason}",
            known.namespace(),
            known.name()
        ))
    })
}

/// Deletes the objects of earlier revisions that are not in the current one, and the earlier revisions.
pub(super) fn surplus(
    objects: &Objects,
    extension: &Value,
    revision: &Revision<'_>,
    rendered: &[Rendered],
    secrets: &[String],
) -> Vec<Action> {
    let is_wanted = |id: &Id, object: &Arc<Value>| {
        let key = Key::of(object);
        rendered.iter().any(|wanted| {
            wanted.gvr.group == id.gvr.group
                && wanted.gvr.resource == id.gvr.resource
                && Key::of(&wanted.object) == key
        }) || SECRET.is(&id.gvr)
            && (object.uid() == revision.secret.uid() || secrets.contains(&object.name().to_owned()))
    };
    objects
        .dependents(extension.uid())
        .filter(|(id, object)| !object.is_terminating() && !is_wanted(id, object))
        .map(|(id, object)| delete_with(&id.gvr, object, Some("Background"), None, None))
        .collect()
}
