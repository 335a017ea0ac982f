//! Checks the format of a bundle directory: its directories, labels and dependencies.

use serde_json::Value;

use crate::bundle::{self, Annotations, Bundle, LoadError, MediaType, list, text};
use crate::catalog::rule::Rule;
use crate::catalog::version::Range;
use crate::files::Files;
use crate::finding::{Finding, Findings, Level};
use crate::{Manifest, document};

const KIND: &str = "BundleFormat";
const PREFIX: &str = "operators.operatorframework.io.bundle.";

/// Checks the format of a bundle directory. The command prints all findings as one finding.
pub fn format(files: &Files) -> Vec<Finding> {
    format_with(files, |dir| bundle::media_type(files, dir))
}

/// Checks the format of the directory of a loaded bundle, like [`format()`], without parsing its manifests again.
pub fn format_of(files: &Files, bundle: &Bundle) -> Vec<Finding> {
    let csv = bundle.csv_manifest().path.as_str();
    format_with(files, |dir| match csv.rsplit_once('/') {
        Some((parent, _)) if parent == dir => bundle::media_type_with(files, dir, |path| path == csv),
        _ => bundle::media_type(files, dir),
    })
}

fn format_with(files: &Files, media_type: impl FnOnce(&str) -> Result<MediaType, LoadError>) -> Vec<Finding> {
    let mut findings = Findings::new("format");
    let root = Manifest {
        path: String::new(),
        document: document::first(b"{}").ok().flatten().unwrap_or_default(),
    };
    for dir in ["manifests", "metadata"] {
        if !files.is_dir(dir) {
            let detail = format!("Unable to locate {dir} directory");
            findings.add(Level::Error, KIND, None, detail, (&root, ""));
        }
    }
    if !findings.list.is_empty() {
        return findings.list;
    }
    let media_type = match media_type("manifests") {
        Ok(media_type) => media_type.as_str(),
        Err(error) => {
            findings.add(Level::Error, KIND, None, error.message, (&root, ""));
            ""
        }
    };
    let (mut annotations, mut dependencies) = (None, None);
    for (name, content) in files.list("metadata") {
        let Some(content) = content else {
            continue;
        };
        let path = format!("metadata/{name}");
        if annotations.is_none() {
            annotations = bundle::read_annotations(&path, content).ok().filter(|found| {
                found
                    .document
                    .value
                    .get("annotations")
                    .is_some_and(Value::is_object)
            });
            if annotations.is_some() {
                continue;
            }
        }
        if dependencies.is_none() {
            dependencies = read_dependencies(path, content);
        }
    }
    match annotations {
        None => {
            let detail = "Could not find annotations file";
            findings.add(Level::Error, KIND, None, detail, (&root, ""));
        }
        Some(annotations) => check_annotations(&annotations, media_type, &mut findings),
    }
    if let Some(dependencies) = dependencies {
        check_dependencies(&dependencies, &mut findings);
    }
    findings.list
}

fn read_dependencies(path: String, content: &[u8]) -> Option<Manifest> {
    let document = document::first(content).ok().flatten()?;
    let items = document.value.get("dependencies")?.as_array()?;
    let valid = items.iter().all(|item| match item {
        Value::Object(fields) => fields.get("type").is_none_or(Value::is_string),
        _ => false,
    });
    (valid && !items.is_empty()).then_some(Manifest { path, document })
}

fn check_annotations(annotations: &Annotations, media_type: &str, findings: &mut Findings) {
    let manifest = Manifest {
        path: annotations.path.clone(),
        document: annotations.document.clone(),
    };
    let mut add = |name: &str, detail: String| {
        let pointer = format!("/annotations/{PREFIX}{name}");
        findings.add(Level::Error, KIND, None, detail, (&manifest, pointer.as_str()));
    };
    for name in [
        "mediatype.v1",
        "manifests.v1",
        "metadata.v1",
        "package.v1",
        "channels.v1",
    ] {
        if annotations.label(name).is_none() {
            add(name, format!("Missing annotation \"{PREFIX}{name}\""));
        }
    }
    let given = annotations.label("mediatype.v1").unwrap_or_default();
    if given != media_type {
        let given = apimachinery::go::quote(given);
        add(
            "mediatype.v1",
            format!(
                "Expecting annotation \"{PREFIX}mediatype.v1\" to have value \"{media_type}\" instead of {given}"
            ),
        );
    }
    for (name, is_required) in [("channels.v1", true), ("channel.default.v1", false)] {
        let label = annotations.label(name);
        if label.map_or(is_required, str::is_empty) {
            add(
                name,
                format!("Expecting annotation \"{PREFIX}{name}\" to have non-empty value"),
            );
        }
    }
}

fn check_dependencies(manifest: &Manifest, findings: &mut Findings) {
    for (index, dependency) in list(manifest.value(), "/dependencies").iter().enumerate() {
        let pointer = format!("/dependencies/{index}");
        for detail in dependency_faults(dependency) {
            findings.add(Level::Error, KIND, None, detail, (manifest, pointer.as_str()));
        }
    }
}

fn dependency_faults(dependency: &Value) -> Vec<String> {
    let kind = text(dependency, "/type");
    let unreadable = || vec![format!("couldn't parse dependency of type {kind}")];
    let Some(value) = dependency.get("value").filter(|value| value.is_object()) else {
        return unreadable();
    };
    let fields: &[&str] = match kind {
        "olm.gvk" => &["group", "kind", "version"],
        "olm.package" => &["packageName", "version"],
        "olm.label" => &["label"],
        "olm.constraint" => &["failureMessage"],
        _ => return unreadable(),
    };
    let is_text = |field: &&str| {
        value
            .get(field)
            .is_none_or(|found| found.is_string() || found.is_null())
    };
    if !fields.iter().all(is_text) {
        return unreadable();
    }
    let is_empty = |field: &str| text(value, &format!("/{field}")).is_empty();
    let faults = |checks: &[(&str, &str)]| -> Vec<String> {
        let failed = checks.iter().filter(|(field, _)| is_empty(field));
        failed.map(|(_, fault)| (*fault).to_owned()).collect()
    };
    match kind {
        "olm.gvk" => faults(&[
            ("group", "API Group is empty"),
            ("version", "API Version is empty"),
            ("kind", "API Kind is empty"),
        ]),
        "olm.package" => {
            let mut faults = faults(&[
                ("packageName", "Package name is empty"),
                ("version", "Package version is empty"),
            ]);
            let version = text(value, "/version");
            if !version.is_empty() && Range::parse(version).is_err() {
                faults.push("Invalid semver format version".to_owned());
            }
            faults
        }
        "olm.label" => faults(&[("label", "Label information is missing")]),
        _ => constraint_fault(value).into_iter().collect(),
    }
}

fn constraint_fault(value: &Value) -> Option<String> {
    let cel = match value.get("cel") {
        None | Some(Value::Null) => return Some("The CEL field is missing".to_owned()),
        Some(cel) => cel,
    };
    let Some(rule) = cel.get("rule").map_or(Some(""), Value::as_str) else {
        return Some("couldn't parse dependency of type olm.constraint".to_owned());
    };
    if rule.is_empty() {
        return Some("The CEL expression is missing".to_owned());
    }
    let reason = Rule::parse(rule).err()?;
    Some(format!("Invalid CEL expression: {reason}"))
}
