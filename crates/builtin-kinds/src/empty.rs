//! Empty lists and maps in the body of a request that the API server distinguishes from missing ones, although it does
//! not store them.

use apimachinery::gvk::Gvk;
use apimachinery::object::get;
use serde_json::Value;

use crate::decode::decode;
use crate::tree::at;

/// Fields whose empty list or map is not valid with every object.
const CHECKED: [(&str, &str, [&str; 2]); 3] = [
    ("", "Pod", ["spec", "overhead"]),
    ("resource.k8s.io", "ResourceSlice", ["spec", "devices"]),
    ("resource.k8s.io", "ResourceSlice", ["spec", "sharedCounters"]),
];

/// The empty lists and maps that were removed from an object.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    has_counted: bool,
    fields: Vec<([&'static str; 2], Value)>,
}

impl Dropped {
    /// Returns true if there were any.
    pub fn any(&self) -> bool {
        self.has_counted || !self.fields.is_empty()
    }

    /// Adds those again that validation or admission checks.
    pub fn restore(&self, object: &mut Value) {
        for ([parent, field], empty) in &self.fields {
            if let Some(parent) = object.get_mut(parent).and_then(Value::as_object_mut) {
                parent.entry(*field).or_insert_with(|| empty.clone());
            }
        }
    }
}

/// Removes the empty lists and maps that a valid object of the kind can have, before it is stored.
pub fn drop_empty(gvk: &Gvk, object: &mut Value) -> Dropped {
    let mut dropped = Dropped::default();
    for (group, kind, path) in CHECKED {
        let [parent, field] = path;
        if (gvk.group, gvk.kind) != (group, kind) || !get(object, &path).is_some_and(is_empty) {
            continue;
        }
        let parent = object.get_mut(parent).and_then(Value::as_object_mut);
        let empty = parent.and_then(|parent| parent.remove(field));
        dropped.fields.extend(empty.map(|empty| (path, empty)));
    }
    let Some(part) = counted_part(gvk) else {
        return dropped;
    };
    let before = at(object, &[part]).clone();
    let metadata = object.get_mut("metadata").map(Value::take);
    // The object was decoded before, so that decoding it again has no errors.
    let _ = decode(gvk, object);
    // An empty list of managers in the metadata resets them.
    if let (Some(object), Some(metadata)) = (object.as_object_mut(), metadata) {
        object.insert("metadata".to_owned(), metadata);
    }
    dropped.has_counted = *at(object, &[part]) != before;
    dropped
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
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
