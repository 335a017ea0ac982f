//! `good-practices`: checks recommendations for operators.

use serde_json::Value;

use super::Options;
use crate::bundle::{Bundle, list, text};
use crate::catalog::version::Version;
use crate::finding::{Finding, Findings, Level};

const CREATES_CRDS: &str = "CSV contains permissions to create CRD. An Operator shouldn't deploy or manage other operators (such patterns are known as meta or super operators or include CRDs in its Operands). It's the Operator Lifecycle Manager's job to manage the deployment and lifecycle of operators.  Please, review the design of your solution and if you should not be using Dependency Resolution from OLM instead. More info: https://sdk.operatorframework.io/docs/best-practices/common-recommendation/";

pub(super) fn validate(bundle: &Bundle, _: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("good-practices");
    check_requests(bundle, &mut findings);
    check_name(bundle, &mut findings);
    check_permissions(bundle, &mut findings);
    check_descriptions(bundle, &mut findings);
    findings.list
}

fn check_requests(bundle: &Bundle, findings: &mut Findings) {
    let pointer = "/spec/install/spec/deployments";
    if bundle.csv_at(pointer).is_none_or(Value::is_null) {
        let detail = "unable to find a deployment to install in the CSV";
        findings.failed(Level::Error, bundle, detail, "/spec/install");
        return;
    }
    for (index, deployment) in bundle.csv_list(pointer).iter().enumerate() {
        let containers = list(deployment, "/spec/template/spec/containers");
        for (at, container) in containers.iter().enumerate() {
            let requests = container.pointer("/resources/requests");
            if requests.is_some_and(|requests| !requests.is_null()) {
                continue;
            }
            let detail = format!(
                "unable to find the resource requests for the container: ({}). It is recommended to ensure the resource request for CPU and Memory. Be aware that for some clusters configurations it is required to specify requests or limits for those values. Otherwise, the system or quota may reject Pod creation. More info: https://master.sdk.operatorframework.io/docs/best-practices/managing-resources/",
                text(container, "/name")
            );
            let pointer = format!("{pointer}/{index}/spec/template/spec/containers/{at}");
            findings.failed(Level::Warning, bundle, detail, &pointer);
        }
    }
}

fn check_name(bundle: &Bundle, findings: &mut Findings) {
    let name = bundle.csv_name();
    let pointer = "/metadata/name";
    if name.matches(".v").count() != 1 {
        let detail = format!(
            "csv.metadata.Name {name} is not following the recommended naming convention: <operator-name>.v<semver> e.g. memcached-operator.v0.0.1"
        );
        findings.failed(Level::Warning, bundle, detail, pointer);
    }
    if !ends_with_version(name) {
        let detail = format!(
            "csv.metadata.Name {name} is not following the versioning convention (MAJOR.MINOR.PATCH e.g 0.0.1): https://semver.org/"
        );
        findings.failed(Level::Warning, bundle, detail, pointer);
    }
}

/// Returns true if a suffix of the name is a semantic version.
fn ends_with_version(name: &str) -> bool {
    let starts = name.char_indices().filter(|(_, c)| c.is_ascii_digit());
    // A valid name has at most 253 characters; longer ones are reported elsewhere.
    let mut suffixes = starts.take(253).filter_map(|(at, _)| name.get(at..));
    suffixes.any(|suffix| Version::parse(suffix).is_ok())
}

fn check_permissions(bundle: &Bundle, findings: &mut Findings) {
    for field in ["permissions", "clusterPermissions"] {
        let pointer = format!("/spec/install/spec/{field}");
        for (index, permission) in bundle.csv_list(&pointer).iter().enumerate() {
            for (at, rule) in list(permission, "/rules").iter().enumerate() {
                let has = |field: &str, wanted: &[&str]| {
                    let mut items = list(rule, field).iter().filter_map(Value::as_str);
                    items.any(|item| wanted.contains(&item))
                };
                if has("/apiGroups", &["apiextensions.k8s.io"])
                    && has("/resources", &["customresourcedefinitions", "*", "[*]"])
                    && has("/verbs", &["create", "*", "[*]", "patch"])
                {
                    let pointer = format!("{pointer}/{index}/rules/{at}");
                    findings.failed(Level::Warning, bundle, CREATES_CRDS, &pointer);
                    return;
                }
            }
        }
    }
}

fn check_descriptions(bundle: &Bundle, findings: &mut Findings) {
    for which in ["owned", "required"] {
        let pointer = format!("/spec/customresourcedefinitions/{which}");
        for (index, crd) in bundle.csv_list(&pointer).iter().enumerate() {
            if text(crd, "/description").is_empty() {
                let name = apimachinery::go::quote(text(crd, "/name"));
                let detail = format!("{which} CRD {name} has an empty description");
                findings.failed(Level::Warning, bundle, detail, &format!("{pointer}/{index}"));
            }
        }
    }
}
