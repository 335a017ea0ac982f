//! Validates objects, except for their metadata.
//!
//! The rules, their order and their texts are those of Kubernetes' validation packages. They require decoded objects
//! with defaults. Rules that depend on more than the object (allocated addresses, other objects) belong to the registry
//! and to admission.

mod admission;
mod admission_policy;
mod affinity;
mod api_service;
mod batch;
mod certificate;
mod check;
mod condition;
mod config;
mod container;
mod container_resources;
mod container_restart;
mod container_status;
mod csi;
mod device;
mod device_capacity;
mod device_expression;
mod device_print;
mod device_slice;
mod event;
mod flow_control;
mod job_policy;
mod job_status;
mod mount;
mod network;
mod node;
mod operating_system;
mod pod;
mod pod_annotation;
mod pod_update;
mod policy;
mod quota;
mod rbac;
mod resource;
mod review;
mod security;
mod service;
mod status;
mod storage;
mod template_metadata;
mod volume;
mod volume_source;
mod workload;

use apimachinery::field::{ErrorList, Path};
use check::Check;
pub use check::{is_empty_selector, selects};
use serde_json::Value;

use crate::resource_v1beta1::{in_v1, v1_kind};
use apimachinery::gvk::Gvk;

type CreateRule = fn(&mut Check, &Value);
type UpdateRule = fn(&mut Check, &Value, &Value);

/// Validates a new object, except for its metadata.
pub fn validate_create(gvk: &Gvk, object: &Value) -> ErrorList {
    if let Some(v1) = v1_kind(gvk) {
        return validate_create(v1, &in_v1(object));
    }
    let mut check = Check::default();
    if let Some(rule) = create_rule(gvk) {
        rule(&mut check, object);
    }
    check.errors
}

/// Validates a changed object, except for its metadata; `subresource` is empty for the resource itself.
pub fn validate_update(gvk: &Gvk, subresource: &str, object: &Value, old: &Value) -> ErrorList {
    if let Some(v1) = v1_kind(gvk) {
        return validate_update(v1, subresource, &in_v1(object), &in_v1(old));
    }
    let mut check = Check::default();
    let rule = match subresource {
        "" => update_rule(gvk),
        _ => subresource_rule(gvk, subresource),
    };
    match (rule, create_rule(gvk)) {
        (Some(rule), _) => rule(&mut check, object, old),
        (None, Some(rule)) if subresource.is_empty() => rule(&mut check, object),
        _ => {}
    }
    check.errors
}

/// Validates the cluster addresses of a service, before missing ones are allocated.
pub fn validate_service_addresses(object: &Value) -> ErrorList {
    let mut check = Check::default();
    service::related_addresses(&mut check, object);
    check.errors
}

/// Returns true if a changed service has the cluster addresses that it must keep.
pub fn keeps_service_addresses(object: &Value, old: &Value) -> bool {
    let mut check = Check::default();
    service::unchanged_addresses(&mut check, object, old);
    check.errors.is_empty()
}

