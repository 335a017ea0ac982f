//! Validates webhook configurations, and their common parts with admission policies: rules and match conditions.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::{names, webhook};
use serde_json::Value;

use super::check::Check;
use crate::expression::{Environment, Mentions, Returns};
use crate::tree::{at, list, text};

pub(super) fn webhooks(check: &mut Check, object: &Value, mutating: bool) {
    let mut seen = HashSet::new();
    for (index, webhook) in list(object, &["webhooks"]).iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        rules_of_webhook(check, webhook, mutating, &path);
        review_versions(check, webhook, &path.child("admissionReviewVersions"));
        let name = text(webhook, &["name"]);
        if !name.is_empty() && !seen.insert(name) {
            check.duplicate(path.child("name"), &name.into());
        }
    }
}

fn rules_of_webhook(check: &mut Check, webhook: &Value, mutating: bool, path: &Path) {
    let name = text(webhook, &["name"]);
    let name_path = path.child("name");
    if name.is_empty() {
        check.required(name_path, "");
    } else if !names::dns1123_subdomain(name).is_empty() {
        check.faults(&name_path, name, names::dns1123_subdomain(name));
    } else if name.split('.').count() < 3 {
        check.invalid(
            name_path,
            &name.into(),
            "should be a domain with at least three segments separated by dots",
        );
    }
    for (index, rule) in list(webhook, &["rules"]).iter().enumerate() {
        rule_with_operations(check, rule, &path.child("rules").index(index));
    }
    check.optional_one_of(webhook, path, "failurePolicy", &["Fail", "Ignore"]);
    check.optional_one_of(webhook, path, "matchPolicy", &["Equivalent", "Exact"]);
    if at(webhook, &["sideEffects"]).is_null() {
        check.required(
            path.child("sideEffects"),
            "must specify one of None, NoneOnDryRun",
        );
    } else {
        check.one_of(webhook, path, "sideEffects", &["None", "NoneOnDryRun"]);
    }
    let timeout = at(webhook, &["timeoutSeconds"]);
    if timeout
        .as_i64()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        check.invalid(
            path.child("timeoutSeconds"),
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    for field in ["namespaceSelector", "objectSelector"] {
        check.label_selector(at(webhook, &[field]), &path.child(field));
    }
    if mutating {
        check.optional_one_of(webhook, path, "reinvocationPolicy", &["IfNeeded", "Never"]);
    }
    client_config(check, at(webhook, &["clientConfig"]), &path.child("clientConfig"));
    match_conditions(check, webhook, &path.child("matchConditions"), false);
}

fn client_config(check: &mut Check, config: &Value, path: &Path) {
    let (url, service) = (at(config, &["url"]), at(config, &["service"]));
    match (url.as_str(), service.is_object()) {
        (Some(url), false) => check
            .errors
            .extend(webhook::validate_url(url, &path.child("url"))),
        (None, true) => check
            .errors
            .extend(webhook::validate_service(service, &path.child("service"))),
        _ => check.required(path.clone(), "exactly one of url or service is required"),
    }
}

fn review_versions(check: &mut Check, webhook: &Value, path: &Path) {
    let versions = list(webhook, &["admissionReviewVersions"]);
    if versions.is_empty() {
        check.required(path.clone(), "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let path = path.index(index);
        if seen.insert(version) {
            check.faults(&path, version, names::dns1035_label(version));
        } else {
            check.invalid(path, &version.into(), "duplicate version");
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        check.invalid(
            path.clone(),
            at(webhook, &["admissionReviewVersions"]),
            "must include at least one of v1, v1beta1",
        );
    }
}

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn rule_with_operations(check: &mut Check, rule: &Value, path: &Path) {
    let operations = list(rule, &["operations"]);
    let operations_path = path.child("operations");
    if operations.is_empty() {
        check.required(operations_path.clone(), "");
    }
    alone(check, rule, &operations_path, "operations", "operations");
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            let path = operations_path.index(index);
            check
                .errors
                .push(Error::not_supported(path, operation, OPERATIONS));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let path = path.child(field);
        if list(rule, &[field]).is_empty() {
            check.required(path.clone(), "");
        }
        alone(check, rule, &path, field, what);
    }
    for (index, version) in list(rule, &["apiVersions"]).iter().enumerate() {
        if version.as_str() == Some("") {
            check.required(path.child("apiVersions").index(index), "");
        }
    }
    resources(check, rule, &path.child("resources"));
    check.optional_one_of(rule, path, "scope", &["*", "Cluster", "Namespaced"]);
}

/// Checks that a wildcard is the only item.
fn alone(check: &mut Check, rule: &Value, path: &Path, field: &str, what: &str) {
    let values = list(rule, &[field]);
    if values.len() > 1 && values.contains(&"*".into()) {
        check.invalid(
            path.clone(),
            at(rule, &[field]),
            format!("if '*' is present, must not specify other {what}"),
        );
    }
}

fn resources(check: &mut Check, rule: &Value, path: &Path) {
    let resources = list(rule, &["resources"]);
    if resources.is_empty() {
        check.required(path.clone(), "");
    }
    let known: HashSet<&str> = resources.iter().filter_map(Value::as_str).collect();
    let has = |name: &str| known.contains(name);
    for (index, resource) in resources.iter().enumerate() {
        if resource.as_str() == Some("") {
            check.required(path.index(index), "");
        }
        let name = resource.as_str().unwrap_or_default();
        if let Some((base, sub)) = name.split_once('/') {
            if sub != "*" && has(&format!("{base}/*")) {
                check.invalid(
                    path.index(index),
                    resource,
                    format!("if '{base}/*' is present, must not specify {name}"),
                );
            } else if base != "*" && has(&format!("*/{sub}")) {
                check.invalid(
                    path.index(index),
                    resource,
                    format!("if '*/{sub}' is present, must not specify {name}"),
                );
            }
        }
    }
    if resources.len() > 1 && has("*/*") {
        check.invalid(
            path.clone(),
            at(rule, &["resources"]),
            "if '*/*' is present, must not specify other resources",
        );
    }
    // The API server only considers the last name without a subresource.
    let last = resources
        .iter()
        .filter_map(Value::as_str)
        .rfind(|name| !name.is_empty() && !name.contains('/'));
    if has("*") && last != Some("*") {
        check.invalid(
            path.clone(),
            at(rule, &["resources"]),
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

/// The maximum number of match conditions of a policy or webhook.
const MATCH_CONDITIONS_MAX: usize = 64;

pub(super) fn match_conditions(check: &mut Check, parent: &Value, path: &Path, params: bool) {
    let conditions = list(parent, &["matchConditions"]);
    if conditions.is_empty() {
        return;
    }
    if conditions.len() > MATCH_CONDITIONS_MAX {
        let error = Error::too_many(path.clone(), conditions.len(), MATCH_CONDITIONS_MAX);
        check.errors.push(error);
    }
    let environment = Environment::new(Mentions {
        params,
        authorizer: true,
        patches: false,
    });
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let source = text(condition, &["expression"]).trim();
        let expression = path.child("expression");
        if source.is_empty() {
            check.required(expression, "");
        } else {
            compiles(check, &environment, source, Returns::Bool, expression);
        }
        check.required_form(condition, &path, "name", names::qualified_name);
        let name = text(condition, &["name"]);
        if !name.is_empty() && !seen.insert(name) {
            check.duplicate(path.child("name"), &name.into());
        }
    }
}

pub(super) fn compiles(
    check: &mut Check,
    environment: &Environment,
    source: &str,
    returns: Returns,
    path: Path,
) {
    if let Err(why) = environment.compile(source, returns) {
        check.invalid(path, &source.into(), why);
    }
}
