//! The defaults of cluster policies and cluster configuration: admission, RBAC, networking, storage, scheduling, flow
//! control and discovery.

use serde_json::{Value, json};

use super::Rule::{self, Code, FilledText, Flag, Number, PositiveNumber, Struct, Text};
use super::TypeRules;
use crate::tree::{Object, is_zero, set_if_zero};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

const WEBHOOK: &[Rule] = &[
    Text("failurePolicy", "Fail"),
    Text("matchPolicy", "Equivalent"),
    Struct("namespaceSelector"),
    Struct("objectSelector"),
    Number("timeoutSeconds", 10),
];
const ADMISSION_POLICY: &[Rule] = &[Text("failurePolicy", "Fail")];
const ADMISSION_RULE: &[Rule] = &[Text("scope", "*")];

pub(super) const RULES: &[TypeRules] = &[
    ("api.admissionregistration.v1.ValidatingWebhook", WEBHOOK),
    ("api.admissionregistration.v1.MutatingWebhook", WEBHOOK),
    (
        "api.admissionregistration.v1.MutatingWebhook",
        &[Text("reinvocationPolicy", "Never")],
    ),
    ("api.admissionregistration.v1.ServiceReference", SERVICE_REFERENCE),
    ("api.admissionregistration.v1.RuleWithOperations", ADMISSION_RULE),
    (
        "api.admissionregistration.v1.NamedRuleWithOperations",
        ADMISSION_RULE,
    ),
    (
        "api.admissionregistration.v1.MatchResources",
        &[
            Text("matchPolicy", "Equivalent"),
            Struct("namespaceSelector"),
            Struct("objectSelector"),
        ],
    ),
    (
        "api.admissionregistration.v1.ValidatingAdmissionPolicySpec",
        ADMISSION_POLICY,
    ),
    (
        "api.admissionregistration.v1.MutatingAdmissionPolicySpec",
        ADMISSION_POLICY,
    ),
    (
        "kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference",
        SERVICE_REFERENCE,
    ),
    ("api.rbac.v1.RoleRef", &[FilledText("apiGroup", RBAC_GROUP)]),
    ("api.rbac.v1.Subject", &[Code(subject_group)]),
    ("api.networking.v1.NetworkPolicy", &[Struct("spec")]),
    ("api.networking.v1.NetworkPolicySpec", &[Code(policy_types)]),
    ("api.networking.v1.NetworkPolicyPort", &[Text("protocol", "TCP")]),
    (
        "api.storage.v1.StorageClass",
        &[
            Text("reclaimPolicy", "Delete"),
            Text("volumeBindingMode", "Immediate"),
        ],
    ),
    (
        "api.storage.v1.CSIDriverSpec",
        &[
            Flag("attachRequired", true),
            Flag("podInfoOnMount", false),
            Flag("storageCapacity", false),
            Flag("requiresRepublish", false),
            Flag("seLinuxMount", false),
            Text("fsGroupPolicy", "ReadWriteOnceWithFSType"),
            Code(volume_lifecycle_modes),
        ],
    ),
    (
        "api.scheduling.v1.PriorityClass",
        &[Text("preemptionPolicy", "PreemptLowerPriority")],
    ),
    (
        "api.flowcontrol.v1.FlowSchemaSpec",
        &[PositiveNumber("matchingPrecedence", 1000)],
    ),
    (
        "api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        &[
            Number("nominalConcurrencyShares", 30),
            Number("lendablePercent", 0),
        ],
    ),
    (
        "api.flowcontrol.v1.ExemptPriorityLevelConfiguration",
        &[
            Number("nominalConcurrencyShares", 0),
            Number("lendablePercent", 0),
        ],
    ),
    (
        "api.flowcontrol.v1.QueuingConfiguration",
        &[
            PositiveNumber("handSize", 8),
            PositiveNumber("queues", 64),
            PositiveNumber("queueLengthLimit", 50),
        ],
    ),
    (
        "api.discovery.v1.EndpointPort",
        &[Text("name", ""), Text("protocol", "TCP")],
    ),
];

const SERVICE_REFERENCE: &[Rule] = &[Number("port", 443)];

/// Sets the group of a subject: RBAC's group for users and groups, the core group for service accounts.
fn subject_group(subject: &mut Object) {
    let kind = subject.get("kind").and_then(Value::as_str).unwrap_or_default();
    if matches!(kind, "User" | "Group") {
        set_if_zero(subject, "apiGroup", RBAC_GROUP);
    }
}

/// Sets the types of a network policy: Ingress, and Egress if it has egress rules.
fn policy_types(spec: &mut Object) {
    let has_egress = spec.get("egress").is_some_and(|rules| !is_zero(rules));
    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set_if_zero(spec, "policyTypes", types);
}

fn volume_lifecycle_modes(spec: &mut Object) {
    set_if_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
}
