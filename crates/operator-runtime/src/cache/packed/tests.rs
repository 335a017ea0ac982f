//! Tests that packing and decoding are inverse.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret, Service};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

fn pack(value: &Value, dictionary: &Dictionary) -> Packed {
    let text = |field: &str| value["metadata"][field].as_str();
    let identity = Identity {
        namespace: text("namespace"),
        name: text("name").unwrap_or_default(),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    };
    Packed::new(&identity, value, dictionary).unwrap()
}

/// Checks a value with new strings, and again when the strings are words.
#[track_caller]
fn check(value: &Value) {
    let dictionary = Dictionary::default();
    for name in ["a", "b", "c"] {
        let identity = Identity {
            name,
            ..Identity::default()
        };
        let packed = Packed::new(&identity, value, &dictionary).unwrap();
        assert_eq!(&packed.decode::<Value>(&dictionary).unwrap(), value);
    }
    let mut loose = Writer::loose();
    loose.value(value).unwrap();
    let bytes = loose.into_bytes();
    let loose = Value::deserialize(&mut Reader::new(&bytes, &[])).unwrap();
    assert_eq!(&loose, value);
}

#[track_caller]
fn check_type<K: Serialize + DeserializeOwned + PartialEq + fmt::Debug>(value: &Value) {
    let expected: K = serde_json::from_value(value.clone()).unwrap();
    let dictionary = Dictionary::default();
    let packed = pack(value, &dictionary);
    assert_eq!(packed.decode::<K>(&dictionary).unwrap(), expected);
    let again = pack(&serde_json::to_value(&expected).unwrap(), &dictionary);
    assert_eq!(again.decode::<K>(&dictionary).unwrap(), expected);
}

fn deployment(name: &str, revision: u64) -> Value {
    let labels = json!({"app": "memcached", "instance": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("0b6f7a2e-58a7-4c1f-9d0e-{revision:012x}"),
            "resourceVersion": revision.to_string(), "generation": 1, "creationTimestamp": "2026-01-01T10:20:30Z",
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "example.com/v1", "kind": "Memcached", "name": name, "controller": true,
                "uid": format!("1b6f7a2e-58a7-4c1f-9d0e-{revision:012x}"), "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 3, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [{
                    "name": "memcached", "image": "memcached:1.6.26-alpine3.19", "imagePullPolicy": "IfNotPresent",
                    "command": ["memcached", "--memory-limit=64", "-o", "modern", "-v"],
                    "ports": [{"name": "memcached", "containerPort": 11211, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}},
                    "securityContext": {"runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "terminationGracePeriodSeconds": 30,
            }},
        },
        "status": {"observedGeneration": 1, "conditions": [{
            "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
            "lastTransitionTime": "2026-01-01T10:20:31Z", "message": "Deployment has minimum availability.",
        }]},
    })
}

#[test]
fn values_of_every_form_are_restored() {
    for value in [
        json!(null),
        json!([true, false, {}, [], ""]),
        json!([0, 31, 32, 127, 128, u64::MAX, -1, -128, i64::MIN]),
        json!([0.0, -0.0, 1.0, 0.1, f64::MIN_POSITIVE, f64::MAX]),
        json!((0..20).collect::<Vec<_>>()),
        json!((0..40).map(|n| (n.to_string(), n)).collect::<BTreeMap<_, _>>()),
        json!([
            "x".repeat(31),
            "x".repeat(32),
            "x".repeat(300),
            "ü",
            "x".repeat(31)
        ]),
    ] {
        check(&value);
    }
}

