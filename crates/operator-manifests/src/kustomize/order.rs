//! The creation order of objects: dependencies come first.

use serde_json::Value;

use super::resource::Resource;

/// Kinds that come first, in this order.
const FIRST: [&str; 14] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
];

/// Kinds that follow them, in this order. All other kinds are between these and [`LAST`].
const SECOND: [&str; 8] = [
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// Kinds that come last, because they affect the objects of the same tree.
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Cluster-scoped kinds of Kubernetes; unknown kinds are namespace-scoped.
const CLUSTER_SCOPED: [&str; 27] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CustomResourceDefinition",
    "FlowSchema",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

pub(super) fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.contains(&kind)
}

/// Returns the position of a kind in the order: smaller is created earlier, and deleted later.
pub fn rank(kind: &str) -> usize {
    let place = |kinds: &[&str]| kinds.iter().position(|there| *there == kind);
    match (place(&FIRST), place(&SECOND), place(&LAST)) {
        (Some(place), _, _) => place,
        (_, Some(place), _) => FIRST.len() + place,
        (_, _, Some(place)) => FIRST.len() + SECOND.len() + 1 + place,
        _ => FIRST.len() + SECOND.len(),
    }
}

/// Sorts by kind, then by group, version, namespace and name.
pub(super) fn sort(resources: &mut [Resource]) {
    resources.sort_by_cached_key(|resource| key(&resource.value));
}

/// Sorts objects in creation order.
pub fn sort_objects(objects: &mut [Value]) {
    objects.sort_by_cached_key(key);
}

fn key(object: &Value) -> (usize, [String; 4]) {
    let text = |pointer: &str| {
        let value = object.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let kind = text("/kind");
    (
        rank(&kind),
        [
            text("/apiVersion"),
            kind,
            text("/metadata/namespace"),
            text("/metadata/name"),
        ],
    )
}
