//! The strategy of CustomResourceDefinition objects.

use apimachinery::object;
use serde_json::Value;

use super::condition::{CLEANUP_FINALIZER, set_condition};

/// Keeps the status when the spec is written, except for a new storage version; keeps all other fields when the status
/// is written.
pub(crate) fn prepare_for_update(subresource: &str, crd: &mut Value, old: &Value) {
    if subresource == "status" {
        let mut kept = old.clone();
        object::copy_field(&mut kept, crd, "status");
        object::copy_meta(&mut kept, crd, "managedFields");
        *crd = kept;
        return;
    }
    object::copy_field(crd, old, "status");
    structural_schema::crd::prepare_for_update(crd);
}

/// Prepares the deletion of a CRD: it remains until its instances are deleted.
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
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}
