//! The watchable kinds of Kubernetes, with the modules of their types. Generated from the discovery of a kube-apiserver
//! of the supported version.

/// A kind of Kubernetes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Builtin {
    /// The short group: `apps`, `core`, `rbac`.
    pub(crate) group: &'static str,
    /// The domain of the group: `authorization.k8s.io`, or empty.
    pub(crate) domain: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// The module of its type.
    pub(crate) module: &'static str,
}

/// Finds a kind by its short group.
pub(crate) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Builtin> {
    KINDS
        .iter()
        .find(|there| there.group == group && there.version == version && there.kind == kind)
}

/// Returns true if Kubernetes has a group of this short name.
pub(crate) fn has_group(group: &str) -> bool {
    KINDS.iter().any(|there| there.group == group)
}

const fn of(
    group: &'static str,
    domain: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    module: &'static str,
) -> Builtin {
    Builtin {
        group,
        domain,
        version,
        kind,
        plural,
        module,
    }
}

#[rustfmt::skip]
const KINDS: [Builtin; 60] = [
    of("admissionregistration", "k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "k8s_openapi::api::admissionregistration::v1"),
    of("admissionregistration", "k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "k8s_openapi::api::admissionregistration::v1"),
    of("admissionregistration", "k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "k8s_openapi::api::admissionregistration::v1"),
    of("admissionregistration", "k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "k8s_openapi::api::admissionregistration::v1"),
    of("admissionregistration", "k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "k8s_openapi::api::admissionregistration::v1"),
    of("admissionregistration", "k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "k8s_openapi::api::admissionregistration::v1"),
    of("apiextensions", "k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1"),
    of("apiregistration", "k8s.io", "v1", "APIService", "apiservices", "k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1"),
    of("apps", "", "v1", "ControllerRevision", "controllerrevisions", "k8s_openapi::api::apps::v1"),
    of("apps", "", "v1", "DaemonSet", "daemonsets", "k8s_openapi::api::apps::v1"),
    of("apps", "", "v1", "Deployment", "deployments", "k8s_openapi::api::apps::v1"),
    of("apps", "", "v1", "ReplicaSet", "replicasets", "k8s_openapi::api::apps::v1"),
    of("apps", "", "v1", "StatefulSet", "statefulsets", "k8s_openapi::api::apps::v1"),
    of("autoscaling", "", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "k8s_openapi::api::autoscaling::v1"),
    of("autoscaling", "", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "k8s_openapi::api::autoscaling::v2"),
    of("batch", "", "v1", "CronJob", "cronjobs", "k8s_openapi::api::batch::v1"),
    of("batch", "", "v1", "Job", "jobs", "k8s_openapi::api::batch::v1"),
    of("certificates", "k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", "k8s_openapi::api::certificates::v1"),
    of("coordination", "k8s.io", "v1", "Lease", "leases", "k8s_openapi::api::coordination::v1"),
    of("core", "", "v1", "ConfigMap", "configmaps", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Endpoints", "endpoints", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Event", "events", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "LimitRange", "limitranges", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Namespace", "namespaces", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Node", "nodes", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "PersistentVolume", "persistentvolumes", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Pod", "pods", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "PodTemplate", "podtemplates", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "ReplicationController", "replicationcontrollers", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "ResourceQuota", "resourcequotas", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Secret", "secrets", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "Service", "services", "k8s_openapi::api::core::v1"),
    of("core", "", "v1", "ServiceAccount", "serviceaccounts", "k8s_openapi::api::core::v1"),
    of("discovery", "k8s.io", "v1", "EndpointSlice", "endpointslices", "k8s_openapi::api::discovery::v1"),
    of("events", "k8s.io", "v1", "Event", "events", "k8s_openapi::api::events::v1"),
    of("flowcontrol", "apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", "k8s_openapi::api::flowcontrol::v1"),
    of("flowcontrol", "apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", "k8s_openapi::api::flowcontrol::v1"),
    of("networking", "k8s.io", "v1", "IPAddress", "ipaddresses", "k8s_openapi::api::networking::v1"),
    of("networking", "k8s.io", "v1", "Ingress", "ingresses", "k8s_openapi::api::networking::v1"),
    of("networking", "k8s.io", "v1", "IngressClass", "ingressclasses", "k8s_openapi::api::networking::v1"),
    of("networking", "k8s.io", "v1", "NetworkPolicy", "networkpolicies", "k8s_openapi::api::networking::v1"),
    of("networking", "k8s.io", "v1", "ServiceCIDR", "servicecidrs", "k8s_openapi::api::networking::v1"),
    of("node", "k8s.io", "v1", "RuntimeClass", "runtimeclasses", "k8s_openapi::api::node::v1"),
    of("policy", "", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "k8s_openapi::api::policy::v1"),
    of("rbac", "authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "k8s_openapi::api::rbac::v1"),
    of("rbac", "authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "k8s_openapi::api::rbac::v1"),
    of("rbac", "authorization.k8s.io", "v1", "Role", "roles", "k8s_openapi::api::rbac::v1"),
    of("rbac", "authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "k8s_openapi::api::rbac::v1"),
    of("resource", "k8s.io", "v1", "DeviceClass", "deviceclasses", "k8s_openapi::api::resource::v1"),
    of("resource", "k8s.io", "v1", "ResourceClaim", "resourceclaims", "k8s_openapi::api::resource::v1"),
    of("resource", "k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", "k8s_openapi::api::resource::v1"),
    of("resource", "k8s.io", "v1", "ResourceSlice", "resourceslices", "k8s_openapi::api::resource::v1"),
    of("scheduling", "k8s.io", "v1", "PriorityClass", "priorityclasses", "k8s_openapi::api::scheduling::v1"),
    of("storage", "k8s.io", "v1", "CSIDriver", "csidrivers", "k8s_openapi::api::storage::v1"),
    of("storage", "k8s.io", "v1", "CSINode", "csinodes", "k8s_openapi::api::storage::v1"),
    of("storage", "k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", "k8s_openapi::api::storage::v1"),
    of("storage", "k8s.io", "v1", "StorageClass", "storageclasses", "k8s_openapi::api::storage::v1"),
    of("storage", "k8s.io", "v1", "VolumeAttachment", "volumeattachments", "k8s_openapi::api::storage::v1"),
    of("storage", "k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", "k8s_openapi::api::storage::v1"),
];
