//! `crd lint`.

use std::process::ExitCode;

use structural_schema::crd::lint;

use super::finding::{self, Finding};
use super::source::{self, Object, SourceError};
use crate::args::LintArgs;
use crate::failure::Failure;
use crate::report::Report;

/// Runs `operator-sdk crd lint`.
pub(crate) fn lint(args: &LintArgs, report: &Report) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    let mut definitions = 0;
    for text in source::read(&args.paths)? {
        match source::objects(&text) {
            Err(error) => findings.push(Finding::unreadable(&text.file, &error)),
            Ok(objects) => {
                for object in objects.iter().filter(|object| object.is_definition()) {
                    definitions += 1;
                    findings.extend(findings_of(object));
                }
            }
        }
    }
    if definitions == 0 && findings.is_empty() {
        let places: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(SourceError::Nothing {
            what: "CustomResourceDefinition",
            place: places.join(", "),
        }
        .into());
    }
    let failed = finding::print(&findings, (definitions, "definition"), args.output, report);
    Ok(super::exit_code(failed))
}

fn findings_of(object: &Object) -> Vec<Finding> {
    let mut findings = duplicate_keys(object);
    if object.text("/apiVersion") != "apiextensions.k8s.io/v1" {
        let message = format!(
            "apiVersion: {} is not served: Kubernetes has only apiextensions.k8s.io/v1",
            object.text("/apiVersion")
        );
        let mut finding = Finding::at(object, "apiVersion", "error", "old-api-version", message);
        finding.fix = Some("convert the definition to apiextensions.k8s.io/v1".to_owned());
        findings.push(finding);
        return findings;
    }
    findings.extend(lint::lint(&object.value).into_iter().map(|found| {
        let path = found.path.as_str();
        let message = match found.rule {
            // The server's messages begin with the path.
            "invalid" => found.message.clone(),
            _ if path.is_empty() => found.message.clone(),
            _ => format!("{path}: {}", found.message),
        };
        Finding {
            fix: found.fix.clone(),
            ..Finding::at(object, path, found.severity.as_str(), found.rule, message)
        }
    }));
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings
}

/// Reports duplicate keys. A server uses the last one.
pub(super) fn duplicate_keys(object: &Object) -> Vec<Finding> {
    let duplicates = object.duplicates().iter();
    let finding = |text: &String| {
        let (line, message) = text
            .strip_prefix("line ")
            .and_then(|rest| rest.split_once(": "))
            .unwrap_or(("1", text));
        Finding {
            line: line.parse().unwrap_or(1),
            column: 1,
            path: String::new(),
            fix: Some("remove one of them: a server takes the last".to_owned()),
            ..Finding::at(object, "", "warning", "duplicate-key", message.to_owned())
        }
    };
    duplicates.map(finding).collect()
}
