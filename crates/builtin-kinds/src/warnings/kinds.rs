//! Warnings about kinds that have no pods or pod templates.

use base64::Engine as _;
use serde_json::Value;

use crate::tree::{at, entries, is_zero, list, text};

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) fn service(warnings: &mut Vec<String>, service: &Value) {
    let spec = at(service, &["spec"]);
    if text(spec, &["clusterIP"]) == "None" {
        for (field, is_used) in [
            ("loadBalancerIP", !text(spec, &["loadBalancerIP"]).is_empty()),
            ("externalIPs", !is_zero(at(spec, &["externalIPs"]))),
            ("SessionAffinity", text(spec, &["sessionAffinity"]) != "None"),
        ] {
            if is_used {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    load_balancer_ip(warnings, text(spec, &["loadBalancerIP"]));
    if text(spec, &["type"]) == "ExternalName" && !is_zero(at(spec, &["externalIPs"])) {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    } else if text(spec, &["clusterIP"]) != "None" && !is_zero(at(spec, &["externalIPs"])) {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if text(spec, &["type"]) != "ExternalName" && !text(spec, &["externalName"]).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, &["trafficDistribution"]) == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
}

/// Warns about an address with leading zeros, which older versions accepted.
fn load_balancer_ip(warnings: &mut Vec<String>, address: &str) {
    let parts: Option<Vec<u8>> = address.split('.').map(|part| part.parse().ok()).collect();
    if let Some([a, b, c, d]) = parts.as_deref() {
        let standard = format!("{a}.{b}.{c}.{d}");
        if address != standard {
            warnings.push(format!(
                "spec.loadBalancerIP: non-standard IP address {address:?} is invalid: use {standard:?}"
            ));
        }
    }
}

pub(super) fn service_account(warnings: &mut Vec<String>, account: &Value, old: Option<&Value>) {
    let is_set = |object: &Value| !at(object, &["metadata", "annotations", MOUNTABLE]).is_null();
    if is_set(account) && !old.is_some_and(is_set) {
        warnings.push(format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}

pub(super) fn csi_driver(warnings: &mut Vec<String>, driver: &Value) {
    let spec = at(driver, &["spec"]);
    if !list(spec, &["tokenRequests"]).is_empty() && at(spec, &["serviceAccountTokenInSecrets"]).is_null() {
        warnings.push(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
                .to_owned(),
        );
    }
}

pub(super) fn node(warnings: &mut Vec<String>, node: &Value, old: Option<&Value>) {
    let is_set = |object: &Value| !text(object, &["spec", "externalID"]).is_empty();
    if is_set(node) && !old.is_some_and(is_set) {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
}

/// Old labels of nodes, with their new names.
const OLD_LABELS: [(&str, &str); 5] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
];

pub(super) fn old_label(label: &str) -> Option<&'static str> {
    OLD_LABELS
        .iter()
        .find(|(known, _)| *known == label)
        .map(|(_, why)| *why)
}

pub(super) fn storage_class(warnings: &mut Vec<String>, class: &Value) {
    for (index, topology) in list(class, &["allowedTopologies"]).iter().enumerate() {
        for (place, expression) in list(topology, &["matchLabelExpressions"]).iter().enumerate() {
            if let Some(why) = old_label(text(expression, &["key"])) {
                warnings.push(format!(
                    "allowedTopologies[{index}].matchLabelExpressions[{place}].key: {why}"
                ));
            }
        }
    }
}

pub(super) fn runtime_class(warnings: &mut Vec<String>, class: &Value) {
    for (label, _) in entries(class, &["scheduling", "nodeSelector"]) {
        if let Some(why) = old_label(label) {
            warnings.push(format!("scheduling.nodeSelector: {why}"));
        }
    }
}

/// Adds the error of Go's `tls.X509KeyPair` about the PEM blocks of a TLS secret as a warning.
pub(super) fn secret(warnings: &mut Vec<String>, secret: &Value) {
    if text(secret, &["type"]) != "kubernetes.io/tls" {
        return;
    }
    let blocks = |field: &str| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text(secret, &["data", field]));
        block_types(&String::from_utf8_lossy(&bytes.unwrap_or_default()))
    };
    let is_key = |block: &String| block == "PRIVATE KEY" || block.ends_with(" PRIVATE KEY");
    let (certificates, keys) = (blocks("tls.crt"), blocks("tls.key"));
    let fault = if !certificates.iter().any(|block| block == "CERTIFICATE") {
        match &certificates[..] {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
            }
            blocks => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                blocks.join(" ")
            ),
        }
    } else if !keys.iter().any(is_key) {
        match &keys[..] {
            [] => "tls: failed to find any PEM data in key input".to_owned(),
            [only] if only == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
            }
            blocks => format!(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
                blocks.join(" ")
            ),
        }
    } else {
        return;
    };
    warnings.push(fault);
}

/// Returns the types of the PEM blocks of a text.
fn block_types(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<&str> = None;
    for line in text.lines().map(str::trim) {
        let name = |prefix: &str| line.strip_prefix(prefix)?.strip_suffix("-----");
        if let Some(block) = name("-----BEGIN ") {
            open = Some(block);
        } else if let Some(block) = name("-----END ")
            && open.take() == Some(block)
        {
            blocks.push(block.to_owned());
        }
    }
    blocks
}
