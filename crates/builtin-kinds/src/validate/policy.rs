//! Validates disruption budgets, autoscalers and leases.

use apimachinery::field::{Error, Path, render};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::{Check, NEGATIVE, render_selector};
use super::container_resources;
use crate::horizontal_pod_autoscaler;
use crate::tree::{at, list, text};

pub(super) fn disruption_budget(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let (min, max) = (at(spec, &["minAvailable"]), at(spec, &["maxUnavailable"]));
    if !min.is_null() && !max.is_null() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            render(min),
            render_selector(at(spec, &["selector"])),
            render(max),
            render(at(spec, &["unhealthyPodEvictionPolicy"])),
        );
        check.invalid_text(
            path.clone(),
            shown,
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for (value, field) in [(min, "minAvailable"), (max, "maxUnavailable")] {
        let path = path.child(field);
        check.int_or_percent(value, &path);
        check.at_most_all(value, &path);
    }
    check.label_selector(at(spec, &["selector"]), &path.child("selector"));
    check.optional_one_of(
        spec,
        &path,
        "unhealthyPodEvictionPolicy",
        &["AlwaysAllow", "IfHealthyBudget"],
    );
}

// === autoscalers ===

pub(super) fn autoscaler(check: &mut Check, object: &Value) {
    // The rules and the paths in errors are those of v2.
    let converted = horizontal_pod_autoscaler::convert(object, "autoscaling/v2");
    let object = converted.as_ref().unwrap_or(object);
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let min = at(spec, &["minReplicas"]);
    let lower = min.as_i64().unwrap_or(1);
    if lower < 1 {
        check.invalid(
            path.child("minReplicas"),
            min,
            "must be greater than or equal to 1",
        );
    }
    let max = at(spec, &["maxReplicas"]);
    let upper = max.as_i64().unwrap_or(0);
    if upper == 0 {
        check.required(path.child("maxReplicas"), "must be set and greater than 0");
    } else if upper < 1 {
        let why = "must be greater than or equal to 1";
        check.invalid(path.child("maxReplicas"), max, why);
    }
    if upper < lower {
        check.invalid(
            path.child("maxReplicas"),
            max,
            "must be greater than or equal to `minReplicas`",
        );
    }
    scale_target(
        check,
        at(spec, &["scaleTargetRef"]),
        &path.child("scaleTargetRef"),
    );
    metrics(check, spec, lower, &path.child("metrics"));
    for field in ["scaleUp", "scaleDown"] {
        let rules = at(spec, &["behavior", field]);
        if rules.is_object() {
            scaling_rules(check, rules, &path.child("behavior").child(field));
        }
    }
}

fn scale_target(check: &mut Check, target: &Value, path: &Path) {
    check.required_form(target, path, "kind", names::path_segment);
    check.required_form(target, path, "name", names::path_segment);
    let version = text(target, &["apiVersion"]);
    if check.api_version(version, &path.child("apiVersion"))
        && !version.contains('/')
        && text(target, &["kind"]) != "ReplicationController"
    {
        check.invalid(
            path.child("apiVersion"),
            &version.into(),
            "apiVersion must specify API group",
        );
    }
}

/// The fields of metrics with a source, in the order in which they are validated.
const METRIC_SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

