//! Checks the address of a webhook, as `k8s.io/apiserver/pkg/util/webhook` does.

use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::go::url;
use crate::names;
use crate::object::text;

/// Returns the errors of the URL of a webhook.
///
/// ```
/// use apimachinery::field::Path;
/// use apimachinery::webhook::validate_url;
///
/// assert!(validate_url("https://example.com/validate", &Path::new("url")).is_empty());
/// let [error] = &validate_url("http://example.com", &Path::new("url"))[..] else { panic!() };
/// assert!(error.to_string().contains("'https' is the only allowed URL scheme"));
/// ```
pub fn validate_url(text: &str, path: &Path) -> ErrorList {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match url::parse_reference(text) {
        Ok(url) => url,
        Err(problem) => {
            let detail = format!("url must be a valid URL: {problem}{FORM}");
            return ErrorList::from(Error::required(path.clone(), detail));
        }
    };
    let mut errors = ErrorList::new();
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
    errors
}

/// Returns the errors of the Service of a webhook: its `namespace`, `name`, `port` and `path`.
pub fn validate_service(service: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    // The API server swaps the two, and reports each of them at the path of the other (kubernetes/kubernetes#141353).
    for (name, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, &[name]).is_empty() {
            errors.push(Error::required(path.child(reported), ""));
        }
    }
    let port = service.get("port").filter(|port| !port.is_null());
    if let Some(port) = port.filter(|port| !port.as_i64().is_some_and(|port| (1..=65535).contains(&port))) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(path.child("port"), port.clone(), detail));
    }
    errors.extend(validate_path(text(service, &["path"]), &path.child("path")));
    errors
}

fn validate_path(text: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut report = |detail: String| errors.push(Error::invalid(path.clone(), text.into(), detail));
    if matches!(text, "" | "/") {
        return errors;
    }
    if text == "//" {
        report("segment[0] may not be empty".to_owned());
        return errors;
    }
    if !text.starts_with('/') {
        report("must start with a '/'".to_owned());
    }
    // The first byte is skipped, even if it is not a slash.
    let rest = String::from_utf8_lossy(text.as_bytes().get(1..).unwrap_or_default());
    for (index, step) in rest.strip_suffix('/').unwrap_or(&rest).split('/').enumerate() {
        if step.is_empty() {
            report(format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in names::dns1123_subdomain(step) {
            report(format!("segment[{index}]: {problem}"));
        }
    }
    errors
}
