//! Validates Deployments, ReplicaSets, DaemonSets, StatefulSets and ReplicationControllers.

use std::collections::BTreeSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::{Value, json};

use super::check::{
    Check, GoPrint, is_empty_selector, number_of, render_go, render_selector, selector_is_valid, selects,
};
use super::{pod, storage};
use crate::tree::{at, is_zero, list, set_if_nil, text};

pub(super) const NO_MATCH: &str = "`selector` does not match template `labels`";

const STRATEGY: &[GoPrint] = &[
    GoPrint("Type", "type", &[]),
    GoPrint(
        "RollingUpdate",
        "rollingUpdate",
        &[
            GoPrint("MaxUnavailable", "maxUnavailable", &[]),
            GoPrint("MaxSurge", "maxSurge", &[]),
        ],
    ),
];

/// Formats a strategy; missing counts are 0.
fn render_strategy(strategy: &Value) -> String {
    let mut strategy = strategy.clone();
    if let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate") {
        for field in ["maxUnavailable", "maxSurge"] {
            set_if_nil(rolling, field, 0);
        }
    }
    render_go(&strategy, STRATEGY)
}

pub(super) fn deployment(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.non_negative(spec, &path, "replicas");
    selector_and_template(check, spec, &path);
    deployment_strategy(check, at(spec, &["strategy"]), &path.child("strategy"));
    check.non_negative(spec, &path, "minReadySeconds");
    check.non_negative(spec, &path, "revisionHistoryLimit");
    check.non_negative(spec, &path, "progressDeadlineSeconds");
    let deadline = at(spec, &["progressDeadlineSeconds"]);
    let ready = at(spec, &["minReadySeconds"]).as_i64().unwrap_or(0);
    if deadline.as_i64().is_some_and(|seconds| seconds <= ready) {
        check.invalid(
            path.child("progressDeadlineSeconds"),
            deadline,
            "must be greater than minReadySeconds",
        );
    }
}

pub(super) fn replica_set(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.non_negative(spec, &path, "replicas");
    check.non_negative(spec, &path, "minReadySeconds");
    selector_and_template(check, spec, &path);
}

/// Validates the common rules of Deployments and ReplicaSets.
fn selector_and_template(check: &mut Check, spec: &Value, path: &Path) {
    let selector = at(spec, &["selector"]);
    let selector_path = path.child("selector");
    if selector.is_null() {
        check.required(selector_path.clone(), "");
    } else {
        check.label_selector(selector, &selector_path);
        if is_empty_selector(selector) {
            check.invalid(
                selector_path.clone(),
                selector,
                "empty selector is invalid for deployment",
            );
        }
    }
    if selector_is_valid(selector) {
        let path = path.child("template");
        matching_labels(check, spec, &path);
        pod::template(check, at(spec, &["template"]), &path);
        always_restarted(check, spec, &path, "ReplicaSet");
    } else {
        check.invalid_text(selector_path, render_selector(selector), "invalid label selector");
    }
}

/// Checks that the selector matches the template's labels, unless it selects everything.
fn matching_labels(check: &mut Check, spec: &Value, template: &Path) {
    let selector = at(spec, &["selector"]);
    let labels = at(spec, &["template", "metadata", "labels"]);
    let selects_all = !selector.is_null() && is_empty_selector(selector);
    if !selects_all && !selects(selector, labels) {
        check.invalid(template.child("metadata").child("labels"), labels, NO_MATCH);
    }
}

/// Checks that the restart policy of pods that a controller replaces is Always.
fn always_restarted(check: &mut Check, spec: &Value, template: &Path, kind: &str) {
    let pod = at(spec, &["template", "spec"]);
    let path = template.child("spec");
    let policy = text(pod, &["restartPolicy"]);
    if policy != "Always" {
        let error = Error::not_supported(path.child("restartPolicy"), &policy.into(), &["Always"]);
        check.errors.push(error);
    }
    if !at(pod, &["activeDeadlineSeconds"]).is_null() {
        check.forbidden(
            path.child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        );
    }
}

