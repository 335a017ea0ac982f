//! What the server does to a CustomResourceDefinition itself before it is written.

use serde_json::{Value, json};

use super::establish::{CLEANUP_FINALIZER, set_condition};
use crate::object;

/// A new CRD has a status without conditions, and stores one version.
pub(crate) fn prepare_for_create(crd: &mut Value) {
    let status = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": storage_version(crd).into_iter().collect::<Vec<_>>(),
    });
    if let Some(map) = crd.as_object_mut() {
        map.insert("status".to_owned(), status);
    }
}

/// A write of the spec leaves the status alone, but for a new storage version; one of the status leaves the rest.
pub(crate) fn prepare_for_update(subresource: &str, crd: &mut Value, old: &Value) {
    if subresource == "status" {
        let mut kept = old.clone();
        object::copy_field(&mut kept, crd, "status");
        object::copy_meta(&mut kept, crd, "managedFields");
        *crd = kept;
        return;
    }
    object::copy_field(crd, old, "status");
    let Some(version) = storage_version(crd) else {
        return;
    };
    let stored = object::child_mut(crd, "status")
        .entry("storedVersions".to_owned())
        .or_insert_with(|| json!([]));
    if let Some(list) = stored.as_array_mut()
        && !list.iter().any(|known| *known == version)
    {
        list.push(version.into());
    }
}

/// A CRD that is deleted stays until its instances are gone.
pub(crate) fn prepare_for_delete(crd: &mut Value, now: &str) {
    let mut finalizers: Vec<Value> = object::finalizers(crd).into_iter().map(Value::from).collect();
    if !finalizers.iter().any(|known| known == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
        object::set_meta(crd, "finalizers", Some(finalizers.into()));
    }
    set_condition(
        crd,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will occur soon",
        now,
    );
}

fn storage_version(crd: &Value) -> Option<String> {
    crd.pointer("/spec/versions")?
        .as_array()?
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| object::text(version, &["name"]).to_owned())
}
