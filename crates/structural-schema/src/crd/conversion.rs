//! Validates the field `conversion`.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{names, webhook};
use serde_json::Value;

use super::{enumeration, text_at};

/// Returns the errors of `conversion`; `check_bundle` is true if an invalid certificate bundle is rejected.
pub(super) fn validate(conversion: Option<&Value>, check_bundle: bool, path: &Path, errors: &mut ErrorList) {
    let Some(conversion) = conversion.filter(|conversion| !conversion.is_null()) else {
        return;
    };
    let strategy = text_at(conversion, "/strategy");
    enumeration(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let client = conversion
        .pointer("/webhook/clientConfig")
        .filter(|client| !client.is_null());
    let versions = conversion
        .pointer("/webhook/conversionReviewVersions")
        .and_then(Value::as_array);
    let versions = versions.map_or(&[][..], Vec::as_slice);
    let client_path = path.child("webhookClientConfig");
    let versions_path = path.child("conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(Error::forbidden(client_path, detail));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(versions_path, detail));
        }
        return;
    }
    match client {
        None => errors.push(Error::required(
            client_path,
            "required when strategy is set to Webhook",
        )),
        Some(client) => {
            validate_client(client, &client_path, errors);
            if check_bundle {
                validate_bundle(client, &client_path, errors);
            }
        }
    }
    validate_review_versions(versions, &versions_path, errors);
}

fn validate_client(client: &Value, path: &Path, errors: &mut ErrorList) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(url), None) => errors.extend(webhook::validate_url(url, &path.child("url"))),
        (None, Some(service)) => {
            errors.extend(webhook::validate_service(service, &path.child("service")));
        }
        _ => errors.push(Error::required(
            path.clone(),
            "exactly one of url or service is required",
        )),
    }
}

/// Returns true if a certificate bundle cannot be read.
pub(super) fn is_bad_bundle(bundle: &str) -> bool {
    // `LS0tLS1CRUdJTi` is `-----BEGIN` in base64: the certificates are only checked when the webhook is called.
    !bundle.is_empty() && !bundle.contains("LS0tLS1CRUdJTi")
}

fn validate_bundle(client: &Value, path: &Path, errors: &mut ErrorList) {
    let bundle = text_at(client, "/caBundle");
    if is_bad_bundle(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(Error::invalid(path.child("caBundle"), bundle.into(), detail));
    }
}

fn validate_review_versions(versions: &[Value], path: &Path, errors: &mut ErrorList) {
    if versions.is_empty() {
        return errors.push(Error::required(path.clone(), ""));
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or("");
        let mut report =
            |detail: String| errors.push(Error::invalid(path.index(index), version.into(), detail));
        if !seen.insert(version) {
            report("duplicate version".to_owned());
            continue;
        }
        names::dns1035_label(version).into_iter().for_each(report);
    }
    if !["v1", "v1beta1"].iter().any(|version| seen.contains(version)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path.clone(), versions.to_vec().into(), detail));
    }
}
