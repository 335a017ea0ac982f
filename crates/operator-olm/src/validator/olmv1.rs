//! `olmv1`: checks that OLM v1 supports the bundle.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::go::quote;
use apimachinery::names;
use serde_json::Value;

use super::{Options, SUPPORTED, annotations_manifest};
use crate::bundle::{Bundle, list, text};
use crate::finding::{Finding, Findings, Level};

const KIND: &str = "ValidationFailed";
const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";

pub(super) fn validate(bundle: &Bundle, _: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("olmv1");
    check_dependencies(bundle, &mut findings);
    check_services(bundle, &mut findings);
    check_deployments(bundle, &mut findings);
    check_definitions(bundle, &mut findings);
    check_webhooks(bundle, &mut findings);
    check_objects(bundle, &mut findings);
    check_modes(bundle, &mut findings);
    if bundle.annotations.package().is_empty() {
        let manifest = annotations_manifest(bundle);
        let value = Some(bundle.csv_name().to_owned());
        findings.add(
            Level::Error,
            KIND,
            value,
            "package name is empty",
            (&manifest, ""),
        );
    }
    findings.list
}

fn check_dependencies(bundle: &Bundle, findings: &mut Findings) {
    let mut refuse = |property: &str, pointer: &str| {
        let (name, property) = (quote(bundle.name()), quote(property));
        let detail = format!(
            "bundle {name} has a dependency declared via property {property} which is currently not supported"
        );
        findings.failed(Level::Error, bundle, detail, pointer);
    };
    let required = ["customresourcedefinitions", "apiservicedefinitions"];
    for pointer in required.map(|kind| format!("/spec/{kind}/required")) {
        if !bundle.csv_list(&pointer).is_empty() {
            refuse("olm.gvk.required", &pointer);
        }
    }
    let kinds: BTreeSet<&str> = bundle
        .dependencies()
        .iter()
        .chain(bundle.properties())
        .filter_map(|property| match text(property, "/type") {
            "olm.gvk" if bundle.dependencies().contains(property) => Some("olm.gvk.required"),
            "olm.package" if bundle.dependencies().contains(property) => Some("olm.package.required"),
            kind @ ("olm.constraint" | "olm.gvk.required" | "olm.package.required") => Some(kind),
            _ => None,
        })
        .collect();
    for kind in kinds {
        refuse(kind, "");
    }
}

fn check_services(bundle: &Bundle, findings: &mut Findings) {
    let pointer = "/spec/apiservicedefinitions/owned";
    if !bundle.csv_list(pointer).is_empty() {
        let detail = "unsupported bundle: apiServiceDefintions are not supported";
        findings.failed(Level::Error, bundle, detail, pointer);
    }
}

fn check_deployments(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, deployment) in bundle
        .csv_list("/spec/install/spec/deployments")
        .iter()
        .enumerate()
    {
        let name = text(deployment, "/name");
        let pointer = format!("/spec/install/spec/deployments/{index}/name");
        if !seen.insert(name) {
            let detail =
                format!("cluster service version contains duplicate strategy deployment spec '{name}'");
            findings.failed(Level::Error, bundle, detail, &pointer);
        }
        if let Some(reason) = names::dns1123_subdomain(name).first() {
            let detail =
                format!("invalid cluster service version strategy deployment name '{name}': {reason}");
            findings.failed(Level::Error, bundle, detail, &pointer);
        }
    }
}

fn check_definitions(bundle: &Bundle, findings: &mut Findings) {
    let mut known = BTreeSet::new();
    for (manifest, definition) in &bundle.crds {
        let name = text(definition, "/metadata/name");
        if !known.insert(name) {
            let detail = format!("bundle contains duplicate custom resource definition '{name}'");
            let value = Some(bundle.csv_name().to_owned());
            let manifest = &bundle.manifests[*manifest];
            findings.add(Level::Error, KIND, value, detail, (manifest, "/metadata/name"));
        }
    }
    let owned = bundle.csv_list("/spec/customresourcedefinitions/owned");
    for (index, owned) in owned.iter().enumerate() {
        let name = text(owned, "/name");
        if !known.contains(name) {
            let detail = format!(
                "cluster service definition references owned custom resource definition '{name}' not found in bundle"
            );
            let pointer = format!("/spec/customresourcedefinitions/owned/{index}/name");
            findings.failed(Level::Error, bundle, detail, &pointer);
        }
    }
}

