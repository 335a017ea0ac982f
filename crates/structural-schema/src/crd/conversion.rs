//! Validates the field `conversion`.

use apimachinery::field::{Error, Path};
use apimachinery::go::url;
use apimachinery::names;
use serde_json::Value;

use super::{enumeration, text_at};

/// Returns the errors of `conversion`; `check_bundle` is true if an invalid certificate bundle is rejected.
pub(super) fn validate(conversion: Option<&Value>, check_bundle: bool, path: &Path, errors: &mut Vec<Error>) {
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

fn validate_client(client: &Value, path: &Path, errors: &mut Vec<Error>) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(url), None) => validate_url(url, &path.child("url"), errors),
        (None, Some(service)) => validate_service(service, &path.child("service"), errors),
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

fn validate_bundle(client: &Value, path: &Path, errors: &mut Vec<Error>) {
    let bundle = text_at(client, "/caBundle");
    if is_bad_bundle(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(Error::invalid(path.child("caBundle"), bundle.into(), detail));
    }
}

fn validate_url(text: &str, path: &Path, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match url::parse_reference(text) {
        Ok(url) => url,
        Err(problem) => {
            let detail = format!("url must be a valid URL: {problem}{FORM}");
            return errors.push(Error::required(path.clone(), detail));
        }
    };
    let mut report =
        |value: &str, detail: String| errors.push(Error::invalid(path.clone(), value.into(), detail));
    if url.scheme != "https" {
        report(
            &url.scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if url.host.is_empty() {
        report(&url.host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = &url.user {
        report(user, "user information is not permitted in the URL".to_owned());
    }
    if !url.fragment.is_empty() {
        report(&url.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !url.raw_query.is_empty() {
        report(
            &url.raw_query,
            "query parameters are not permitted in the URL".to_owned(),
        );
    }
}

fn validate_service(service: &Value, path: &Path, errors: &mut Vec<Error>) {
    // The API server swaps the two arguments, and reports each of them at the path of the other.
    for (name, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text_at(service, &format!("/{name}")).is_empty() {
            errors.push(Error::required(path.child(reported), ""));
        }
    }
    if let Some(port) = service.get("port").and_then(Value::as_i64)
        && !(1..=65535).contains(&port)
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(path.child("port"), port.into(), detail));
    }
    let Some(url_path) = service
        .get("path")
        .and_then(Value::as_str)
        .filter(|path| *path != "/" && !path.is_empty())
    else {
        return;
    };
    let field = path.child("path");
    if url_path == "//" {
        let detail = "segment[0] may not be empty";
        return errors.push(Error::invalid(field, url_path.into(), detail));
    }
    if !url_path.starts_with('/') {
        errors.push(Error::invalid(
            field.clone(),
            url_path.into(),
            "must start with a '/'",
        ));
    }
    let inner = url_path.get(1..).unwrap_or("");
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (index, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(Error::invalid(field.clone(), url_path.into(), detail));
            continue;
        }
        for problem in names::dns1123_subdomain(step) {
            let detail = format!("segment[{index}]: {problem}");
            errors.push(Error::invalid(field.clone(), url_path.into(), detail));
        }
    }
}

fn validate_review_versions(versions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    if versions.is_empty() {
        return errors.push(Error::required(path.clone(), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or("");
        let mut report =
            |detail: String| errors.push(Error::invalid(path.index(index), version.into(), detail));
        if seen.contains(&version) {
            report("duplicate version".to_owned());
            continue;
        }
        seen.push(version);
        names::dns1035_label(version).into_iter().for_each(report);
    }
    if !seen.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path.clone(), versions.to_vec().into(), detail));
    }
}
