//! Checks the objects other than the ClusterServiceVersion and the CRDs: supported kinds, and valid metadata.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::{Map, Value};

use super::object::shown;
use crate::Manifest;
use crate::bundle::{Bundle, MediaType, list, text};
use crate::finding::{Finding, Findings, Level};

const NAME: &str = "bundle-objects";
const ANNOTATIONS_MAX: usize = 256 << 10;
/// The kinds that OLM installs from a bundle.
pub(crate) const SUPPORTED: [&str; 22] = [
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Secret",
    "ConfigMap",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "PrometheusRule",
    "ServiceMonitor",
    "PodMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "NetworkPolicy",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
];

pub(super) fn validate(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new(NAME);
    for manifest in &bundle.manifests {
        let kind = manifest.kind();
        if !SUPPORTED.contains(&kind) {
            let detail = format!(
                "unsupported media type {} for bundle object",
                MediaType::RegistryV1.as_str()
            );
            let value = Some(manifest.group_version_kind());
            findings.add(Level::Error, "BundleNotValid", value, detail, (manifest, "/kind"));
        } else if !matches!(kind, "ClusterServiceVersion" | "CustomResourceDefinition") {
            check(manifest, &mut findings);
        }
    }
    findings.list
}

fn check(manifest: &Manifest, findings: &mut Findings) {
    let empty = Map::new();
    let metadata = manifest.value().get("metadata").and_then(Value::as_object);
    let errors = metadata_errors(metadata.unwrap_or(&empty));
    let Some(first) = errors.first() else {
        return;
    };
    let mut texts: Vec<String> = Vec::new();
    for error in &errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let aggregate = match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let detail = format!(
        "error validating object: {aggregate}. &{{{}}}",
        shown(manifest.value())
    );
    let pointer = format!("/{}", first.field.as_str().replace('.', "/"));
    let value = Some(manifest.name().to_owned());
    findings.add(
        Level::Error,
        "ValidationFailed",
        value,
        detail,
        (manifest, &pointer),
    );
}

/// Returns the errors of the metadata of a cluster-scoped object, like the API server.
fn metadata_errors(metadata: &Map<String, Value>) -> ErrorList {
    let path = Path::new("metadata");
    let field = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut errors = ErrorList::new();
    if field("name").is_empty() && field("generateName").is_empty() {
        let detail = "name or generateName is required";
        errors.push(Error::required(path.child("name"), detail));
    }
    if !field("namespace").is_empty() {
        let detail = "not allowed on this type";
        errors.push(Error::forbidden(path.child("namespace"), detail));
    }
    let generation = metadata.get("generation").and_then(Value::as_i64);
    if let Some(generation) = generation.filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(
            path.child("generation"),
            generation.into(),
            detail,
        ));
    }
    let texts = |name: &str| {
        let map = metadata.get(name).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    };
    for (key, value) in texts("labels") {
        let path = path.child("labels");
        let invalid = |fault: String, value: &str| Error::invalid(path.clone(), value.into(), fault);
        errors.extend(
            names::qualified_name(key)
                .into_iter()
                .map(|fault| invalid(fault, key)),
        );
        errors.extend(
            names::label_value(value)
                .into_iter()
                .map(|fault| invalid(fault, value)),
        );
    }
    let annotations = path.child("annotations");
    let mut size = 0;
    for (key, value) in texts("annotations") {
        size += key.len() + value.len();
        let faults = names::qualified_name(&key.to_lowercase());
        let invalid = |fault| Error::invalid(annotations.clone(), key.as_str().into(), fault);
        errors.extend(faults.into_iter().map(invalid));
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Error::too_long(annotations, ANNOTATIONS_MAX));
    }
    owner_errors(metadata, &path, &mut errors);
    for (index, finalizer) in metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let faults = names::qualified_name(finalizer.as_str().unwrap_or_default());
        let path = path.child("finalizers").index(index);
        let invalid = |fault| Error::invalid(path.clone(), finalizer.clone(), fault);
        errors.extend(faults.into_iter().map(invalid));
    }
    errors
}

fn owner_errors(metadata: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let path = path.child("ownerReferences");
    let owners = metadata.get("ownerReferences").cloned().unwrap_or_default();
    let mut controller: Option<String> = None;
    for owner in list(&owners, "") {
        for (name, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = owner.get(name).cloned().unwrap_or_else(|| "".into());
            if text(&value, "").is_empty() {
                errors.push(Error::invalid(path.child(name), value, detail));
            }
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let shown = format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {shown}"
                    );
                    errors.push(Error::invalid(path.clone(), owners.clone(), detail));
                }
                None => controller = Some(shown),
            }
        }
    }
}
