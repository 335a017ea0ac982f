//! Tests of the responses of a real API server (1.36) to CRDs with one or two errors, and to valid and invalid rules.

#![expect(clippy::unwrap_used, reason = "data that cannot be read fails the test")]

use serde_json::{Value, json};
use structural_schema::{Schema, crd};

fn data(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn causes(crd: &Value) -> Vec<String> {
    let mut crd = crd.clone();
    crd::default(&mut crd);
    crd::prepare_for_create(&mut crd);
    let mut causes: Vec<String> = crd::validate_create(&crd)
        .iter()
        .map(|error| format!("{}: {}", error.field, error.message()))
        .collect();
    causes.sort();
    causes
}

/// Sets or removes the value at a JSON pointer.
fn edit(object: &mut Value, edit: &Value) {
    let pointer = edit[0].as_str().unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    let parent = object.pointer_mut(parent).unwrap();
    match edit.get(1) {
        Some(value) if parent.is_array() => parent[name.parse::<usize>().unwrap()] = value.clone(),
        Some(value) => parent[name] = value.clone(),
        None => drop(parent.as_object_mut().unwrap().remove(&name)),
    }
}

/// Returns the request, the recorded errors and the actual errors, if they differ.
fn difference(asked: &Value, expected: &[Value], found: &[String]) -> Option<String> {
    let same = expected.iter().map(|told| told.as_str().unwrap()).eq(found);
    (!same).then(|| format!("{asked}\n  real {expected:#?}\n  here {found:#?}"))
}

#[track_caller]
fn none_differ(different: &[String]) {
    let count = different.len();
    assert_eq!(count, 0, "{count} differ:\n{}", different.join("\n"));
}

#[test]
fn wrong_definitions_have_the_causes_that_a_real_server_names() {
    let data = data("definitions.json");
    let mut different = Vec::new();
    for case in data["cases"].as_array().unwrap() {
        let (edits, expected) = case.as_array().unwrap().split_first().unwrap();
        let mut crd = data["base"].clone();
        for change in edits.as_array().unwrap() {
            edit(&mut crd, change);
        }
        different.extend(difference(edits, expected, &causes(&crd)));
    }
    none_differ(&different);
}

#[test]
fn wrong_rules_are_refused_in_the_words_of_a_real_server() {
    let data = data("rules.json");
    let mut different = Vec::new();
    for case in data["rules"].as_array().unwrap() {
        let (rule, expected) = case.as_array().unwrap().split_first().unwrap();
        let mut schema = data["schema"].clone();
        schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "M"}]);
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "ws.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "ws", "kind": "W"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": schema}},
                }}],
            },
        });
        let found: Vec<String> = causes(&crd)
            .into_iter()
            .filter_map(|cause| {
                let (_, told) = cause.split_once("].rule: ")?;
                let value = told.strip_prefix("Invalid value: {");
                let detail = value.and_then(|value| value.split_once("\"OptionalOldSelf\":null}: "));
                Some(detail.map_or(told, |(_, detail)| detail).to_owned())
            })
            .filter(|told| !told.starts_with("Forbidden: contributed"))
            .collect();
        different.extend(difference(rule, expected, &found));
    }
    none_differ(&different);
}

#[test]
fn items_of_a_list_with_keys_are_objects() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
    }}}))
    .unwrap();
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": "a"}, "l": [{"k": "a"}, ["a"], 1],
    });
    let errors = schema.check(&object, None).errors;
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = r#"l[1]: Invalid value: ["a"]: must be an object for an array of list-type map"#;
    assert_eq!(
        told.iter().filter(|error| *error == expected).count(),
        1,
        "{told:#?}"
    );
}
