//! Tests of decoding: dropped, kept and rejected fields; no input causes a panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use apimachinery::gvk::Gvk;

use crate::{
    cells, columns, decode, default, generation_changed, prepare_for_create, prepare_for_update, resources,
    tree, validate_create, validate_update, warnings,
};

fn gvk(kind: &str) -> &'static Gvk {
    let found = resources().iter().find(|resource| resource.gvk.kind == kind);
    &found.unwrap().gvk
}

fn decoded(kind: &str, mut object: Value) -> Value {
    decode(gvk(kind), &mut object).unwrap();
    object
}

#[track_caller]
fn refused(kind: &str, mut object: Value, expected: &str) {
    let error = decode(gvk(kind), &mut object).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn values_of_a_wrong_type_are_refused_in_the_words_of_go() {
    refused(
        "ConfigMap",
        json!({ "data": { "k": 1 } }),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    refused(
        "ConfigMap",
        json!({ "data": ["x"] }),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
    );
    refused(
        "ConfigMap",
        json!({ "metadata": { "labels": { "a": 1 } } }),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    );
    for (replicas, found) in [
        (json!("two"), "string"),
        (json!(1.5), "number 1.5"),
        (json!(2.0), "number 2.0"),
    ] {
        refused(
            "Deployment",
            json!({ "spec": { "replicas": replicas } }),
            &format!(
                "json: cannot unmarshal {found} into Go struct field DeploymentSpec.spec.replicas of type int32"
            ),
        );
    }
    refused(
        "Pod",
        json!({ "spec": { "containers": { "name": "x" } } }),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    );
    refused(
        "Pod",
        json!({ "spec": { "containers": [{ "ports": [{ "containerPort": "80" }] }] } }),
        "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
    );
    refused(
        "Pod",
        json!({ "spec": { "containers": [{ "env": [{ "name": "A", "value": 1 }] }] } }),
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    );
    refused(
        "Pod",
        json!({ "spec": { "dnsPolicy": true } }),
        "json: cannot unmarshal bool into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy",
    );
    refused(
        "Secret",
        json!({ "data": { "p": "***" } }),
        "illegal base64 data at input byte 0",
    );
    refused(
        "Pod",
        json!({ "spec": { "containers": [{ "resources": { "requests": { "cpu": "lots" } } }] } }),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
}

#[test]
fn unknown_fields_are_dropped_and_reported_with_their_case() {
    let mut object = json!({
        "Kind": "Deployment",
        "spec": {
            "Replicas": 2,
            "template": { "spec": { "containers": [{ "name": "c", "imge": "x" }] } },
        },
    });
    let unknown = decode(gvk("Deployment"), &mut object).unwrap();
    assert_eq!(
        unknown,
        ["Kind", "spec.Replicas", "spec.template.spec.containers[0].imge"]
    );
    assert_eq!(tree::at(&object, &["spec", "Replicas"]), &Value::Null);
}

#[test]
fn empty_optional_fields_are_left_out_and_pointers_are_kept() {
    let spec = decoded(
        "PersistentVolumeClaim",
        json!({ "spec": { "storageClassName": "", "volumeName": "", "accessModes": [] } }),
    );
    assert_eq!(spec["spec"], json!({ "resources": {}, "storageClassName": "" }));
    let deployment = decoded(
        "Deployment",
        json!({ "spec": { "replicas": 0, "paused": false, "minReadySeconds": 0 } }),
    );
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["spec"].get("paused"), None);
    assert_eq!(deployment["spec"].get("minReadySeconds"), None);
    assert_eq!(
        deployment["spec"]["template"],
        json!({ "metadata": {}, "spec": { "containers": null } })
    );
}

#[test]
fn nulls_are_zero_values() {
    let pod = decoded(
        "Pod",
        json!({ "metadata": null, "spec": { "containers": [null], "nodeSelector": { "a": null } } }),
    );
    assert_eq!(pod["metadata"], json!({}));
    assert_eq!(
        pod["spec"]["containers"],
        json!([{ "name": "", "resources": {} }])
    );
    assert_eq!(pod["spec"]["nodeSelector"], json!({ "a": "" }));
}

#[test]
fn quantities_and_times_take_their_canonical_form() {
    let pod = decoded(
        "Pod",
        json!({
            "metadata": { "creationTimestamp": "2024-01-01T02:00:00+02:00" },
            "spec": { "containers": [{ "resources": { "limits": { "cpu": 0.1, "memory": "1024Mi" } } }] },
        }),
    );
    assert_eq!(pod["metadata"]["creationTimestamp"], "2024-01-01T00:00:00Z");
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits, &json!({ "cpu": "100m", "memory": "1Gi" }));
}

#[test]
fn the_zero_time_is_written_as_null() {
    let zero = "0001-01-01T01:00:00.5+01:00";
    let pod = decoded(
        "Pod",
        json!({
            "metadata": { "creationTimestamp": zero },
            "status": { "startTime": zero, "conditions": [{ "lastTransitionTime": zero }] },
        }),
    );
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(pod["metadata"].get("creationTimestamp"), None);
    assert_eq!(pod["status"].get("startTime"), Some(&Value::Null));
    assert_eq!(condition.get("lastTransitionTime"), Some(&Value::Null));
}

/// Generates JSON similar to objects of the kind: known field names, and values of any type.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["[a-zA-Z0-9.:/-]{0,12}", "\\PC{0,8}"].prop_map(Value::from),
        prop::sample::select(vec![
            "1Gi",
            "100m",
            "2024-01-01T00:00:00Z",
            "TCP",
            "Container",
            "Always"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let names = prop::sample::select(FIELD_NAMES.to_vec());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..6).prop_map(|fields| {
                let named = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::from(named.collect::<Map<String, Value>>())
            }),
        ]
    })
}

