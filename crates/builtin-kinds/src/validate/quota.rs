//! Validates limit ranges and resource quotas.

use std::collections::{BTreeSet, HashSet};

use apimachinery::field::{Path, render};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::Check;
use super::container_resources::{any_resource_name, is_extended, is_native, is_standard, resource_name};
use crate::tree::{at, entries, is_zero, list, text};

// === limit ranges ===

pub(super) fn limit_range(check: &mut Check, object: &Value) {
    let mut seen = HashSet::new();
    let path = Path::new("spec").child("limits");
    for (index, limit) in list(object, &["spec", "limits"]).iter().enumerate() {
        let path = path.index(index);
        let kind = text(limit, &["type"]);
        let standard = ["Container", "PersistentVolumeClaim", "Pod"].contains(&kind);
        let faults = names::qualified_name(kind);
        if !faults.is_empty() {
            check.faults(&path.child("type"), kind, faults);
        } else if !standard && !kind.contains('/') {
            check.invalid(
                path.child("type"),
                &kind.into(),
                "must be a standard limit type or fully qualified",
            );
        }
        if !seen.insert(kind) {
            check.duplicate(path.child("type"), &kind.into());
        }
        limits(check, limit, kind, &path);
    }
}

fn limits(check: &mut Check, limit: &Value, kind: &str, path: &Path) {
    limit_names(check, limit, kind, path, &["max", "min"]);
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if !is_zero(at(limit, &[field])) {
                check.forbidden(path.child(field), "may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        limit_names(check, limit, kind, path, &["default", "defaultRequest"]);
    }
    if kind == "PersistentVolumeClaim" {
        let storage = |field: &str| at(limit, &[field, "storage"]).is_null();
        if storage("min") && storage("max") {
            check.required(
                path.child("limits"),
                "either minimum or maximum storage value is required, but neither was provided",
            );
        }
    }
    limit_names(check, limit, kind, path, &["maxLimitRequestRatio"]);
    let fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let keys: BTreeSet<&String> = fields
        .iter()
        .flat_map(|field| entries(limit, &[field]))
        .map(|(key, _)| key)
        .collect();
    for key in keys {
        limits_of_resource(check, limit, key, path);
        ratio_of_resource(check, limit, key, path);
    }
}

fn limit_names(check: &mut Check, limit: &Value, kind: &str, path: &Path, fields: &[&str]) {
    for field in fields {
        for (name, _) in entries(limit, &[field]) {
            let path = path.child(field).key(name);
            if matches!(kind, "Pod" | "Container") {
                resource_name(check, name, &path);
            } else {
                any_resource_name(check, name, &path);
            }
        }
    }
}

fn limits_of_resource(check: &mut Check, limit: &Value, key: &str, path: &Path) {
    let amount = |field: &str| Quantity::from_json(at(limit, &[field, key])).ok();
    let (min, max) = (amount("min"), amount("max"));
    // The defaults of a pod are forbidden, and not compared.
    let compared = |field: &str| amount(field).filter(|_| text(limit, &["type"]) != "Pod");
    let (default, request) = (compared("default"), compared("defaultRequest"));
    // Each rule has the path, the displayed value, and two amounts. The first amount must not be greater than the
    // second.
    let rules = [
        ("min", &min, (&min, "min"), (&max, "max")),
        (
            "defaultRequest",
            &request,
            (&min, "min"),
            (&request, "default request"),
        ),
        (
            "defaultRequest",
            &request,
            (&request, "default request"),
            (&max, "max"),
        ),
        (
            "defaultRequest",
            &request,
            (&request, "default request"),
            (&default, "default limit"),
        ),
        ("default", &min, (&min, "min"), (&default, "default")),
        ("default", &max, (&default, "default"), (&max, "max")),
    ];
    for (field, shown, (small, small_name), (great, great_name)) in rules {
        let (Some(shown), Some(small), Some(great)) = (shown, small, great) else {
            continue;
        };
        if small > great {
            check.invalid(
                path.child(field).key(key),
                &shown.to_string().into(),
                format!("{small_name} value {small} is greater than {great_name} value {great}"),
            );
        }
    }
}

/// Returns the maximum ratio as a number, and the ratio of the maximum and the minimum. Small amounts are compared with
/// three decimals, others as integers.
fn ratios(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    const MILLI_MAX: i64 = i64::MAX / 1000;
    let are_small = [ratio, min, max]
        .iter()
        .all(|amount| amount.scaled_value(0) < MILLI_MAX);
    let (scale, unit) = if are_small { (-3, 1000.0) } else { (0, 1.0) };
    let value = |amount: &Quantity| amount.scaled_value(scale) as f64;
    (value(ratio) / unit, value(max) / value(min))
}

/// Formats a number as Go does with `%f`.
fn shown_ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio == f64::INFINITY => "+Inf".to_owned(),
        ratio if ratio == f64::NEG_INFINITY => "-Inf".to_owned(),
        ratio => format!("{ratio:.6}"),
    }
}

