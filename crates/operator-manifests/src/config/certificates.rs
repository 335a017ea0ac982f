//! `config/certmanager`: the certificates of the webhook server and the metrics server, and the injection of their CA.

use serde_json::{Value, json};

use super::{ARGS, ConfigTree, Operator, VOLUME_MOUNTS, VOLUMES};

const FOLDER: &str = "config/certmanager";
const API_VERSION: &str = "cert-manager.io/v1";
const WEBHOOK_DIRECTORY: &str = "/tmp/k8s-webhook-server/serving-certs";
const METRICS_DIRECTORY: &str = "/tmp/k8s-metrics-server/metrics-certs";

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    if !operator.cert_manager || !(operator.has_webhooks() || operator.metrics) {
        return;
    }
    let issuer = json!({
        "apiVersion": API_VERSION,
        "kind": "Issuer",
        "metadata": operator.metadata("selfsigned-issuer"),
        "spec": {"selfSigned": {}},
    });
    tree.resource(FOLDER, "issuer.yaml", &issuer, &[]);
    if operator.has_webhooks() {
        add_webhook(tree, operator);
    }
    if operator.metrics {
        add_metrics(tree, operator);
    }
    let comment = "Teaches kustomize that a Certificate names its Issuer.";
    tree.file(
        &format!("{FOLDER}/kustomizeconfig.yaml"),
        &configuration(),
        &[("", comment)],
    );
    tree.entry(FOLDER, "configurations", json!("kustomizeconfig.yaml"));
    tree.entry("config/default", "resources", json!("../certmanager"));
    let comment =
        "Names of Services and namespaces that kustomize changes, copied to where cert-manager reads them.";
    tree.file(
        "config/default/certmanager_replacements.yaml",
        &json!(replacements(operator)),
        &[("", comment)],
    );
    let entry = json!({"path": "certmanager_replacements.yaml"});
    tree.entry("config/default", "replacements", entry);
}

fn add_webhook(tree: &mut ConfigTree, operator: &Operator) {
    let certificate = certificate(operator, "serving-cert", "webhook-server-cert");
    tree.resource(FOLDER, "certificate-webhook.yaml", &certificate, &NAMES_COMMENT);
    mount(
        tree,
        "cert_webhook_manager_patch.yaml",
        "webhook",
        WEBHOOK_DIRECTORY,
        "webhook-server-cert",
    );
}

fn add_metrics(tree: &mut ConfigTree, operator: &Operator) {
    let certificate = certificate(operator, "metrics-certs", "metrics-server-cert");
    tree.resource(FOLDER, "certificate-metrics.yaml", &certificate, &NAMES_COMMENT);
    mount(
        tree,
        "cert_metrics_manager_patch.yaml",
        "metrics",
        METRICS_DIRECTORY,
        "metrics-server-cert",
    );
    let patch = json!([{
        "op": "replace",
        "path": "/spec/endpoints/0/tlsConfig",
        "value": {
            "ca": {"secret": {"key": "ca.crt", "name": "metrics-server-cert"}},
            "cert": {"secret": {"key": "tls.crt", "name": "metrics-server-cert"}},
            "insecureSkipVerify": false,
            "keySecret": {"key": "tls.key", "name": "metrics-server-cert"},
            "serverName": "SERVICE.NAMESPACE.svc",
        },
    }]);
    let comment = "Prometheus verifies the certificate that cert-manager made.";
    tree.file(
        "config/prometheus/monitor_tls_patch.yaml",
        &patch,
        &[("", comment)],
    );
    let entry = json!({"path": "monitor_tls_patch.yaml", "target": {"kind": "ServiceMonitor"}});
    tree.entry("config/prometheus", "patches", entry);
}

const NAMES_COMMENT: [(&str, &str); 1] = [(
    "/spec/dnsNames",
    "config/default puts the names of the Service and of the namespace here.",
)];

fn certificate(operator: &Operator, name: &str, secret: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Certificate",
        "metadata": operator.metadata(name),
        "spec": {
            "dnsNames": ["SERVICE.NAMESPACE.svc", "SERVICE.NAMESPACE.svc.cluster.local"],
            "issuerRef": {"kind": "Issuer", "name": "selfsigned-issuer"},
            "secretName": secret,
        },
    })
}

