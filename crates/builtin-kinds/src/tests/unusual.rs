//! Tests of the errors and warnings of objects with unusual fields, most of them pods, as in kube-apiserver 1.36.

use std::collections::BTreeSet;

use apimachinery::gvk::Gvk;
use serde_json::{Value, json};

use crate::tree::{list, text};
use crate::{
    decode, default, prepare_for_create, prepare_for_update, validate_create, validate_update, warnings,
};

const RECORDED: &str = include_str!("unusual.json");
/// The kinds of the recorded objects.
const KINDS: [(&str, &str, &str); 15] = [
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "ResourceQuota"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
    ),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    ("node.k8s.io", "v1", "RuntimeClass"),
    ("resource.k8s.io", "v1", "ResourceSlice"),
    ("storage.k8s.io", "v1", "CSIDriver"),
    ("storage.k8s.io", "v1", "StorageClass"),
    ("storage.k8s.io", "v1", "VolumeAttachment"),
];
/// The length at which the recorded server truncated warnings.
const CUT: usize = 256;

fn texts(value: &Value, field: &str) -> Vec<String> {
    let texts = list(value, &[field]).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[test]
fn unusual_objects_get_the_recorded_errors_and_warnings() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    for case in &recorded {
        let mut object = case["object"].clone();
        let kind = text(&object, &["kind"]);
        let Some((group, version, kind)) = KINDS.into_iter().find(|(.., known)| *known == kind) else {
            panic!("add {kind} to KINDS");
        };
        let gvk = Gvk { group, version, kind };
        let name = text(&object, &["metadata", "name"]).to_owned();
        decode(&gvk, &mut object).unwrap();
        default(&gvk, &mut object);
        if kind == "Pod" && object["spec"]["serviceAccountName"].is_null() {
            // Admission adds this field.
            object["spec"]["serviceAccountName"] = "default".into();
        }
        let mut found = prepare_for_create(&gvk, &mut object);
        let errors = validate_create(&gvk, &object);
        if errors.is_empty() {
            found.extend(warnings(&gvk, &object, None));
        }
        for warning in &mut found {
            let end = warning
                .char_indices()
                .nth(CUT)
                .map_or(warning.len(), |(at, _)| at);
            warning.truncate(end);
        }
        // Labels of node selectors are in the random order of Go's maps.
        found.sort();
        let mut wanted = texts(case, "warnings");
        wanted.sort();
        let shown: Vec<&str> = found.iter().map(String::as_str).collect();
        for (found, wanted) in shown.iter().zip(&wanted) {
            assert!(found.starts_with(wanted.trim_end()), "{name}: {found}\n{wanted}");
        }
        assert_eq!(shown.len(), wanted.len(), "{name}");
        let found: BTreeSet<String> = errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message()))
            .collect();
        let wanted: BTreeSet<String> = texts(case, "causes").into_iter().collect();
        assert_eq!(found, wanted, "{name}");
    }
}

fn changed(object: &Value, path: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, field) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn update_errors(gvk: &Gvk, subresource: &str, object: &Value, old: &Value) -> Vec<String> {
    let errors = validate_update(gvk, subresource, object, old);
    errors
        .iter()
        .map(|error| format!("{}: {}", error.field, error.message()))
        .collect()
}

#[test]
fn a_resize_cannot_add_remove_or_rename_containers() {
    let gvk = Gvk {
        group: "",
        version: "v1",
        kind: "Pod",
    };
    let container = |name: &str| json!({"name": name, "image": "i"});
    let mut pod = json!({"spec": {"containers": [container("c")], "initContainers": [container("i")]}});
    default(&gvk, &mut pod);
    let resized = |path: &str, value: Value| {
        let mut resized = changed(&pod, path, value);
        prepare_for_update(&gvk, "resize", &mut resized, &pod);
        update_errors(&gvk, "resize", &resized, &pod)
    };
    let same = resized("/spec/containers", json!([container("c")]));
    assert!(same.is_empty(), "{same:?}");
    assert_eq!(
        resized("/spec/containers", json!([])),
        [
            "spec.containers: Required value",
            "spec.containers: Forbidden: containers may not be added or removed on resize"
        ]
    );
    assert_eq!(
        resized("/spec/initContainers", json!([])),
        ["spec.initContainers: Forbidden: initContainers may not be added or removed on resize"]
    );
    let mut other = json!({"spec": {"containers": [container("d")]}});
    default(&gvk, &mut other);
    assert_eq!(
        resized("/spec/containers", other["spec"]["containers"].clone()),
        ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]
    );
}

#[test]
fn changed_storage_objects_get_the_recorded_errors_and_warnings() {
    let storage = |kind: &'static str| Gvk {
        group: "storage.k8s.io",
        version: "v1",
        kind,
    };
    let driver = json!({"spec": {"tokenRequests": [{"audience": "a"}], "podInfoOnMount": false}});
    let warned = |path: &str, value: Value| {
        let object = changed(&driver, path, value);
        !warnings(&storage("CSIDriver"), &object, Some(&driver)).is_empty()
    };
    assert!(warned("/spec/tokenRequests", json!([{"audience": "b"}])));
    assert!(!warned("/spec/podInfoOnMount", true.into()));

    let gvk = storage("VolumeAttachment");
    let source = json!({"persistentVolumeName": "p"});
    let attachment =
        json!({"spec": {"attacher": "a", "nodeName": "n", "source": source}, "status": {"attached": true}});
    let failed = changed(&attachment, "/status/attachError", json!({"errorCode": -1}));
    assert_eq!(
        update_errors(&gvk, "status", &failed, &attachment),
        ["status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]
    );
    let renamed = changed(&attachment, "/spec/source/persistentVolumeName", "A b".into());
    let errors = update_errors(&gvk, "", &renamed, &attachment);
    assert!(
        errors[0]
            .starts_with("spec.source.persistentVolumeName: Invalid value: \"A b\": a lowercase RFC 1123"),
        "{errors:?}"
    );
    assert!(errors[1].ends_with("field is immutable"), "{errors:?}");
}
