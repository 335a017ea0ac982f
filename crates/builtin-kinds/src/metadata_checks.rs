//! A table of the number of times that each kind validates the metadata of a changed object.
//!
//! The generic registry checks the metadata once. Most kinds check the change a second time, and some check the whole
//! object again. The causes of the error repeat each violation accordingly.

use apimachinery::gvk::Gvk;

/// One step of the validation of a changed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Checks the change of the metadata.
    Change,
    /// Checks the metadata like that of a new object.
    Whole,
    /// Checks the rest of the object like a new object.
    New,
    /// Checks the rest of the object and its change.
    Update,
}

/// The number and kinds of checks of a changed object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataChecks {
    /// The number of times that the change is checked.
    pub changes: usize,
    /// The number of times that the object is checked like a new one.
    pub wholes: usize,
    /// True if finalizers without a prefix must be standard ones.
    pub standard_finalizers: bool,
}

impl MetadataChecks {
    /// Returns the steps of most kinds: the metadata before the rest. The registry has already checked the change once.
    fn steps(self) -> Vec<Step> {
        let changes = std::iter::repeat_n(Step::Change, self.changes.saturating_sub(1));
        let wholes = std::iter::repeat_n(Step::Whole, self.wholes);
        changes.chain(wholes).chain([Step::Update]).collect()
    }
}

#[rustfmt::skip] // One line is one kind.
const ORDERS: &[(&str, &str, &[Step])] = {
    use Step::{Change, New, Update, Whole};
    &[
        ("", "Namespace", &[Whole, Change]),
        ("", "Node", &[Whole, New, Change, Update]),
        ("", "PersistentVolume", &[Whole, New, Whole, New, Update]),
        ("apiregistration.k8s.io", "APIService", &[Change, Whole, Update]),
        ("batch", "Job", &[Whole, New, Change, Update]),
        ("certificates.k8s.io", "CertificateSigningRequest", &[Whole, Update, Change]),
        ("networking.k8s.io", "IPAddress", &[Whole, New, Change, Update]),
        ("networking.k8s.io", "IngressClass", &[Change, Update, Whole, New]),
        ("node.k8s.io", "RuntimeClass", &[Whole, New, Change, Update]),
        ("rbac.authorization.k8s.io", "ClusterRole", &[Whole, New, Change]),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding", &[Whole, New, Change, Update]),
        ("rbac.authorization.k8s.io", "Role", &[Whole, New, Change]),
        ("rbac.authorization.k8s.io", "RoleBinding", &[Whole, New, Change, Update]),
        ("resource.k8s.io", "DeviceClass", &[Whole, Change, Update]),
        ("resource.k8s.io", "ResourceClaim", &[Whole, Change, Update]),
        ("resource.k8s.io", "ResourceClaimTemplate", &[Whole, New, Change, Update]),
        ("storage.k8s.io", "CSIStorageCapacity", &[Whole, New, Change, Update]),
        ("storage.k8s.io", "StorageClass", &[Whole, New, Change, Update]),
        ("storage.k8s.io", "VolumeAttributesClass", &[Change, Update, Whole, New]),
    ]
};

/// Returns the validation steps of a changed object after the first check of its metadata, in order.
pub fn update_steps(gvk: &Gvk, subresource: &str) -> Vec<Step> {
    let order = ORDERS
        .iter()
        .find(|(group, kind, _)| (*group, *kind) == (gvk.group, gvk.kind))
        // The subresources of a CertificateSigningRequest are validated in the same order.
        .filter(|_| subresource.is_empty() || gvk.group == "certificates.k8s.io");
    match order {
        Some((_, _, steps)) => steps.to_vec(),
        None => metadata_checks(gvk, subresource).steps(),
    }
}

const fn checks(changes: usize, wholes: usize, standard_finalizers: bool) -> MetadataChecks {
    MetadataChecks {
        changes,
        wholes,
        standard_finalizers,
    }
}

/// The checks of most kinds.
pub const PLAIN: MetadataChecks = checks(2, 0, true);
/// The steps of kinds that repeat all checks.
const AGAIN: MetadataChecks = checks(2, 1, true);
/// The steps of kinds that check new and changed objects with the same function.
const AS_NEW: MetadataChecks = checks(1, 1, true);
/// The steps of kinds that check new and changed objects with the same function, which uses the rules of the libraries
/// instead of the core group's.
const AS_NEW_BY_LIBRARY: MetadataChecks = checks(1, 1, false);

