//! Finds problems of a CRD before a server receives it: errors of the server, and problems of CRDs that the server
//! accepts ([`lint`]).

mod hint;
mod place;
mod schema;

use apimachinery::field::Path;
use apimachinery::jsonpath::JsonPath;
use serde_json::Value;

use super::{flag, text_at, versions};
use crate::node::{self, Node};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The server rejects the CRD, or every object of it.
    Error,
    /// The server accepts the CRD, but it does not work as intended.
    Warning,
}

impl Severity {
    /// Returns `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem of a CRD.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of problem, such as `unknown-format`; errors of the server are `invalid`.
    pub rule: &'static str,
    /// The path in the CRD as written, such as `spec.versions[0].schema.openAPIV3Schema.properties[spec]`.
    pub path: Path,
    /// The problem. Errors of the server have the server's text.
    pub message: String,
    /// The suggested correction.
    pub fix: Option<String>,
}

/// The maximum total size of an object's annotations, in bytes; `kubectl apply` stores a copy of the object in an
/// annotation.
const ANNOTATIONS_MAX: usize = 262_144;
/// The default maximum size of a request to etcd, in bytes.
const REQUEST_MAX: usize = 1_572_864;

/// Returns all findings about a CustomResourceDefinition in `apiextensions.k8s.io/v1` JSON, the server's errors first.
///
/// ```
/// use serde_json::json;
/// use structural_schema::crd::lint::lint;
/// let crd = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
///     "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
///     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
///         "type": "object", "description": "A widget.", "properties": {
///             "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
///             "size": {"type": "integer", "format": "uint32"}}}}}]}});
/// let findings = lint(&crd);
/// assert_eq!(findings.len(), 1);
/// assert_eq!(findings[0].rule, "unknown-format");
/// assert_eq!(findings[0].path.as_str(), "spec.versions[0].schema.openAPIV3Schema.properties[size].format");
/// ```
pub fn lint(crd: &Value) -> Vec<Finding> {
    let mut findings = server_errors(crd);
    let mut linter = Linter::default();
    linter.names(crd);
    linter.versions(crd);
    linter.size(crd);
    findings.extend(linter.0);
    findings
}

/// Returns the server's errors of a new CRD as findings.
fn server_errors(crd: &Value) -> Vec<Finding> {
    let mut whole = crd.clone();
    super::default(&mut whole);
    super::prepare_for_create(&mut whole);
    let errors = super::validate_create(&whole);
    let shown = |error: &apimachinery::field::Error| !error.field.as_str().starts_with("status.");
    errors
        .iter()
        .filter(|error| shown(error))
        .map(|error| Finding {
            severity: Severity::Error,
            rule: "invalid",
            path: place::as_written(&error.field),
            message: error.to_string(),
            fix: hint::fix(error).map(str::to_owned),
        })
        .collect()
}

#[derive(Default)]
struct Linter(Vec<Finding>);

