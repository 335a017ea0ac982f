//! The rules of `metadata` that all kinds share.

use std::collections::{HashSet, VecDeque};

use apimachinery::field::{Error, ErrorList, ErrorType, Path};
use apimachinery::names;
use apimachinery::object;
use serde_json::Value;

use super::Definition;
use crate::patch::managed_fields;
use crate::resource::{crd, labels};

type NameRule<'r> = &'r dyn Fn(&str, bool) -> Vec<String>;

/// The fields of an event that are checked before its metadata.
const EVENT_FIELDS: [&str; 7] = [
    "involvedObject.namespace",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "message",
    "namespace",
];

/// Returns the errors of a new object, of which `errors` are those of its kind: those of its metadata come first, except
/// for a few kinds.
pub(crate) fn among(definition: &Definition, object: &Value, errors: ErrorList) -> ErrorList {
    let is_core_event = definition.is("", "events");
    if is_core_event || definition.is("policy", "poddisruptionbudgets") {
        // The metadata is only checked if the rest is valid, that of an event by the rules of all kinds.
        return match errors.is_empty() {
            true if is_core_event => {
                let needs_namespace = object::namespace(object).is_empty();
                validate_whole(object, needs_namespace, &|name, _| names::path_segment(name))
            }
            true => validate_create(definition, object),
            false => errors,
        };
    }
    let place = if definition.is("events.k8s.io", "events") {
        let is_later = |error: &Error| !EVENT_FIELDS.contains(&error.field.as_str());
        errors.iter().position(is_later).unwrap_or(errors.len())
    } else {
        0
    };
    let mut errors = errors.into_iter();
    let mut all: ErrorList = errors.by_ref().take(place).collect();
    all.extend(validate_create(definition, object));
    all.extend(errors);
    all
}

/// Checks the metadata of a new object.
pub(crate) fn validate_create(definition: &Definition, object: &Value) -> ErrorList {
    let needs_namespace = definition.namespaced && object::namespace(object).is_empty();
    let mut errors = validate_whole(object, needs_namespace, &|name, is_prefix| {
        if crd::is_definition_table(definition) {
            return structural_schema::crd::name_problems(object, name, is_prefix);
        }
        definition.validate_name(name, is_prefix)
    });
    if definition.metadata_checks("").standard_finalizers {
        errors.extend(validate_standard_finalizers(object));
    }
    errors
}

/// Checks the metadata of a changed object by the rules of all kinds.
pub(crate) fn validate_update(
    definition: &Definition,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> ErrorList {
    let mut errors = validate_whole(object, false, &|name, _| names::path_segment(name));
    if definition.metadata_checks(subresource).changes > 0 {
        errors.extend(validate_change(object, old));
    }
    errors
}

/// Checks the changed metadata a second time, as most kinds do.
pub(crate) fn validate_change_again(definition: &Definition, object: &Value, old: &Value) -> ErrorList {
    let mut errors = validate_change(object, old);
    if definition.metadata_checks("").standard_finalizers {
        errors.extend(validate_standard_finalizers(object));
    }
    errors
}

fn validate_whole(object: &Value, needs_namespace: bool, name_rule: NameRule<'_>) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = validate_names(object, &path, name_rule);
    if needs_namespace {
        errors.push(Error::required(path.child("namespace"), ""));
    }
    if object::generation(object) < 0 {
        errors.push(Error::invalid(
            path.child("generation"),
            object::generation(object).into(),
            "must be greater than or equal to 0",
        ));
    }
    errors.extend(validate_lists(object, &path));
    errors.extend(validate_finalizers(object, &path.child("finalizers")));
    errors
}

fn validate_names(object: &Value, path: &Path, name_rule: NameRule<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let name = object::name(object);
    let generate_name = object::text(object, &["metadata", "generateName"]);
    if !generate_name.is_empty() {
        for fault in name_rule(generate_name, true) {
            let path = path.child("generateName");
            errors.push(Error::invalid(path, generate_name.into(), fault));
        }
    }
    if name.is_empty() {
        errors.push(Error::required(
            path.child("name"),
            "name or generateName is required",
        ));
    } else {
        for fault in name_rule(name, false) {
            errors.push(Error::invalid(path.child("name"), name.into(), fault));
        }
    }
    errors
}

fn validate_change(object: &Value, old: &Value) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors: ErrorList = validate_new_finalizers(object, old).into_iter().collect();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (new, live) = (object::meta(object, field), object::meta(old, field));
        if new != live {
            let value = new.cloned().unwrap_or(Value::Null);
            errors.push(Error::invalid(path.child(field), value, "field is immutable"));
        }
    }
    errors.extend(validate_lists(object, &path));
    errors
}

