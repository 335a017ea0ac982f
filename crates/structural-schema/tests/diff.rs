//! Tests of changes between CRDs: their severity, and that safe changes are safe.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use structural_schema::Schema;
use structural_schema::crd::diff::{Severity, diff, diff_schemas};

/// Returns a CRD with one version that has this schema of `spec`.
fn crd(spec: &Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn shown(old: &Value, new: &Value) -> Vec<String> {
    let line = |change: &structural_schema::crd::diff::Change| {
        format!("{} {}: {}", change.severity.as_str(), change.path, change.what)
    };
    diff(old, new).iter().map(line).collect()
}

#[track_caller]
fn check_schema(old: Value, new: Value, wanted: &[&str]) {
    let in_spec = |schema: Value| crd(&json!({"type": "object", "properties": {"a": schema}}));
    let found = shown(&in_spec(old), &in_spec(new));
    let wanted: Vec<String> = wanted
        .iter()
        .map(|text| text.replacen(' ', " v1: spec.a", 1))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn keywords_that_restrict() {
    let string = |more: Value| {
        let mut schema = json!({"type": "string"});
        schema
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        schema
    };
    let cases: &[(Value, Value, &[&str])] = &[
        (
            json!({}),
            json!({"maxLength": 3}),
            &["breaking : maxLength added: 3"],
        ),
        (
            json!({"maxLength": 3}),
            json!({"maxLength": 2}),
            &["breaking : maxLength lowered from 3 to 2"],
        ),
        (
            json!({"maxLength": 3}),
            json!({"maxLength": 4}),
            &["safe : maxLength raised from 3 to 4"],
        ),
        (
            json!({"minLength": 3}),
            json!({"minLength": 4}),
            &["breaking : minLength raised from 3 to 4"],
        ),
        (
            json!({"minLength": 3}),
            json!({}),
            &["safe : minLength removed, it was 3"],
        ),
        (
            json!({}),
            json!({"pattern": "^a"}),
            &["breaking : pattern added: ^a"],
        ),
        (
            json!({"pattern": "^a"}),
            json!({"pattern": "^b"}),
            &["breaking : pattern changed from ^a to ^b"],
        ),
        (
            json!({"pattern": "^a"}),
            json!({}),
            &["safe : pattern removed, it was ^a"],
        ),
        (
            json!({"enum": ["a", "b"]}),
            json!({"enum": ["b", "c"]}),
            &[
                "breaking : enum values removed: \"a\"",
                "safe : enum values added: \"c\"",
            ],
        ),
        (
            json!({"format": "uri"}),
            json!({"format": "email"}),
            &["breaking : format changed from uri to email"],
        ),
        (
            json!({"format": "odd"}),
            json!({}),
            &["safe : format removed, it was odd"],
        ),
        (
            json!({"nullable": true}),
            json!({}),
            &["breaking : no longer nullable"],
        ),
        (
            json!({"default": "a"}),
            json!({"default": "b"}),
            &["breaking : default changed from \"a\" to \"b\""],
        ),
        (
            json!({}),
            json!({"default": "b"}),
            &["safe : default added: \"b\""],
        ),
        (
            json!({"default": "b"}),
            json!({}),
            &["breaking : default removed"],
        ),
        (json!({}), json!({"description": "new"}), &[]),
        (
            json!({"x-kubernetes-validations": [{"rule": "self != 'a'"}]}),
            json!({"x-kubernetes-validations": [{"rule": "self != 'b'", "message": "m"}]}),
            &[
                "safe : rule removed: self != 'a'",
                "breaking : rule added: self != 'b'",
            ],
        ),
    ];
    for (old, new, wanted) in cases {
        check_schema(string(old.clone()), string(new.clone()), wanted);
    }
}

#[test]
fn types_numbers_and_lists() {
    let list = |more: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        schema
    };
    check_schema(
        json!({"type": "string"}),
        json!({"type": "integer"}),
        &["breaking : type changed from string to integer"],
    );
    check_schema(
        json!({"type": "integer", "format": "int64", "minimum": 1, "multipleOf": 6}),
        json!({"type": "integer", "format": "int32", "minimum": 1, "exclusiveMinimum": true, "multipleOf": 3}),
        &[
            "breaking : format changed from int64 to int32",
            "breaking : minimum 1 is now excluded",
            "safe : multipleOf changed from 6 to 3",
        ],
    );
    check_schema(
        list(json!({})),
        list(json!({"x-kubernetes-list-type": "set", "maxItems": 2})),
        &[
            "breaking : maxItems added: 2",
            "breaking : list type changed from atomic to set",
        ],
    );
    check_schema(
        json!({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}),
        json!({"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}}}}),
        &["breaking [*].x: field removed", "safe [*].y: field added"],
    );
    check_schema(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}),
        &[
            "breaking : unknown fields are pruned from now on",
            "breaking .b: required",
            "breaking .b: field added where unknown fields were kept",
        ],
    );
}

#[test]
fn a_default_that_something_around_may_refuse() {
    let object = |default: bool, max: bool| {
        let mut schema = json!({"type": "object", "properties": {"b": {"type": "string"}}});
        if default {
            schema["properties"]["b"]["default"] = "x".into();
        }
        if max {
            schema["maxProperties"] = 1.into();
        }
        schema
    };
    check_schema(
        object(false, false),
        object(true, false),
        &["safe .b: default added: \"x\""],
    );
    check_schema(
        object(false, true),
        object(true, true),
        &["breaking .b: default added: \"x\""],
    );
}

/// The API server checks no defaults below `additionalProperties`.
#[test]
fn a_default_that_violates_its_own_schema() {
    let object = |more: Value| {
        let mut property = json!({"type": "integer"});
        property
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let inner = json!({"type": "object", "properties": {"b": property}});
        json!({"type": "object", "additionalProperties": inner})
    };
    check_schema(
        object(json!({})),
        object(json!({"default": "x"})),
        &["breaking [*].b: default added: \"x\""],
    );
}

#[test]
fn names_versions_and_subresources() {
    let old = crd(&json!({"type": "object"}));
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["shortNames"] = json!(["w"]);
    new["spec"]["versions"][0]["subresources"] = json!({"scale": {"specReplicasPath": ".spec.a"}});
    new["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]);
    new["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}]);
    assert_eq!(
        shown(&old, &new),
        [
            "breaking spec.scope: changed from Namespaced to Cluster",
            "breaking spec.names.shortNames: wd removed",
            "safe spec.names.shortNames: w added",
            "breaking spec.versions[v1].subresources.status: subresource removed",
            "safe spec.versions[v1].subresources.scale: subresource added",
            "safe spec.versions[v1].additionalPrinterColumns: printer columns changed",
            "safe spec.versions[v1].selectableFields: .spec.a added",
        ]
    );
    assert_eq!(
        shown(&new, &old).last().unwrap(),
        "breaking spec.versions[v1].selectableFields: .spec.a removed"
    );
}

#[test]
fn the_storage_version() {
    let two = |storage: usize, fields: [Value; 2]| {
        let mut crd = crd(&json!({}));
        crd["spec"]["versions"] = json!([
            {"name": "v1", "served": true, "storage": storage == 0, "schema": {"openAPIV3Schema": {"type": "object", "properties": fields[0]}}},
            {"name": "v2", "served": true, "storage": storage == 1, "schema": {"openAPIV3Schema": {"type": "object", "properties": fields[1]}}},
        ]);
        crd
    };
    let a = || json!({"a": {"type": "string"}});
    let moved = "spec.versions: storage version changed from v1 to v2";
    assert_eq!(
        shown(&two(0, [a(), a()]), &two(1, [a(), a()])),
        [format!("safe {moved}")]
    );
    assert_eq!(
        shown(&two(0, [a(), json!({})]), &two(1, [a(), json!({})])),
        [format!("breaking {moved}")]
    );
    let only_v1 = {
        let mut crd = two(0, [a(), a()]);
        crd["spec"]["versions"].as_array_mut().unwrap().pop();
        crd
    };
    assert_eq!(
        shown(&only_v1, &two(1, [a(), a()])),
        [
            format!("breaking {moved}"),
            "safe spec.versions[v2]: version added".to_owned()
        ]
    );
}

fn scalar() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        json!({}),
        json!({"maxLength": 2}),
        json!({"maxLength": 1}),
        json!({"minLength": 1}),
        json!({"pattern": "^[ab]*$"}),
        json!({"enum": ["a", "b", 1, 2]}),
        json!({"enum": ["a", 1]}),
        json!({"minimum": 1}),
        json!({"minimum": 1, "exclusiveMinimum": true}),
        json!({"minimum": 0.5}),
        json!({"maximum": 2}),
        json!({"maximum": 1.5, "exclusiveMaximum": true}),
        json!({"multipleOf": 2}),
        json!({"multipleOf": 4}),
        json!({"format": "int32"}),
        json!({"format": "uint32"}),
        json!({"nullable": true}),
        json!({"default": "a"}),
        json!({"default": 2}),
        json!({"not": {"enum": ["b", 2]}}),
        json!({"anyOf": [{"enum": ["a", 1]}, {"maximum": 3, "maxLength": 1}]}),
        json!({"x-kubernetes-int-or-string": true}),
    ]);
    let kind = prop::sample::select(vec![
        "string", "string", "integer", "integer", "number", "boolean",
    ]);
    (kind, keyword.clone(), keyword).prop_map(|(kind, a, b)| {
        let mut schema = Map::from_iter([("type".to_owned(), Value::from(kind))]);
        for more in [a, b] {
            schema.extend(more.as_object().unwrap().clone());
        }
        // The API server's validator treats lists as strings if there is a string format, so such schemas are skipped
        // here.
        if schema.get("type") != Some(&"integer".into()) {
            schema.remove("format");
        }
        if schema.contains_key("x-kubernetes-int-or-string") {
            schema.remove("type");
        }
        Value::Object(schema)
    })
}

