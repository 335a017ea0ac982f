//! The ReplicaSets of a Deployment: names, labels, annotations, and the ReplicaSet of the current template.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::controller::deployment::{Rollout, replicas, rollout};
use crate::hash::template_hash;
use crate::kind::{DEPLOYMENT, REPLICA_SET};
use crate::object::{Draft, Object, equal_without, set};
use crate::owner::controller_reference;
use crate::plan::{Action, World, update};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
];

/// Sorts ReplicaSets by age and finds the new one: the oldest whose template is the current one.
pub(super) fn sort(deployment: &Value, mut sets: Vec<Arc<Value>>) -> Rollout<'_> {
    sets.sort_by_cached_key(|set| (set.time("/metadata/creationTimestamp"), set.name().to_owned()));
    let new = sets.iter().position(|set| has_same_template(deployment, set));
    let new = new.map(|at| sets.remove(at));
    Rollout {
        deployment,
        new,
        old: sets,
    }
}

/// Compares the templates of a Deployment and a ReplicaSet without the label that only the ReplicaSet has.
fn has_same_template(deployment: &Value, set: &Value) -> bool {
    equal_without(&["metadata", "labels", HASH], template(deployment), template(set))
}

fn template(object: &Value) -> &Value {
    object.pointer("/spec/template").unwrap_or(&Value::Null)
}

/// Returns the revision of a ReplicaSet; 0 if it has none.
fn revision_of(object: &Value) -> i64 {
    let revision = object.annotation(REVISION);
    revision.and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

fn new_revision(rollout: &Rollout<'_>) -> i64 {
    let last = rollout.old.iter().map(|set| revision_of(set)).max();
    last.unwrap_or(0) + 1
}

/// Returns a new ReplicaSet for the current template.
pub(super) fn new_set(rollout: &Rollout<'_>, target: i64) -> Value {
    let deployment = rollout.deployment;
    let collisions = deployment.int("/status/collisionCount");
    let mut template = template(deployment).clone();
    let hash = template_hash(&template, collisions);
    set(&mut template, &["metadata", "labels", HASH], json!(hash));
    let mut selector = deployment.pointer("/spec/selector").cloned().unwrap_or_default();
    set(&mut selector, &["matchLabels", HASH], json!(hash));
    let mut spec = json!({"replicas": target, "selector": selector, "template": template});
    if let Some(seconds) = deployment.int("/spec/minReadySeconds") {
        spec["minReadySeconds"] = seconds.into();
    }
    let mut made = json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "namespace": deployment.namespace(),
            "labels": spec["template"]["metadata"]["labels"],
            "annotations": copied(deployment).collect::<BTreeMap<_, _>>(),
            "ownerReferences": [controller_reference(&DEPLOYMENT, deployment)],
        },
        "spec": spec,
    });
    set(
        &mut made,
        &["metadata", "annotations", REVISION],
        json!(new_revision(rollout).to_string()),
    );
    annotate_replicas(&mut made, rollout);
    made
}

/// Returns the annotations of a Deployment that its ReplicaSets have.
fn copied(deployment: &Value) -> impl Iterator<Item = (&str, &str)> {
    let annotations = deployment.texts("/metadata/annotations").into_iter();
    annotations.filter(|(name, _)| !NOT_COPIED.contains(name))
}

/// Annotates a ReplicaSet with the desired and the maximum number of replicas of its Deployment.
pub(super) fn annotate_replicas(replica_set: &mut Value, rollout: &Rollout<'_>) {
    let desired = rollout.wanted();
    let maximum = rollout::allowed(rollout);
    set(
        replica_set,
        &["metadata", "annotations", DESIRED],
        json!(desired.to_string()),
    );
    set(
        replica_set,
        &["metadata", "annotations", MAXIMUM],
        json!(maximum.to_string()),
    );
}

/// Returns the desired number of replicas of the Deployment at the last reconciliation.
pub(super) fn desired(set: &Value) -> Option<i64> {
    set.annotation(DESIRED)?.parse().ok()
}

/// Returns the maximum number of replicas of the Deployment at the last reconciliation.
pub(super) fn maximum(set: &Value) -> Option<i64> {
    set.annotation(MAXIMUM)?.parse().ok()
}

/// Updates the annotations of the new ReplicaSet, and then the revision of the Deployment.
pub(super) fn annotate(_: &World<'_>, rollout: &Rollout<'_>) -> Vec<Action> {
    let Some(new) = &rollout.new else {
        return Vec::new();
    };
    let mut annotated = Draft::new(new);
    for (name, value) in copied(rollout.deployment) {
        annotated.set(&["metadata", "annotations", name], json!(value));
    }
    advance(&mut annotated, new, new_revision(rollout));
    let seconds = rollout
        .deployment
        .int("/spec/minReadySeconds")
        .filter(|seconds| *seconds > 0);
    match seconds {
        Some(seconds) => annotated.set(&["spec", "minReadySeconds"], seconds.into()),
        None => annotated.unset(&["spec", "minReadySeconds"]),
    }
    if let Some(annotated) = annotated.changed() {
        return vec![update(&REPLICA_SET, annotated, None)];
    }
    let revision = new.annotation(REVISION).unwrap_or_default();
    if rollout.deployment.annotation(REVISION) == Some(revision) {
        return Vec::new();
    }
    let mut deployment = rollout.deployment.clone();
    set(
        &mut deployment,
        &["metadata", "annotations", REVISION],
        json!(revision),
    );
    vec![crate::plan::update_subresource(&DEPLOYMENT, "status", deployment)]
}

/// Gives the next revision to a ReplicaSet that became the current one again, and records its previous revision.
fn advance(annotated: &mut Draft<'_>, before: &Value, revision: i64) {
    let had = revision_of(before);
    if had >= revision {
        return;
    }
    annotated.set(
        &["metadata", "annotations", REVISION],
        json!(revision.to_string()),
    );
    if had > 0 {
        let history = match before.annotation(HISTORY) {
            Some(history) => format!("{history},{had}"),
            None => had.to_string(),
        };
        annotated.set(&["metadata", "annotations", HISTORY], json!(history));
    }
}

/// Returns the old ReplicaSets without replicas that exceed the history limit, oldest revision first.
pub(super) fn surplus(rollout: &Rollout<'_>) -> Vec<Arc<Value>> {
    let limit = rollout.deployment.int("/spec/revisionHistoryLimit").unwrap_or(10);
    let mut sets: Vec<_> = rollout
        .old
        .iter()
        .filter(|set| !set.is_terminating())
        .cloned()
        .collect();
    let surplus = sets.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    sets.sort_by_cached_key(|set| revision_of(set));
    sets.truncate(surplus);
    sets.retain(|set| {
        let observed = set.int("/status/observedGeneration").unwrap_or(0);
        replicas(set) == 0 && set.int("/status/replicas").unwrap_or(0) == 0 && observed >= set.generation()
    });
    sets
}
