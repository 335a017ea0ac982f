//! The CRD of the scaffolded type, computed without building the operator.
//!
//! A test checks that `generate manifests` derives the same CRD from the built operator.

use operator_manifests::crd::condition_schema;
use serde_json::{Value, json};

use crate::template::ApiValues;

pub(crate) fn derived(api: &ApiValues) -> Value {
    let (kind, plural) = (&api.kind, &api.plural);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", api.api_group)},
        "spec": {
            "group": api.api_group,
            "names": {"kind": kind, "plural": plural, "singular": api.kind_lower},
            "scope": if api.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "additionalPrinterColumns": columns(api),
                "name": api.version,
                "schema": {"openAPIV3Schema": {
                    "description": format!("{kind} is the Schema for the {plural} API."),
                    "properties": {"spec": spec(api), "status": status(api)},
                    "required": ["spec"],
                    "type": "object",
                }},
                "served": true,
                "storage": api.storage,
                "subresources": {"status": {}},
            }],
        },
    })
}

fn columns(api: &ApiValues) -> Value {
    if api.image.is_none() {
        return json!([]);
    }
    let available = ".status.conditions[?(@.type=='Available')].status";
    json!([
        {"jsonPath": ".spec.size", "name": "Size", "type": "integer"},
        {"jsonPath": available, "name": "Available", "type": "string"},
        {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"},
    ])
}

fn spec(api: &ApiValues) -> Value {
    let description = format!(
        "The desired state of {}.\n\nRun `operator-sdk generate manifests` after a change, to update the CRD.",
        api.kind
    );
    match &api.image {
        Some(image) => json!({
            "description": description,
            "properties": {"size": {
                "description": "The number of instances.",
                "format": "int32",
                "maximum": image.size_max,
                "minimum": 1,
                "type": "integer",
            }},
            "required": ["size"],
            "type": "object",
        }),
        None => json!({
            "description": description,
            "properties": {"foo": {
                "description": "An example field: replace it with the fields of the kind.",
                "nullable": true,
                "type": "string",
            }},
            "type": "object",
        }),
    }
}

fn status(api: &ApiValues) -> Value {
    let mut properties = json!({"conditions": {
        "description": "The current conditions, by type: Available, Progressing or Degraded.",
        "items": condition_schema(),
        "type": "array",
    }});
    if api.image.is_some() {
        properties["nodes"] = json!({
            "description": "The names of the pods of the instances.",
            "items": {"type": "string"},
            "type": "array",
        });
    }
    json!({
        "description": format!("The observed state of {}.", api.kind),
        "nullable": true,
        "properties": properties,
        "type": "object",
    })
}
