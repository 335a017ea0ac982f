//! Tests that completed definitions equal the output of controller-gen.

use operator_manifests::crd::Crd;
use operator_manifests::render::documents;
use serde_json::{Value, json};

fn derived() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "memcacheds.cache.example.com"},
        "spec": {
            "group": "cache.example.com",
            "names": {"categories": [], "kind": "Memcached", "plural": "memcacheds", "shortNames": [], "singular": "memcached"},
            "scope": "Namespaced",
            "versions": [{
                "additionalPrinterColumns": [],
                "name": "v1alpha1",
                "schema": {"openAPIV3Schema": {
                    "description": "Auto-generated derived type for MemcachedSpec via `CustomResource`",
                    "title": "Memcached",
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "description": " Desired state. \n\n",
                            "type": "object",
                            "required": ["size", "port"],
                            "properties": {
                                "size": {"type": "integer", "format": "int32", "minimum": 1.0, "maximum": 5.0},
                                "port": {"type": "integer", "format": "uint16", "maximum": 65535.0},
                                "weights": {"type": "array", "items": {"type": "integer", "format": "uint64", "minimum": 3.0}},
                            },
                        },
                        "status": {
                            "type": "object",
                            "nullable": true,
                            "properties": {"conditions": {"type": "array", "items": {
                                "title": "Condition",
                                "type": "object",
                                "properties": {
                                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                                    "message": {"type": "string"},
                                    "observedGeneration": {"type": "integer", "format": "int64"},
                                    "reason": {"type": "string"},
                                    "status": {"type": "string"},
                                    "type": {"type": "string"},
                                },
                            }}},
                        },
                    },
                }},
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
            }],
        },
    })
}

#[test]
fn a_derived_definition_is_completed() {
    let crd = Crd::complete(derived(), Some(("operator-sdk.dev/version", "v0.1.0"))).unwrap();
    assert_eq!(crd.file_name(), "cache.example.com_memcacheds.yaml");
    insta::assert_snapshot!(documents([crd.value()]));
}

#[test]
fn completing_twice_changes_nothing() {
    let once = Crd::complete(derived(), None).unwrap();
    let twice = Crd::complete(once.value().clone(), None).unwrap();
    assert_eq!(once, twice);
}

#[test]
fn a_description_of_the_author_stays() {
    let mut value = derived();
    value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("A cache.");
    let crd = Crd::complete(value, None).unwrap();
    let schema = &crd.value()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["description"], "A cache.");
}

#[test]
fn a_definition_without_names_is_an_error() {
    let error = Crd::complete(json!({"spec": {"group": "x"}}), None).unwrap_err();
    assert!(error.to_string().contains("spec.names.kind"), "{error}");
}
