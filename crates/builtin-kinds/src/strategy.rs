//! The differences between kinds in the generic registry: one row for each kind that is not like most ([`Strategy`]).
//!
//! Depends only on the names of kinds.

use apimachinery::gvk::Gvk;

/// The properties of a kind that the generic registry uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// True if a PUT without a resourceVersion overwrites the object.
    pub allow_unconditional_update: bool,
    /// True if a PUT of a missing object creates it.
    pub allow_create_on_update: bool,
    /// True if a DELETE returns the object instead of a Status.
    pub returns_deleted_object: bool,
    /// True if dependents are orphaned by default.
    pub orphans_by_default: bool,
    /// True if there is a `status` subresource: writes to the main resource do not change the status, and vice versa.
    pub has_status: bool,
    /// True if `metadata.generation` is maintained: it starts with 1, and increases when `generation_changed` returns
    /// true.
    pub has_generation: bool,
}

/// The properties of most kinds.
const PLAIN: Strategy = Strategy {
    allow_unconditional_update: true,
    allow_create_on_update: false,
    returns_deleted_object: false,
    orphans_by_default: false,
    has_status: false,
    has_generation: false,
};
const CREATE_ON_UPDATE: Strategy = Strategy {
    allow_create_on_update: true,
    ..PLAIN
};
const RETURNS_DELETED: Strategy = Strategy {
    returns_deleted_object: true,
    ..PLAIN
};
const CONDITIONAL: Strategy = Strategy {
    allow_unconditional_update: false,
    ..PLAIN
};
const STATUS: Strategy = Strategy {
    has_status: true,
    ..PLAIN
};
const GENERATION: Strategy = Strategy {
    has_generation: true,
    ..PLAIN
};
const WORKLOAD: Strategy = Strategy {
    has_status: true,
    has_generation: true,
    ..PLAIN
};
const ORPHANING: Strategy = Strategy {
    orphans_by_default: true,
    ..WORKLOAD
};
const STATUS_RETURNS_DELETED: Strategy = Strategy {
    has_status: true,
    ..RETURNS_DELETED
};
const CONFIGURATION: Strategy = Strategy {
    allow_unconditional_update: false,
    ..GENERATION
};

/// The group, kind and properties of every kind that is not [`PLAIN`].
const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("", "Endpoints", CREATE_ON_UPDATE),
    ("", "Event", CREATE_ON_UPDATE),
    ("", "LimitRange", CREATE_ON_UPDATE),
    ("", "Namespace", STATUS_RETURNS_DELETED),
    ("", "Node", STATUS),
    ("", "PersistentVolume", STATUS_RETURNS_DELETED),
    ("", "PersistentVolumeClaim", STATUS_RETURNS_DELETED),
    (
        "",
        "Pod",
        Strategy {
            returns_deleted_object: true,
            ..WORKLOAD
        },
    ),
    (
        "",
        "PodTemplate",
        Strategy {
            returns_deleted_object: true,
            ..GENERATION
        },
    ),
    ("", "ReplicationController", ORPHANING),
    ("", "ResourceQuota", STATUS_RETURNS_DELETED),
    (
        "",
        "Service",
        Strategy {
            allow_create_on_update: true,
            ..STATUS_RETURNS_DELETED
        },
    ),
    ("", "ServiceAccount", RETURNS_DELETED),
    (
        "apiregistration.k8s.io",
        "APIService",
        Strategy {
            has_status: true,
            ..CONDITIONAL
        },
    ),
    ("apps", "DaemonSet", WORKLOAD),
    ("apps", "Deployment", WORKLOAD),
    ("apps", "ReplicaSet", WORKLOAD),
    ("apps", "StatefulSet", WORKLOAD),
    ("autoscaling", "HorizontalPodAutoscaler", STATUS),
    ("batch", "CronJob", WORKLOAD),
    ("batch", "Job", ORPHANING),
    ("certificates.k8s.io", "CertificateSigningRequest", STATUS),
    (
        "coordination.k8s.io",
        "Lease",
        Strategy {
            allow_create_on_update: true,
            ..CONDITIONAL
        },
    ),
    ("discovery.k8s.io", "EndpointSlice", GENERATION),
    ("events.k8s.io", "Event", CREATE_ON_UPDATE),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", WORKLOAD),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        WORKLOAD,
    ),
    ("networking.k8s.io", "Ingress", WORKLOAD),
    ("networking.k8s.io", "IngressClass", GENERATION),
    ("networking.k8s.io", "NetworkPolicy", GENERATION),
    ("networking.k8s.io", "ServiceCIDR", STATUS),
    (
        "node.k8s.io",
        "RuntimeClass",
        Strategy {
            allow_create_on_update: true,
            ..CONDITIONAL
        },
    ),
    (
        "policy",
        "PodDisruptionBudget",
        Strategy {
            allow_unconditional_update: false,
            ..WORKLOAD
        },
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", CREATE_ON_UPDATE),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        CREATE_ON_UPDATE,
    ),
    ("rbac.authorization.k8s.io", "Role", CREATE_ON_UPDATE),
    ("rbac.authorization.k8s.io", "RoleBinding", CREATE_ON_UPDATE),
    (
        "resource.k8s.io",
        "DeviceClass",
        Strategy {
            has_generation: true,
            ..RETURNS_DELETED
        },
    ),
    ("resource.k8s.io", "ResourceClaim", STATUS_RETURNS_DELETED),
    ("resource.k8s.io", "ResourceClaimTemplate", RETURNS_DELETED),
    (
        "resource.k8s.io",
        "ResourceSlice",
        Strategy {
            has_generation: true,
            ..RETURNS_DELETED
        },
    ),
    ("scheduling.k8s.io", "PriorityClass", GENERATION),
    (
        "storage.k8s.io",
        "CSIDriver",
        Strategy {
            returns_deleted_object: true,
            ..CONDITIONAL
        },
    ),
    (
        "storage.k8s.io",
        "CSINode",
        Strategy {
            returns_deleted_object: true,
            ..CONDITIONAL
        },
    ),
    ("storage.k8s.io", "CSIStorageCapacity", CONDITIONAL),
    ("storage.k8s.io", "StorageClass", RETURNS_DELETED),
    (
        "storage.k8s.io",
        "VolumeAttachment",
        Strategy {
            has_status: true,
            returns_deleted_object: true,
            ..CONDITIONAL
        },
    ),
    ("storage.k8s.io", "VolumeAttributesClass", RETURNS_DELETED),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        CONFIGURATION,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        CONFIGURATION,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        CONFIGURATION,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        Strategy {
            has_status: true,
            ..CONFIGURATION
        },
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        CONFIGURATION,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        CONFIGURATION,
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        Strategy {
            allow_unconditional_update: false,
            ..WORKLOAD
        },
    ),
];

/// Returns the properties of a kind.
pub fn strategy(gvk: &Gvk) -> &'static Strategy {
    STRATEGIES
        .iter()
        .find(|(group, kind, _)| *group == gvk.group && *kind == gvk.kind)
        .map_or(&PLAIN, |(_, _, strategy)| strategy)
}
