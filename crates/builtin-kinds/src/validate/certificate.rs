//! Validates CertificateSigningRequests and their statuses.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::check::Check;
use crate::certificate_request;
use crate::tree::{at, list, text};

/// The usages of a certificate, in the order of errors.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn usages(check: &mut Check, spec: &Value, path: &Path) {
    let usages = list(spec, &["usages"]);
    if usages.is_empty() {
        check.required(path.clone(), "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(&usage.as_str().unwrap_or_default()) {
            let error = Error::not_supported(path.index(index), usage, USAGES);
            check.errors.push(error);
        }
    }
    let mut seen = HashSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !seen.insert(usage) {
            check.duplicate(path.index(index), usage);
        }
    }
}

/// Validates a new request.
pub(super) fn signing_request(check: &mut Check, object: &Value) {
    request(check, object, None);
}

/// Validates a changed request. Approval conditions change through `approval`, certificates through `status`.
pub(super) fn signing_request_update(check: &mut Check, subresource: &str, object: &Value, old: &Value) {
    request(check, object, Some(old));
    let path = Path::new("status").child("conditions");
    for kind in DECISIONS {
        let (before, now) = (of_type(old, kind), of_type(object, kind));
        if now.len() < before.len() {
            check.forbidden(
                path.clone(),
                format!("updates may not remove a condition of type {kind:?}"),
            );
        } else if subresource != "approval" && kind != "Failed" && now.len() > before.len() {
            check.forbidden(
                path.clone(),
                format!("updates may not add a condition of type {kind:?}"),
            );
        } else if subresource != "approval" && kind != "Failed" && now != before {
            check.forbidden(
                path.clone(),
                format!("updates may not modify a condition of type {kind:?}"),
            );
        }
    }
    let certificate = |request| text(request, &["status", "certificate"]);
    if certificate(object) != certificate(old) {
        let path = Path::new("status").child("certificate");
        if subresource != "status" {
            check.forbidden(path, "updates may not set certificate content");
        } else if !certificate(old).is_empty() {
            check.forbidden(path, "updates may not modify existing certificate content");
        }
    }
}

/// The condition types of a request.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

fn of_type<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    let conditions = list(request, &["status", "conditions"]).iter();
    conditions
        .filter(|condition| text(condition, &["type"]) == kind)
        .collect()
}

fn request(check: &mut Check, object: &Value, old: Option<&Value>) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let request = at(spec, &["request"]);
    if let Err(why) = certificate_request::organizations(request.as_str().unwrap_or_default()) {
        check.invalid(path.child("request"), request, why.to_string());
    }
    usages(check, spec, &path.child("usages"));
    signer_name(
        check,
        text(spec, &["signerName"]),
        old.is_some(),
        &path.child("signerName"),
    );
    let expiration = at(spec, &["expirationSeconds"]);
    if expiration.as_i64().is_some_and(|seconds| seconds < 600) {
        check.invalid(
            path.child("expirationSeconds"),
            expiration,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
    conditions(check, object, &Path::new("status").child("conditions"));
    let certificate = text(object, &["status", "certificate"]);
    let is_news = old.is_none_or(|old| text(old, &["status", "certificate"]) != certificate);
    if is_news && let Err(why) = check_certificate(certificate) {
        let path = Path::new("status").child("certificate");
        check.invalid(path, &"<certificate data>".into(), why);
    }
}

/// Validates a domain of at least two segments, a slash, and a path of dotted names.
fn signer_name(check: &mut Check, name: &str, is_stored: bool, path: &Path) {
    if name == "kubernetes.io/legacy-unknown" {
        if !is_stored {
            check.invalid(
                path.clone(),
                &name.into(),
                "the legacy signerName is not allowed via this API version",
            );
        }
        return;
    }
    if name.is_empty() {
        return check.required(path.clone(), "");
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, rest] = segments.as_slice() else {
        return check.invalid(
            path.clone(),
            &name.into(),
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    };
    labels(check, domain, names::dns1123_label, path);
    if !domain.contains('.') {
        check.invalid(
            path.clone(),
            &(*domain).into(),
            "should be a domain with at least two segments separated by dots",
        );
    }
    labels(check, rest, names::dns1123_subdomain, path);
}

/// Returns the first invalid label of a dotted name.
fn labels(check: &mut Check, name: &str, faults: fn(&str) -> Vec<String>, path: &Path) {
    for label in name.split('.') {
        let faults = faults(label);
        for fault in &faults {
            check.invalid(
                path.clone(),
                &name.into(),
                format!("validating label {label:?}: {fault}"),
            );
        }
        if !faults.is_empty() {
            return;
        }
    }
}

fn conditions(check: &mut Check, object: &Value, path: &Path) {
    let conditions = list(object, &["status", "conditions"]);
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let place = path.index(index);
        let kind = text(condition, &["type"]);
        if kind.is_empty() {
            check.required(place.child("type"), "");
        }
        if text(condition, &["status"]).is_empty() {
            check.required(place.child("status"), "");
        } else if DECISIONS.contains(&kind) {
            check.one_of(condition, &place, "status", &["True"]);
        } else {
            check.one_of(condition, &place, "status", &["False", "True", "Unknown"]);
        }
        let excluded = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !excluded.is_empty() && seen.contains(&excluded) {
            check.invalid(
                path.clone(),
                &kind.into(),
                "Approved and Denied conditions are mutually exclusive",
            );
        }
        if !seen.insert(kind) {
            check.duplicate(place.child("type"), &kind.into());
        }
    }
}

/// Returns true if base64 bytes are PEM blocks of certificates; the contents of the blocks are not parsed.
fn check_certificate(certificate: &str) -> Result<(), String> {
    if certificate.is_empty() {
        return Ok(());
    }
    let bytes = BASE64_STANDARD.decode(certificate).unwrap_or_default();
    let pem = String::from_utf8_lossy(&bytes);
    let kinds = pem.split("-----BEGIN ").skip(1);
    let kinds: Vec<&str> = kinds.filter_map(|block| block.split("-----").next()).collect();
    match kinds.iter().find(|kind| **kind != "CERTIFICATE") {
        Some(other) => Err(format!(
            "only CERTIFICATE PEM blocks are allowed, found {other:?}"
        )),
        None if kinds.is_empty() => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        None => Ok(()),
    }
}
