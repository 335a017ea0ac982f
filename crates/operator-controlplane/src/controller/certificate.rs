//! Signs the certificates of approved CertificateSigningRequests, for the signers of kube-controller-manager.

use std::time::{Duration, SystemTime};

use builtin_kinds::certificate_request::{self, NameKind, Request};
use operator_apiserver::CertificateSigner;
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::CERTIFICATE_SIGNING_REQUEST;
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, update_status};

/// The lifetime of a certificate, unless the request has a shorter one.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
const LIFETIME_MIN: i64 = 600;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// Returns the controller.
pub(crate) fn controller(signer: CertificateSigner) -> Controller {
    Controller {
        name: "certificate-controller",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &signer)),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CERTIFICATE_SIGNING_REQUEST, event, keys);
}

fn plan(world: &World<'_>, key: &Key, signer: &CertificateSigner) -> Plan {
    let request = world.objects.get(&CERTIFICATE_SIGNING_REQUEST, "", &key.name);
    let is_open = |request: &&std::sync::Arc<Value>| {
        let is = |kind: &str| request.is_condition_true(kind);
        let is_decided = is("Denied") || is("Failed") || !request.text("/status/certificate").is_empty();
        is("Approved") && !is_decided && !request.is_terminating()
    };
    let Some(request) = request.filter(is_open) else {
        return Plan::done();
    };
    let name = request.text("/spec/signerName");
    if ![CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY].contains(&name) {
        return Plan::done();
    }
    let usages: Vec<&str> = request
        .items("/spec/usages")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let parsed = certificate_request::parse(request.text("/spec/request"));
    let parsed = parsed.map_err(|error| format!("unable to parse csr {:?}: {error}", key.name));
    let signed = parsed.and_then(|parsed| {
        check(name, &parsed, &usages)?;
        let now = SystemTime::from(world.now);
        let signed = signer.sign(&parsed, &usages, lifetime(request), now);
        signed.map_err(|error| error.to_string())
    });
    let mut status = request.get("status").cloned().unwrap_or_else(|| json!({}));
    match signed {
        Ok(certificate) => status["certificate"] = encoded(&certificate).into(),
        Err(why) => {
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
                "lastUpdateTime": time(world.now), "lastTransitionTime": time(world.now),
            });
            match status.get_mut("conditions").and_then(Value::as_array_mut) {
                Some(conditions) => conditions.push(failed),
                None => status["conditions"] = json!([failed]),
            }
        }
    }
    Plan::actions(
        update_status(&CERTIFICATE_SIGNING_REQUEST, request, status)
            .into_iter()
            .collect(),
    )
}

fn encoded(certificate: &str) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(certificate)
}

fn lifetime(request: &Value) -> Duration {
    let Some(seconds) = request.int("/spec/expirationSeconds") else {
        return LIFETIME;
    };
    Duration::from_secs(seconds.max(LIFETIME_MIN).unsigned_abs()).min(LIFETIME)
}

/// Checks a request by the rules of its signer.
fn check(signer: &str, request: &Request, usages: &[&str]) -> Result<(), String> {
    match signer {
        CLIENT => check_client(usages),
        KUBELET_CLIENT => check_kubelet_client(request, usages),
        KUBELET_SERVING => {
            let names = &request.name_kinds;
            if !names.contains(&NameKind::Dns) && !names.contains(&NameKind::Ip) {
                return Err("DNS or IP subjectAltName is required".to_owned());
            }
            check_node(request, usages, "server auth", &[NameKind::Dns, NameKind::Ip])
        }
        _ => Ok(()),
    }
}

fn check_client(usages: &[&str]) -> Result<(), String> {
    const OPTIONAL: [&str; 2] = ["digital signature", "key encipherment"];
    const REQUIRED: &str = "client auth";
    let other = usages
        .iter()
        .find(|usage| **usage != REQUIRED && !OPTIONAL.contains(*usage));
    if let Some(other) = other {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains(&REQUIRED) {
        return Err(format!(
            "missing required usage for client certificate: {REQUIRED}"
        ));
    }
    Ok(())
}

/// Checks the request of a kubelet for a client certificate.
pub(super) fn check_kubelet_client(request: &Request, usages: &[&str]) -> Result<(), String> {
    check_node(request, usages, "client auth", &[])
}

/// Checks the request of a kubelet, with the usage and the kinds of alternative names that it may have.
fn check_node(request: &Request, usages: &[&str], usage: &str, names: &[NameKind]) -> Result<(), String> {
    if request.organizations != [NODES] {
        return Err(format!("subject organization is not {NODES}"));
    }
    let refused = [
        (NameKind::Dns, "DNS"),
        (NameKind::Email, "Email"),
        (NameKind::Ip, "IP"),
        (NameKind::Uri, "URI"),
    ];
    for (kind, shown) in refused {
        if request.name_kinds.contains(&kind) && !names.contains(&kind) {
            return Err(format!("{shown} subjectAltNames are not allowed"));
        }
    }
    if !request.common_name.starts_with(NODE_PREFIX) {
        return Err(format!("subject common name does not begin with {NODE_PREFIX}"));
    }
    let with = ["key encipherment", "digital signature", usage];
    let without = ["digital signature", usage];
    let is_set = |wanted: &[&str]| {
        wanted.iter().all(|usage| usages.contains(usage)) && usages.iter().all(|usage| wanted.contains(usage))
    };
    if is_set(&with) || is_set(&without) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", with.join(" ")))
}
