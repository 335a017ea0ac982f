//! Tests that rendered kustomize trees equal the output of kubectl.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::path::Path;
use std::process::Command;

use operator_manifests::kustomize::build::{BuildError, Overrides, build};
use operator_manifests::kustomize::order::sort_objects;
use serde_json::Value;

/// Splits a text into files; each begins with its path as a header: `== path`.
fn split(text: &str) -> Vec<(String, String)> {
    let parts = text.split("== ").skip(1);
    let files = parts.map(|part| part.split_once('\n').unwrap());
    files
        .map(|(path, text)| (path.trim().to_owned(), text.to_owned()))
        .collect()
}

fn ours(files: &[(String, String)], directory: &str) -> Result<Vec<Value>, BuildError> {
    let read = |path: &str| {
        files
            .iter()
            .find(|(there, _)| there == path)
            .map(|(_, text)| text.clone())
    };
    build(directory, &read, &Overrides::default())
}

/// Returns the output of kubectl for the same files.
fn theirs(root: &Path, directory: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .args(["kustomize", "--load-restrictor=LoadRestrictionsNone", directory])
        .current_dir(root)
        .output()
        .expect("kubectl must be installed: this test does not skip");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

#[track_caller]
fn same(files: &str, directory: &str) {
    let files = split(files);
    let root = tempfile::tempdir().unwrap();
    for (path, text) in &files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let ours = ours(&files, directory).unwrap();
    let mut theirs = theirs(root.path(), directory);
    sort_objects(&mut theirs);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
        assert_eq!(text(ours), text(theirs));
    }
}

const OPERATOR: &str = include_str!("trees/operator.txt");
const TRANSFORMERS: &str = include_str!("trees/transformers.txt");

#[test]
fn an_operator_with_everything() {
    same(OPERATOR, "config/default");
}

#[test]
fn every_transformer() {
    same(TRANSFORMERS, "overlay");
}

#[test]
fn the_sample_operator() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator");
    let directories = [
        "config/crd",
        "config/default",
        "config/manifests",
        "config/network-policy",
        "config/prometheus",
        "config/rbac",
        "config/samples",
        "config/scorecard",
    ];
    for directory in directories {
        let read = |path: &str| std::fs::read_to_string(sample.join(path)).ok();
        let ours = build(directory, &read, &Overrides::default()).unwrap();
        let mut theirs = theirs(&sample, directory);
        sort_objects(&mut theirs);
        assert_eq!(ours, theirs, "{directory}");
    }
}

#[test]
fn overrides_win_over_the_tree() {
    let files = split(OPERATOR);
    let read = |path: &str| {
        files
            .iter()
            .find(|(there, _)| there == path)
            .map(|(_, text)| text.clone())
    };
    let overrides = Overrides {
        images: vec![("controller".to_owned(), "localhost:5000/op:v2".to_owned())],
        namespace: Some("elsewhere".to_owned()),
    };
    let objects = build("config/default", &read, &overrides).unwrap();
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let containers = of("Deployment")
        .pointer("/spec/template/spec/containers")
        .unwrap();
    let images: Vec<&str> = containers
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["image"].as_str().unwrap())
        .collect();
    assert!(images.contains(&"localhost:5000/op:v2"), "{images:?}");
    assert_eq!(of("Namespace")["metadata"]["name"], "elsewhere");
    assert_eq!(of("ClusterRoleBinding")["subjects"][0]["namespace"], "elsewhere");
}

#[test]
fn errors_name_the_file() {
    let cases = [
        (
            "== kustomization.yaml\nresources:\n- gone.yaml\n",
            "gone.yaml does not exist",
        ),
        (
            "== kustomization.yaml\nconfigMapGenerator:\n- name: a\n",
            "uses `configMapGenerator`, which is not supported",
        ),
        (
            "== kustomization.yaml\nresources:\n- https://example.com/a.yaml\n",
            "which is not supported",
        ),
        ("== kustomization.yaml\nresources: 7\n", "`resources`"),
        ("== kustomization.yaml\nresources: [\n", "kustomization.yaml: "),
        ("== kustomization.yaml\n- a\n", "it is not one mapping"),
        ("== kustomization.yaml\nresources:\n- .\n", "contains itself"),
        (
            "== kustomization.yaml\nresources:\n- a.yaml\n== a.yaml\nkind: Pod\n",
            "an object has no `apiVersion`",
        ),
        (
            "== kustomization.yaml\nresources:\n- a.yaml\n- b.yaml\n== a.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n== b.yaml\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
            "Pod \"a\" is there already",
        ),
        (
            "== kustomization.yaml\npatches:\n- patch: |\n    apiVersion: v1\n    kind: Pod\n    metadata: {name: a}\n",
            "which is not there",
        ),
        (
            "== kustomization.yaml\npatches:\n- patch: |\n    - op: remove\n      path: /a\n",
            "needs a `target`",
        ),
        (
            "== kustomization.yaml\npatches:\n- target: {kind: Pod}\n",
            "either `patch` or `path`",
        ),
        (
            "== kustomization.yaml\nreplacements:\n- source: {kind: Service, name: s}\n  targets: []\n",
            "nothing is selected by the source Service s",
        ),
    ];
    for (files, message) in cases {
        let error = ours(&split(files), "").unwrap_err().to_string();
        assert!(error.contains(message), "{message:?} is missing: {error}");
    }
}