/// Returns the rule for new objects of a kind. It also applies to changed objects if [`update_rule`] has no rule.
fn create_rule(gvk: &Gvk) -> Option<CreateRule> {
    let rule: CreateRule = match (gvk.group, gvk.kind) {
        ("", "ConfigMap") => config::config_map,
        ("", "Endpoints") => network::endpoints,
        ("", "Event") => event::core,
        ("events.k8s.io", "Event") => event::create,
        ("", "LimitRange") => quota::limit_range,
        ("", "Namespace") => status::new_namespace,
        ("", "Node") => node::node,
        ("", "PersistentVolume") => storage::persistent_volume,
        ("", "PersistentVolumeClaim") => storage::claim,
        ("", "Pod") => pod::validate_create,
        ("", "PodTemplate") => pod_template,
        ("", "ReplicationController") => workload::replication_controller,
        ("", "ResourceQuota") => quota::resource_quota,
        ("", "Secret") => config::secret,
        ("", "Service") => service::service,
        ("apiregistration.k8s.io", "APIService") => api_service::api_service,
        ("apps", "ControllerRevision") => config::revision,
        ("apps", "DaemonSet") => workload::daemon_set,
        ("apps", "Deployment") => workload::deployment,
        ("apps", "ReplicaSet") => workload::replica_set,
        ("apps", "StatefulSet") => workload::new_stateful_set,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => review::own_access,
        ("authorization.k8s.io", "SubjectAccessReview") => review::access,
        ("authorization.k8s.io", "LocalSubjectAccessReview") => review::local_access,
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler,
        ("autoscaling", "Scale") => policy::scale,
        ("batch", "CronJob") => batch::cron_job,
        ("batch", "Job") => batch::job,
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate::signing_request,
        ("coordination.k8s.io", "Lease") => policy::lease,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow_control::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow_control::priority_level,
        ("networking.k8s.io", "Ingress") => network::ingress_create,
        ("networking.k8s.io", "IngressClass") => network::ingress_class,
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy,
        ("node.k8s.io", "RuntimeClass") => config::runtime_class,
        ("policy", "PodDisruptionBudget") => policy::disruption_budget,
        ("rbac.authorization.k8s.io", "ClusterRole") => |check, role| rbac::role(check, role, false),
        ("rbac.authorization.k8s.io", "Role") => |check, role| rbac::role(check, role, true),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            |check, binding| rbac::binding(check, binding, false)
        }
        ("rbac.authorization.k8s.io", "RoleBinding") => |check, binding| rbac::binding(check, binding, true),
        ("resource.k8s.io", "DeviceClass") => device::class,
        ("resource.k8s.io", "ResourceClaim") => device::claim,
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template,
        ("resource.k8s.io", "ResourceSlice") => device_slice::slice,
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class,
        ("storage.k8s.io", "CSIDriver") => csi::csi_driver,
        ("storage.k8s.io", "CSINode") => csi::csi_node,
        ("storage.k8s.io", "CSIStorageCapacity") => resource::storage_capacity,
        ("storage.k8s.io", "StorageClass") => storage::storage_class,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment,
        ("storage.k8s.io", "VolumeAttributesClass") => resource::attributes_class,
        ("networking.k8s.io", "IPAddress") => resource::ip_address,
        ("networking.k8s.io", "ServiceCIDR") => resource::service_cidr,
        ("admissionregistration.k8s.io", kind) => return admission_rule(kind),
        _ => return None,
    };
    Some(rule)
}

fn admission_rule(kind: &str) -> Option<CreateRule> {
    let rule: CreateRule = match kind {
        "MutatingWebhookConfiguration" => |check, object| admission::webhooks(check, object, true),
        "ValidatingWebhookConfiguration" => |check, object| admission::webhooks(check, object, false),
        "ValidatingAdmissionPolicy" => admission_policy::validating_policy,
        "MutatingAdmissionPolicy" => admission_policy::mutating_policy,
        "ValidatingAdmissionPolicyBinding" => {
            |check, object| admission_policy::policy_binding(check, object, true)
        }
        "MutatingAdmissionPolicyBinding" => {
            |check, object| admission_policy::policy_binding(check, object, false)
        }
        _ => return None,
    };
    Some(rule)
}

/// Returns the rule for changed objects, if it differs from the rule for new objects.
fn update_rule(gvk: &Gvk) -> Option<UpdateRule> {
    let rule: UpdateRule = match (gvk.group, gvk.kind) {
        ("", "ConfigMap") => config::config_map_update,
        ("", "Endpoints") => network::endpoints_update,
        ("", "Node") => node::node_update,
        ("events.k8s.io", "Event") => event::update,
        ("", "PersistentVolume") => storage::persistent_volume_update,
        ("", "PersistentVolumeClaim") => storage::claim_update,
        ("", "Pod") => pod_update::validate_update,
        ("", "Secret") => config::secret_update,
        ("", "Service") => service::service_update,
        ("", "ResourceQuota") => quota::resource_quota_update,
        ("apps", "ControllerRevision") => config::revision_update,
        ("apps", "DaemonSet") => |check, object, old| {
            workload::same_selector(check, object, old);
            workload::daemon_set(check, object);
        },
        ("apps", "Deployment") => |check, object, old| {
            workload::deployment(check, object);
            workload::same_selector(check, object, old);
        },
        ("apps", "ReplicaSet") => |check, object, old| {
            workload::replica_set(check, object);
            workload::same_selector(check, object, old);
        },
        ("apps", "StatefulSet") => |check, object, old| {
            workload::stateful_set(check, object);
            workload::stateful_set_update(check, object, old);
        },
        ("batch", "Job") => batch::job_update,
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            |check, object, old| certificate::signing_request_update(check, "", object, old)
        }
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice_update,
        ("networking.k8s.io", "Ingress") => |check, object, _| network::ingress(check, object),
        ("networking.k8s.io", "IngressClass") => network::ingress_class_update,
        ("node.k8s.io", "RuntimeClass") => config::runtime_class_update,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => rbac::binding_update,
        ("resource.k8s.io", "ResourceClaim") => device::claim_update,
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template_update,
        ("resource.k8s.io", "ResourceSlice") => device_slice::slice_update,
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class_update,
        ("storage.k8s.io", "CSIDriver") => csi::csi_driver_update,
        ("storage.k8s.io", "CSINode") => csi::csi_node_update,
        ("storage.k8s.io", "CSIStorageCapacity") => resource::storage_capacity_update,
        ("storage.k8s.io", "StorageClass") => storage::storage_class_update,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment_update,
        ("storage.k8s.io", "VolumeAttributesClass") => resource::attributes_class_update,
        ("networking.k8s.io", "IPAddress") => resource::ip_address_update,
        ("networking.k8s.io", "ServiceCIDR") => resource::service_cidr_update,
        _ => return None,
    };
    Some(rule)
}