fn schema() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 3, |inner| {
        let keyword = prop::sample::select(vec![
            json!({}),
            json!({"required": ["a"]}),
            json!({"maxProperties": 1}),
            json!({"minProperties": 1}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({"x-kubernetes-validations": [{"rule": "!has(self.a) || !has(self.b)"}]}),
            json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ]);
        let properties = prop::collection::btree_map("[a-b]", inner.clone(), 0..3);
        prop_oneof![
            (properties, keyword).prop_map(|(properties, more)| {
                let mut schema = json!({"type": "object", "properties": properties});
                schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                schema
            }),
            (inner.clone(), 1..3_u8).prop_map(|(schema, max)| json!({"type": "object", "additionalProperties": schema, "maxProperties": max})),
            (inner, 1..3_u8, any::<bool>()).prop_map(|(items, max, set)| {
                let mut schema = json!({"type": "array", "items": items, "maxItems": max});
                if set {
                    schema["x-kubernetes-list-type"] = "set".into();
                }
                schema
            }),
        ]
    })
}

/// Generates a schema, and a variation of it with one subschema or keyword changed, added or removed.
fn variation() -> impl Strategy<Value = (Value, Value)> {
    let edits = (any::<prop::sample::Index>(), schema(), scalar(), 0..4_u8);
    (schema(), prop::collection::vec(edits, 1..3)).prop_map(|(old, edits)| {
        let mut new = old.clone();
        for (index, other, keywords, how) in edits {
            let mut places = Vec::new();
            subschemas(&new, String::new(), &mut places);
            let place = index.get(&places);
            let target = new.pointer_mut(place).unwrap();
            let keywords = keywords.as_object().unwrap();
            match (how, target.as_object_mut()) {
                (0, _) => *target = other,
                (1, Some(map)) => map.extend(
                    keywords
                        .iter()
                        .filter(|(key, _)| *key != "type")
                        .map(|(key, value)| (key.clone(), value.clone())),
                ),
                (_, Some(map)) => {
                    let last = map
                        .keys()
                        .rfind(|key| !["type", "items", "properties"].contains(&key.as_str()))
                        .cloned();
                    if let Some(last) = last {
                        map.remove(&last);
                    }
                }
                _ => {}
            }
        }
        (old, new)
    })
}

