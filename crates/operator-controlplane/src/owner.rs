//! Owner references of objects.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;

/// Returns the owner reference with `controller: true`, if there is one.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object.items("/metadata/ownerReferences");
    owners.iter().find(|owner| owner.flag("/controller"))
}

/// Returns the controller reference of an object to `owner`.
pub(crate) fn controller_reference(kind: &Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name,
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the owner references except the dropped ones, or null if none are left.
pub(crate) fn owners_without(object: &Value, dropped: impl Fn(&Value) -> bool) -> Value {
    let owners = object.items("/metadata/ownerReferences");
    let left: Vec<&Value> = owners.iter().filter(|owner| !dropped(owner)).collect();
    if left.is_empty() { Value::Null } else { json!(left) }
}
