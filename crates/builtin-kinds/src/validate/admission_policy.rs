//! Validates admission policies and their bindings.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::jsonpath::JsonPath;
use apimachinery::names;
use kubernetes_cel::types::Type;
use kubernetes_cel::value::RESERVED;
use serde_json::Value;

use super::admission::{compiles, match_conditions, rule_with_operations};
use super::check::Check;
use crate::expression::{Environment, Mentions, Returns};
use crate::tree::{at, is_zero, list, text};

pub(super) fn validating_policy(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let environment = policy(check, spec, &path, false);
    let validations = list(spec, &["validations"]);
    let annotations = list(spec, &["auditAnnotations"]);
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        check.required(path.child("validations"), detail);
        check.required(path.child("auditAnnotations"), detail);
    }
    let texts = environment.without_authorizer();
    for (index, one) in validations.iter().enumerate() {
        let path = path.child("validations").index(index);
        validation(check, one, (&environment, &texts), &path);
    }
    audit_annotations(check, object, &environment, &path.child("auditAnnotations"));
}

/// Validates one validation; its message expression is evaluated without the authorizer.
fn validation(
    check: &mut Check,
    one: &Value,
    (environment, texts): (&Environment, &Environment),
    path: &Path,
) {
    let source = text(one, &["expression"]);
    if source.trim().is_empty() {
        check.required(path.child("expression"), "expression is not specified");
    } else {
        compiles(
            check,
            environment,
            source,
            Returns::Bool,
            path.child("expression"),
        );
    }
    let source = text(one, &["messageExpression"]);
    let expression = path.child("messageExpression");
    if !source.is_empty() && source.trim().is_empty() {
        check.invalid(expression, &source.into(), "must be non-empty if specified");
    } else if !source.is_empty() {
        compiles(check, texts, source, Returns::Text, expression);
    }
    let message = text(one, &["message"]);
    let trimmed = message.trim();
    let problem = if !message.is_empty() && trimmed.is_empty() {
        Some("message must be non-empty if specified")
    } else {
        trimmed
            .contains(['\n', '\r'])
            .then_some("must not contain line breaks")
    };
    if let Some(problem) = problem {
        check.invalid(path.child("message"), &message.into(), problem);
    }
    check.optional_one_of(
        one,
        path,
        "reason",
        &["Forbidden", "Invalid", "RequestEntityTooLarge"],
    );
}

/// The maximum number of audit annotations of a policy.
const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// The maximum length of an expression of an audit annotation, in bytes.
const VALUE_EXPRESSION_MAX: usize = 5 * 1024;

fn audit_annotations(check: &mut Check, object: &Value, environment: &Environment, path: &Path) {
    let field = ["spec", "auditAnnotations"];
    let annotations = list(object, &field);
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        check.invalid(path.clone(), at(object, &field), detail);
    }
    let policy = text(object, &["metadata", "name"]);
    let mut seen = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        let key = text(annotation, &["key"]);
        if policy.is_empty() {
            let detail = "requires metadata.name be non-empty";
            check.invalid(path.child("key"), &key.into(), detail);
        } else {
            let full = format!("{policy}/{key}");
            check.faults(&path.child("key"), &full, names::qualified_name(&full));
        }
        let source = text(annotation, &["valueExpression"]);
        let (trimmed, expression) = (source.trim(), path.child("valueExpression"));
        if trimmed.is_empty() {
            check.required(expression, "valueExpression is not specified");
        } else if trimmed.len() > VALUE_EXPRESSION_MAX {
            let detail = format!("must not exceed {VALUE_EXPRESSION_MAX} bytes in length");
            check.required(expression, &detail);
        } else if let Err(why) = environment.compile(trimmed, Returns::TextOrNull) {
            check.invalid(expression, &source.into(), why);
        }
        if !seen.insert(key) {
            check.duplicate(path.child("key"), &key.into());
        }
    }
}

pub(super) fn mutating_policy(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let environment = policy(check, spec, &path, true);
    let mutations = list(spec, &["mutations"]);
    if mutations.is_empty() {
        check.required(
            path.child("mutations"),
            "mutations must contain at least one item",
        );
    }
    for (index, one) in mutations.iter().enumerate() {
        mutation(check, one, &environment, &path.child("mutations").index(index));
    }
    if is_zero(at(spec, &["reinvocationPolicy"])) {
        check.required(path.child("reinvocationPolicy"), "");
    } else {
        check.one_of(spec, &path, "reinvocationPolicy", &["IfNeeded", "Never"]);
    }
}

