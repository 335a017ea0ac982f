//! Requests for CRDs and custom resources.

use serde_json::{Value, json};

use super::Making;
use crate::differential::catalog::Kind;
use crate::differential::mutation::mutate;
use crate::differential::sequence::{Sequence, merge_patch, patch, request, send};
use crate::scenario::{Retry, Step};

const RESOURCE: &str = "customresourcedefinitions";

/// Creates a CRD with random changes, waits until it is established, and writes custom resources.
pub(super) fn definitions(making: &mut Making<'_>) -> Sequence {
    let Some((kind, mut definition)) = base(making) else {
        return super::write::create(making);
    };
    let mut sequence = making.begin(&kind, &definition);
    let changes = making.random.chance(60);
    if changes {
        let count = 1 + making.random.below(2);
        let catalog = making.catalog;
        // Changes inside the schemas are usually more useful.
        let schema = catalog.schema(&kind);
        mutate(catalog, schema, &mut definition, count, &mut making.random);
    }
    sequence.steps.push(making.create(&kind, &definition));
    if changes && making.random.chance(70) {
        return sequence;
    }
    sequence.steps.push(established(making, &kind, &definition));
    objects(making, &definition, &mut sequence, &["v1"]);
    sequence
}

/// Creates a CRD with two versions and the conversion strategy None.
pub(super) fn conversion(making: &mut Making<'_>) -> Sequence {
    let Some((kind, mut definition)) = base(making) else {
        return super::write::create(making);
    };
    let first = definition["spec"]["versions"][0].clone();
    let mut second = first.clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    let schema = &mut second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    if making.random.chance(50) {
        schema["extra"] = json!({"type": "string", "default": "x"});
    }
    if making.random.chance(30)
        && let Some(fields) = schema.as_object_mut()
    {
        fields.remove("opt");
    }
    definition["spec"]["versions"] = json!([first, second]);
    let mut sequence = making.begin(&kind, &definition);
    sequence.steps.push(making.create(&kind, &definition));
    sequence.steps.push(established(making, &kind, &definition));
    objects(making, &definition, &mut sequence, &["v1", "v2"]);
    sequence
}

fn base(making: &mut Making<'_>) -> Option<(Kind, Value)> {
    let kind = making
        .catalog
        .kinds
        .iter()
        .find(|kind| kind.resource == RESOURCE)?
        .clone();
    let definition = making.object(&kind);
    Some((kind, definition))
}

/// Waits until the resource is served, so that later requests find it on both servers.
fn established(making: &Making<'_>, kind: &Kind, definition: &Value) -> Step {
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let _ = kind;
    Step {
        retry: Some(Retry {
            until: "kind".to_owned(),
            equals: "WidgetList".into(),
            seconds: Some(6.0),
        }),
        ignore: vec!["body".to_owned(), "text".to_owned(), "headers".to_owned()],
        ..request(
            "GET",
            format!("/apis/{group}/v1/namespaces/{}/{plural}", making.namespace),
        )
    }
}

fn objects(making: &mut Making<'_>, definition: &Value, sequence: &mut Sequence, versions: &[&'static str]) {
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let group = definition["spec"]["group"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let collection =
        |version: &str| format!("/apis/{group}/{version}/namespaces/{}/{plural}", making.namespace);
    let paths: Vec<String> = versions.iter().map(|version| collection(version)).collect();
    let object = |version: &str| {
        json!({
            "apiVersion": format!("{group}/{version}"),
            "kind": definition["spec"]["names"]["kind"],
            "metadata": {"name": "o"},
            "spec": {"size": 2, "name": "a", "tags": ["a", "b"], "parts": [{"name": "p", "n": 1}], "free": {"x": {"y": 1}}, "port": "http", "opt": null, "labels": {"k": "v"}},
        })
    };
    sequence.cleanup.push(format!("{}/o", paths[0]));
    // Waiting for a CRD takes seconds, so many requests use it.
    for _ in 0..24 {
        let version = making.random.below(versions.len());
        let base = object(versions[version]);
        let mut changed = base.clone();
        let count = making.random.below(3);
        mutate(making.catalog, &schema, &mut changed, count, &mut making.random);
        let path = format!("{}/o", paths[version]);
        let step = match making.random.below(9) {
            0 | 1 => send("POST", paths[version].clone(), changed),
            2 => send("PUT", path, changed),
            3 => patch(path, "merge-patch+json", merge_patch(&base, &changed)),
            4 => patch(path, "apply-patch+yaml", changed)
                .query("fieldManager", making.random.text(&["a", "b"])),
            5 => patch(
                format!("{path}/scale"),
                "merge-patch+json",
                json!({"spec": {"replicas": making.random.below(12)}}),
            ),
            6 => patch(
                format!("{path}/status"),
                "merge-patch+json",
                json!({"status": {"ready": true, "replicas": 1, "x": 1}}),
            ),
            7 => request("GET", path).header(
                "Accept",
                making.random.text(&[
                    "application/json",
                    "application/json;as=Table;v=v1;g=meta.k8s.io",
                    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                    "application/yaml",
                ]),
            ),
            _ => request("GET", paths[version].clone()).query(
                "fieldSelector",
                making
                    .random
                    .text(&["spec.name=a", "spec.size=2", "metadata.name=o", "spec.name!=a"]),
            ),
        };
        sequence.steps.push(step);
    }
}
