//! `config/manifests` and `config/scorecard`: the sources of an OLM bundle.

use serde_json::{Value, json};

use super::{ConfigTree, Operator};
use crate::render;

/// The image with the scorecard's own tests.
const SCORECARD_IMAGE: &str = "quay.io/operator-framework/scorecard-test:v1.42.0";

/// The scorecard's own tests, by suite.
const TESTS: [(&str, &[&str]); 2] = [
    ("basic", &["basic-check-spec"]),
    (
        "olm",
        &[
            "olm-bundle-validation",
            "olm-crds-have-validation",
            "olm-crds-have-resources",
            "olm-spec-descriptors",
            "olm-status-descriptors",
        ],
    ),
];

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    let base = format!("bases/{}.clusterserviceversion.yaml", operator.project);
    tree.files.insert(
        format!("config/manifests/{base}"),
        render::yaml(&cluster_service_version(operator)),
    );
    tree.entry("config/manifests", "resources", json!(base));
    tree.entry("config/manifests", "resources", json!("../default"));
    if operator.kinds.iter().any(|kind| kind.defined) {
        tree.entry("config/manifests", "resources", json!("../samples"));
    }
    tree.entry("config/manifests", "resources", json!("../scorecard"));
    add_scorecard(tree);
}

fn add_scorecard(tree: &mut ConfigTree) {
    let configuration = json!({
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": true, "tests": []}],
    });
    tree.resource("config/scorecard", "bases/config.yaml", &configuration, &[]);
    for (suite, tests) in TESTS {
        let file = format!("patches/{suite}.config.yaml");
        let operations: Vec<Value> = tests.iter().map(|test| scorecard_test(suite, test)).collect();
        tree.file(&format!("config/scorecard/{file}"), &json!(operations), &[]);
        let target = json!({
            "group": "scorecard.operatorframework.io",
            "kind": "Configuration",
            "name": "config",
            "version": "v1alpha3",
        });
        tree.entry(
            "config/scorecard",
            "patches",
            json!({"path": file, "target": target}),
        );
    }
}

fn scorecard_test(suite: &str, test: &str) -> Value {
    json!({
        "op": "add",
        "path": "/stages/0/tests/-",
        "value": {
            "entrypoint": ["scorecard-test", test],
            "image": SCORECARD_IMAGE,
            "labels": {"suite": suite, "test": format!("{test}-test")},
        },
    })
}

/// Returns the start of the operator's ClusterServiceVersion, which its author completes.
pub fn cluster_service_version(operator: &Operator) -> Value {
    let project = &operator.project;
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "annotations": {"alm-examples": "[]", "capabilities": "Basic Install"},
            "name": format!("{project}.v0.0.0"),
            "namespace": "placeholder",
        },
        "spec": {
            "apiservicedefinitions": {},
            "customresourcedefinitions": {},
            "description": format!("What {project} does: text for the catalog."),
            "displayName": title(project),
            "icon": [{"base64data": "", "mediatype": ""}],
            "install": {"spec": {"deployments": null}, "strategy": ""},
            "installModes": install_modes(operator.namespaced),
            "keywords": [project],
            "links": [{"name": title(project), "url": format!("https://{project}.{}", operator.domain)}],
            "maintainers": [{"email": "your@email.com", "name": "Maintainer Name"}],
            "maturity": "alpha",
            "provider": {"name": "Provider Name", "url": "https://your.domain"},
            "version": "0.0.0",
        },
    })
}

fn install_modes(namespaced: bool) -> Value {
    let mode = |name: &str, supported: bool| json!({"supported": supported, "type": name});
    json!([
        mode("OwnNamespace", namespaced),
        mode("SingleNamespace", namespaced),
        mode("MultiNamespace", false),
        mode("AllNamespaces", !namespaced),
    ])
}

/// A ClusterServiceVersion lacks a required field.
#[derive(Debug, thiserror::Error)]
#[error("it has no `spec`")]
pub struct NoSpec;

/// Makes the kinds of these definitions the owned ones of a ClusterServiceVersion. Descriptions that the author wrote
/// are kept; missing ones are filled in from the definition.
///
/// # Errors
/// Returns an error if the value has no `spec`.
pub fn set_owned<'a>(
    version: &mut Value,
    definitions: impl IntoIterator<Item = &'a Value>,
) -> Result<(), NoSpec> {
    let spec = version
        .get_mut("spec")
        .and_then(Value::as_object_mut)
        .ok_or(NoSpec)?;
    let kinds = spec
        .entry("customresourcedefinitions")
        .or_insert_with(|| json!({}));
    let there = kinds["owned"].as_array().cloned().unwrap_or_default();
    let owned: Vec<Value> = definitions
        .into_iter()
        .flat_map(owned_versions)
        .map(|entry| {
            let same = there.iter().find(|there| {
                there["name"] == entry["name"]
                    && there["version"] == entry["version"]
                    && there["kind"] == entry["kind"]
            });
            same.map_or_else(|| entry.clone(), |there| filled(there, &entry))
        })
        .collect();
    if let Some(kinds) = kinds.as_object_mut() {
        kinds.insert("owned".to_owned(), Value::Array(owned));
    }
    Ok(())
}

fn filled(there: &Value, entry: &Value) -> Value {
    let mut filled = entry.as_object().cloned().unwrap_or_default();
    filled.extend(there.as_object().cloned().unwrap_or_default());
    Value::Object(filled)
}

fn owned_versions(definition: &Value) -> Vec<Value> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (name, kind) = (text("/metadata/name"), text("/spec/names/kind"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let entry = |version: &Value| {
        let description = version.pointer("/schema/openAPIV3Schema/description");
        json!({
            "description": description.and_then(Value::as_str).unwrap_or(kind),
            "displayName": spaced(kind),
            "kind": kind,
            "name": name,
            "version": version["name"],
        })
    };
    versions.into_iter().flatten().map(entry).collect()
}

/// Returns `MemcachedBackup` as `Memcached Backup`.
fn spaced(kind: &str) -> String {
    let mut out = String::new();
    let mut lower = false;
    for letter in kind.chars() {
        if lower && letter.is_ascii_uppercase() {
            out.push(' ');
        }
        lower = letter.is_ascii_lowercase();
        out.push(letter);
    }
    out
}

/// Returns `memcached-operator` as `Memcached Operator`.
fn title(project: &str) -> String {
    let words: Vec<String> = project
        .split('-')
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        })
        .collect();
    words.join(" ")
}