/// The kinds of patches: the name, the field, and the type of its expression.
const PATCH_TYPES: [(&str, &str, Returns); 2] = [
    ("ApplyConfiguration", "applyConfiguration", Returns::Object),
    ("JSONPatch", "jsonPatch", Returns::JsonPatch),
];

fn mutation(check: &mut Check, one: &Value, environment: &Environment, path: &Path) {
    let patch_type = text(one, &["patchType"]);
    if patch_type.is_empty() {
        check.required(path.child("patchType"), "");
        return;
    }
    let Some((name, field, returns)) = PATCH_TYPES.iter().find(|(name, ..)| *name == patch_type) else {
        check.one_of(one, path, "patchType", &["ApplyConfiguration", "JSONPatch"]);
        return;
    };
    let patch = at(one, &[field]);
    if patch.is_null() {
        let detail = format!("must be specified when patchType is {name}");
        check.required(path.child(field), &detail);
    } else {
        let source = text(patch, &["expression"]).trim();
        let path = path.child(field).child("expression");
        if source.is_empty() {
            check.required(path, "");
        } else {
            compiles(check, environment, source, *returns, path);
        }
    }
    for (_, other, _) in PATCH_TYPES.iter().filter(|(other, ..)| other != name) {
        if !at(one, &[other]).is_null() {
            let shown = format!("{{{other}}}");
            let detail = format!("must not be specified when patchType is {name}");
            check.invalid(path.child(other), &shown.into(), detail);
        }
    }
}

/// Validates the common parts of validating and mutating policies; returns the environment of their expressions.
fn policy(check: &mut Check, spec: &Value, path: &Path, mutating: bool) -> Environment {
    if at(spec, &["failurePolicy"]).is_null() {
        check.required(path.child("failurePolicy"), "");
    } else {
        check.one_of(spec, path, "failurePolicy", &["Fail", "Ignore"]);
    }
    let kind = at(spec, &["paramKind"]);
    if kind.is_object() {
        param_kind(check, kind, &path.child("paramKind"));
    }
    let constraints = at(spec, &["matchConstraints"]);
    let constraints_path = path.child("matchConstraints");
    if constraints.is_null() {
        check.required(constraints_path, "");
    } else {
        match_resources(check, constraints, &constraints_path);
        if list(constraints, &["resourceRules"]).is_empty() {
            check.required(constraints_path.child("resourceRules"), "");
        }
        if mutating {
            mutable_operations(check, constraints, &constraints_path);
        }
    }
    let params = kind.is_object();
    match_conditions(check, spec, &path.child("matchConditions"), params);
    let mut environment = Environment::new(Mentions {
        params,
        authorizer: true,
        patches: mutating,
    });
    let variables = list(spec, &["variables"]);
    if mutating || !variables.is_empty() {
        environment = environment.composed();
    }
    for (index, one) in variables.iter().enumerate() {
        variable(
            check,
            one,
            &mut environment,
            &path.child("variables").index(index),
        );
    }
    environment
}

fn param_kind(check: &mut Check, kind: &Value, path: &Path) {
    let api_version = text(kind, &["apiVersion"]);
    let version_path = path.child("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if api_version.is_empty() {
        check.required(version_path, "");
    } else if check.api_version(api_version, &version_path) {
        let faults = if group.is_empty() {
            Vec::new()
        } else {
            names::dns1123_subdomain(group)
        };
        if !faults.is_empty() {
            check.invalid(version_path.clone(), &group.into(), faults.join(","));
        }
        let faults = names::dns1035_label(version);
        if version.is_empty() {
            check.invalid(version_path, &api_version.into(), "version must be specified");
        } else if !faults.is_empty() {
            check.invalid(version_path, &version.into(), faults.join(","));
        }
    }
    let name = text(kind, &["kind"]);
    let faults = names::dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        check.required(path.child("kind"), "");
    } else if !faults.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            faults.join(",")
        );
        check.invalid(path.child("kind"), &name.into(), detail);
    }
}