fn ratio_of_resource(check: &mut Check, limit: &Value, key: &str, path: &Path) {
    let amount = |field: &str| Quantity::from_json(at(limit, &[field, key])).ok();
    let one = Quantity::from(1);
    if let Some(ratio) = amount("maxLimitRequestRatio") {
        let path = path.child("maxLimitRequestRatio").key(key);
        let shown = ratio.to_string().into();
        if ratio < one {
            check.invalid(path.clone(), &shown, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (amount("min"), amount("max")) {
            let (wanted, most) = ratios(&ratio, &min, &max);
            if wanted > most {
                check.invalid(
                    path,
                    &shown,
                    format!("ratio {ratio} is greater than max/min = {}", shown_ratio(most)),
                );
            }
        }
    }
    if let (Some(default), Some(request)) = (amount("default"), amount("defaultRequest"))
        && (!is_native(key) || key.starts_with("hugepages-"))
        && default != request
    {
        check.invalid(
            path.child("defaultRequest").key(key),
            &request.to_string().into(),
            format!("default value {default} must equal to defaultRequest value {request} in {key}"),
        );
    }
}

// === quotas ===

pub(super) fn resource_quota(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    quota_amounts(check, at(spec, &["hard"]), &path.child("hard"));
    quota_scopes(check, spec, &path);
    quota_selector(
        check,
        spec,
        &path.child("scopeSelector").child("matchExpressions"),
    );
}

pub(super) fn resource_quota_update(check: &mut Check, object: &Value, old: &Value) {
    resource_quota(check, object);
    let scopes = |quota| -> BTreeSet<&str> {
        list(quota, &["spec", "scopes"])
            .iter()
            .filter_map(Value::as_str)
            .collect()
    };
    if scopes(object) != scopes(old) {
        let path = Path::new("spec").child("scopes");
        check.invalid(path, at(object, &["spec", "scopes"]), "field is immutable");
    }
}

pub(super) fn resource_quota_status(check: &mut Check, object: &Value) {
    for field in ["hard", "used"] {
        let path = Path::new("status").child(field);
        quota_amounts(check, at(object, &["status", field]), &path);
    }
}

fn quota_amounts(check: &mut Check, amounts: &Value, path: &Path) {
    for (name, quantity) in entries(amounts, &[]) {
        let path = path.key(name);
        let is_formed = any_resource_name(check, name, &path);
        let is_known = name.contains('/') || is_formed && is_of_quota(name);
        if !is_known {
            check.invalid(
                path.clone(),
                &name.as_str().into(),
                "must be a standard resource for quota",
            );
        }
        check.non_negative_quantity(quantity, &path);
        let whole = Quantity::from_json(quantity).is_ok_and(|quantity| quantity.is_whole());
        if counts_objects(name) && !whole {
            check.invalid(path, quantity, "must be an integer");
        }
    }
}

/// Returns true for names without a domain that quotas support.
fn is_of_quota(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

fn counts_objects(name: &str) -> bool {
    const COUNTED: &[&str] = &[
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    ];
    COUNTED.contains(&name) || !is_native(name) && is_extended(name)
}

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

fn quota_scopes(check: &mut Check, spec: &Value, path: &Path) {
    let (scopes, path) = (at(spec, &["scopes"]), path.child("scopes"));
    let all: Vec<&str> = list(scopes, &[]).iter().filter_map(Value::as_str).collect();
    for scope in &all {
        if !SCOPES.contains(scope) {
            check.invalid(path.clone(), scopes, "unsupported scope");
        }
        for _ in unfit(scope, spec) {
            check.invalid(path.clone(), scopes, "unsupported scope applied to resource");
        }
    }
    conflicting_scopes(check, &all, scopes, &path);
}

fn conflicting_scopes(check: &mut Check, all: &[&str], shown: &Value, path: &Path) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if all.contains(&one) && all.contains(&other) {
            check.invalid(path.clone(), shown, "conflicting scopes");
        }
    }
}

/// Returns the limited resources that objects in a scope cannot use.
fn unfit<'a>(scope: &'a str, spec: &'a Value) -> impl Iterator<Item = &'a String> {
    entries(spec, &["hard"])
        .map(|(name, _)| name)
        .filter(move |name| is_of_quota(name) && !scope_fits(scope, name))
}

/// Validates the scope selector, which has operators and values.
fn quota_selector(check: &mut Check, spec: &Value, path: &Path) {
    let expressions = list(spec, &["scopeSelector", "matchExpressions"]);
    for expression in expressions {
        let (scope, operator) = (text(expression, &["scopeName"]), text(expression, &["operator"]));
        if !SCOPES.contains(&scope) {
            check.invalid(path.child("scopeName"), &scope.into(), "unsupported scope");
        }
        for _ in unfit(scope, spec) {
            if check.errors.is_full() {
                return;
            }
            let shown = render_scope_selector(expressions);
            check.invalid_text(path.clone(), shown, "unsupported scope applied to resource");
        }
        let has_values =
            ["PriorityClass", "VolumeAttributesClass"].contains(&scope) || !SCOPES.contains(&scope);
        if !has_values && operator != "Exists" {
            check.invalid(
                path.child("operator"),
                &operator.into(),
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        let values = at(expression, &["values"]);
        match (operator, is_zero(values)) {
            ("In" | "NotIn", true) => check.required(
                path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            ("Exists" | "DoesNotExist", false) => check.invalid(
                path.child("values"),
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => check.invalid(
                path.child("operator"),
                &operator.into(),
                "not a valid selector operator",
            ),
        }
    }
    let scopes: Vec<&str> = expressions.iter().map(|one| text(one, &["scopeName"])).collect();
    conflicting_scopes(check, &scopes, at(spec, &["scopes"]), path);
}

fn render_scope_selector(expressions: &[Value]) -> String {
    let rendered = expressions.iter().map(|expression| {
        format!(
            "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{}}}",
            render(at(expression, &["scopeName"])),
            render(at(expression, &["operator"])),
            render(at(expression, &["values"])),
        )
    });
    let rendered: Vec<String> = rendered.collect();
    format!("{{\"MatchExpressions\":[{}]}}", rendered.join(","))
}

fn scope_fits(scope: &str, resource: &str) -> bool {
    let computes = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "BestEffort" => resource == "pods",
        "NotBestEffort"
        | "NotTerminating"
        | "Terminating"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || computes.contains(&resource),
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ => true,
    }
}
