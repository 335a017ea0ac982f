//! The defaults of workloads and autoscalers: the groups apps, batch and autoscaling.

use serde_json::{Value, json};

use super::Rule::{Code, FilledText, Flag, Number, Struct, Text};
use super::TypeRules;
use crate::tree::{
    Object, existing_object_in, is_nil, is_zero, object_in, objects_in, set_if_nil, set_if_zero,
};

pub(super) const RULES: &[TypeRules] = &[
    (
        "api.apps.v1.DeploymentSpec",
        &[
            Number("replicas", 1),
            Number("revisionHistoryLimit", 10),
            Number("progressDeadlineSeconds", 600),
            Struct("strategy"),
        ],
    ),
    ("api.apps.v1.DeploymentStrategy", &[Code(deployment_strategy)]),
    ("api.apps.v1.ReplicaSetSpec", &[Number("replicas", 1)]),
    (
        "api.apps.v1.DaemonSetSpec",
        &[Number("revisionHistoryLimit", 10), Struct("updateStrategy")],
    ),
    ("api.apps.v1.DaemonSet", &[Code(template_generation)]),
    (
        "api.apps.v1.DaemonSetUpdateStrategy",
        &[Code(daemon_set_strategy)],
    ),
    (
        "api.apps.v1.StatefulSetSpec",
        &[
            FilledText("podManagementPolicy", "OrderedReady"),
            Struct("updateStrategy"),
            Struct("persistentVolumeClaimRetentionPolicy"),
            Number("replicas", 1),
            Number("revisionHistoryLimit", 10),
            Code(claim_templates),
        ],
    ),
    (
        "api.apps.v1.StatefulSetUpdateStrategy",
        &[Code(stateful_set_strategy)],
    ),
    (
        "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        &[
            FilledText("whenDeleted", "Retain"),
            FilledText("whenScaled", "Retain"),
        ],
    ),
    ("api.batch.v1.Job", &[Code(job)]),
    (
        "api.batch.v1.CronJobSpec",
        &[
            FilledText("concurrencyPolicy", "Allow"),
            Flag("suspend", false),
            Number("successfulJobsHistoryLimit", 3),
            Number("failedJobsHistoryLimit", 1),
        ],
    ),
    (
        "api.autoscaling.v1.HorizontalPodAutoscalerSpec",
        &[Number("minReplicas", 1)],
    ),
    (
        "api.autoscaling.v2.HorizontalPodAutoscalerSpec",
        &[Number("minReplicas", 1), Code(autoscaler_metrics)],
    ),
    (
        "api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
        &[Code(autoscaler_behavior)],
    ),
    (
        "api.resource.v1.DeviceToleration",
        &[FilledText("operator", "Equal")],
    ),
    ("api.resource.v1.ExactDeviceRequest", DEVICE_REQUEST),
    ("api.resource.v1.DeviceSubRequest", DEVICE_REQUEST),
    ("api.resource.v1beta1.DeviceRequest", &[Code(flat_device_request)]),
    (
        "api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        &[FilledText("status", "True")],
    ),
    (
        "api.networking.v1.IngressClassParametersReference",
        &[Text("scope", "Cluster")],
    ),
];

const DEVICE_REQUEST: &[super::Rule] = &[FilledText("allocationMode", "ExactCount"), Code(device_count)];

/// Sets the defaults of a device request of `v1beta1`, unless it has only alternatives.
fn flat_device_request(request: &mut Object) {
    if request
        .get("deviceClassName")
        .is_some_and(|class| !is_zero(class))
    {
        for rule in DEVICE_REQUEST {
            rule.apply(request);
        }
    }
}

fn kind_of(strategy: &Object) -> &str {
    strategy.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn deployment_strategy(strategy: &mut Object) {
    set_if_zero(strategy, "type", "RollingUpdate");
    if kind_of(strategy) != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = object_in(strategy, "rollingUpdate") {
        set_if_nil(rolling, "maxUnavailable", "25%");
        set_if_nil(rolling, "maxSurge", "25%");
    }
}

/// Sets the annotation in which a DaemonSet counts the changes of its template.
fn template_generation(daemon_set: &mut Object) {
    let annotations =
        object_in(daemon_set, "metadata").and_then(|metadata| object_in(metadata, "annotations"));
    if let Some(annotations) = annotations {
        set_if_zero(annotations, "deprecated.daemonset.template.generation", "0");
    }
}

fn daemon_set_strategy(strategy: &mut Object) {
    set_if_zero(strategy, "type", "RollingUpdate");
    let is_rolling = kind_of(strategy) == "RollingUpdate";
    let rolling = if is_rolling {
        object_in(strategy, "rollingUpdate")
    } else {
        existing_object_in(strategy, "rollingUpdate")
    };
    if let Some(rolling) = rolling {
        // For other strategies, the internal form has zeros for missing numbers.
        set_if_nil(rolling, "maxUnavailable", i32::from(is_rolling));
        set_if_nil(rolling, "maxSurge", 0);
    }
}

fn stateful_set_strategy(strategy: &mut Object) {
    let rolling = if kind_of(strategy).is_empty() {
        set_if_zero(strategy, "type", "RollingUpdate");
        object_in(strategy, "rollingUpdate")
    } else {
        // A strategy whose type is given has no other defaults.
        existing_object_in(strategy, "rollingUpdate")
    };
    if let Some(rolling) = rolling {
        set_if_nil(rolling, "partition", 0);
    }
}

/// Sets the type fields of claim templates.
fn claim_templates(spec: &mut Object) {
    for claim in objects_in(spec, "volumeClaimTemplates") {
        for (field, value) in [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim")] {
            claim.insert(field.to_owned(), value.into());
        }
    }
}

fn job(job: &mut Object) {
    let Some(spec) = object_in(job, "spec") else {
        return;
    };
    if is_nil(spec, "completions") && is_nil(spec, "parallelism") {
        set_if_nil(spec, "completions", 1);
    }
    set_if_nil(spec, "parallelism", 1);
    let per_index = !is_nil(spec, "backoffLimitPerIndex");
    set_if_nil(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    set_if_nil(spec, "completionMode", "NonIndexed");
    set_if_nil(spec, "suspend", false);
    set_if_nil(spec, "manualSelector", false);
    let replacement = if is_nil(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_if_nil(spec, "podReplacementPolicy", replacement);
    let template = existing_object_in(spec, "template");
    let labels = template.and_then(|t| existing_object_in(t, "metadata")?.get("labels").cloned());
    if let Some(labels) = labels.filter(|labels| !is_zero(labels))
        && let Some(metadata) = object_in(job, "metadata")
    {
        set_if_zero(metadata, "labels", labels);
    }
}

fn autoscaler_metrics(spec: &mut Object) {
    let target = json!({ "type": "Utilization", "averageUtilization": 80 });
    let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    set_if_zero(spec, "metrics", json!([cpu]));
}

/// Completes partly set scaling rules. If none are set, the controller decides.
fn autoscaler_behavior(behavior: &mut Object) {
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    if let Some(up) = object_in(behavior, "scaleUp") {
        set_if_nil(up, "stabilizationWindowSeconds", 0);
        set_if_nil(up, "selectPolicy", "Max");
        set_if_nil(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = object_in(behavior, "scaleDown") {
        set_if_nil(down, "selectPolicy", "Max");
        set_if_nil(down, "policies", json!([percent]));
    }
}

fn device_count(request: &mut Object) {
    if request.get("allocationMode").and_then(Value::as_str) == Some("ExactCount") {
        set_if_zero(request, "count", 1);
    }
}
