//! Benchmarks of CRDs and custom resources without a server.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark whose input is refused measures nothing"
)]

use divan::Bencher;
use serde_json::{Map, Value, json};
use structural_schema::{Schema, crd};

fn main() {
    divan::main();
}

/// Returns the schema of one part, which is 25 lines of YAML.
fn part(index: usize) -> Value {
    json!({
        "type": "object",
        "description": format!("Part {index}."),
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 1},
            "mode": {"type": "string", "enum": ["Fast", "Safe"], "default": "Safe"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 16},
            "ports": {
                "type": "array", "maxItems": 16, "x-kubernetes-list-type": "set",
                "items": {"type": "integer", "format": "int32"},
            },
        },
    })
}

/// Returns a CRD that is 10,000 lines of YAML.
fn large_definition() -> Value {
    let parts: Map<String, Value> = (0..400)
        .map(|index| (format!("part{index}"), part(index)))
        .collect();
    let mut crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": parts}}}}}],
        },
    });
    crd::default(&mut crd);
    crd::prepare_for_create(&mut crd);
    crd
}

/// Returns the schema of a list of parts.
fn parts_schema(rules: &Value) -> Schema {
    let mut item = part(0);
    item["x-kubernetes-validations"] = rules.clone();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"parts": {
        "type": "array", "maxItems": 20000, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    }}}}});
    Schema::compile(&schema).unwrap()
}

fn parts_object(count: usize) -> Value {
    let part = |index: usize| {
        json!({
            "name": format!("part-{index}"), "replicas": 3, "mode": "Fast",
            "labels": {"app": "widget", "tier": "backend"}, "ports": [8080, 8443],
        })
    };
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
           "spec": {"parts": (0..count).map(part).collect::<Vec<_>>()}})
}

/// Returns an object of about 100 KB of JSON.
fn object_of_100_kb() -> Value {
    parts_object(850)
}

#[divan::bench]
fn compile_a_definition_of_10_000_lines(bencher: Bencher<'_, '_>) {
    let crd = large_definition();
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    bencher.bench(|| Schema::compile(schema).unwrap());
}

#[divan::bench]
fn check_a_definition_of_10_000_lines(bencher: Bencher<'_, '_>) {
    let crd = large_definition();
    assert!(crd::validate_create(&crd).is_empty());
    bencher.bench(|| crd::validate_create(&crd));
}

#[divan::bench]
fn decode_100_kb(bencher: Bencher<'_, '_>) {
    let (schema, object) = (parts_schema(&json!([])), object_of_100_kb());
    bencher
        .with_inputs(|| object.clone())
        .bench_values(|mut object| schema.decode(&mut object).unwrap());
}

#[divan::bench]
fn default_100_kb(bencher: Bencher<'_, '_>) {
    let schema = parts_schema(&json!([]));
    let mut object = object_of_100_kb();
    for part in object["spec"]["parts"].as_array_mut().unwrap() {
        part.as_object_mut().unwrap().remove("mode");
    }
    bencher.with_inputs(|| object.clone()).bench_values(|mut object| {
        schema.default(&mut object);
        object
    });
}

#[divan::bench]
fn validate_100_kb(bencher: Bencher<'_, '_>) {
    let (schema, object) = (parts_schema(&json!([])), object_of_100_kb());
    assert!(schema.validate(&object, None).is_empty());
    bencher.bench(|| schema.validate(&object, None));
}

#[divan::bench]
fn validate_an_update_of_100_kb(bencher: Bencher<'_, '_>) {
    let (schema, object) = (parts_schema(&json!([])), object_of_100_kb());
    let mut new = object.clone();
    new["spec"]["parts"][7]["replicas"] = 4.into();
    bencher.bench(|| schema.validate(&new, Some(&object)));
}

#[divan::bench]
fn evaluate_10_000_rules(bencher: Bencher<'_, '_>) {
    let rules = json!([
        {"rule": "self.mode == 'Fast' ? self.replicas > 1 : true"},
        {"rule": "!has(self.ports) || self.ports.all(p, p > 1024)"},
    ]);
    let (schema, object) = (parts_schema(&rules), parts_object(5000));
    assert!(schema.validate(&object, None).is_empty());
    bencher.bench(|| schema.validate(&object, None));
}

/// Measures the validation without rules; the difference is the cost of the rules.
#[divan::bench]
fn validate_5_000_parts(bencher: Bencher<'_, '_>) {
    let (schema, object) = (parts_schema(&json!([])), parts_object(5000));
    bencher.bench(|| schema.validate(&object, None));
}

#[divan::bench]
fn compare_definitions_of_10_000_lines(bencher: Bencher<'_, '_>) {
    let old = large_definition();
    let mut new = old.clone();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["part7"]["properties"]
        ["replicas"]["maximum"] = 50.into();
    bencher.bench(|| crd::diff::diff(&old, &new));
}
