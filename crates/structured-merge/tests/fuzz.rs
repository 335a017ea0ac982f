//! Runs the checks of the fuzz targets on random, nearly valid inputs.

use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "../fuzz/claims.rs"]
#[expect(clippy::expect_used, reason = "a claim that does not hold fails the test")]
mod claims;

/// Generates Pods and nearly valid Pods, in which any value may have a wrong type or an unusual name.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "", "a", "v1", "Pod", "delete", "replace", "Apply", "FieldsV1"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names()), inner, 0..5).prop_map(|map| map
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn names() -> Vec<&'static str> {
    vec![
        "metadata",
        "spec",
        "status",
        "name",
        "uid",
        "labels",
        "managedFields",
        "finalizers",
        "containers",
        "ports",
        "containerPort",
        "protocol",
        "image",
        "$patch",
        "$setElementOrder/containers",
        "$retainKeys",
        "$deleteFromPrimitiveList/finalizers",
        "volumes",
        "env",
        "manager",
        "operation",
        "apiVersion",
        "fieldsType",
        "fieldsV1",
        "f:spec",
        "f:a",
        ".",
        "k:{\"name\":\"a\"}",
        "v:1",
        "i:0",
        "x:",
        "",
    ]
}

fn pod(part: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    for (key, value) in part.as_object().into_iter().flatten() {
        if key != "apiVersion" && key != "kind" {
            pod[key] = value.clone();
        }
    }
    pod
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn field_sets(value in values(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        claims::field_set(value.to_string().as_bytes());
        claims::field_set(&bytes);
    }

    #[test]
    fn typed_values(live in values(), config in values()) {
        for (live, config) in [(live.clone(), config.clone()), (pod(&live), pod(&config))] {
            claims::typed_value(format!("{live}\0{config}").as_bytes());
        }
    }
}

#[test]
fn an_item_without_keys_reads_the_same_again() {
    claims::field_set(br#"{"f:a":{"k:{}":{},"k:{\"a\":1,\"b\":2}":{}}}"#);
}

#[test]
fn a_set_item_that_is_a_large_float_reads_the_same_again() {
    claims::field_set(br#"{"v:-300000000000000000000000":{}, "v:\t1e-7":{}}"#);
}