fn metrics(check: &mut Check, spec: &Value, min_replicas: i64, path: &Path) {
    let metrics = list(spec, &["metrics"]);
    for (index, metric) in metrics.iter().enumerate() {
        let path = path.index(index);
        let kind = text(metric, &["type"]);
        if kind.is_empty() {
            check.required(path.child("type"), "must specify a metric source type");
        }
        // The API server reports an unknown type twice.
        check.one_of(metric, &path, "type", METRIC_TYPES);
        let mut given = METRIC_SOURCES
            .into_iter()
            .filter(|field| !at(metric, &[field]).is_null());
        // The API server validates the first source, even if the type selects another one.
        let first = given.next();
        if let Some(field) = first {
            metric_source(check, field, at(metric, &[field]), &path.child(field));
        }
        let mut expected = kind.to_owned();
        if let Some(first) = expected.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        if !METRIC_TYPES.contains(&kind) {
            check.one_of(metric, &path, "type", METRIC_TYPES);
        } else if at(metric, &[&expected]).is_null() {
            let why = "must populate information for the given metric source";
            check.required(path.child(&expected), why);
        }
        let others: Vec<&str> = given.collect();
        if !others.is_empty() {
            for field in first.into_iter().chain(others).filter(|field| *field != expected) {
                check.forbidden(path.child(field), "must populate the given metric source only");
            }
        }
    }
    let scales_from_zero = |metric: &Value| ["Object", "External"].contains(&text(metric, &["type"]));
    if min_replicas == 0 && !metrics.iter().any(scales_from_zero) {
        check.forbidden(
            path.clone(),
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
}

fn metric_source(check: &mut Check, field: &str, source: &Value, path: &Path) {
    match field {
        "resource" | "containerResource" => {
            let name = text(source, &["name"]);
            if name.is_empty() {
                check.required(path.child("name"), "must specify a resource name");
            } else if field == "containerResource" {
                container_resources::resource_name(check, name, &path.child("name"));
            }
            if field == "containerResource" {
                let container = text(source, &["container"]);
                if container.is_empty() {
                    check.required(path.child("container"), "must specify a container");
                } else {
                    let faults = names::dns1123_label(container);
                    check.faults(&path.child("container"), container, faults);
                }
            }
        }
        _ => {
            if field == "object" {
                let path = path.child("describedObject");
                let target = at(source, &["describedObject"]);
                check.required_form(target, &path, "kind", names::path_segment);
                check.required_form(target, &path, "name", names::path_segment);
                check.api_version(text(target, &["apiVersion"]), &path.child("apiVersion"));
            }
            let path = path.child("metric").child("name");
            let name = text(source, &["metric", "name"]);
            if name.is_empty() {
                check.required(path, "must specify a metric name");
            } else {
                check.faults(&path, name, names::path_segment(name));
            }
        }
    }
    let target = at(source, &["target"]);
    let path = path.child("target");
    metric_target(check, target, &path);
    let given = |value: &str| !at(target, &[value]).is_null();
    match field {
        "resource" | "containerResource" => match (given("averageUtilization"), given("averageValue")) {
            (false, false) => check.required(
                path.child("averageUtilization"),
                "must set either a target raw value or a target utilization",
            ),
            (true, true) => check.forbidden(
                path.child("averageValue"),
                "may not set both a target raw value and a target utilization",
            ),
            _ => {}
        },
        "pods" if !given("averageValue") => check.required(
            path.child("averageValue"),
            "must specify a positive target averageValue",
        ),
        "object" if !given("value") && !given("averageValue") => check.required(
            path.child("averageValue"),
            "must set either a target value or averageValue",
        ),
        "external" => match (given("value"), given("averageValue")) {
            (false, false) => check.required(
                path.child("averageValue"),
                "must set either a target value for metric or a per-pod target",
            ),
            (true, true) => check.forbidden(
                path.child("value"),
                "may not set both a target value for metric and a per-pod target",
            ),
            _ => {}
        },
        _ => {}
    }
}

fn metric_target(check: &mut Check, target: &Value, path: &Path) {
    let kind = text(target, &["type"]);
    if kind.is_empty() {
        check.required(path.child("type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        check.invalid(
            path.child("type"),
            &kind.into(),
            "must be either Utilization, Value, or AverageValue",
        );
    }
    for field in ["value", "averageValue"] {
        let value = at(target, &[field]);
        if Quantity::from_json(value).is_ok_and(|q| q.is_negative() || q.is_zero()) {
            check.invalid(path.child(field), value, "must be positive");
        }
    }
    let utilization = at(target, &["averageUtilization"]);
    if utilization.as_i64().is_some_and(|percent| percent < 1) {
        check.invalid(
            path.child("averageUtilization"),
            utilization,
            "must be greater than 0",
        );
    }
}

fn scaling_rules(check: &mut Check, rules: &Value, path: &Path) {
    scaling_policies(check, rules, path);
    check.non_negative_quantity(at(rules, &["tolerance"]), &path.child("tolerance"));
}

fn scaling_policies(check: &mut Check, rules: &Value, path: &Path) {
    let window = at(rules, &["stabilizationWindowSeconds"]);
    let window_path = path.child("stabilizationWindowSeconds");
    match window.as_i64() {
        Some(..0) => check.invalid(window_path, window, "must be greater than or equal to zero"),
        Some(3601..) => check.invalid(window_path, window, "must be less than or equal to 3600"),
        _ => {}
    }
    check.optional_one_of(rules, path, "selectPolicy", &["Disabled", "Max", "Min"]);
    let policies = list(rules, &["policies"]);
    let path = path.child("policies");
    if policies.is_empty() {
        check.required(path.clone(), "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = path.index(index);
        check.one_of(policy, &path, "type", &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            let value = at(policy, &[field]);
            if value.as_i64().unwrap_or(0) <= 0 {
                check.invalid(path.child(field), value, "must be greater than zero");
            }
        }
        let period = at(policy, &["periodSeconds"]);
        if period.as_i64().is_some_and(|seconds| seconds > 1800) {
            check.invalid(
                path.child("periodSeconds"),
                period,
                "must be less than or equal to 1800",
            );
        }
    }
}

pub(super) fn scale(check: &mut Check, object: &Value) {
    check.non_negative(at(object, &["spec"]), &Path::new("spec"), "replicas");
}

// === flow control ===

pub(super) fn priority_class(check: &mut Check, object: &Value) {
    let name = text(object, &["metadata", "name"]);
    let value = at(object, &["value"]).as_i64().unwrap_or(0);
    let known = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    if name.starts_with("system-") {
        if !known.contains(&(name, value)) {
            check.forbidden(
                Path::new("metadata").child("name"),
                "priority class names with 'system-' prefix are reserved for system use only",
            );
        }
    } else if value > 1_000_000_000 {
        check.forbidden(
            Path::new("value"),
            "maximum allowed value of a user defined priority is 1000000000",
        );
    }
    let policy = at(object, &["preemptionPolicy"]);
    let of_policy = Path::new("preemptionPolicy");
    match policy.as_str() {
        None | Some("Never" | "PreemptLowerPriority") => {}
        Some("") => check.required(of_policy, ""),
        Some(_) => {
            let known = ["PreemptLowerPriority", "Never"];
            check.errors.push(Error::not_supported(of_policy, policy, &known));
        }
    }
}

pub(super) fn priority_class_update(check: &mut Check, object: &Value, old: &Value) {
    if at(object, &["value"]) != at(old, &["value"]) {
        check.forbidden(Path::new("value"), "may not be changed in an update.");
    }
    check.immutable(
        at(object, &["preemptionPolicy"]),
        at(old, &["preemptionPolicy"]),
        Path::new("preemptionPolicy"),
    );
}

/// Validates the duration and the transitions of a lease.
pub(super) fn lease(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let duration = at(spec, &["leaseDurationSeconds"]);
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        check.invalid(
            path.child("leaseDurationSeconds"),
            duration,
            "must be greater than 0",
        );
    }
    let transitions = at(spec, &["leaseTransitions"]);
    if transitions.as_i64().is_some_and(|count| count < 0) {
        check.invalid(path.child("leaseTransitions"), transitions, NEGATIVE);
    }
}