fn validate_new_finalizers(object: &Value, old: &Value) -> Option<Error> {
    if !object::is_terminating(old) {
        return None;
    }
    let known: HashSet<&str> = object::finalizers(old).into_iter().collect();
    let added: Vec<&str> = object::finalizers(object)
        .into_iter()
        .filter(|finalizer| !known.contains(finalizer))
        .collect();
    if added.is_empty() {
        return None;
    }
    let list: Vec<String> = added.iter().map(|name| apimachinery::go::quote(name)).collect();
    Some(Error::forbidden(
        Path::new("metadata").child("finalizers"),
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        ),
    ))
}

/// Checks the list fields of a whole object and of a change.
fn validate_lists(object: &Value, path: &Path) -> ErrorList {
    let mut errors = labels::validate_labels(object, &path.child("labels"));
    errors.extend(labels::validate_annotations(object, &path.child("annotations")));
    errors.extend(validate_owners(object, &path.child("ownerReferences")));
    errors.extend(managed_fields::validate(object));
    errors
}

fn validate_owners(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut controller: Option<String> = None;
    let owners = object::meta(object, "ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        errors.extend(validate_owner(owner, path));
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let text = |field: &str| object::text(owner, &[field]);
        let this = format!("{}/{}", text("kind"), text("name"));
        let Some(first) = &controller else {
            controller = Some(this);
            continue;
        };
        // Each of these errors contains all references.
        if errors.is_full() {
            break;
        }
        let shown: Vec<String> = owners.into_iter().flatten().map(owner_text).collect();
        errors.push(invalid_text(
            path.clone(),
            format!("[{}]", shown.join(",")),
            format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            ),
        ));
    }
    errors
}

fn validate_owner(owner: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let text = |field: &str| object::text(owner, &[field]);
    let api_version = text("apiVersion");
    if has_no_version(api_version) {
        errors.push(Error::invalid(
            path.child("apiVersion"),
            api_version.into(),
            "version must not be empty",
        ));
    }
    for field in ["kind", "name", "uid"] {
        if text(field).is_empty() {
            errors.push(Error::invalid(path.child(field), "".into(), "must not be empty"));
        }
    }
    if (api_version, text("kind")) == ("v1", "Event") {
        let why = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(invalid_text(path.clone(), owner_text(owner), why.to_owned()));
    }
    errors
}

/// Returns true if an apiVersion does not have the form `version` or `group/version`.
fn has_no_version(api_version: &str) -> bool {
    let version = api_version
        .split_once('/')
        .map_or(api_version, |(_, version)| version);
    version.is_empty() || version.contains('/')
}

/// Formats an owner reference as its Go struct: the fields in the order of their declaration.
fn owner_text(owner: &Value) -> String {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let shown: Vec<String> = fields
        .into_iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", owner.get(field)?)))
        .collect();
    format!("{{{}}}", shown.join(","))
}

fn invalid_text(field: Path, value: String, detail: String) -> Error {
    Error {
        kind: ErrorType::Invalid,
        field,
        value: Some(value),
        detail,
    }
}

/// Checks that finalizers without a prefix are standard ones, as most built-in kinds require.
fn validate_standard_finalizers(object: &Value) -> ErrorList {
    let path = Path::new("metadata").child("finalizers");
    object::finalizers(object)
        .into_iter()
        .enumerate()
        .filter(|(_, finalizer)| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer))
        .map(|(index, finalizer)| {
            Error::invalid(
                path.index(index),
                finalizer.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            )
        })
        .collect()
}

fn validate_finalizers(object: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let finalizers = object::finalizers(object);
    for finalizer in &finalizers {
        for fault in names::qualified_name(finalizer) {
            errors.push(Error::invalid(path.clone(), (*finalizer).into(), fault));
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

/// Removes duplicate owner references; returns their uids.
pub(crate) fn dedupe_owners(object: &mut Value) -> Vec<String> {
    let Some(owners) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("ownerReferences"))
        .and_then(Value::as_array_mut)
    else {
        return Vec::new();
    };
    let mut seen = HashSet::with_capacity(owners.len());
    let mut is_first: VecDeque<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    let mut dropped = Vec::new();
    owners.retain(|owner| {
        let keeps = is_first.pop_front().unwrap_or(true);
        let uid = object::text(owner, &["uid"]);
        if !keeps && !dropped.iter().any(|known| known == uid) {
            dropped.push(uid.to_owned());
        }
        keeps
    });
    dropped
}