#[rustfmt::skip] // One line is one kind.
const MAIN: &[(&str, &str, MetadataChecks)] = &[
    ("", "ConfigMap", AGAIN),
    ("", "Endpoints", AGAIN),
    ("", "Event", checks(1, 0, false)),
    ("", "LimitRange", AS_NEW),
    ("", "Namespace", AGAIN),
    ("", "Node", AGAIN),
    ("", "PersistentVolume", checks(1, 2, true)),
    ("", "PersistentVolumeClaim", AGAIN),
    ("", "Pod", AGAIN),
    ("", "Secret", AGAIN),
    ("", "ServiceAccount", AGAIN),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", AS_NEW_BY_LIBRARY),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", AS_NEW_BY_LIBRARY),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", AS_NEW_BY_LIBRARY),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", AS_NEW_BY_LIBRARY),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", AS_NEW_BY_LIBRARY),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", AS_NEW_BY_LIBRARY),
    ("apiextensions.k8s.io", "CustomResourceDefinition", checks(2, 0, false)),
    ("apiregistration.k8s.io", "APIService", checks(2, 1, false)),
    ("apps", "ControllerRevision", AGAIN),
    ("batch", "Job", AGAIN),
    ("certificates.k8s.io", "CertificateSigningRequest", AGAIN),
    ("coordination.k8s.io", "Lease", checks(2, 0, false)),
    ("discovery.k8s.io", "EndpointSlice", AS_NEW),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", AS_NEW),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", AS_NEW),
    ("networking.k8s.io", "IPAddress", AGAIN),
    ("networking.k8s.io", "Ingress", AGAIN),
    ("networking.k8s.io", "IngressClass", AGAIN),
    ("node.k8s.io", "RuntimeClass", checks(2, 1, false)),
    ("policy", "PodDisruptionBudget", checks(1, 0, false)),
    ("rbac.authorization.k8s.io", "ClusterRole", AGAIN),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", AGAIN),
    ("rbac.authorization.k8s.io", "Role", AGAIN),
    ("rbac.authorization.k8s.io", "RoleBinding", AGAIN),
    ("resource.k8s.io", "DeviceClass", AGAIN),
    ("resource.k8s.io", "ResourceClaim", AGAIN),
    ("resource.k8s.io", "ResourceClaimTemplate", AGAIN),
    ("storage.k8s.io", "CSINode", AS_NEW),
    ("storage.k8s.io", "CSIStorageCapacity", AGAIN),
    ("storage.k8s.io", "StorageClass", AGAIN),
    ("storage.k8s.io", "VolumeAttachment", AS_NEW),
    ("storage.k8s.io", "VolumeAttributesClass", AGAIN),
];

#[rustfmt::skip] // One line is one kind.
const STATUS: &[(&str, &str, MetadataChecks)] = &[
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", checks(1, 0, false)),
    ("apiextensions.k8s.io", "CustomResourceDefinition", checks(2, 0, false)),
    ("apiregistration.k8s.io", "APIService", checks(0, 0, false)),
    ("batch", "CronJob", checks(1, 0, false)),
    ("certificates.k8s.io", "CertificateSigningRequest", AGAIN),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", checks(0, 0, false)),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", checks(0, 0, false)),
    ("networking.k8s.io", "ServiceCIDR", checks(2, 0, false)),
    ("policy", "PodDisruptionBudget", checks(1, 0, false)),
    ("resource.k8s.io", "ResourceClaim", checks(2, 0, false)),
    ("storage.k8s.io", "VolumeAttachment", checks(1, 1, false)),
];

/// Returns the checks of a kind; the checks of `status` also apply to other subresources.
pub fn metadata_checks(gvk: &Gvk, subresource: &str) -> MetadataChecks {
    // These subresources of a Pod are validated like the Pod.
    let is_whole = subresource.is_empty() || matches!(subresource, "ephemeralcontainers" | "resize");
    let table = if is_whole { MAIN } else { STATUS };
    table
        .iter()
        .find(|(group, kind, _)| (*group, *kind) == (gvk.group, gvk.kind))
        .map_or(PLAIN, |(_, _, checks)| *checks)
}

#[cfg(test)]
mod tests {
    use super::{Step, update_steps};
    use apimachinery::gvk::Gvk;

    #[test]
    fn a_certificate_signing_request_checks_its_change_last() {
        let gvk = Gvk {
            group: "certificates.k8s.io",
            version: "v1",
            kind: "CertificateSigningRequest",
        };
        for subresource in ["", "approval", "status"] {
            let steps = update_steps(&gvk, subresource);
            assert_eq!(
                steps,
                [Step::Whole, Step::Update, Step::Change],
                "{subresource:?}"
            );
        }
    }
}