/// Mounts the Secret of a certificate into the operator's container, and sets the flag with the directory.
fn mount(tree: &mut ConfigTree, file: &str, server: &str, directory: &str, secret: &str) {
    let volume = format!("{server}-certs");
    tree.manager_patch(
        file,
        &[
            (ARGS, json!(format!("--{server}-cert-path={directory}"))),
            (
                VOLUME_MOUNTS,
                json!({"mountPath": directory, "name": volume, "readOnly": true}),
            ),
            (VOLUMES, json!({"name": volume, "secret": {"secretName": secret}})),
        ],
        "The certificate that cert-manager made.",
    );
}

fn configuration() -> Value {
    let field = json!({"group": "cert-manager.io", "kind": "Certificate", "path": "spec/issuerRef/name"});
    json!({
        "nameReference": [{"fieldSpecs": [field], "group": "cert-manager.io", "kind": "Issuer"}],
    })
}

/// A field whose delimited parts come from other objects.
struct Target {
    select: Value,
    fields: &'static [&'static str],
    delimiter: &'static str,
}

const INJECT: &[&str] = &[".metadata.annotations.[cert-manager.io/inject-ca-from]"];
const DNS_NAMES: &[&str] = &[".spec.dnsNames.0", ".spec.dnsNames.1"];
const SERVER_NAME: &[&str] = &[".spec.endpoints.0.tlsConfig.serverName"];

fn replacements(operator: &Operator) -> Vec<Value> {
    let mut all = Vec::new();
    if operator.has_webhooks() {
        let names = certificate_target("serving-cert");
        all.extend(copies(
            "Service",
            "webhook-service",
            [".metadata.name", ".metadata.namespace"],
            &[names],
        ));
        let injected = injected(operator);
        all.extend(copies(
            "Certificate",
            "serving-cert",
            [".metadata.namespace", ".metadata.name"],
            &injected,
        ));
    }
    if operator.metrics {
        let mut targets = vec![certificate_target("metrics-certs")];
        if operator.prometheus {
            let name = "controller-manager-metrics-monitor";
            targets.push(Target {
                select: json!({"group": "monitoring.coreos.com", "kind": "ServiceMonitor", "name": name}),
                fields: SERVER_NAME,
                delimiter: ".",
            });
        }
        let service = "controller-manager-metrics-service";
        all.extend(copies(
            "Service",
            service,
            [".metadata.name", ".metadata.namespace"],
            &targets,
        ));
    }
    all
}

fn certificate_target(name: &str) -> Target {
    Target {
        select: json!({"group": "cert-manager.io", "kind": "Certificate", "name": name}),
        fields: DNS_NAMES,
        delimiter: ".",
    }
}

/// Returns the objects that need the certificate authority of the webhooks.
fn injected(operator: &Operator) -> Vec<Target> {
    let target = |select: Value| Target {
        select,
        fields: INJECT,
        delimiter: "/",
    };
    let mut targets = Vec::new();
    if operator.kinds.iter().any(|kind| kind.defaulting) {
        targets.push(target(json!({"kind": "MutatingWebhookConfiguration"})));
    }
    if operator.kinds.iter().any(|kind| kind.validation) {
        targets.push(target(json!({"kind": "ValidatingWebhookConfiguration"})));
    }
    let mut names: Vec<String> = Vec::new();
    for kind in operator.kinds.iter().filter(|kind| kind.conversion) {
        let name = format!("{}.{}", kind.plural, kind.api_group);
        if !names.contains(&name) {
            targets.push(target(json!({"kind": "CustomResourceDefinition", "name": name})));
            names.push(name);
        }
    }
    targets
}

/// Returns two replacements: the first fills the first part of the targets, the second fills the second part.
fn copies(kind: &str, name: &str, source: [&str; 2], targets: &[Target]) -> Vec<Value> {
    let part = |(index, path): (usize, &str)| {
        let targets: Vec<Value> = targets
            .iter()
            .map(|target| {
                json!({
                    "fieldPaths": target.fields,
                    "options": {"create": true, "delimiter": target.delimiter, "index": index},
                    "select": target.select,
                })
            })
            .collect();
        json!({"source": {"fieldPath": path, "kind": kind, "name": name}, "targets": targets})
    };
    source.into_iter().enumerate().map(part).collect()
}
