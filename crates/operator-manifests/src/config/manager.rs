//! `config/manager`: the operator's namespace and Deployment.

use serde_json::{Value, json};

use super::{ConfigTree, ENV, Operator};
use crate::render;

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    let text = format!(
        "{}---\n{}",
        render::yaml(&namespace(operator)),
        render::commented(&deployment(operator), &COMMENTS)
    );
    tree.files.insert("config/manager/manager.yaml".to_owned(), text);
    tree.entry("config/manager", "resources", json!("manager.yaml"));
    if !operator.kinds.iter().all(|kind| !kind.defined) {
        tree.entry("config/default", "resources", json!("../crd"));
    }
    for kind in operator.defined() {
        tree.entry(
            "config/crd",
            "resources",
            json!(format!("bases/{}", kind.crd_file())),
        );
    }
    tree.entry("config/default", "resources", json!("../rbac"));
    tree.entry("config/default", "resources", json!("../manager"));
    if operator.namespaced {
        let watched = json!({
            "name": "WATCH_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        });
        tree.manager_patch(
            "manager_namespaced_patch.yaml",
            &[(ENV, watched)],
            "Limits the operator to its own namespace. A list with commas names several namespaces; each needs a\nRole and a RoleBinding like those in config/rbac.",
        );
    }
}

fn namespace(operator: &Operator) -> Value {
    let mut namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": operator.cluster_metadata("system"),
    });
    namespace["metadata"]["labels"]["control-plane"] = json!("controller-manager");
    namespace
}

const COMMENTS: [(&str, &str); 6] = [
    (
        "/spec/template/spec/securityContext",
        "Required by the `restricted` Pod Security Standard.",
    ),
    (
        "/spec/template/spec/containers/0/resources",
        "Enough for a small operator. Measure yours before you change these values.",
    ),
    (
        "/spec/template/spec/containers/0/volumeMounts",
        "Patches append to this list and to the list of volumes, so both exist even if they are empty.",
    ),
    (
        "/spec/template/spec/containers/0/env/0",
        "The namespace of the leader's Lease and of the operator's own objects.",
    ),
    (
        "/spec/template/spec/containers/0/args",
        "`--help` tells about all of them.",
    ),
    (
        "/spec/replicas",
        "With several replicas, one is elected as the leader, and another one takes over when it stops.",
    ),
];

fn deployment(operator: &Operator) -> Value {
    let mut metadata = operator.metadata("controller-manager");
    metadata["labels"]["control-plane"] = json!("controller-manager");
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": operator.selector()},
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                    "labels": operator.selector(),
                },
                "spec": {
                    "containers": [container()],
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "serviceAccountName": "controller-manager",
                    "terminationGracePeriodSeconds": 10,
                    "volumes": [],
                },
            },
        },
    })
}

fn container() -> Value {
    let probe = |path: &str, delay: u32, period: u32| {
        json!({
            "httpGet": {"path": path, "port": "health"},
            "initialDelaySeconds": delay,
            "periodSeconds": period,
        })
    };
    json!({
        "args": ["--leader-elect", "--health-probe-bind-address=:8081"],
        "env": [{
            "name": "POD_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        }],
        "image": "controller:latest",
        "livenessProbe": probe("/healthz", 15, 20),
        "name": "manager",
        "ports": [{"containerPort": 8081, "name": "health", "protocol": "TCP"}],
        "readinessProbe": probe("/readyz", 5, 10),
        "resources": {
            "limits": {"cpu": "500m", "memory": "128Mi"},
            "requests": {"cpu": "10m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [],
    })
}
