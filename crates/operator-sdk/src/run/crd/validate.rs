//! `crd validate`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::Value;
use structural_schema::{Schema, crd};

use super::finding::{self, Finding};
use super::lint::duplicate_keys;
use super::source::{self, Object, SourceError};
use crate::args::{OutputArg, ValidateArgs};
use crate::failure::Failure;
use crate::report::Report;

/// One version of a CRD, compiled for validation.
struct Version {
    schema: Schema,
    has_status: bool,
    namespaced: bool,
}

/// Compiled CRDs by apiVersion and kind.
#[derive(Default)]
struct Definitions {
    versions: BTreeMap<(String, String), Version>,
    /// The groups of the CRDs. Other kinds and versions in these groups are errors.
    groups: Vec<String>,
}

/// Runs `operator-sdk crd validate`.
pub(crate) fn validate(args: &ValidateArgs, report: &Report) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    let definitions = definitions(args, &mut findings)?;
    let (mut checked, mut shown) = (0, Vec::new());
    for text in source::read(&args.files)? {
        let objects = match source::objects(&text) {
            Ok(objects) => objects,
            Err(error) => {
                findings.push(Finding::unreadable(&text.file, &error));
                continue;
            }
        };
        for object in objects.iter().filter(|object| !object.is_definition()) {
            if definitions.concerns(object) {
                checked += 1;
                let stored = definitions.check(object, args.strict, &mut findings);
                shown.extend(stored);
            }
        }
    }
    if checked == 0 && findings.is_empty() {
        let places: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
        return Err(SourceError::Nothing {
            what: "object of a defined kind",
            place: places.join(", "),
        }
        .into());
    }
    if args.show && args.output == OutputArg::Text {
        for object in &shown {
            report.text(&format!("---\n{}", yaml(object)));
        }
    }
    let failed = finding::print(&findings, (checked, "object"), args.output, report);
    Ok(super::exit_code(failed))
}

fn yaml(object: &Value) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|_| object.to_string())
}

fn definitions(args: &ValidateArgs, findings: &mut Vec<Finding>) -> Result<Definitions, Failure> {
    let mut definitions = Definitions::default();
    for text in source::read(&args.definitions)? {
        for object in source::objects(&text)? {
            if object.is_definition() {
                definitions.add(&object, findings);
            }
        }
    }
    if definitions.groups.is_empty() {
        let places: Vec<String> = args
            .definitions
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(SourceError::Nothing {
            what: "CustomResourceDefinition",
            place: places.join(", "),
        }
        .into());
    }
    Ok(definitions)
}

impl Definitions {
    /// Adds a CRD. An invalid CRD is itself a finding.
    fn add(&mut self, object: &Object, findings: &mut Vec<Finding>) {
        let (group, kind) = (object.text("/spec/group"), object.text("/spec/names/kind"));
        self.groups.push(group.to_owned());
        let errors = crd::lint::lint(&object.value).into_iter();
        let errors: Vec<_> = errors
            .filter(|found| found.severity == crd::lint::Severity::Error)
            .collect();
        for error in &errors {
            let path = error.path.as_str();
            findings.push(Finding {
                fix: error.fix.clone(),
                ..Finding::at(object, path, "error", "definition", error.message.clone())
            });
        }
        let versions = object.value.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
            let source = version.pointer("/schema/openAPIV3Schema");
            let Some(Ok(schema)) = source.map(Schema::compile) else {
                continue;
            };
            let version = Version {
                schema,
                has_status: version
                    .pointer("/subresources/status")
                    .is_some_and(Value::is_object),
                namespaced: object.text("/spec/scope") == "Namespaced",
            };
            self.versions
                .insert((format!("{group}/{name}"), kind.to_owned()), version);
        }
    }

    /// Returns true if a CRD defines the group of the object.
    fn concerns(&self, object: &Object) -> bool {
        let group = object
            .text("/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        self.groups.iter().any(|known| known == group)
    }

    /// Validates an object like a server. Returns the object to store if it is accepted.
    fn check(&self, object: &Object, strict: bool, findings: &mut Vec<Finding>) -> Option<Value> {
        let before = findings.len();
        let (api_version, kind) = (object.text("/apiVersion"), object.text("/kind"));
        let Some(version) = self.versions.get(&(api_version.to_owned(), kind.to_owned())) else {
            let message = format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
            findings.push(Finding::at(object, "kind", "error", "unknown-kind", message));
            return None;
        };
        findings.extend(duplicate_keys(object).into_iter().map(|finding| Finding {
            severity: if strict { "error" } else { "warning" },
            ..finding
        }));
        let stored = version.judge(object, strict, findings);
        let refused = findings
            .get(before..)
            .is_some_and(|found| found.iter().any(Finding::is_error));
        stored.filter(|_| !refused)
    }
}

impl Version {
    fn judge(&self, object: &Object, strict: bool, findings: &mut Vec<Finding>) -> Option<Value> {
        let mut stored = object.value.clone();
        let unknown = match self.schema.decode(&mut stored) {
            Ok(unknown) => unknown,
            Err(malformed) => {
                let message = malformed.to_string();
                findings.push(Finding::at(object, "metadata", "error", "malformed", message));
                return None;
            }
        };
        for path in unknown {
            let message = format!("unknown field \"{path}\"");
            let (severity, fix) = if strict {
                ("error", "correct the name, or add the field to the CRD")
            } else {
                ("warning", "correct the name: the server removes the field")
            };
            findings.push(Finding {
                fix: Some(fix.to_owned()),
                ..Finding::at(object, &path, severity, "unknown-field", message)
            });
        }
        if self.has_status && stored.get("status").is_some() {
            let message = "status is removed when an object is created".to_owned();
            findings.push(Finding {
                fix: Some("omit it: it is written through the status subresource".to_owned()),
                ..Finding::at(object, "status", "warning", "status-ignored", message)
            });
            if let Some(fields) = stored.as_object_mut() {
                fields.remove("status");
            }
        }
        self.schema.default(&mut stored);
        let outcome = self.schema.check(&stored, None);
        let scope = self.scope_error(object);
        let errors = Schema::check_root(&stored).into_iter().chain(outcome.errors);
        for error in errors {
            let path = error.field.as_str().to_owned();
            findings.push(Finding::at(object, &path, "error", "invalid", error.to_string()));
        }
        for warning in outcome.warnings {
            findings.push(Finding::at(object, "", "warning", "warning", warning));
        }
        findings.extend(scope);
        Some(stored)
    }

    fn scope_error(&self, object: &Object) -> Option<Finding> {
        if self.namespaced || object.text("/metadata/namespace").is_empty() {
            return None;
        }
        let message =
            "metadata.namespace: the kind is cluster-scoped, but the object has a namespace".to_owned();
        Some(Finding {
            fix: Some("omit the namespace".to_owned()),
            ..Finding::at(object, "metadata.namespace", "warning", "namespace", message)
        })
    }
}
