//! Replays recorded renders: the `olm.bundle` of each recorded bundle, or the error.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use operator_olm::{bundle, render};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

mod recording;

use recording::{Recording, on_all_cores};

const TEXT: &str = "refused with the text of `bundle validate`";
const REFUSED: &str = "`bundle validate` refuses it, so it is not rendered either";

/// The cases that differ, with the reason. Each counts as failed.
const DIFFERENCES: [(&str, &str); 36] = [
    ("annotations-empty-file", TEXT),
    ("annotations-empty-manifests.v1", REFUSED),
    ("annotations-empty-map", TEXT),
    ("annotations-in-manifests", REFUSED),
    ("annotations-list", TEXT),
    ("annotations-manifests-elsewhere", REFUSED),
    (
        "annotations-manifests-moved",
        "the Go program takes the directory for a catalog",
    ),
    ("annotations-tabs", TEXT),
    ("crd-unknown-apiversion", TEXT),
    ("crd-versions-map", TEXT),
    ("csv-kind-lowercase", TEXT),
    ("csv-no-kind", TEXT),
    ("csv-release-bad", REFUSED),
    ("csv-type-annotations-list", TEXT),
    ("csv-type-cpu-bad-quantity", TEXT),
    ("csv-type-deployments-map", TEXT),
    ("csv-type-icon-map", REFUSED),
    ("csv-type-installmodes-map", REFUSED),
    ("csv-type-keywords-string", REFUSED),
    ("csv-type-spec-string", TEXT),
    ("csv-type-supported-string", REFUSED),
    ("csv-type-version-number", TEXT),
    ("csv-version-empty", REFUSED),
    ("csv-version-huge", REFUSED),
    ("csv-version-null", REFUSED),
    ("csv-version-word", REFUSED),
    ("load-bad-yaml-csv", TEXT),
    ("load-binary-file", REFUSED),
    ("load-empty-file", REFUSED),
    ("load-json-broken", REFUSED),
    ("load-list-document", REFUSED),
    ("load-markdown-file", REFUSED),
    ("load-subdirectory", REFUSED),
    ("load-text-file", REFUSED),
    ("load-two-csvs", REFUSED),
    ("metadata-dir-empty", TEXT),
];

/// Returns the part of an error that is not the text of Go's decoders.
fn plain(error: &str) -> &str {
    let end = ["json: ", "yaml: ", "<JSON of"]
        .iter()
        .filter_map(|decoder| error.find(decoder))
        .min();
    let error = error.get(..end.unwrap_or(error.len())).unwrap();
    error
        .strip_prefix("render reference \"bundle\": ")
        .unwrap_or(error)
}

/// Returns a rendered bundle in the format of the recording: objects by kind, name and digest.
fn shown(document: &Value) -> Value {
    let mut document = document.clone();
    for property in document["properties"].as_array_mut().unwrap() {
        if property["type"] == "olm.bundle.object" {
            let data = property["value"]["data"].as_str().unwrap();
            let object: Value = serde_json::from_slice(&STANDARD.decode(data).unwrap()).unwrap();
            let digest = Sha256::digest(sorted(&object).to_string());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            *property = json!({"type": "olm.bundle.object", "object": {
                "kind": object["kind"], "name": object["metadata"]["name"], "sha256": digest,
            }});
        }
    }
    sorted(&document)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn recorded_renders_are_met() {
    let recording = Recording::read();
    let recorded: Value = serde_json::from_str(include_str!("recorded/renders.json")).unwrap();
    let mut failed: BTreeMap<&str, String> = BTreeMap::new();
    let mut total = 0;
    let results = on_all_cores(recording.cases(), |case| {
        let name = recording::name(case);
        let index = recorded["cases"][name].as_u64()?;
        let expected = &recorded["values"][usize::try_from(index).unwrap()];
        let loaded = bundle::load(&recording.files(case)).map_err(|error| error.to_string());
        let rendered = loaded.and_then(|bundle| render::render(&bundle, ""));
        let problem = match (rendered, expected["error"].as_str(), expected.get("panic")) {
            (Err(_), None, Some(_)) => None,
            (Ok(_), None, Some(_)) => Some("rendered, where the Go program crashes".to_owned()),
            (Err(error), None, None) => Some(format!("error: {error}")),
            (Ok(_), Some(recorded), _) => Some(format!("no error, recorded {recorded}")),
            (Err(error), Some(recorded), _) => {
                let same = plain(&error) == plain(recorded);
                (!same).then(|| format!("error: {error}, recorded {recorded}"))
            }
            (Ok(bundle), None, None) => difference(&shown(&bundle.document()), expected),
        };
        Some((name, problem))
    });
    for (name, problem) in results.into_iter().flatten() {
        total += 1;
        if let Some(problem) = problem {
            failed.insert(name, problem);
        }
    }
    println!("{} of {total} recorded renders are met", total - failed.len());
    assert!(total > 300, "{total}");
    let known: Vec<&str> = DIFFERENCES.iter().map(|(name, _)| *name).collect();
    let unexpected: Vec<_> = failed.iter().filter(|(name, _)| !known.contains(name)).collect();
    for (name, problem) in &unexpected {
        println!("{name}: {problem}");
    }
    assert!(unexpected.is_empty(), "{} renders differ", unexpected.len());
    for name in known {
        assert!(
            failed.contains_key(name),
            "{name} no longer differs: remove it from the list"
        );
    }
}

/// Returns the first field that differs, if the recording has the field.
fn difference(ours: &Value, expected: &Value) -> Option<String> {
    let whole = expected.get("bundle");
    let fields = whole.unwrap_or(expected).as_object().unwrap();
    fields.iter().find_map(|(name, expected)| {
        let ours = if name == "properties" && whole.is_none() {
            let all = ours[name].as_array().unwrap().iter();
            all.filter(|property| property.get("object").is_none())
                .cloned()
                .collect()
        } else {
            ours[name].clone()
        };
        // A missing name is null in the recording, and an empty string here.
        let expected = if expected.is_null() { &json!("") } else { expected };
        (ours != sorted(expected)).then(|| format!("{name}: {ours}, recorded {expected}"))
    })
}
