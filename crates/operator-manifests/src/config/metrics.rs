//! The metrics server: its port and Service, the ServiceMonitor of `config/prometheus`, and its network policy.

use serde_json::{Value, json};

use super::{ARGS, ConfigTree, METRICS_PORT, Operator, PORTS};

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    if !operator.metrics {
        return;
    }
    let port = json!({"containerPort": METRICS_PORT, "name": "metrics", "protocol": "TCP"});
    tree.manager_patch(
        "manager_metrics_patch.yaml",
        &[
            (ARGS, json!(format!("--metrics-bind-address=:{METRICS_PORT}"))),
            (PORTS, port),
        ],
        "Serves the metrics over HTTPS, to authorized clients.",
    );
    tree.resource("config/default", "metrics_service.yaml", &service(operator), &[]);
    tree.resource("config/prometheus", "monitor.yaml", &monitor(operator), &COMMENTS);
    let policy = network_policy(operator);
    let comment = "Permits access to the metrics from namespaces with the label `metrics: enabled`.";
    tree.resource(
        "config/network-policy",
        "allow-metrics-traffic.yaml",
        &policy,
        &[("", comment)],
    );
    if operator.prometheus {
        tree.entry("config/default", "resources", json!("../prometheus"));
    }
}

fn service(operator: &Operator) -> Value {
    let mut metadata = operator.metadata("controller-manager-metrics-service");
    metadata["labels"]["control-plane"] = json!("controller-manager");
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "ports": [{"name": "https", "port": METRICS_PORT, "protocol": "TCP", "targetPort": METRICS_PORT}],
            "selector": operator.selector(),
        },
    })
}

const COMMENTS: [(&str, &str); 2] = [
    (
        "",
        "Needs the Prometheus operator, whose service account must be bound to the role metrics-reader.",
    ),
    (
        "/spec/endpoints/0/tlsConfig/insecureSkipVerify",
        "The operator creates this certificate itself; with `operator-sdk edit --cert-manager`, it can be verified.",
    ),
];

fn monitor(operator: &Operator) -> Value {
    let mut metadata = operator.metadata("controller-manager-metrics-monitor");
    metadata["labels"]["control-plane"] = json!("controller-manager");
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": {
            "endpoints": [{
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "path": "/metrics",
                "port": "https",
                "scheme": "https",
                "tlsConfig": {"insecureSkipVerify": true},
            }],
            "selector": {"matchLabels": operator.selector()},
        },
    })
}

fn network_policy(operator: &Operator) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": operator.metadata("allow-metrics-traffic"),
        "spec": {
            "ingress": [{
                "from": [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}],
                "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
            }],
            "podSelector": {"matchLabels": operator.selector()},
            "policyTypes": ["Ingress"],
        },
    })
}