fn subschemas(schema: &Value, pointer: String, found: &mut Vec<String>) {
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        subschemas(property, format!("{pointer}/properties/{name}"), found);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(name) {
            subschemas(child, format!("{pointer}/{name}"), found);
        }
    }
    found.push(pointer);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i64..5).prop_map(Value::from),
        Just(json!(0.5)),
        Just(json!(1.5)),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Prepares an object as a server does: prunes it, drops nulls, and sets defaults.
fn taken_in(schema: &Schema, object: &Value) -> (Value, Vec<String>) {
    let mut object = object.clone();
    let unknown = schema.prune(&mut object);
    schema.drop_nulls(&mut object);
    schema.default(&mut object);
    (object, unknown)
}

/// Returns true if a server accepts the schema, including its defaults.
fn is_definition(schema: &Value) -> bool {
    let mut crd = crd(&json!({}));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
    structural_schema::crd::default(&mut crd);
    structural_schema::crd::prepare_for_create(&mut crd);
    structural_schema::crd::validate_create(&crd).is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 4000, max_global_rejects: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_schema_equals_itself(schema in schema()) {
        prop_assert_eq!(diff_schemas(&schema, &schema), Vec::new());
    }

    #[test]
    fn safe_changes_are_safe((old, new) in variation(), values in prop::collection::vec(value(), 24)) {
        let root = |schema: &Value| json!({"type": "object", "properties": {"spec": schema}});
        let (old, new) = (root(&old), root(&new));
        prop_assume!(is_definition(&old) && is_definition(&new));
        let changes = diff_schemas(&old, &new);
        prop_assume!(changes.iter().all(|change| change.severity == Severity::Safe));
        let (before, after) = (Schema::compile(&old).unwrap(), Schema::compile(&new).unwrap());
        for value in values {
            let (object, _) = taken_in(&before, &json!({"spec": value}));
            if !before.validate(&object, None).is_empty() {
                continue;
            }
            let (same, lost) = taken_in(&after, &object);
            prop_assert!(lost.is_empty(), "{object} loses {lost:?}\nold {old}\nnew {new}\n{changes:?}");
            let errors = after.validate(&same, None);
            prop_assert!(errors.is_empty(), "{same} is refused: {errors:?}\nold {old}\nnew {new}\n{changes:?}");
        }
    }
}
