//! `cluster up` and `run local`: what they say, what they leave behind, how they end and fail.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::running::Running;
use common::{CREATE_MEMCACHED, Dir, kubectl, sdk};

fn up(kubeconfig: &Path) -> (Running, String) {
    let mut cluster = Running::start(sdk().args(["cluster", "up", "--kubeconfig"]).arg(kubeconfig));
    let line = cluster.line_with("ready");
    (cluster, line)
}

#[test]
fn a_cluster_is_ready_with_its_kubeconfig_and_ends_cleanly() {
    let dir = Dir::named("cluster");
    let kubeconfig = dir.path.join("kubeconfig");
    let (cluster, line) = up(&kubeconfig);
    assert!(line.contains("https://127.0.0.1:"), "{line}");
    assert!(
        line.contains(&format!("KUBECONFIG={}", kubeconfig.display())),
        "{line}"
    );
    let mode = std::fs::metadata(&kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the key is for its owner alone");

    let names = kubectl(
        &["--kubeconfig", "kubeconfig", "get", "namespaces", "-o", "name"],
        &dir.path,
    );
    assert_eq!(
        names,
        "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"
    );
    let nodes = kubectl(
        &["--kubeconfig", "kubeconfig", "get", "nodes", "-o", "name"],
        &dir.path,
    );
    assert_eq!(nodes.lines().count(), 1);

    assert_eq!(cluster.stop().code(), Some(0));
    assert!(!kubeconfig.exists(), "what leads nowhere is removed");
}

#[test]
fn a_port_in_use() {
    let dir = Dir::named("cluster");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    let errors = dir.fails(&["cluster", "up", "--port", &port, "--kubeconfig", "kubeconfig"]);
    assert!(
        errors.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{errors}"
    );
    assert!(errors.contains("--port 0"), "{errors}");
}

#[test]
fn a_kubeconfig_of_another_cluster_is_not_overwritten() {
    let dir = Dir::named("cluster");
    dir.write(
        "config",
        "apiVersion: v1\nkind: Config\nclusters:\n- name: production\n  cluster: {}\n",
    );
    let errors = dir.fails(&["cluster", "up", "--kubeconfig", "config"]);
    assert!(
        errors.contains("is not a kubeconfig of an embedded control plane"),
        "{errors}"
    );
}

#[test]
fn a_kubeconfig_in_no_directory() {
    let errors = Dir::named("cluster").fails(&["cluster", "up", "--kubeconfig", "missing/kubeconfig"]);
    assert!(
        errors.contains("cannot write the kubeconfig missing/kubeconfig"),
        "{errors}"
    );
}

#[test]
fn a_kubeconfig_that_does_not_exist() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let errors = dir.fails(&["run", "local", "--kubeconfig", "missing"]);
    assert!(
        errors.contains("the kubeconfig missing does not exist"),
        "{errors}"
    );
    assert!(errors.contains("--embedded"), "{errors}");
}

#[test]
fn a_directory_that_is_no_project() {
    for command in [&["run", "local", "--embedded"][..], &["generate", "manifests"]] {
        let errors = Dir::named("op").fails(command);
        assert!(errors.contains("has no PROJECT file"), "{errors}");
    }
}

#[test]
fn a_quickstart_in_a_directory_with_files() {
    let dir = Dir::named("op");
    dir.write("notes.txt", "mine\n");
    let errors = dir.fails(&["quickstart", "--dir", "."]);
    assert!(errors.contains("is not empty"), "{errors}");
}
