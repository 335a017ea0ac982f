//! [`Finding`] and its output: position, severity, message and fix.

use apimachinery::yaml::Place;
use serde::Serialize;

use super::counted;
use super::source::{Object, SourceError};
use crate::args::OutputArg;
use crate::report::Report;

/// One finding in a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// `error` or `warning`.
    pub(crate) severity: &'static str,
    pub(crate) rule: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) path: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn at(
        object: &Object,
        path: &str,
        severity: &'static str,
        rule: &str,
        message: String,
    ) -> Self {
        let Place { line, column } = object.place(path);
        Self {
            file: object.file.clone(),
            line,
            column,
            severity,
            rule: rule.to_owned(),
            path: path.to_owned(),
            message,
            fix: None,
        }
    }

    /// Returns a finding for invalid YAML, at the line that the parser reports.
    pub(crate) fn unreadable(file: &str, error: &SourceError) -> Self {
        let message = match error {
            SourceError::Yaml { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        let line = message
            .split_once("line ")
            .and_then(|(_, rest)| rest.split(':').next()?.parse().ok())
            .unwrap_or(1);
        Self {
            file: file.to_owned(),
            line,
            column: 1,
            severity: "error",
            rule: "yaml".to_owned(),
            path: String::new(),
            message,
            fix: Some("correct the file: none of its documents was checked".to_owned()),
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == "error"
    }

    fn text(&self) -> String {
        let Self {
            file,
            line,
            column,
            severity,
            rule,
            message,
            ..
        } = self;
        let mut text = format!("{file}:{line}:{column}: {severity}: {message} [{rule}]");
        if let Some(fix) = &self.fix {
            text.push_str(&format!("\n    fix: {fix}"));
        }
        text
    }
}

/// Prints findings, and returns true if there are errors.
pub(crate) fn print(
    findings: &[Finding],
    checked: (usize, &str),
    output: OutputArg,
    report: &Report,
) -> bool {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    match output {
        OutputArg::Json => {
            let document = serde_json::json!({"findings": findings, "errors": errors, "warnings": warnings});
            report.line(&format!("{document:#}"));
        }
        OutputArg::Text => {
            for finding in findings {
                report.line(&finding.text());
            }
            report.line(&format!(
                "{}, {} in {}",
                counted(errors, "error"),
                counted(warnings, "warning"),
                counted(checked.0, checked.1)
            ));
        }
    }
    errors > 0
}
