//! Validates APIServices.

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

pub(super) fn api_service(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let (group, version) = (text(spec, &["group"]), text(spec, &["version"]));
    let needed = format!("{version}.{group}");
    for field in ["generateName", "name"] {
        let name = text(object, &["metadata", field]);
        // The name and the prefix of a generated one have the same rule.
        if name != needed && !name.is_empty() {
            check.invalid(
                Path::new("metadata").child(field),
                &name.into(),
                format!(
                    "must be `spec.version+\".\"+spec.group`: {}",
                    apimachinery::go::quote(&needed)
                ),
            );
        }
    }
    if group.is_empty() && version != "v1" {
        check.required(
            path.child("group"),
            "only v1 may have an empty group and it better be legacy kube",
        );
    }
    if !group.is_empty() {
        check.faults(&path.child("group"), group, names::dns1123_subdomain(group));
    }
    check.faults(&path.child("version"), version, names::dns1035_label(version));
    priority(check, spec, "groupPriorityMinimum", 20_000);
    priority(check, spec, "versionPriority", 1000);
    server(check, spec, &path);
}

fn priority(check: &mut Check, spec: &Value, field: &str, max: i64) {
    let number = at(spec, &[field]).as_i64().unwrap_or(0);
    if !(1..=max).contains(&number) {
        let detail = format!("must be positive and less than {max}");
        check.invalid(Path::new("spec").child(field), &number.into(), detail);
    }
}

/// Validates the server of an APIService; without a Service, it is the local server.
fn server(check: &mut Check, spec: &Value, path: &Path) {
    let bundle = text(spec, &["caBundle"]);
    let insecure = at(spec, &["insecureSkipTLSVerify"]);
    let is_insecure = insecure == &Value::Bool(true);
    let service = at(spec, &["service"]);
    if service.is_null() {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", super::config::decoded_len(&bundle.into()));
            check.invalid(
                path.child("caBundle"),
                &shown.into(),
                "local APIServices may not have a caBundle",
            );
        }
        if is_insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            check.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
        }
        return;
    }
    let service_path = path.child("service");
    check.required_text(service, &service_path, "namespace");
    check.required_text(service, &service_path, "name");
    let port = at(service, &["port"]).as_i64().unwrap_or(0);
    let faults = names::port_number(port);
    if !faults.is_empty() {
        let detail = format!("port is not valid: {}", faults.join(", "));
        check.invalid(service_path.child("port"), &port.into(), detail);
    }
    if is_insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        check.invalid(path.child("insecureSkipTLSVerify"), insecure, detail);
    }
}

pub(super) fn api_service_status(check: &mut Check, object: &Value) {
    let path = Path::new("status").child("conditions");
    let supported = ["True", "False", "Unknown"];
    for (index, condition) in list(object, &["status", "conditions"]).iter().enumerate() {
        let status = text(condition, &["status"]);
        if !supported.contains(&status) {
            let path = path.index(index).child("status");
            let error = Error::not_supported(path, &status.into(), &supported);
            check.errors.push(error);
        }
    }
}