impl Linter {
    fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        path: &Path,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.0.push(Finding {
            severity,
            rule,
            path: path.clone(),
            message: message.into(),
            fix: Some(fix.into()),
        });
    }

    fn warn(&mut self, rule: &'static str, path: &Path, message: impl Into<String>, fix: impl Into<String>) {
        self.add(Severity::Warning, rule, path, message, fix);
    }

    fn names(&mut self, crd: &Value) {
        let path = Path::new("spec").child("names");
        let kind = text_at(crd, "/spec/names/kind");
        let is_camel = kind.starts_with(|first: char| first.is_ascii_uppercase()) && !kind.contains('-');
        if !kind.is_empty() && !is_camel {
            self.warn(
                "kind-case",
                &path.child("kind"),
                format!("the kind {kind} is not in CamelCase"),
                "start with a capital letter and join words without dashes",
            );
        }
        let plural = text_at(crd, "/spec/names/plural");
        if !plural.is_empty() && plural == text_at(crd, "/spec/names/singular") {
            self.warn(
                "plural-is-singular",
                &path.child("plural"),
                format!("plural and singular are both {plural}"),
                "use a plural that differs from the singular",
            );
        }
        let short = crd.pointer("/spec/names/shortNames").and_then(Value::as_array);
        for (index, name) in short.into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if BUILTIN_SHORT_NAMES.contains(&name) {
                self.warn(
                    "short-name-taken",
                    &path.child("shortNames").index(index),
                    format!("{name} is the short name of a built-in kind, which kubectl prefers"),
                    "choose another short name",
                );
            }
        }
    }

    fn versions(&mut self, crd: &Value) {
        let list = versions(crd);
        let path = Path::new("spec").child("versions");
        if !list.is_empty() && !list.iter().any(|version| flag(version, "served")) {
            self.warn(
                "nothing-served",
                &path,
                "no version is served",
                "set `served: true` on a version",
            );
        }
        for (index, version) in list.iter().enumerate() {
            self.version(version, &path.index(index));
        }
        self.conversion(crd);
    }

    fn version(&mut self, version: &Value, path: &Path) {
        let name = text_at(version, "/name");
        if !is_kube_version(name) {
            self.warn(
                "version-name",
                &path.child("name"),
                format!(
                    "{name} does not have the form v1, v1beta1 or v1alpha1, and sorts after all versions that do"
                ),
                "rename the version",
            );
        }
        if flag(version, "storage") && flag(version, "deprecated") {
            self.warn(
                "deprecated-storage",
                &path.child("deprecated"),
                format!("{name} is deprecated, but objects are stored in it"),
                "store objects in a version that is not deprecated",
            );
        }
        let source = version.pointer("/schema/openAPIV3Schema");
        let Some(Ok(root)) = source.map(node::parse) else {
            return;
        };
        let schema_path = path.child("schema").child("openAPIV3Schema");
        schema::lint(&root, &schema_path, self);
        self.status(version, &root, path);
        self.columns(version, &root, path);
        self.scale(version, &root, path);
    }

    fn status(&mut self, version: &Value, root: &Node, path: &Path) {
        let has_subresource = version
            .pointer("/subresources/status")
            .is_some_and(Value::is_object);
        let schema_path = path.child("schema").child("openAPIV3Schema");
        if root.properties.contains_key("status") && !has_subresource {
            self.warn(
                "no-status-subresource",
                &schema_path.child("properties").key("status"),
                "there is a status, but no status subresource: every writer of the object can write it, and each write of it is a new generation",
                "add `subresources: {status: {}}`; with kube: `#[kube(status = \"...\")]`",
            );
        }
        if has_subresource && root.required.iter().any(|name| name == "status") {
            self.add(
                Severity::Error,
                "status-required",
                &schema_path.child("required"),
                "status is required, but the server drops it from new objects, so that no object can be created",
                "make status optional",
            );
        }
    }

    fn columns(&mut self, version: &Value, root: &Node, path: &Path) {
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        for (index, column) in columns.into_iter().flatten().enumerate() {
            let path = path.child("additionalPrinterColumns").index(index);
            let json_path = text_at(column, "/jsonPath");
            if JsonPath::parse(&format!("{{{json_path}}}")).is_err() {
                self.warn(
                    "column-path",
                    &path.child("jsonPath"),
                    format!("{json_path} is not a JSON path: the column stays empty"),
                    "write it as `.spec.replicas`",
                );
                continue;
            }
            let Some(segments) = plain_path(json_path) else {
                continue;
            };
            let Some(found) = self.field(root, &segments, &path.child("jsonPath"), json_path) else {
                continue;
            };
            let wanted = text_at(column, "/type");
            let fits = match wanted {
                "integer" => ["integer", "number"].contains(&found.kind.as_str()),
                "number" => ["integer", "number"].contains(&found.kind.as_str()),
                "boolean" => found.kind == "boolean",
                "date" => found.kind == "string",
                _ => true,
            };
            if !fits && !found.kind.is_empty() {
                let kind = &found.kind;
                self.warn(
                    "column-type",
                    &path.child("type"),
                    format!(
                        "the column shows a {wanted}, but {json_path} is of type {kind}: its cells stay empty"
                    ),
                    format!("set the column's type to {kind}"),
                );
            }
        }
    }

    fn scale(&mut self, version: &Value, root: &Node, path: &Path) {
        let Some(scale) = version.pointer("/subresources/scale").and_then(Value::as_object) else {
            return;
        };
        let path = path.child("subresources").child("scale");
        for (name, kind) in [
            ("specReplicasPath", "integer"),
            ("statusReplicasPath", "integer"),
            ("labelSelectorPath", "string"),
        ] {
            let json_path = scale.get(name).and_then(Value::as_str).unwrap_or_default();
            let path = path.child(name);
            let Some(segments) = plain_path(json_path) else {
                continue;
            };
            let Some(found) = self.field(root, &segments, &path, json_path) else {
                continue;
            };
            if !found.kind.is_empty() && found.kind != kind {
                self.warn(
                    "scale-type",
                    &path,
                    format!(
                        "{json_path} is of type {}, but scaling needs a {kind}",
                        found.kind
                    ),
                    format!("make the field a {kind}"),
                );
            }
        }
    }

    /// Returns the schema at a path; reports a path that does not exist.
    fn field<'n>(
        &mut self,
        root: &'n Node,
        segments: &[&str],
        path: &Path,
        json_path: &str,
    ) -> Option<&'n Node> {
        if segments.first() == Some(&"metadata") {
            return None;
        }
        let mut node = root;
        for segment in segments {
            let Some(next) = node.property(segment) else {
                if !node.preserves_unknown_fields() {
                    self.warn(
                        "path-leads-nowhere",
                        path,
                        format!("the schema has no field {json_path}"),
                        "name a field of the schema, or add it",
                    );
                }
                return None;
            };
            node = next;
        }
        Some(node)
    }

    fn conversion(&mut self, crd: &Value) {
        if text_at(crd, "/spec/conversion/strategy") == "Webhook" {
            return;
        }
        let schema = |version: &Value| {
            let source = version.pointer("/schema/openAPIV3Schema")?;
            node::parse(source).ok()
        };
        let storage = versions(crd).iter().find(|version| flag(version, "storage"));
        let Some(stored) = storage.and_then(schema) else {
            return;
        };
        for (index, version) in versions(crd).iter().enumerate() {
            let Some(root) = schema(version) else { continue };
            if super::diff::loses(&root, &stored) {
                self.warn(
                    "lossy-conversion",
                    &Path::new("spec").child("versions").index(index),
                    "the version has fields that the storage version does not have: without a conversion webhook they are lost when they are written",
                    "add the fields to the storage version, or use a conversion webhook",
                );
            }
        }
    }

    fn size(&mut self, crd: &Value) {
        let size = crd.to_string().len();
        let path = Path::default();
        if size > REQUEST_MAX {
            self.warn(
                "too-large",
                &path,
                format!("the definition has {size} bytes; a server with default limits rejects more than {REQUEST_MAX}"),
                "shorten descriptions, and do not embed whole pod templates",
            );
        } else if size > ANNOTATIONS_MAX {
            self.warn(
                "too-large-for-apply",
                &path,
                format!("the definition has {size} bytes; `kubectl apply` cannot store more than {ANNOTATIONS_MAX} in its annotation"),
                "apply with `kubectl apply --server-side`, or shorten descriptions",
            );
        }
    }
}

/// Returns the field names of a path such as `.spec.a.b`; `None` for other JSON paths.
fn plain_path(json_path: &str) -> Option<Vec<&str>> {
    let rest = json_path.strip_prefix('.')?;
    let is_plain = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let names: Vec<&str> = rest.split('.').collect();
    names.iter().all(|name| is_plain(name)).then_some(names)
}

/// Returns true for version names such as `v1`, `v1beta2`, `v3alpha1`.
fn is_kube_version(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('v') else {
        return false;
    };
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let split = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    match split {
        None => is_number(rest),
        Some((major, minor)) => is_number(major) && is_number(minor),
    }
}

/// The short names of built-in kinds.
const BUILTIN_SHORT_NAMES: &[&str] = &[
    "cm", "cs", "ep", "ev", "limits", "no", "ns", "po", "pv", "pvc", "quota", "rc", "rs", "sa", "svc", "crd",
    "crds", "ds", "deploy", "sts", "hpa", "cj", "csr", "ing", "netpol", "pdb", "pc", "sc", "ip", "vac",
];
