//! `csv`: validates the ClusterServiceVersion.

use std::collections::BTreeMap;

use apimachinery::names;
use serde_json::Value;

use super::{Examples, escaped, examples};
use crate::bundle::{Bundle, list, text};
use crate::catalog::version::Version;
use crate::decode::{Shape, is_zero};
use crate::document::group_version_kind;
use crate::finding::{Finding, Findings, Fix, Level};
use crate::shape;

const NAME: &str = "csv";
/// The annotations whose case is checked.
const ANNOTATIONS: [&str; 5] = [
    "olm.targetNamespaces",
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.providedAPIs",
    "olm.skipRange",
];

pub(super) fn validate(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new(NAME);
    check_names(bundle, &mut findings);
    check_examples(bundle, &mut findings);
    check_install_modes(bundle, &mut findings);
    check_conversion(bundle, &mut findings);
    check_fields(bundle, &mut findings);
    check_annotations(bundle, &mut findings);
    if text(&bundle.csv, "/apiVersion").is_empty() {
        findings.csv(Level::Error, bundle, "'apiVersion' is missing", "");
    }
    findings.list.extend(min_kube_version(NAME, bundle));
    findings.list
}

fn check_names(bundle: &Bundle, findings: &mut Findings) {
    for (field, pointer) in [
        ("metadata.name", "/metadata/name"),
        ("spec.replaces", "/spec/replaces"),
    ] {
        let name = text(&bundle.csv, pointer);
        if field == "spec.replaces" && name.is_empty() {
            continue;
        }
        let mut faults = names::dns1123_subdomain(name);
        faults.extend(names::label_value(name));
        if !faults.is_empty() {
            let faults: Vec<String> = faults.into_iter().map(|fault| in_order(fault, name)).collect();
            let detail = format!(
                "{field} {} is invalid: {}",
                apimachinery::go::quote(name),
                faults.join(",")
            );
            findings.csv(Level::Error, bundle, detail, pointer);
        }
    }
}

/// Changes the unit in the error about the length of a label, because the Go program counts bytes.
fn in_order(fault: String, name: &str) -> String {
    if name.len() > 63 && fault == "must be no more than 63 characters" {
        return "must be no more than 63 bytes".to_owned();
    }
    fault
}

/// Returns the findings about `minKubeVersion`.
pub(super) fn min_kube_version(validator: &'static str, bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new(validator);
    let version = text(&bundle.csv, "/spec/minKubeVersion");
    if version.trim().is_empty() {
        let detail = "csv.Spec.minKubeVersion is not informed. It is recommended you provide this information. Otherwise, it would mean that your operator project can be distributed and installed in any cluster version available, which is not necessarily the case for all projects.";
        findings.csv(Level::Warning, bundle, detail, "/spec/minKubeVersion");
    } else if Version::parse(version).is_err() {
        let detail = format!("csv.Spec.MinKubeVersion has an invalid value: {version}");
        let finding = findings.csv(Level::Error, bundle, detail, "/spec/minKubeVersion");
        finding.fix = Version::parse_tolerant(version).ok().map(|right| Fix {
            from: version.to_owned(),
            to: right.to_string(),
        });
    }
    findings.list
}

fn check_install_modes(bundle: &Bundle, findings: &mut Findings) {
    let modes = bundle.csv_list("/spec/installModes");
    if modes.is_empty() {
        findings.csv(
            Level::Error,
            bundle,
            "install modes not found",
            "/spec/installModes",
        );
    } else if !modes.iter().any(is_supported) {
        let detail = "none of InstallModeTypes are supported";
        findings.csv(Level::Error, bundle, detail, "/spec/installModes");
    }
}

fn is_supported(mode: &Value) -> bool {
    mode.get("supported") == Some(&Value::Bool(true))
}

fn check_conversion(bundle: &Bundle, findings: &mut Findings) {
    let others = bundle.csv_list("/spec/installModes").iter();
    let mut others = others.filter(|mode| text(mode, "/type") != "AllNamespaces");
    if !others.any(is_supported) {
        return;
    }
    for (index, webhook) in bundle.csv_list("/spec/webhookdefinitions").iter().enumerate() {
        if !list(webhook, "/conversionCRDs").is_empty() {
            let detail = "only AllNamespaces InstallModeType is supported when conversionCRDs is present";
            let pointer = format!("/spec/webhookdefinitions/{index}/conversionCRDs");
            findings.csv(Level::Error, bundle, detail, &pointer);
        }
    }
}

/// Reports required fields that have the zero value of their Go type. Empty structs are not checked recursively.
fn check_fields(bundle: &Bundle, findings: &mut Findings) {
    let csv = &bundle.csv;
    let mut missing = |pointer: &str, shape: Shape, field: &str, value: &str| {
        let is_missing = is_zero(shape, csv.pointer(pointer));
        if is_missing {
            let at = (bundle.csv_manifest(), pointer);
            let detail = "required field missing";
            let finding = findings.add(Level::Error, "FieldNotFound", Some(value.to_owned()), detail, at);
            field.clone_into(&mut finding.field);
        }
        is_missing
    };
    let metadata = Shape::Builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    missing("/metadata", metadata, "ObjectMeta", "struct");
    if missing("/spec", shape::CSV_SPEC, "Spec", "struct") {
        return;
    }
    missing("/spec/displayName", Shape::Text, "Spec.DisplayName", "field");
    let strategy = "Spec.InstallStrategy";
    if missing("/spec/install", shape::INSTALL, strategy, "struct") {
        return;
    }
    let name = format!("{strategy}.StrategyName");
    missing("/spec/install/strategy", Shape::Text, &name, "field");
    if !is_zero(shape::INSTALL_SPEC, csv.pointer("/spec/install/spec")) {
        let name = format!("{strategy}.StrategySpec.DeploymentSpecs");
        let list = Shape::List(&Shape::Any);
        missing("/spec/install/spec/deployments", list, &name, "field");
    }
}

