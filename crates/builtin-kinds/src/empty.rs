//! Empty lists and maps in the body of a request that the API server distinguishes from missing ones, although it does
//! not store them.

use apimachinery::gvk::Gvk;
use serde_json::Value;

use crate::decode::decode;
use crate::tree::{Object, at, existing_object_in};

/// Removes the empty lists and maps that a valid object of the kind can have, before it is stored. Returns true if the
/// object had some.
pub fn drop_empty(gvk: &Gvk, object: &mut Value) -> bool {
    if (gvk.group, gvk.kind) == ("", "Pod") {
        return object.as_object_mut().is_some_and(drop_overhead);
    }
    let Some(part) = counted_part(gvk) else {
        return false;
    };
    let before = at(object, &[part]).clone();
    let metadata = object.get_mut("metadata").map(Value::take);
    // The object was decoded before, so that decoding it again has no errors.
    let _ = decode(gvk, object);
    // An empty list of managers in the metadata resets them.
    if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata) {
        object.insert("metadata".to_owned(), metadata);
    }
    *at(object, &[part]) != before
}

/// Returns true if an empty list or map in an update increments the generation of the object. The API server compares
/// the objects of these kinds before and after the update without regard to how they are stored.
pub fn counts_empty(gvk: &Gvk) -> bool {
    counted_part(gvk).is_some()
}

fn counted_part(gvk: &Gvk) -> Option<&'static str> {
    match (gvk.group, gvk.kind) {
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => Some("webhooks"),
        ("networking.k8s.io", "NetworkPolicy") => Some("spec"),
        _ => None,
    }
}

fn drop_overhead(pod: &mut Object) -> bool {
    let Some(spec) = existing_object_in(pod, "spec") else {
        return false;
    };
    let is_empty = spec
        .get("overhead")
        .and_then(Value::as_object)
        .is_some_and(serde_json::Map::is_empty);
    if is_empty {
        spec.remove("overhead");
    }
    is_empty
}
