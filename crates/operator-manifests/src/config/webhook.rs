//! The webhook server: its Service and port, its network policy, and the conversion stanza of definitions.

use serde_json::{Value, json};

use super::{ConfigTree, Kind, Operator, PORTS, WEBHOOK_PORT};

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    if operator.has_webhooks() {
        if operator.has_admission() {
            tree.entry("config/webhook", "resources", json!("manifests.yaml"));
        }
        tree.resource("config/webhook", "service.yaml", &service(operator), &[]);
        tree.entry("config/default", "resources", json!("../webhook"));
        let port = json!({"containerPort": WEBHOOK_PORT, "name": "webhook-server", "protocol": "TCP"});
        tree.manager_patch(
            "manager_webhook_patch.yaml",
            &[(PORTS, port)],
            "The target port of the Service of the webhooks.",
        );
        let comment = "Permits calls of the webhooks from everywhere, because no label selects the API server. The port is\nthat of the pod.";
        tree.resource(
            "config/network-policy",
            "allow-webhook-traffic.yaml",
            &network_policy(operator),
            &[("", comment)],
        );
    }
    add_conversion(tree, operator);
    if operator.network_policy && (operator.metrics || operator.has_webhooks()) {
        tree.entry("config/default", "resources", json!("../network-policy"));
    }
}

fn service(operator: &Operator) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": operator.metadata("webhook-service"),
        "spec": {
            "ports": [{"port": 443, "protocol": "TCP", "targetPort": WEBHOOK_PORT}],
            "selector": operator.selector(),
        },
    })
}

fn network_policy(operator: &Operator) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": operator.metadata("allow-webhook-traffic"),
        "spec": {
            "ingress": [{"ports": [{"port": WEBHOOK_PORT, "protocol": "TCP"}]}],
            "podSelector": {"matchLabels": operator.selector()},
            "policyTypes": ["Ingress"],
        },
    })
}

fn add_conversion(tree: &mut ConfigTree, operator: &Operator) {
    let mut converted: Vec<&Kind> = Vec::new();
    for kind in operator.kinds.iter().filter(|kind| kind.conversion) {
        if !converted.iter().any(|there| there.is_same(kind)) {
            converted.push(kind);
        }
    }
    for kind in &converted {
        let file = match kind.grouped {
            true => format!("patches/webhook_in_{}_{}.yaml", kind.group, kind.plural),
            false => format!("patches/webhook_in_{}.yaml", kind.plural),
        };
        let comment = "The API server has the webhook convert between the versions of this kind.";
        tree.file(&format!("config/crd/{file}"), &conversion(kind), &[("", comment)]);
        tree.entry("config/crd", "patches", json!({"path": file}));
    }
    if !converted.is_empty() {
        tree.file(
            "config/crd/kustomizeconfig.yaml",
            &crd_configuration(),
            &[("", CONFIGURATION)],
        );
        tree.entry("config/crd", "configurations", json!("kustomizeconfig.yaml"));
    }
}

const CONFIGURATION: &str =
    "Tells kustomize the field of a definition that names the Service of its webhook.";

fn conversion(kind: &Kind) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, kind.api_group)},
        "spec": {"conversion": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {
                    "name": "webhook-service",
                    "namespace": "system",
                    "path": "/convert",
                }},
                "conversionReviewVersions": ["v1"],
            },
        }},
    })
}

fn crd_configuration() -> Value {
    let field = |name: &str| {
        json!({
            "group": "apiextensions.k8s.io",
            "kind": "CustomResourceDefinition",
            "path": format!("spec/conversion/webhook/clientConfig/service/{name}"),
        })
    };
    let mut namespace = field("namespace");
    namespace["create"] = json!(false);
    json!({
        "nameReference": [{"kind": "Service", "version": "v1", "fieldSpecs": [field("name")]}],
        "namespace": [namespace],
    })
}