const FIELD_NAMES: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "labels",
    "template",
    "containers",
    "initContainers",
    "ports",
    "containerPort",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "volumes",
    "emptyDir",
    "configMap",
    "type",
    "data",
    "stringData",
    "selector",
    "matchLabels",
    "strategy",
    "rollingUpdate",
    "replicas",
    "limits",
    "max",
    "default",
    "podCIDR",
    "podCIDRs",
    "podIP",
    "podIPs",
    "webhooks",
    "rules",
    "subjects",
    "behavior",
    "scaleUp",
    "metrics",
    "unknown",
    "sessionAffinity",
    "sessionAffinityConfig",
    "egress",
    "hostNetwork",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn defaults_are_total_and_settle_at_once(object in any_json()) {
        for resource in resources().iter().filter(|resource| !resource.name.contains('/')) {
            let mut once = object.clone();
            default(&resource.gvk, &mut once);
            let mut twice = once.clone();
            default(&resource.gvk, &mut twice);
            prop_assert_eq!(&once, &twice, "{}", resource.gvk.kind);
        }
    }

    #[test]
    fn decoding_is_total_and_settles_at_once(object in any_json()) {
        for resource in resources().iter().filter(|resource| !resource.name.contains('/')) {
            let mut once = object.clone();
            if decode(&resource.gvk, &mut once).is_err() {
                continue;
            }
            let mut twice = once.clone();
            let unknown = decode(&resource.gvk, &mut twice).unwrap();
            prop_assert!(unknown.is_empty(), "{unknown:?}");
            prop_assert_eq!(&once, &twice, "{}", resource.gvk.kind);
        }
    }

    #[test]
    fn decoded_objects_never_cause_a_panic_in_later_steps(object in any_json(), other in any_json()) {
        for resource in resources().iter().filter(|resource| !resource.name.contains('/')) {
            let gvk = &resource.gvk;
            let (mut new, mut old) = (object.clone(), other.clone());
            if decode(gvk, &mut new).is_err() || decode(gvk, &mut old).is_err() {
                continue;
            }
            default(gvk, &mut new);
            default(gvk, &mut old);
            let mut created = new.clone();
            prepare_for_create(gvk, &mut created);
            validate_create(gvk, &created);
            for subresource in ["", "status", "scale", "resize", "ephemeralcontainers", "finalize"] {
                let mut updated = new.clone();
                prepare_for_update(gvk, subresource, &mut updated, &old);
                validate_update(gvk, subresource, &updated, &old);
            }
            warnings(gvk, &new, Some(&old));
            prop_assert!(!generation_changed(gvk, &new, &new));
            prop_assert!(cells(gvk, &new, 0).len() >= columns(gvk).len());
        }
    }
}
