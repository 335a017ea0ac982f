//! Operator Lifecycle Manager on the embedded control plane, through the CLI and kubectl.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::path::Path;

use common::running::Running;
use common::{Dir, kubectl, sdk};
use serde_json::Value;

/// Writes the recorded bundle `memcached`.
fn write_bundle(dir: &Dir, path: &str) {
    let recorded = include_str!("../../operator-olm/tests/recorded/bundles.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    for (file, text) in recorded["base"]["memcached"].as_object().unwrap() {
        dir.write(&format!("{path}/{file}"), text.as_str().unwrap());
    }
}

fn cluster(dir: &Path, flags: &[&str]) -> Running {
    let mut command = sdk();
    command
        .args(["cluster", "up", "--kubeconfig", "kubeconfig"])
        .args(flags)
        .current_dir(dir);
    let mut running = Running::start(&mut command);
    running.line_with("The control plane is ready");
    running
}

#[track_caller]
fn in_cluster(dir: &Path, arguments: &[&str]) -> String {
    kubectl(&[&["--kubeconfig", "kubeconfig"], arguments].concat(), dir)
}

const SUBSCRIBED: &str = "\
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: all, namespace: default}
spec: {}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: memcached, namespace: default}
spec: {name: memcached-operator, channel: alpha, source: catalog, sourceNamespace: olm}
";

#[test]
fn a_catalog_of_a_directory_installs_an_operator() {
    let dir = Dir::named("olm-catalog");
    write_bundle(&dir, "bundle");
    dir.ok(&["catalog", "init", "catalog", "--package", "memcached-operator"]);
    dir.ok(&["catalog", "add", "catalog", "bundle", "--channels", "alpha"]);
    let _cluster = cluster(&dir.path, &["--olm", "--catalog", "catalog"]);
    let manifests = || in_cluster(&dir.path, &["get", "packagemanifests", "-o", "name"]);
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=create",
            "--timeout=60s",
            "packagemanifest/memcached-operator",
        ],
    );
    assert_eq!(
        manifests(),
        "packagemanifest.packages.operators.coreos.com/memcached-operator\n"
    );
    dir.write("subscribed.yaml", SUBSCRIBED);
    in_cluster(&dir.path, &["apply", "-f", "subscribed.yaml"]);
    let csv = "csv/memcached-operator.v0.0.1";
    in_cluster(&dir.path, &["wait", "--for=create", "--timeout=60s", csv]);
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=jsonpath={.status.phase}=Succeeded",
            "--timeout=60s",
            csv,
        ],
    );
    let table = in_cluster(&dir.path, &["get", csv]);
    assert!(table.contains("Succeeded"), "{table}");
    let state = in_cluster(
        &dir.path,
        &["get", "sub", "memcached", "-o", "jsonpath={.status.state}"],
    );
    assert_eq!(state, "AtLatestKnown");
}