fn check_annotations(bundle: &Bundle, findings: &mut Findings) {
    for name in bundle
        .csv_annotations()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
    {
        let pointer = format!("/metadata/annotations/{}", escaped(name));
        let right = ANNOTATIONS.iter().find(|right| right.eq_ignore_ascii_case(name));
        if let Some(right) = right.filter(|right| *right != name) {
            let detail = format!("provided annotation {name} uses wrong case and should be {right} instead");
            let finding = findings.failed(Level::Error, bundle, detail, &pointer);
            finding.fix = Some(Fix {
                from: name.clone(),
                to: (*right).to_owned(),
            });
        }
        if name == "olm.properties" {
            let detail = "found olm.properties annotation, please define these properties in metadata/properties.yaml instead";
            let at = (bundle.csv_manifest(), pointer.as_str());
            findings.add(
                Level::Warning,
                "PropertiesAnnotationUsed",
                Some(String::new()),
                detail,
                at,
            );
        }
    }
}

fn check_examples(bundle: &Bundle, findings: &mut Findings) {
    let pointer = "/metadata/annotations";
    if bundle.csv_annotations().is_none_or(serde_json::Map::is_empty) {
        findings.csv(Level::Warning, bundle, "annotations not found", pointer);
        return;
    }
    let (alm, olm) = (
        bundle.csv_annotation("alm-examples"),
        bundle.csv_annotation("olm.examples"),
    );
    let (examples_text, name) = match (alm, olm) {
        (Some(alm), _) => (alm, "alm-examples"),
        (None, Some(olm)) => (olm, "olm.examples"),
        (None, None) => {
            findings.csv(Level::Warning, bundle, "example annotations not found", pointer);
            return;
        }
    };
    let pointer = format!("{pointer}/{name}");
    if alm.is_some() && olm.is_some() {
        let detail = "both `alm-examples` and `olm.examples` are present. Checking only `alm-examples`";
        findings.csv(Level::Warning, bundle, detail, &pointer);
    }
    let at = (bundle.csv_manifest(), pointer.as_str());
    let objects = match examples(examples_text, true) {
        Examples::Objects(objects) => objects,
        Examples::Syntax(end, _) => {
            let read = examples_text.get(..end).unwrap_or(examples_text);
            let value = format!("invalid character at {end}\n {read}<--(see the invalid character)");
            findings.add(Level::Error, "ParseError", Some(value), "invalid example", at);
            return;
        }
        Examples::Type(message) => {
            let value = format!("error unmarshaling JSON: while decoding JSON: {message}");
            let detail = "error decoding example CustomResource";
            findings.add(Level::Error, "ParseError", Some(value), detail, at);
            return;
        }
    };
    let given: BTreeMap<String, ()> = objects.iter().map(|object| (api_of(object), ())).collect();
    let provided = provided(bundle, findings);
    for api in given.keys().filter(|api| !provided.contains_key(*api)) {
        let detail = "example must have a provided API";
        findings.add(Level::Error, "OperationFailed", Some(api.clone()), detail, at);
    }
    for (api, pointer) in provided.iter().filter(|(api, _)| !given.contains_key(*api)) {
        let detail = "provided API should have an example annotation";
        let at = (bundle.csv_manifest(), pointer.as_str());
        findings.add(Level::Warning, "OperationFailed", Some(api.clone()), detail, at);
    }
}

/// Returns the group, version and kind of an object.
pub(crate) fn api_of(object: &Value) -> String {
    let api_version = text(object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    group_version_kind(group, version, text(object, "/kind"))
}

/// Returns the APIs that the ClusterServiceVersion owns, with their JSON pointers.
fn provided(bundle: &Bundle, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut provided = BTreeMap::new();
    let pointer = "/spec/customresourcedefinitions/owned";
    for (index, owned) in bundle.csv_list(pointer).iter().enumerate() {
        let (name, pointer) = (text(owned, "/name"), format!("{pointer}/{index}"));
        match name.split_once('.') {
            Some((_, group)) => {
                let api = group_version_kind(group, text(owned, "/version"), text(owned, "/kind"));
                provided.insert(api, pointer);
            }
            None => {
                let detail = format!("couldn't parse plural.group from crd name: {name}");
                let at = (bundle.csv_manifest(), pointer.as_str());
                findings.add(Level::Error, "ParseError", None, detail, at);
            }
        }
    }
    let pointer = "/spec/apiservicedefinitions/owned";
    for (index, owned) in bundle.csv_list(pointer).iter().enumerate() {
        let api = group_version_kind(
            text(owned, "/group"),
            text(owned, "/version"),
            text(owned, "/kind"),
        );
        provided.insert(api, format!("{pointer}/{index}"));
    }
    provided
}
