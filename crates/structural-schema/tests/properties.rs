//! Tests of properties of all schemas and objects: nothing panics, pruning and defaulting are idempotent, and unchanged
//! values are never rejected.

use kubernetes_cel as cel;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use structural_schema::{Schema, crd};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(|number| json!(number as f64 / 8.0)),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let kinds = [
        "string", "integer", "number", "boolean", "object", "array", "odd", "",
    ];
    let scalar = (
        prop::sample::select(kinds.to_vec()),
        any::<bool>(),
        prop::option::of(value()),
        0..9_u8,
    )
        .prop_map(|(kind, nullable, default, extra)| {
            let mut schema = json!({"type": kind, "nullable": nullable});
            if let Some(default) = default {
                schema["default"] = default;
            }
            match extra {
                0 => schema["enum"] = json!(["a", 1, null]),
                1 => schema["pattern"] = json!("^[a-b]+$"),
                2 => schema["maximum"] = json!(3.5),
                3 => schema["multipleOf"] = json!(0.5),
                4 => schema["x-kubernetes-int-or-string"] = json!(true),
                5 => schema["x-kubernetes-preserve-unknown-fields"] = json!(true),
                6 => schema["x-kubernetes-validations"] = json!([{"rule": "self == self && self in [self]"}]),
                7 => schema["format"] = json!("date-time"),
                _ => {}
            }
            schema
        });
    scalar.prop_recursive(4, 24, 4, |inner| {
        let properties = prop::collection::btree_map("[a-c]|metadata|spec", inner.clone(), 0..4);
        prop_oneof![
            properties.clone().prop_map(|properties| json!({"type": "object", "properties": properties, "required": ["a"]})),
            properties.prop_map(|properties| json!({
                "type": "object", "properties": properties, "x-kubernetes-embedded-resource": true,
                "x-kubernetes-validations": [{"rule": "has(self.a) || self.metadata.name == 'a'"}],
            })),
            inner.clone().prop_map(|schema| json!({"type": "object", "additionalProperties": schema, "maxProperties": 2})),
            (inner.clone(), prop::sample::select(vec!["set", "map", "atomic"])).prop_map(|(items, list)| json!({
                "type": "array", "items": items, "x-kubernetes-list-type": list, "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-validations": [{"rule": "self.all(x, x == self[0])", "messageExpression": "string(self[9])"}],
            })),
            (inner.clone(), inner).prop_map(|(a, b)| json!({"type": "object", "anyOf": [a.clone()], "oneOf": [a, b.clone()], "not": b})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pruning_and_defaulting_are_idempotent(schema in schema(), object in value()) {
        let schema = Schema::compile(&schema).unwrap();
        let mut once = object;
        schema.prune(&mut once);
        schema.drop_nulls(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
        schema.drop_nulls(&mut twice);
        prop_assert_eq!(&once, &twice);
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(&once, &twice);
    }

    #[test]
    fn every_object_is_judged(schema in schema(), object in value(), old in value()) {
        let schema = Schema::compile(&schema).unwrap();
        let mut decoded = object.clone();
        let _ = schema.decode(&mut decoded);
        let _ = schema.check(&object, Some(&old));
        let _ = schema.check_status(&object, Some(&old));
        let _ = schema.check(&object, None);
    }

    #[test]
    fn every_definition_is_judged(schema in schema(), junk in value()) {
        let mut crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}, "scope": "Cluster",
                     "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}},
                                  {"name": "v2", "schema": {"openAPIV3Schema": junk}}]},
        });
        crd::default(&mut crd);
        crd::prepare_for_create(&mut crd);
        let _ = crd::validate_create(&crd);
        let _ = crd::validate_update(&crd, &junk);
        let _ = crd::validate_create(&junk);
        let _ = crd::warnings(&crd, None);
    }

    #[test]
    fn every_text_is_parsed_or_refused(source in "[a-c0-9'\"(){}\\[\\].,:?!&|+*/%<>= \\\\-]{0,40}") {
        let variables = cel::Variables::from([("a".to_owned(), cel::types::Type::Dyn)]);
        match cel::parse(&source).and_then(|expr| cel::check(expr, &variables)) {
            Ok(checked) => {
                let activation = cel::Activation::from([("a".to_owned(), cel::value::Value::Int(1))]);
                let _ = cel::evaluate(&checked, &activation, 10_000);
            }
            Err(issues) => prop_assert!(!cel::ast::describe(&source, &issues).is_empty()),
        }
    }
}

#[test]
fn the_paths_of_unknown_fields_are_bounded_in_number_and_length() {
    let item = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}});
    let list = json!({"type": "array", "items": item});
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "spec": {"type": "object", "additionalProperties": list},
    }});
    let schema = Schema::compile(&schema).unwrap();
    let unknown: Map<String, Value> = (0..40).map(|index| (format!("f{index}"), 1.into())).collect();
    let mut metadata = Value::Object(unknown.clone());
    metadata["ownerReferences"] = json!([unknown]);
    let items = vec![json!({"apiVersion": "v1", "kind": "A", "x": 1, "metadata": metadata}); 2_000];
    let mut object = json!({"metadata": unknown, "spec": {"k".repeat(100_000): items}});
    let paths = schema.decode(&mut object).unwrap();
    assert!((1_000..=3_000).contains(&paths.len()), "{}", paths.len());
    let longest = paths.iter().map(String::len).max();
    assert!(longest.is_some_and(|longest| longest < 2_000), "{longest:?}");
}