fn deployment_strategy(check: &mut Check, strategy: &Value, path: &Path) {
    let rolling = at(strategy, &["rollingUpdate"]);
    let path_of_rolling = path.child("rollingUpdate");
    match text(strategy, &["type"]) {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => check.forbidden(
            path_of_rolling,
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        "RollingUpdate" if rolling.is_null() => {
            check.required(path_of_rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => rolling_update(check, rolling, &path_of_rolling),
        _ => check.unsupported_text(
            path.clone(),
            render_strategy(strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
}

fn rolling_update(check: &mut Check, rolling: &Value, path: &Path) {
    let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
    let unavailable_path = path.child("maxUnavailable");
    check.int_or_percent(unavailable, &unavailable_path);
    check.int_or_percent(surge, &path.child("maxSurge"));
    if number_of(unavailable) == 0 && number_of(surge) == 0 {
        check.invalid(
            unavailable_path.clone(),
            unavailable,
            "may not be 0 when `maxSurge` is 0",
        );
    }
    check.at_most_all(unavailable, &unavailable_path);
}

pub(super) fn daemon_set(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let selector = at(spec, &["selector"]);
    check.label_selector(selector, &path.child("selector"));
    let template = path.child("template");
    let labels = at(spec, &["template", "metadata", "labels"]);
    if selector_is_valid(selector) && !selects(selector, labels) {
        check.invalid(template.child("metadata").child("labels"), labels, NO_MATCH);
    }
    if selector.is_object() && is_empty_selector(selector) {
        check.invalid(
            path.child("selector"),
            selector,
            "empty selector is invalid for daemonset",
        );
    }
    pod::template(check, at(spec, &["template"]), &template);
    always_restarted(check, spec, &template, "DaemonSet");
    check.non_negative(spec, &path, "minReadySeconds");
    daemon_set_strategy(
        check,
        at(spec, &["updateStrategy"]),
        &path.child("updateStrategy"),
    );
    check.non_negative(spec, &path, "revisionHistoryLimit");
}

fn daemon_set_strategy(check: &mut Check, strategy: &Value, path: &Path) {
    let rolling = at(strategy, &["rollingUpdate"]);
    let path_of_rolling = path.child("rollingUpdate");
    match text(strategy, &["type"]) {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => check.required(path_of_rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
            let unavailable_path = path_of_rolling.child("maxUnavailable");
            let surge_path = path_of_rolling.child("maxSurge");
            check.int_or_percent(unavailable, &unavailable_path);
            check.int_or_percent(surge, &surge_path);
            check.at_most_all(unavailable, &unavailable_path);
            check.at_most_all(surge, &surge_path);
            match (number_of(unavailable) != 0, number_of(surge) != 0) {
                (true, true) => check.invalid(
                    surge_path.clone(),
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                ),
                (false, false) => check.required(unavailable_path.clone(), "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => check.unsupported_text(
            path.clone(),
            render_strategy(strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

/// Checks the values that are only checked for a new StatefulSet.
pub(super) fn new_stateful_set(check: &mut Check, object: &Value) {
    stateful_set_rules(check, object, true);
}

pub(super) fn stateful_set(check: &mut Check, object: &Value) {
    stateful_set_rules(check, object, false);
}

fn stateful_set_rules(check: &mut Check, object: &Value, is_new: bool) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let policy = text(spec, &["podManagementPolicy"]);
    match policy {
        "" => check.required(path.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        _ => check.invalid(
            path.child("podManagementPolicy"),
            &policy.into(),
            "must be 'OrderedReady' or 'Parallel'",
        ),
    }
    stateful_set_strategy(
        check,
        at(spec, &["updateStrategy"]),
        &path.child("updateStrategy"),
    );
    let retention = path.child("persistentVolumeClaimRetentionPolicy");
    let policy = at(spec, &["persistentVolumeClaimRetentionPolicy"]);
    if policy.is_object() {
        for field in ["whenDeleted", "whenScaled"] {
            check.one_of(policy, &retention, field, &["Retain", "Delete"]);
        }
    }
    if is_new {
        let path = path.child("volumeClaimTemplates");
        for (index, claim) in list(spec, &["volumeClaimTemplates"]).iter().enumerate() {
            storage::claim_spec(check, at(claim, &["spec"]), &path.index(index).child("spec"));
        }
    }
    check.non_negative(spec, &path, "replicas");
    check.non_negative(spec, &path, "minReadySeconds");
    check.non_negative(at(spec, &["ordinals"]), &path.child("ordinals"), "start");
    if is_new {
        check.optional_form(spec, &path, "serviceName", names::dns1123_label);
    }
    let selector = at(spec, &["selector"]);
    if selector.is_null() {
        check.required(path.child("selector"), "");
    } else {
        check.label_selector(selector, &path.child("selector"));
        if is_empty_selector(selector) {
            check.invalid(
                path.child("selector"),
                selector,
                "empty selector is invalid for statefulset",
            );
        }
    }
    let template = path.child("template");
    if selector_is_valid(selector) {
        matching_labels(check, spec, &template);
        // The API server checks the metadata of the template twice.
        pod::template_metadata(check, at(spec, &["template"]), &template);
        pod::template(check, &template_of_pods(spec), &template);
    } else {
        check.invalid_text(path.child("selector"), render_selector(selector), "");
    }
    always_restarted(check, spec, &template, "StatefulSet");
}

/// Returns the template as the controller completes it for a pod. The claims are the first volumes and replace volumes
/// with the same names. The host name and the subdomain are those of the pod.
fn template_of_pods(spec: &Value) -> Value {
    let mut template = at(spec, &["template"]).clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for claim in list(spec, &["volumeClaimTemplates"]) {
        let name = text(claim, &["metadata", "name"]);
        if seen.insert(name) {
            names.push(name);
        }
    }
    let claims = names.iter().map(|name| {
        let source = json!({"claimName": name});
        json!({"name": name, "persistentVolumeClaim": source})
    });
    let is_claim = |volume: &&Value| seen.contains(text(volume, &["name"]));
    let others = list(spec, &["template", "spec", "volumes"]).iter();
    let others = others.filter(|volume| !is_claim(volume)).cloned();
    let volumes: Vec<Value> = claims.chain(others).collect();
    pod.insert("volumes".to_owned(), volumes.into());
    pod.remove("hostname");
    pod.remove("subdomain");
    template
}

/// The fields of a rolling update of a StatefulSet.
const ROLLING: &[GoPrint] = &[
    GoPrint("Partition", "partition", &[]),
    GoPrint("MaxUnavailable", "maxUnavailable", &[]),
];

fn stateful_set_strategy(check: &mut Check, strategy: &Value, path: &Path) {
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, &["type"]) {
        "" => check.required(path.clone(), ""),
        "OnDelete" if rolling.is_null() => {}
        "OnDelete" => check.invalid_text(
            path.child("rollingUpdate"),
            render_go(rolling, ROLLING),
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "RollingUpdate" => {
            check.non_negative(rolling, &path.child("rollingUpdate"), "partition");
        }
        _ => check.invalid_text(
            path.clone(),
            render_go(
                strategy,
                &[
                    GoPrint("Type", "type", &[]),
                    GoPrint("RollingUpdate", "rollingUpdate", ROLLING),
                ],
            ),
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
}

pub(super) fn replication_controller(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.non_negative(spec, &path, "minReadySeconds");
    let selector = at(spec, &["selector"]);
    if is_zero(selector) {
        check.required(path.child("selector"), "");
    }
    check.non_negative(spec, &path, "replicas");
    let template = at(spec, &["template"]);
    let template_path = path.child("template");
    if template.is_null() {
        check.required(template_path, "");
        return;
    }
    let labels = at(template, &["metadata", "labels"]);
    let selector = serde_json::json!({ "matchLabels": selector });
    if !is_empty_selector(&selector) && !selects(&selector, labels) {
        check.invalid(template_path.child("metadata").child("labels"), labels, NO_MATCH);
    }
    pod::template(check, template, &template_path);
    always_restarted(check, spec, &template_path, "ReplicationController");
}

/// Validates the counts in the status of a controller.
pub(super) fn replica_counts(check: &mut Check, kind: &str, object: &Value) {
    let (status, path) = (at(object, &["status"]), Path::new("status"));
    let fields: &[&str] = match kind {
        "Deployment" => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        "StatefulSet" => &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        _ => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    };
    for field in fields {
        check.non_negative(status, &path, field);
    }
    let count = |field: &str| at(status, &[field]).as_i64().unwrap_or(0);
    let parts: &[&str] = match kind {
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "StatefulSet" => &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for field in parts {
        if count(field) > count("replicas") {
            let value = count(field).into();
            check.invalid(
                path.child(field),
                &value,
                "cannot be greater than status.replicas",
            );
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = if kind == "StatefulSet" {
            "cannot be greater than status.readyReplicas"
        } else {
            "cannot be greater than readyReplicas"
        };
        check.invalid(
            path.child("availableReplicas"),
            &count("availableReplicas").into(),
            detail,
        );
    }
}

// === updates ===

/// Checks that the selector of a controller is unchanged.
pub(super) fn same_selector(check: &mut Check, object: &Value, old: &Value) {
    let path = ["spec", "selector"];
    check.immutable(
        at(object, &path),
        at(old, &path),
        Path::new("spec").child("selector"),
    );
}

const STATEFUL_SET_FIELDS: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

const STATEFUL_SET: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn stateful_set_update(check: &mut Check, object: &Value, old: &Value) {
    let fixed = |object: &Value| {
        let mut spec = at(object, &["spec"]).clone();
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|field, _| !STATEFUL_SET_FIELDS.contains(&field.as_str()));
        }
        spec
    };
    if fixed(object) != fixed(old) {
        check.forbidden(Path::new("spec"), STATEFUL_SET);
    }
}