/// Checks that a mutating policy matches only write operations.
fn mutable_operations(check: &mut Check, constraints: &Value, path: &Path) {
    let path = path.child("resourceRules").child("operations");
    let supported = ["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = list(constraints, &["resourceRules"]).iter();
    for operation in rules.flat_map(|rule| list(rule, &["operations"])) {
        if !supported.contains(&operation.as_str().unwrap_or_default()) {
            let error = Error::not_supported(path.clone(), operation, &supported);
            check.errors.push(error);
        }
    }
}

fn variable(check: &mut Check, one: &Value, environment: &mut Environment, path: &Path) {
    let name = text(one, &["name"]);
    let is_identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !RESERVED.contains(&name);
    if name.trim().is_empty() {
        check.required(path.child("name"), "name is not specified");
    } else if !is_identifier {
        let detail = "must be a valid CEL identifier";
        check.invalid(path.child("name"), &name.into(), detail);
    }
    let source = text(one, &["expression"]);
    if source.trim().is_empty() {
        check.required(path.child("expression"), "expression is not specified");
        return;
    }
    match environment.compile(source, Returns::Anything) {
        Ok(checked) => environment.compose(name, &checked.result),
        Err(why) => {
            check.invalid(path.child("expression"), &source.into(), why);
            environment.compose(name, &Type::Dyn);
        }
    }
}

fn match_resources(check: &mut Check, constraints: &Value, path: &Path) {
    check.optional_one_of(constraints, path, "matchPolicy", &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        check.label_selector(at(constraints, &[field]), &path.child(field));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(constraints, &[field]).iter().enumerate() {
            let path = path.child(field).index(index);
            resource_names(check, rule, &path.child("resourceNames"));
            rule_with_operations(check, rule, &path);
        }
    }
}

fn resource_names(check: &mut Check, rule: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, name) in list(rule, &["resourceNames"]).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let path = path.index(index);
        check.faults(&path, name, names::path_segment(name));
        if !seen.insert(name) {
            check.duplicate(path, &name.into());
        }
    }
}

pub(super) fn policy_binding(check: &mut Check, object: &Value, validating: bool) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.required_form(spec, &path, "policyName", names::dns1123_subdomain);
    let reference = at(spec, &["paramRef"]);
    if reference.is_object() {
        parameter_reference(check, reference, &path.child("paramRef"));
    }
    let constraints = at(spec, &["matchResources"]);
    if constraints.is_object() {
        let path = path.child("matchResources");
        match_resources(check, constraints, &path);
        if !validating {
            mutable_operations(check, constraints, &path);
        }
    }
    if validating {
        actions(check, spec, &path.child("validationActions"));
    }
}

fn parameter_reference(check: &mut Check, reference: &Value, path: &Path) {
    let (name, selector) = (text(reference, &["name"]), at(reference, &["selector"]));
    let (has_name, has_selector) = (!name.is_empty(), !selector.is_null());
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if has_name {
        check.faults(&path.child("name"), name, names::path_segment(name));
    }
    if has_name && has_selector {
        check.forbidden(path.child("name"), EXCLUSIVE);
    }
    check.label_selector(selector, &path.child("selector"));
    match (has_name, has_selector) {
        (true, true) => check.forbidden(path.child("selector"), EXCLUSIVE),
        (false, false) => check.required(path.clone(), "one of name or selector must be specified"),
        _ => {}
    }
    if is_zero(at(reference, &["parameterNotFoundAction"])) {
        check.required(path.child("parameterNotFoundAction"), "");
    } else {
        check.one_of(reference, path, "parameterNotFoundAction", &["Deny", "Allow"]);
    }
}

const BOTH: &str = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";

fn actions(check: &mut Check, spec: &Value, path: &Path) {
    let actions = list(spec, &["validationActions"]);
    if actions.is_empty() {
        check.required(path.clone(), "at least one validation action is required");
    }
    let supported = ["Audit", "Deny", "Warn"];
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let name = action.as_str().unwrap_or_default();
        if !supported.contains(&name) {
            let error = Error::not_supported(path.index(index), action, &supported);
            check.errors.push(error);
        }
        if !seen.insert(name) {
            check.duplicate(path.index(index), action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        check.invalid(path.clone(), at(spec, &["validationActions"]), BOTH);
    }
}

/// Validates the warnings of the type checking in a status.
pub(super) fn type_checking(check: &mut Check, policy: &Value) {
    let path = Path::new("status")
        .child("typeChecking")
        .child("expressionWarnings");
    let warnings = list(policy, &["status", "typeChecking", "expressionWarnings"]);
    for (index, warning) in warnings.iter().enumerate() {
        let path = path.index(index);
        check.required_text(warning, &path, "warning");
        check.required_text(warning, &path, "fieldRef");
        let reference = text(warning, &["fieldRef"]);
        if let Err(why) = JsonPath::check(reference) {
            check.invalid(
                path.child("fieldRef"),
                &reference.into(),
                format!("invalid JSONPath: {why}"),
            );
        }
    }
}
