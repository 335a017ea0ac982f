//! The identity of a StatefulSet's pod: its ordinal, its name, and its claims.

use serde_json::{Value, json};

use crate::controller::stateful_set::COMPONENT;
use crate::history::{self, HASH};
use crate::kind::{PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};
use crate::object::{Object, set};
use crate::owner::controller_reference;
use crate::plan::{Action, Note, World, create, patch_metadata};
use crate::pod;

/// Returns the ordinal in a pod's name if the pod belongs to this set.
pub(super) fn ordinal(owner: &Value, pod: &Value) -> Option<i64> {
    let digits = pod.name().strip_prefix(owner.name())?.strip_prefix('-')?;
    let is_plain =
        digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Creates the pod of an ordinal.
pub(super) fn pod(owner: &Value, revision: &Value, ordinal: i64) -> Action {
    let name = format!("{}-{ordinal}", owner.name());
    let template = history::template(revision);
    let mut made = pod::from_template(&STATEFUL_SET, owner, &template, &format!("{}-", owner.name()));
    let labels = [
        ("statefulset.kubernetes.io/pod-name", name.clone()),
        ("apps.kubernetes.io/pod-index", ordinal.to_string()),
        (HASH, history::label(revision, owner, false)),
    ];
    for (label, value) in labels {
        set(&mut made, &["metadata", "labels", label], json!(value));
    }
    set(&mut made, &["metadata", "name"], json!(name));
    set(&mut made, &["spec", "hostname"], json!(name));
    if !owner.text("/spec/serviceName").is_empty() {
        set(
            &mut made,
            &["spec", "subdomain"],
            json!(owner.text("/spec/serviceName")),
        );
    }
    let volumes = volumes(owner, &made, ordinal);
    if !volumes.is_empty() {
        set(&mut made, &["spec", "volumes"], Value::Array(volumes));
    }
    let message = format!("create Pod {name} in StatefulSet {} successful", owner.name());
    let note = Note::normal(COMPONENT, &STATEFUL_SET, owner, "SuccessfulCreate", message);
    create(&POD, made, Some(note.or("FailedCreate")))
}

fn claim_name(owner: &Value, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template.name(), owner.name())
}

fn volumes(owner: &Value, pod: &Value, ordinal: i64) -> Vec<Value> {
    let templates = owner.items("/spec/volumeClaimTemplates");
    let claimed = templates.iter().map(|template| {
        json!({"name": template.name(), "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)}})
    });
    let others = pod.items("/spec/volumes").iter();
    let is_claimed = |volume: &Value| {
        templates
            .iter()
            .any(|template| template.name() == volume.text("/name"))
    };
    claimed
        .chain(others.filter(|volume| !is_claimed(volume)).cloned())
        .collect()
}

/// Creates the missing claims of an ordinal.
pub(super) fn claims(world: &World<'_>, owner: &Value, ordinal: i64) -> Vec<Action> {
    let templates = owner.items("/spec/volumeClaimTemplates").iter();
    templates
        .filter_map(|template| {
            let name = claim_name(owner, template, ordinal);
            let found = world
                .objects
                .get(&PERSISTENT_VOLUME_CLAIM, owner.namespace(), &name);
            found.is_none().then(|| claim(owner, template, &name, ordinal))
        })
        .collect()
}

fn claim(owner: &Value, template: &Value, name: &str, ordinal: i64) -> Action {
    let mut labels = template
        .pointer("/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    for (label, value) in owner.texts("/spec/selector/matchLabels") {
        set(&mut labels, &[label], json!(value));
    }
    let mut made = json!({
        "metadata": {"name": name, "namespace": owner.namespace(), "labels": labels},
        "spec": template.get("spec"),
    });
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        set(&mut made, &["metadata", "annotations"], annotations.clone());
    }
    if owner.text("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete" {
        set(
            &mut made,
            &["metadata", "ownerReferences"],
            json!([controller_reference(&STATEFUL_SET, owner)]),
        );
    }
    let message = format!(
        "create Claim {name} Pod {0}-{ordinal} in StatefulSet {0} success",
        owner.name()
    );
    let note = Note::normal(COMPONENT, &STATEFUL_SET, owner, "SuccessfulCreate", message);
    create(&PERSISTENT_VOLUME_CLAIM, made, Some(note.or("FailedCreate")))
}

/// Sets the owner references of a pod's claims that must be deleted with the pod.
pub(super) fn hand_over(world: &World<'_>, owner: &Value, pod: &Value) -> Vec<Action> {
    if owner.text("/spec/persistentVolumeClaimRetentionPolicy/whenScaled") != "Delete" {
        return Vec::new();
    }
    let Some(ordinal) = ordinal(owner, pod) else {
        return Vec::new();
    };
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()});
    let templates = owner.items("/spec/volumeClaimTemplates").iter();
    let claims = templates.filter_map(|template| {
        let name = claim_name(owner, template, ordinal);
        world
            .objects
            .get(&PERSISTENT_VOLUME_CLAIM, owner.namespace(), &name)
    });
    let kept = claims.filter(|claim| {
        let owners = claim.items("/metadata/ownerReferences");
        !owners.iter().any(|owner| owner.text("/uid") == pod.uid())
    });
    kept.map(|claim| {
        let metadata = json!({"ownerReferences": [reference]});
        patch_metadata(&PERSISTENT_VOLUME_CLAIM.gvr, claim, metadata)
    })
    .collect()
}