/// Returns the rule for the body of a subresource.
fn subresource_rule(gvk: &Gvk, subresource: &str) -> Option<UpdateRule> {
    let rule: UpdateRule = match (subresource, gvk.group, gvk.kind) {
        ("approval", "certificates.k8s.io", _) => {
            |check, object, old| certificate::signing_request_update(check, "approval", object, old)
        }
        ("ephemeralcontainers", "", "Pod") => pod_update::validate_ephemeral_update,
        ("resize", "", "Pod") => pod_update::validate_resize,
        ("finalize", "", "Namespace") => |check, object, _| status::namespace_finalizers(check, object),
        ("scale", ..) => |check, object, _| policy::scale(check, object),
        ("status", ..) => return status_rule(gvk),
        _ => return None,
    };
    Some(rule)
}

fn status_rule(gvk: &Gvk) -> Option<UpdateRule> {
    let rule: UpdateRule = match (gvk.group, gvk.kind) {
        ("", "Namespace") => |check, object, _| status::namespace(check, object),
        ("", "Node") => node::node_update,
        ("", "PersistentVolumeClaim") => |check, object, _| status::claim(check, object),
        ("", "Pod") => status::pod,
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            |check, object, _| workload::replica_counts(check, "ReplicaSet", object)
        }
        ("", "ResourceQuota") => |check, object, _| quota::resource_quota_status(check, object),
        ("", "Service") | ("networking.k8s.io", "Ingress") => {
            |check, object, _| status::load_balancer(check, object)
        }
        ("apiregistration.k8s.io", "APIService") => {
            |check, object, _| api_service::api_service_status(check, object)
        }
        ("apps", "DaemonSet") => |check, object, old| status::counts(check, object, old, DAEMON_COUNTS),
        ("apps", "Deployment") => |check, object, old| {
            workload::replica_counts(check, "Deployment", object);
            status::collisions(check, object, old);
        },
        ("apps", "StatefulSet") => |check, object, old| {
            workload::replica_counts(check, "StatefulSet", object);
            status::collisions(check, object, old);
        },
        ("autoscaling", "HorizontalPodAutoscaler") => |check, object, _| {
            let (status, path) = (crate::tree::at(object, &["status"]), Path::new("status"));
            check.non_negative(status, &path, "currentReplicas");
            check.non_negative(status, &path, "desiredReplicas");
        },
        ("batch", "Job") => job_status::status,
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            |check, object, old| certificate::signing_request_update(check, "status", object, old)
        }
        ("policy", "PodDisruptionBudget") => |check, object, old| {
            condition::conditions(check, crate::tree::at(object, &["status"]), &Path::new("status"));
            status::counts(check, object, old, BUDGET_COUNTS);
        },
        ("flowcontrol.apiserver.k8s.io", _) => |check, object, _| flow_control::conditions(check, object),
        ("admissionregistration.k8s.io", _) => |check, object, _| {
            admission_policy::type_checking(check, object);
            condition::conditions(check, crate::tree::at(object, &["status"]), &Path::new("status"));
        },
        ("resource.k8s.io", "ResourceClaim") => device::claim_status,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment_update,
        _ => return None,
    };
    Some(rule)
}

const DAEMON_COUNTS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

const BUDGET_COUNTS: &[&str] = &[
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];

fn pod_template(check: &mut Check, object: &Value) {
    pod::template(
        check,
        crate::tree::at(object, &["template"]),
        &Path::new("template"),
    );
}