#[test]
fn texts_with_a_binary_form_are_restored() {
    for text in [
        "0",
        "7",
        "007",
        "+7",
        "-7",
        "18446744073709551615",
        "18446744073709551616",
        "1e3",
        "0b6f7a2e-58a7-4c1f-9d0e-0123456789ab",
        "0B6F7A2E-58A7-4C1F-9D0E-0123456789AB",
        "0b6f7a2e-58a7-4c1f-9d0e-0123456789a",
        "0b6f7a2e558a774c1ff9d0ee0123456789ab",
        "2026-01-01T10:20:30Z",
        "2026-01-01t10:20:30Z",
        "2026-13-01T10:20:30Z",
        "1969-12-31T23:59:59Z",
        "2026-06-30T23:59:60Z",
        "2026-01-01 10:20:30Z",
        "2026-01-01T10:20:30.000000Z",
        "2026-01-01T10:20:30.123456Z",
        "2026-01-01T10:20:30.123Z",
        "9999-12-31T23:59:59Z",
    ] {
        check(&json!([text, text, {text: text}]));
    }
}

#[test]
fn types_are_restored() {
    check_type::<Deployment>(&deployment("web", 7));
    check_type::<ConfigMap>(&json!({"metadata": {"name": "a"}, "data": {"k": "v", "1": "2"}}));
    check_type::<Secret>(&json!({"metadata": {"name": "a"}, "data": {"k": "AAEC/w=="}, "type": "Opaque"}));
    let ports = json!([{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]);
    check_type::<Service>(&json!({"metadata": {"name": "a"}, "spec": {"ports": ports}}));
    check_type::<Event>(&json!({
        "metadata": {"name": "a"}, "involvedObject": {}, "eventTime": "2026-01-01T10:20:30.123456Z",
        "firstTimestamp": "2026-01-01T10:20:30Z",
    }));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Forms {
    unit: Shape,
    newtype: Shape,
    tuple: Shape,
    fields: Shape,
    untagged: Vec<Either>,
    by_number: BTreeMap<i32, bool>,
    by_shape: BTreeMap<Letter, u8>,
    pair: (u8, Option<String>),
    small: f32,
    nothing: Option<u8>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(f64),
    Box(u32, u32),
    Named { side: i8 },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Letter {
    A,
    B,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(i64),
    Text(String),
}

#[test]
fn every_form_of_types_is_restored() {
    let forms = Forms {
        unit: Shape::Point,
        newtype: Shape::Circle(0.1),
        tuple: Shape::Box(1, u32::MAX),
        fields: Shape::Named { side: -3 },
        untagged: vec![Either::Number(-1), Either::Text("1".to_owned())],
        by_number: [(-7, true), (8, false)].into(),
        by_shape: [(Letter::A, 1), (Letter::B, 2)].into(),
        pair: (1, None),
        small: 0.1,
        nothing: None,
        rest: [("more".to_owned(), json!({"a": [1]}))].into(),
    };
    check_type::<Forms>(&serde_json::to_value(&forms).unwrap());
}

#[test]
fn types_that_do_not_fit_are_errors_that_name_the_value() {
    let dictionary = Dictionary::default();
    let packed = pack(&json!({"data": "no map"}), &dictionary);
    let error = packed.decode::<ConfigMap>(&dictionary).unwrap_err();
    assert!(
        error.to_string().contains(r#"invalid type: string "no map""#),
        "{error}"
    );
    let packed = pack(&json!([1, 2, 3]), &dictionary);
    assert!(packed.decode::<(u8, u8)>(&dictionary).is_err());
    let packed = pack(&json!({"Circle": 1.0, "Point": null}), &dictionary);
    assert!(packed.decode::<Shape>(&dictionary).is_err());
}

#[test]
fn identity_and_members_are_read_without_the_rest() {
    let dictionary = Dictionary::default();
    let packed = pack(&deployment("web", 4711), &dictionary);
    assert_eq!(
        (packed.namespace(), packed.name(), packed.revision()),
        (Some("default"), "web", 4711)
    );
    assert!(packed.has_uid("0b6f7a2e-58a7-4c1f-9d0e-000000001267") && !packed.has_uid("other"));
    assert!(packed.has_uid_of(&packed.clone()));
    let labels: BTreeMap<String, String> = packed.find(&["metadata", "labels"], &dictionary).unwrap();
    assert_eq!(labels["instance"], "web");
    assert_eq!(packed.find::<i32>(&["spec", "replicas"], &dictionary), Some(3));
    assert_eq!(packed.find::<i32>(&["spec", "missing"], &dictionary), None);

    let nameless = pack(&json!({"metadata": {"resourceVersion": "opaque"}}), &dictionary);
    assert_eq!(
        (nameless.namespace(), nameless.name(), nameless.revision()),
        (None, "", 0)
    );
    assert_eq!(
        (nameless.uid(), nameless.resource_version().as_deref()),
        (None, Some("opaque"))
    );
}

#[test]
fn similar_objects_are_short() {
    let dictionary = Dictionary::default();
    for index in 0..3 {
        pack(&deployment(&format!("web-{index}"), 1000 + index), &dictionary);
    }
    let packed = pack(&deployment("web-1234", 1_234_567), &dictionary);
    let words = dictionary.len();
    assert!(packed.len() < 400, "{} bytes", packed.len());
    for index in 0..1000 {
        pack(&deployment(&format!("web-{index}"), 1000 + index), &dictionary);
    }
    assert!(
        dictionary.len() < words + 20,
        "a text of one object is not a word: {}",
        dictionary.len()
    );
}

#[test]
fn dictionary_is_bounded() {
    let dictionary = Dictionary::default();
    let value = |index: usize| json!({format!("word-{index}"): "x".repeat(60)});
    for index in 0..20_000 {
        for object in ["a", "b"] {
            let identity = Identity {
                name: object,
                ..Identity::default()
            };
            let packed = Packed::new(&identity, &value(index), &dictionary).unwrap();
            assert_eq!(packed.decode::<Value>(&dictionary).unwrap(), value(index));
        }
    }
    assert!((5_000..WORDS).contains(&dictionary.len()), "{}", dictionary.len());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-40..40i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "[a-c]{0,6}".prop_map(Value::from),
        "[0-9]{1,21}".prop_map(Value::from),
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".prop_map(Value::from),
        "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{6})?Z"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 200, 40, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..40).prop_map(Value::from),
            btree_map("[a-d]{1,3}|.{0,9}", inner, 0..40)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_restored(value in json_value()) {
        check(&value);
    }

    /// Reading arbitrary bytes returns a value or an error, and never panics.
    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..200)) {
        let words = ["a".into(), "b".into()];
        let _ = Value::deserialize(&mut Reader::new(&bytes, &words));
        Reader::new(&bytes, &words).skip();
    }
}

/// The form of a number in serde_json if a crate of the program enables `arbitrary_precision`.
struct NumberAsMap(&'static str);

impl<'de> Deserializer<'de> for NumberAsMap {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let members = [("$serde_json::private::Number", self.0)].into_iter();
        visitor.visit_map(serde::de::value::MapDeserializer::new(members))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[test]
fn map_is_a_number_only_with_arbitrary_precision() {
    let numbers_are_maps = serde_json::from_str::<Value>("1e400").is_ok();
    for (text, number) in [("7", json!(7)), ("-3", json!(-3)), ("0.5", json!(0.5))] {
        let mut writer = Writer::loose();
        writer.value(NumberAsMap(text)).unwrap();
        let bytes = writer.into_bytes();
        let read = BTreeMap::<String, String>::deserialize(&mut Reader::new(&bytes, &[]));
        if numbers_are_maps {
            let read = Value::deserialize(&mut Reader::new(&bytes, &[])).unwrap();
            assert_eq!(read, number);
        } else {
            assert_eq!(read.unwrap()["$serde_json::private::Number"], text);
        }
    }
    check(&json!({"small": 1, "large": u64::MAX, "negative": i64::MIN, "float": 2.5}));
}
