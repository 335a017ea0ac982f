//! The rules of `metadata` that hold for every kind.

use serde_json::Value;
use structural_schema::field::{Error, Path};

use super::{Definition, names};
use crate::managed_fields;
use crate::object;

const TOTAL_ANNOTATION_SIZE_MAX: usize = 256 * 1024;

/// Checks the metadata of a new object.
pub(crate) fn validate_create(definition: &Definition, object: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("metadata");
    let name = object::name(object);
    let generate_name = object::text(object, &["metadata", "generateName"]);
    if !generate_name.is_empty() {
        for fault in definition.validate_name(generate_name, true) {
            errors.push(Error::invalid(
                path.child("generateName"),
                generate_name.into(),
                fault,
            ));
        }
    }
    if name.is_empty() {
        errors.push(Error::required(
            path.child("name"),
            "name or generateName is required",
        ));
    } else {
        for fault in definition.validate_name(name, false) {
            errors.push(Error::invalid(path.child("name"), name.into(), fault));
        }
    }
    errors.extend(validate_common(object));
    errors
}

/// Checks the metadata of a changed object.
pub(crate) fn validate_update(object: &Value, old: &Value) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        let (new, live) = (object::meta(object, field), object::meta(old, field));
        if new != live {
            let value = new.cloned().unwrap_or(Value::Null);
            errors.push(Error::invalid(path.child(field), value, "field is immutable"));
        }
    }
    errors.extend(validate_new_finalizers(object, old));
    // Managed fields are checked once as part of the update and once as part of the object.
    errors.extend(managed_fields::validate(object));
    errors.extend(validate_common(object));
    errors
}

fn validate_new_finalizers(object: &Value, old: &Value) -> Option<Error> {
    if !object::is_terminating(old) {
        return None;
    }
    let known = object::finalizers(old);
    let added: Vec<&str> = object::finalizers(object)
        .into_iter()
        .filter(|finalizer| !known.contains(finalizer))
        .collect();
    if added.is_empty() {
        return None;
    }
    let list: Vec<String> = added.iter().map(|name| object::go_quote(name)).collect();
    Some(Error::forbidden(
        Path::new("metadata").child("finalizers"),
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        ),
    ))
}

fn validate_common(object: &Value) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    if object::generation(object) < 0 {
        errors.push(Error::invalid(
            path.child("generation"),
            object::generation(object).into(),
            "must be greater than or equal to 0",
        ));
    }
    errors.extend(validate_labels(object, &path.child("labels")));
    errors.extend(validate_annotations(object, &path.child("annotations")));
    errors.extend(validate_owners(object, &path.child("ownerReferences")));
    errors.extend(validate_finalizers(object, &path.child("finalizers")));
    errors.extend(managed_fields::validate(object));
    errors
}

fn validate_labels(object: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let labels = object::meta(object, "labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for fault in names::qualified_name(key) {
            errors.push(Error::invalid(path.clone(), key.as_str().into(), fault));
        }
        let value = value.as_str().unwrap_or_default();
        for fault in names::label_value(value) {
            errors.push(Error::invalid(path.clone(), value.into(), fault));
        }
    }
    errors
}

fn validate_annotations(object: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut size = 0;
    let annotations = object::meta(object, "annotations").and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.as_str().map(str::len).unwrap_or_default();
        for fault in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(path.clone(), key.as_str().into(), fault));
        }
    }
    if size > TOTAL_ANNOTATION_SIZE_MAX {
        errors.push(Error::too_long(path.clone(), TOTAL_ANNOTATION_SIZE_MAX));
    }
    errors
}

fn validate_owners(object: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    let owners = object::meta(object, "ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        let item = path;
        let text = |field: &str| object::text(owner, &[field]).to_owned();
        if text("apiVersion").is_empty() {
            errors.push(Error::invalid(
                item.child("apiVersion"),
                "".into(),
                "version must not be empty",
            ));
        }
        for (field, fault) in [
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(field).is_empty() {
                errors.push(Error::invalid(item.child(field), "".into(), fault));
            }
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let this = format!("{}/{}", text("kind"), text("name"));
        if let Some(first) = &controller {
            errors.push(Error::invalid(
                path.clone(),
                owners.cloned().map_or(Value::Null, Value::from),
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                ),
            ));
        } else {
            controller = Some(this);
        }
    }
    errors
}

fn validate_finalizers(object: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let finalizers = object::finalizers(object);
    for (index, finalizer) in finalizers.iter().enumerate() {
        for fault in names::qualified_name(finalizer) {
            errors.push(Error::invalid(path.clone(), (*finalizer).into(), fault));
        }
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            errors.push(Error::invalid(
                path.index(index),
                (*finalizer).into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    let both = finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion");
    if both {
        errors.push(Error::invalid(
            path.clone(),
            finalizers.clone().into(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    errors
}

const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Drops exact repetitions of owner references; the answer says whether there were any.
pub(crate) fn dedupe_owners(object: &mut Value) -> bool {
    let Some(owners) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("ownerReferences"))
        .and_then(Value::as_array_mut)
    else {
        return false;
    };
    let before = owners.len();
    let mut kept: Vec<Value> = Vec::with_capacity(before);
    for owner in owners.drain(..) {
        if !kept.contains(&owner) {
            kept.push(owner);
        }
    }
    let dropped = kept.len() < before;
    *owners = kept;
    dropped
}
