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

/// Returns the first draft of the operator's ClusterServiceVersion, which its author completes.
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

const SPEC_DESCRIPTORS: &str = "specDescriptors";
const STATUS_DESCRIPTORS: &str = "statusDescriptors";

/// A ClusterServiceVersion lacks a required field.
#[derive(Debug, thiserror::Error)]
#[error("it has no `spec`")]
pub struct NoSpec;

/// Makes the kinds of these definitions the owned ones of a ClusterServiceVersion. Descriptions that the author wrote
/// are kept. Missing descriptions are filled in from the definition, and so are the descriptors of the fields of spec
/// and status.
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
    for list in [SPEC_DESCRIPTORS, STATUS_DESCRIPTORS] {
        let merged = descriptors_of(&there[list], &entry[list]);
        if !merged.is_empty() {
            filled.insert(list.to_owned(), Value::Array(merged));
        }
    }
    Value::Object(filled)
}

/// Merges the author's descriptors with those of the fields, by path. The author's descriptors come first, in their
/// order.
fn descriptors_of(there: &Value, fields: &Value) -> Vec<Value> {
    let there = there.as_array().map(Vec::as_slice).unwrap_or_default();
    let fields = fields.as_array().map(Vec::as_slice).unwrap_or_default();
    let find = |list: &[Value], path: &Value| list.iter().find(|one| one["path"] == *path).cloned();
    let kept = there.iter().map(|own| {
        let field = find(fields, &own["path"]).unwrap_or_default();
        let mut filled = field.as_object().cloned().unwrap_or_default();
        filled.extend(own.as_object().cloned().unwrap_or_default());
        Value::Object(filled)
    });
    let new = fields
        .iter()
        .filter(|field| find(there, &field["path"]).is_none());
    kept.chain(new.cloned()).collect()
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
        let schema = &version["schema"]["openAPIV3Schema"];
        let mut entry = json!({
            "description": schema["description"].as_str().unwrap_or(kind),
            "displayName": spaced(kind),
            "kind": kind,
            "name": name,
            "version": version["name"],
        });
        for (list, part) in [(SPEC_DESCRIPTORS, "spec"), (STATUS_DESCRIPTORS, "status")] {
            let fields = schema["properties"][part]["properties"].as_object();
            let fields = fields.into_iter().flatten();
            let descriptors: Vec<Value> = fields.map(|(path, field)| descriptor(path, field)).collect();
            if !descriptors.is_empty() {
                entry[list] = Value::Array(descriptors);
            }
        }
        entry
    };
    versions.into_iter().flatten().map(entry).collect()
}

/// Returns the descriptor of a field: its title, its description, and the control that consoles use for its type.
fn descriptor(path: &str, schema: &Value) -> Value {
    let mut descriptor = json!({"path": path});
    let title = schema["title"].as_str().map(str::to_owned);
    let mut letters = path.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let name: String = first.into_iter().chain(letters).collect();
    descriptor["displayName"] = title.unwrap_or_else(|| spaced(&name)).into();
    if let Some(description) = schema["description"].as_str() {
        descriptor["description"] = description.into();
    }
    let control = |name: &str| format!("urn:alm:descriptor:com.tectonic.ui:{name}");
    let choices = schema["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
    let choices: Vec<String> = choices
        .iter()
        .filter_map(Value::as_str)
        .map(|choice| control(&format!("select:{choice}")))
        .collect();
    let controls = match schema["type"].as_str() {
        _ if !choices.is_empty() => choices,
        Some("boolean") => vec![control("booleanSwitch")],
        Some("integer" | "number") => vec![control("number")],
        Some("string") if schema["format"] == "password" => vec![control("password")],
        Some("string") => vec![control("text")],
        Some("array") if path == "conditions" => {
            vec!["urn:alm:descriptor:io.kubernetes.conditions".to_owned()]
        }
        _ => Vec::new(),
    };
    if !controls.is_empty() {
        descriptor["x-descriptors"] = json!(controls);
    }
    descriptor
}

/// Inserts spaces between the words of a kind: `MemcachedBackup` becomes `Memcached Backup`.
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

/// Converts the name of a project to a title: `memcached-operator` becomes `Memcached Operator`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_get_descriptors_and_edits_are_kept() {
        let definition = json!({
            "metadata": {"name": "webs.example.com"},
            "spec": {"names": {"kind": "Web"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {
                "spec": {"properties": {
                    "logLevel": {"type": "string", "enum": ["info", "debug"], "nullable": true},
                    "size": {"type": "integer", "title": "Instances", "description": "The number of instances."},
                    "tls": {"type": "object"},
                }},
                "status": {"properties": {"conditions": {"type": "array"}}},
            }}}}]},
        });
        let mut version = json!({"spec": {"customresourcedefinitions": {"owned": [{
            "name": "webs.example.com", "version": "v1", "kind": "Web",
            "specDescriptors": [{"path": "size", "displayName": "Size"}, {"path": "tls.secret"}],
        }]}}});
        set_owned(&mut version, [&definition]).expect("it has a spec");
        let owned = &version["spec"]["customresourcedefinitions"]["owned"][0];
        let ui = "urn:alm:descriptor:com.tectonic.ui";
        assert_eq!(
            owned["specDescriptors"],
            json!([
                {
                    "path": "size", "displayName": "Size", "description": "The number of instances.",
                    "x-descriptors": [format!("{ui}:number")],
                },
                {"path": "tls.secret"},
                {
                    "path": "logLevel", "displayName": "Log Level",
                    "x-descriptors": [format!("{ui}:select:info"), format!("{ui}:select:debug")],
                },
                {"path": "tls", "displayName": "Tls"},
            ])
        );
        assert_eq!(
            owned["statusDescriptors"],
            json!([{
                "path": "conditions", "displayName": "Conditions",
                "x-descriptors": ["urn:alm:descriptor:io.kubernetes.conditions"],
            }])
        );
        let once = version.clone();
        set_owned(&mut version, [&definition]).expect("it has a spec");
        assert_eq!(version, once);
    }
}
