//! Validates ConfigMaps, Secrets, and other small kinds.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use super::pod;
use crate::tree::{at, entries, list, text};

/// The maximum total size of all values.
const DATA_MAX: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// Returns the number of bytes that a base64 string encodes.
pub(super) fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub(super) fn config_map(check: &mut Check, object: &Value) {
    let mut size = 0;
    let binary = at(object, &["binaryData"]);
    for (key, value) in entries(object, &["data"]) {
        let path = Path::new("data").key(key);
        check.faults(&path, key, names::config_key(key));
        if !at(binary, &[key]).is_null() {
            check.invalid(
                path,
                &key.as_str().into(),
                "duplicate of key present in binaryData",
            );
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(binary, &[]) {
        let path = Path::new("binaryData").key(key);
        check.faults(&path, key, names::config_key(key));
        size += decoded_len(value);
    }
    if size > DATA_MAX {
        check.errors.push(Error::too_long(Path::new("[]"), DATA_MAX));
    }
}

pub(super) fn config_map_update(check: &mut Check, object: &Value, old: &Value) {
    keep_immutable(check, object, old, &["data", "binaryData"]);
    config_map(check, object);
}

fn keep_immutable(check: &mut Check, object: &Value, old: &Value, fields: &[&str]) {
    let is_immutable = |object: &Value| at(object, &["immutable"]) == &Value::Bool(true);
    if !is_immutable(old) {
        return;
    }
    if !is_immutable(object) {
        check.forbidden(Path::new("immutable"), IMMUTABLE);
    }
    for field in fields {
        if at(object, &[field]) != at(old, &[field]) {
            check.forbidden(Path::new(field), IMMUTABLE);
        }
    }
}

pub(super) fn secret(check: &mut Check, object: &Value) {
    let data = Path::new("data");
    let mut size = 0;
    for (key, value) in entries(object, &["data"]) {
        check.faults(&data.key(key), key, names::config_key(key));
        size += decoded_len(value);
    }
    if size > DATA_MAX {
        check.errors.push(Error::too_long(data.clone(), DATA_MAX));
    }
    let missing = |key: &str| at(object, &["data", key]).is_null();
    let needed: &[&str] = match text(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if text(object, &["metadata", "annotations", annotation]).is_empty() {
                let path = Path::new("metadata").child("annotations").key(annotation);
                check.required(path, "");
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => &["username", "password"],
        _ => &[],
    };
    for key in needed.iter().filter(|key| missing(key)) {
        check.required(data.key(key), "");
    }
    for key in needed
        .iter()
        .filter(|key| key.starts_with(".docker") && !missing(key))
    {
        docker_config(check, at(object, &["data", key]), &data.key(key));
    }
}

/// Checks that registry credentials are JSON.
fn docker_config(check: &mut Check, value: &Value, path: &Path) {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default());
    let bytes = bytes.unwrap_or_default();
    let parsed: Result<serde_json::Map<String, Value>, _> = serde_json::from_slice(&bytes);
    if parsed.is_err() {
        let fault = match bytes.first() {
            None => "unexpected end of JSON input".to_owned(),
            Some(_) => match apimachinery::json::parse(&bytes) {
                Err(fault) => fault,
                Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
            },
        };
        check.invalid(path.clone(), &"<secret contents redacted>".into(), fault);
    }
}

pub(super) fn secret_update(check: &mut Check, object: &Value, old: &Value) {
    check.immutable(at(object, &["type"]), at(old, &["type"]), Path::new("type"));
    keep_immutable(check, object, old, &["data"]);
    secret(check, object);
}

pub(super) fn runtime_class(check: &mut Check, object: &Value) {
    let handler = text(object, &["handler"]);
    if handler.is_empty() {
        check.required(Path::new("handler"), "");
    } else {
        check.faults(&Path::new("handler"), handler, names::dns1123_label(handler));
    }
    pod::overhead(
        check,
        at(object, &["overhead", "podFixed"]),
        &Path::new("overhead"),
    );
    let scheduling = at(object, &["scheduling"]);
    let path = Path::new("scheduling");
    check.labels(at(scheduling, &["nodeSelector"]), &path.child("nodeSelector"));
    let path = path.child("tolerations");
    pod::tolerations(check, scheduling, &path);
    let mut seen = HashSet::new();
    for (index, toleration) in list(scheduling, &["tolerations"]).iter().enumerate() {
        let parts = ["key", "operator", "value", "effect"].map(|part| text(toleration, &[part]));
        if !seen.insert(parts) {
            let mut error = Error::duplicate(path.index(index), &Value::Null);
            error.value = Some(pod::shown_toleration(toleration));
            check.errors.push(error);
        }
    }
}

pub(super) fn runtime_class_update(check: &mut Check, object: &Value, old: &Value) {
    check.immutable(
        at(object, &["handler"]),
        at(old, &["handler"]),
        Path::new("handler"),
    );
}

pub(super) fn revision(check: &mut Check, object: &Value) {
    check.non_negative(object, &Path::default(), "revision");
    match at(object, &["data"]) {
        Value::Null => check.required(Path::new("data"), "data is mandatory"),
        Value::Object(_) => {}
        _ => check.required(Path::new("data"), "data must be a valid JSON object"),
    }
}

pub(super) fn revision_update(check: &mut Check, object: &Value, old: &Value) {
    check.non_negative(object, &Path::default(), "revision");
    check.immutable(at(object, &["data"]), at(old, &["data"]), Path::new("data"));
}
