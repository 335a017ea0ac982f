//! Tests of the category `validation`: the errors of an object and their texts.

use std::collections::HashMap;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Value, json};

use super::recorded::{Step, scenarios};
use crate::tree::{at, list, object_in, set_if_nil, text};
use crate::{
    decode, default, prepare_for_create, prepare_for_update, validate_create, validate_name, validate_update,
    warnings,
};

/// Causes that other modules report: the allocators of the registry, and CEL.
const ELSEWHERE: &[&str] = &[
    "failed to allocate IP",
    "not configured on this cluster",
    "provided port is not in the valid range",
    "compilation failed",
];

/// Returns true if the recording itself excludes the messages from the comparison.
fn hides_messages(step: &Step) -> bool {
    step.ignore.iter().any(|path| path.contains("message"))
}

/// Runs scenarios with objects in memory: creates, updates and merge patches of single objects.
#[test]
fn faults_are_found_and_worded_as_recorded() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for scenario in scenarios("validation") {
        let mut stored: HashMap<String, Value> = HashMap::new();
        for step in &scenario {
            let Some(found) = run(step, &mut stored) else {
                continue;
            };
            checked += 1;
            let expected = causes(&step.answer, hides_messages(step));
            let found: Vec<(String, String)> = found
                .iter()
                .map(|error| cause(error, hides_messages(step)))
                .collect();
            if expected != found {
                wrong.push(format!("{}\n  want {expected:?}\n  have {found:?}", step.name));
            }
        }
    }
    assert!(checked > 250, "only {checked} steps were checked");
    assert!(
        wrong.is_empty(),
        "{}\n{} of {checked} are wrong",
        wrong.join("\n"),
        wrong.len()
    );
}

/// Checks the warnings about accepted objects.
#[test]
fn warnings_are_given_as_recorded() {
    let mut wrong = Vec::new();
    let mut found_any = 0;
    for step in ["defaulting", "validation"]
        .iter()
        .flat_map(|c| scenarios(c))
        .flatten()
    {
        let created = step.method == "POST" && step.status == 201;
        let Some((gvk, _)) = step.target().filter(|_| created) else {
            continue;
        };
        let mut object = step.body.clone();
        decode(gvk, &mut object).unwrap();
        default(gvk, &mut object);
        let object_text = object.to_string().replace("NS", "ns");
        let object: Value = serde_json::from_str(&object_text).unwrap();
        let found = warnings(gvk, &object, None);
        found_any += found.len();
        if found != step.warnings {
            wrong.push(format!(
                "{}\n  want {:?}\n  have {found:?}",
                step.name, step.warnings
            ));
        }
    }
    assert!(found_any > 6, "only {found_any} warnings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn causes(answer: &Value, hidden: bool) -> Vec<(String, String)> {
    list(answer, &["details", "causes"])
        .iter()
        .map(|cause| {
            let message = text(cause, &["message"]);
            let message = message.replace("U2", "some-uid");
            let message = if hidden { String::new() } else { message };
            (text(cause, &["field"]).to_owned(), message)
        })
        .collect()
}

fn cause(error: &Error, hidden: bool) -> (String, String) {
    let message = if hidden { String::new() } else { error.message() };
    (error.field.to_string(), message)
}

/// Returns the errors of a request's object; `None` if the step is not about validation.
fn run(step: &Step, stored: &mut HashMap<String, Value>) -> Option<ErrorList> {
    if ![200, 201, 422].contains(&step.status) {
        return None;
    }
    let elsewhere = |cause: &Value| {
        let message = text(cause, &["message"]);
        ELSEWHERE.iter().any(|text| message.contains(text))
    };
    if list(&step.answer, &["details", "causes"]).iter().any(elsewhere) {
        return None;
    }
    let (gvk, _) = step.target()?;
    let mut object = match step.method.as_str() {
        "POST" | "PUT" => step.body.clone(),
        "PATCH" => patched(stored.get(&step.path)?, &step.body)?,
        _ => return None,
    };
    decode(gvk, &mut object).unwrap_or_else(|error| panic!("{}: {error}", step.name));
    default(gvk, &mut object);
    let errors = if step.method == "POST" {
        let metadata = object_in(object.as_object_mut()?, "metadata")?;
        set_if_nil(metadata, "uid", "some-uid");
        set_if_nil(metadata, "creationTimestamp", "2024-01-01T00:00:00Z");
        set_if_nil(metadata, "namespace", "NS");
        if gvk.kind == "Pod" {
            // Admission adds this field.
            set_if_nil(
                object_in(object.as_object_mut()?, "spec")?,
                "serviceAccountName",
                "default",
            );
        }
        prepare_for_create(gvk, &mut object);
        // The recorder writes NS for a namespace's name, which is not a valid name.
        let name = text(&object, &["metadata", "name"]).replace("NS", "ns");
        let name = name.as_str();
        let mut errors: ErrorList = validate_name(gvk, name, false)
            .into_iter()
            .map(|fault| Error::invalid(Path::new("metadata").child("name"), name.into(), fault))
            .collect();
        errors.extend(validate_create(gvk, &object));
        errors
    } else {
        let old = stored.get(&step.path)?;
        prepare_for_update(gvk, "", &mut object, old);
        validate_update(gvk, "", &object, old)
    };
    if step.status != 422 {
        let path = match step.method.as_str() {
            "POST" => format!("{}/{}", step.path, text(&object, &["metadata", "name"])),
            _ => step.path.clone(),
        };
        if gvk.kind == "Service" {
            allocate(&mut object);
        }
        default(gvk, &mut object);
        stored.insert(path, object);
    }
    Some(errors)
}

/// Allocates the addresses of a service, as the registry does.
fn allocate(service: &mut Value) {
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        set_if_nil(spec, "clusterIP", "10.0.0.1");
        set_if_nil(spec, "clusterIPs", json!(["10.0.0.1"]));
        set_if_nil(spec, "ipFamilies", json!(["IPv4"]));
        set_if_nil(spec, "ipFamilyPolicy", "SingleStack");
    }
}

/// Applies a merge patch. If a list of containers has one item, the item is patched and not replaced, which is
/// sufficient for the recorded strategic merge patches.
fn patched(old: &Value, patch: &Value) -> Option<Value> {
    let mut object = old.clone();
    if let Some(operations) = patch.as_array() {
        for operation in operations {
            let path = text(operation, &["path"]);
            let (parent, name) = path.rsplit_once('/')?;
            object.pointer_mut(parent)?.as_object_mut()?.remove(name);
        }
        return Some(object);
    }
    merge(&mut object, patch);
    Some(object)
}

fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    target.remove(name);
                } else {
                    merge(target.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(items), Value::Array(patches)) if is_named(patches) => {
            for patch in patches {
                let same = |item: &&mut Value| at(item, &["name"]) == at(patch, &["name"]);
                match items.iter_mut().find(same) {
                    Some(item) => merge(item, patch),
                    None => items.insert(0, patch.clone()),
                }
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn is_named(items: &[Value]) -> bool {
    items.iter().all(|item| at(item, &["name"]).is_string())
}
