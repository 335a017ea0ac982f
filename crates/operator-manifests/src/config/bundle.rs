//! `config/manifests` and `config/scorecard`: what an OLM bundle is made from.

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

/// The start of the operator's ClusterServiceVersion, which its author completes.
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

/// `memcached-operator` as `Memcached Operator`.
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