fn check_webhooks(bundle: &Bundle, findings: &mut Findings) {
    let deployments: BTreeSet<&str> = bundle
        .csv_list("/spec/install/spec/deployments")
        .iter()
        .map(|deployment| text(deployment, "/name"))
        .collect();
    let owned: BTreeSet<&str> = bundle
        .csv_list("/spec/customresourcedefinitions/owned")
        .iter()
        .map(|owned| text(owned, "/name"))
        .collect();
    let modes = supported(bundle);
    let mut seen = BTreeSet::new();
    let mut converted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, webhook) in bundle.csv_list("/spec/webhookdefinitions").iter().enumerate() {
        let (kind, name) = (text(webhook, "/type"), text(webhook, "/generateName"));
        let quoted = quote(name);
        let mut details = Vec::new();
        let deployment = text(webhook, "/deploymentName");
        if !deployments.contains(deployment) {
            details.push(format!(
                "webhook of type '{kind}' with name '{name}' references non-existent deployment '{deployment}'"
            ));
        }
        if !seen.insert((kind, name)) {
            details.push(format!("duplicate webhook '{name}' of type '{kind}'"));
        }
        if let Some(reason) = names::dns1123_subdomain(name).first() {
            details.push(format!(
                "webhook of type '{kind}' has invalid name '{name}': {reason}"
            ));
        }
        if kind == "ConversionWebhook" {
            if modes != ["AllNamespaces"] {
                details.push(format!(
                    "bundle contains conversion webhook {quoted} and supports install modes [{}] - conversion \
                     webhooks are only supported for bundles that only support AllNamespaces install mode",
                    modes.join(" ")
                ));
            }
            for definition in list(webhook, "/conversionCRDs").iter().filter_map(Value::as_str) {
                converted.entry(definition).or_default().push(name);
                if !owned.contains(definition) {
                    details.push(format!(
                        "conversion webhook '{name}' references custom resource definition '{definition}' not owned \
                         bundle"
                    ));
                }
            }
        }
        details.extend(forbidden(webhook));
        let pointer = format!("/spec/webhookdefinitions/{index}");
        for detail in details {
            findings.failed(Level::Error, bundle, detail, &pointer);
        }
    }
    for (definition, webhooks) in converted.iter().filter(|(_, webhooks)| webhooks.len() > 1) {
        let webhooks = webhooks.join(",");
        let detail = format!(
            "conversion webhooks [{webhooks}] reference same custom resource definition '{definition}'"
        );
        findings.failed(Level::Error, bundle, detail, "/spec/webhookdefinitions");
    }
}

/// Returns the rules of a webhook that OLM rejects.
fn forbidden(webhook: &Value) -> Vec<String> {
    let name = quote(text(webhook, "/generateName"));
    let mut details = Vec::new();
    for rule in list(webhook, "/rules") {
        let texts = |pointer: &str| list(rule, pointer).iter().filter_map(Value::as_str);
        for group in texts("/apiGroups") {
            if ["*", "olm.operatorframework.io"].contains(&group) {
                details.push(format!(
                    "webhook {name} contains forbidden rule: admission webhook rules cannot reference API group {}",
                    quote(group)
                ));
            }
            let configurations = [
                "*",
                "validatingwebhookconfigurations",
                "mutatingwebhookconfigurations",
            ];
            for resource in texts("/resources") {
                if group == ADMISSION_GROUP && configurations.contains(&resource) {
                    details.push(format!(
                        "webhook {name} contains forbidden rule: admission webhook rules cannot reference resource \
                         {} for API group {}",
                        quote(resource),
                        quote(group)
                    ));
                }
            }
        }
    }
    details
}

fn check_objects(bundle: &Bundle, findings: &mut Findings) {
    for manifest in &bundle.manifests {
        let kind = manifest.kind();
        if !SUPPORTED.contains(&kind) {
            let (name, kind) = (quote(manifest.name()), quote(kind));
            let detail = format!("unsupported resource {name} with kind {kind}");
            let value = Some(bundle.csv_name().to_owned());
            findings.add(Level::Error, KIND, value, detail, (manifest, "/kind"));
        }
    }
}

/// Returns the supported install modes.
fn supported(bundle: &Bundle) -> Vec<&str> {
    let modes = bundle.csv_list("/spec/installModes").iter();
    modes
        .filter(|mode| mode.get("supported") == Some(&Value::Bool(true)))
        .map(|mode| text(mode, "/type"))
        .collect()
}

fn check_modes(bundle: &Bundle, findings: &mut Findings) {
    let modes = supported(bundle);
    if modes.contains(&"AllNamespaces") {
        return;
    }
    let single = ["SingleNamespace", "OwnNamespace"]
        .iter()
        .any(|mode| modes.contains(mode));
    let modes = modes.join(" ");
    let refused = format!(
        "invalid option(s): invalid target namespaces []: supported install modes [{modes}] do not support targeting \
         all namespaces"
    );
    let (level, detail) = if single {
        let detail = format!(
            "{refused}; the alpha feature SingleOwnNamespaceInstallSupport and watchNamespace are needed"
        );
        (Level::Warning, detail)
    } else {
        (Level::Error, refused)
    };
    findings.failed(level, bundle, detail, "/spec/installModes");
}
