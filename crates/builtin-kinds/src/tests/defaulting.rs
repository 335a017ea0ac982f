//! Tests of the category `defaulting`: the created object, except for fields that the registry and admission set.

use serde_json::{Value, json};

use super::recorded::{Step, matches, scenarios};
use crate::tree::{at, object_in, set_if_nil};
use crate::{decode, default, prepare_for_create};

/// The fields that the registry and the admission plug-ins add, by kind.
const ADDED: &[(&str, &[&str])] = &[
    (
        "*",
        &[
            "metadata.uid",
            "metadata.resourceVersion",
            "metadata.creationTimestamp",
            "metadata.managedFields",
            "metadata.namespace",
        ],
    ),
    (
        "Pod",
        &[
            "spec.tolerations",
            "spec.priority",
            "spec.preemptionPolicy",
            "spec.serviceAccount",
            "spec.serviceAccountName",
            "spec.imagePullSecrets",
            "spec.volumes",
            "spec.containers.*.volumeMounts",
            "spec.initContainers.*.volumeMounts",
        ],
    ),
    (
        "Service",
        &[
            "spec.clusterIP",
            "spec.clusterIPs",
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            "spec.healthCheckNodePort",
            "spec.ports.*.nodePort",
        ],
    ),
    ("PersistentVolume", &["metadata.finalizers"]),
    ("Node", &["spec.taints"]),
    (
        "CertificateSigningRequest",
        &["spec.username", "spec.groups", "spec.extra", "spec.uid"],
    ),
    ("Namespace", &["metadata.labels"]),
];

#[test]
fn created_objects_look_as_recorded() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for step in scenarios("defaulting").iter().flatten() {
        let is_create = step.method == "POST" && step.status == 201;
        if !is_create || !step.answer.is_object() || step.path.contains("review") {
            continue;
        }
        let mut expected = step.answer.clone();
        let mut object = created(step);
        let kind = expected["kind"].as_str().unwrap().to_owned();
        let ignored = step.ignore.iter().filter_map(|path| path.strip_prefix("body."));
        for path in ignored.chain(["metadata.name", "metadata.generateName"]) {
            let steps: Vec<&str> = path.split('.').collect();
            remove(&mut expected, &steps);
            remove(&mut object, &steps);
        }
        // Volumes are compared unless the token volume of the scenario is hidden.
        let hides_volumes = step.name.starts_with("pod-service-account");
        for (of_kind, paths) in ADDED {
            for path in paths.iter().filter(|_| ["*", &kind].contains(of_kind)) {
                if path.to_lowercase().contains("volume") && !hides_volumes {
                    continue;
                }
                let steps: Vec<&str> = path.split('.').collect();
                remove(&mut expected, &steps);
                remove(&mut object, &steps);
            }
        }
        checked += 1;
        if !matches(&expected, &object) {
            wrong.push(format!("{}\n  want {expected}\n  have {object}", step.name));
        }
    }
    assert!(checked > 130, "only {checked} scenarios were read");
    assert!(
        wrong.is_empty(),
        "{}\n{} are wrong",
        wrong.join("\n"),
        wrong.len()
    );
}

/// Returns the object that a request creates, without the fields that other crates set.
fn created(step: &Step) -> Value {
    let (gvk, _) = step
        .target()
        .unwrap_or_else(|| panic!("{}: no target", step.name));
    let mut object = step.body.clone();
    decode(gvk, &mut object).unwrap_or_else(|error| panic!("{}: {error}", step.name));
    default(gvk, &mut object);
    let metadata = object_in(object.as_object_mut().unwrap(), "metadata").unwrap();
    set_if_nil(metadata, "uid", "some-uid");
    set_if_nil(metadata, "creationTimestamp", "2024-01-01T00:00:00Z");
    prepare_for_create(gvk, &mut object);
    // The response was read from the store.
    decode(gvk, &mut object).unwrap();
    default(gvk, &mut object);
    let again = object.clone();
    decode(gvk, &mut object).unwrap();
    default(gvk, &mut object);
    assert_eq!(again, object, "{}: a second reading changes nothing", step.name);
    assert_ne!(at(&object, &["metadata"]), &json!(null));
    object
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Array(items) if *first == "*" => {
            items.iter_mut().for_each(|item| remove(item, rest));
        }
        Value::Object(fields) if rest.is_empty() => {
            fields.remove(*first);
        }
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(*first) {
                remove(field, rest);
            }
        }
        _ => {}
    }
}
