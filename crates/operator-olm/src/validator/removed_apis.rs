//! `alpha-deprecated-apis`: reports APIs that Kubernetes no longer serves.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Options;
use super::bundle::is_old;
use crate::bundle::{Bundle, list, text};
use crate::catalog::version::Version;
use crate::finding::{Finding, Findings, Level};

/// A minor version of Kubernetes, with the group versions and kinds that it removed.
type Removal = (u64, &'static [(&'static str, &'static [&'static str])]);

const REMOVED: [Removal; 3] = [
    (
        22,
        &[
            ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
            (
                "rbac.authorization.k8s.io/v1beta1",
                &["Role", "ClusterRoleBinding", "RoleBinding", "ClusterRole"],
            ),
            ("apiregistration.k8s.io/v1beta1", &["APIService"]),
            ("authentication.k8s.io/v1beta1", &["TokenReview"]),
            (
                "authorization.k8s.io/v1beta1",
                &[
                    "LocalSubjectAccessReview",
                    "SelfSubjectAccessReview",
                    "SubjectAccessReview",
                ],
            ),
            (
                "admissionregistration.k8s.io/v1beta1",
                &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
            ),
            ("coordination.k8s.io/v1beta1", &["Lease"]),
            ("extensions/v1beta1", &["Ingress"]),
            ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
            (
                "storage.k8s.io/v1beta1",
                &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
            ),
            ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
        ],
    ),
    (
        25,
        &[
            ("batch/v1beta1", &["CronJob"]),
            ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
            ("events.k8s.io/v1beta1", &["Event"]),
            ("autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
            ("policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"]),
            ("node.k8s.io/v1beta1", &["RuntimeClass"]),
        ],
    ),
    (
        26,
        &[
            ("autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
            (
                "flowcontrol.apiserver.k8s.io/v1beta1",
                &["FlowSchema", "PriorityLevelConfiguration"],
            ),
        ],
    ),
];

/// The names of the objects of each kind, and the JSON pointer and manifest of the first object.
#[derive(Default)]
struct Found {
    names: BTreeMap<String, Vec<String>>,
    first: Option<(usize, &'static str)>,
}

pub(super) fn validate(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    findings("alpha-deprecated-apis", bundle, options)
}

/// Returns the findings under the name of another validator.
pub(super) fn findings(validator: &'static str, bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new(validator);
    let wanted = options.value("k8s-version");
    let given = Version::parse_tolerant(wanted).ok();
    if !wanted.is_empty() && given.is_none() {
        let detail = format!("invalid value informed via the k8s key option : {wanted}");
        findings.failed(Level::Error, bundle, detail, "");
    }
    let minimum = text(&bundle.csv, "/spec/minKubeVersion");
    let lowest = Version::parse_tolerant(minimum).ok();
    if !minimum.is_empty() && lowest.is_none() {
        let detail = format!(
            "unable to use csv.Spec.MinKubeVersion to verify the CRD/Webhook apis because it has an invalid value: {minimum}"
        );
        findings.failed(Level::Error, bundle, detail, "/spec/minKubeVersion");
    }
    // APIs of versions before 1.16 were not deprecated.
    if !wanted.is_empty()
        && given
            .as_ref()
            .is_none_or(|given| (given.major, given.minor) < (1, 16))
    {
        return findings.list;
    }
    for (minor, removed) in REMOVED {
        let reaches = |version: &Option<Version>| {
            version
                .as_ref()
                .is_some_and(|version| (version.major, version.minor) >= (1, minor))
        };
        let level = if reaches(&given) || reaches(&lowest) {
            Level::Error
        } else {
            Level::Warning
        };
        let found = objects(bundle, minor, removed);
        if !found.names.is_empty() {
            let finding = findings.failed(level, bundle, message(minor, &found.names), "");
            if let Some(manifest) = found.first.and_then(|(index, _)| bundle.manifests.get(index)) {
                finding.path.clone_from(&manifest.path);
                finding.place = manifest.place("/apiVersion");
            }
        }
        if minor == 25 {
            let (names, pointer) = security_policy_rules(bundle);
            if !names.is_empty() {
                let found = BTreeMap::from([("podsecuritypolicies".to_owned(), names)]);
                findings.failed(Level::Warning, bundle, message(minor, &found), &pointer);
            }
        }
    }
    findings.list
}

fn message(minor: u64, found: &BTreeMap<String, Vec<String>>) -> String {
    format!(
        "this bundle is {}. Migrate the API(s) for {}",
        removed_info(minor),
        migrate(found)
    )
}

/// Returns the sentence about a version for use in messages.
pub(super) fn removed_info(minor: u64) -> String {
    format!(
        "using APIs which were deprecated and removed in v1.{minor}. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-{minor}"
    )
}

fn migrate(found: &BTreeMap<String, Vec<String>>) -> String {
    let kinds = found
        .iter()
        .map(|(kind, names)| format!("{kind}: ({})", quoted_list(names)));
    kinds.collect::<Vec<_>>().join(",")
}

/// Formats a list of strings like Go's `%+q`.
pub(super) fn quoted_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| apimachinery::go::quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Formats the kinds and names that Kubernetes 1.22 removed for messages; returns `None` if there are none.
pub(super) fn removed_on_1_22(bundle: &Bundle) -> Option<String> {
    let (minor, removed) = REMOVED[0];
    let found = objects(bundle, minor, removed).names;
    (!found.is_empty()).then(|| migrate(&found))
}

fn objects(bundle: &Bundle, minor: u64, removed: &[(&str, &[&str])]) -> Found {
    let mut found = Found::default();
    let mut add = |kind: &str, index: usize, name: &str| {
        found
            .names
            .entry(kind.to_owned())
            .or_default()
            .push(name.to_owned());
        found.first.get_or_insert((index, ""));
    };
    if minor == 22 {
        for (index, crd) in bundle.crds.iter().filter(|(_, crd)| is_old(crd)) {
            add("CRD", *index, text(crd, "/metadata/name"));
        }
    }
    for (index, manifest) in bundle.manifests.iter().enumerate() {
        let kinds = removed.iter().find(|(group, _)| *group == manifest.api_version());
        if kinds.is_some_and(|(_, kinds)| kinds.contains(&manifest.kind())) {
            add(manifest.kind(), index, manifest.name());
        }
    }
    found
}

/// Returns the rules about PodSecurityPolicies, and the JSON pointer of the first one.
fn security_policy_rules(bundle: &Bundle) -> (Vec<String>, String) {
    let (mut names, mut first) = (Vec::new(), String::new());
    for (field, go_name) in [
        ("permissions", "Permissions"),
        ("clusterPermissions", "ClusterPermissions"),
    ] {
        let pointer = format!("/spec/install/spec/{field}");
        for (index, permission) in bundle.csv_list(&pointer).iter().enumerate() {
            for (at, rule) in list(permission, "/rules").iter().enumerate() {
                let has = |field: &str, wanted: &str| list(rule, field).contains(&Value::from(wanted));
                if has("/apiGroups", "policy") && has("/resources", "podsecuritypolicies") {
                    if names.is_empty() {
                        first = format!("{pointer}/{index}/rules/{at}");
                    }
                    names.push(format!(
                        "ClusterServiceVersion.Spec.InstallStrategy.StrategySpec.{go_name}[{index}].Rules[{at}]"
                    ));
                }
            }
        }
    }
    (names, first)
}
