//! Prints findings about a bundle as text, JSON or SARIF.

use operator_olm::files::Files;
use operator_olm::finding::{Finding, Level};
use operator_olm::validator::OPTIONAL;
use serde_json::{Value, json};

use crate::args::BundleOutputArg;
use crate::report::Report;

/// Prints the optional validators.
pub(super) fn list(report: &Report) {
    report.line(&format!("{:<24}{:<52}DESCRIPTION", "NAME", "LABELS"));
    for optional in OPTIONAL {
        let labels: Vec<String> = optional
            .labels()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let (name, labels) = (optional.validator.name(), labels.join(","));
        report.line(&format!("{name:<24}{labels:<52}{}", optional.description));
    }
}

/// A message of the command: level, text, and optional position.
struct Message<'a> {
    level: Level,
    text: String,
    finding: Option<&'a Finding>,
}

/// Prints findings: those about the format as one message, the others individually.
pub(super) fn print(files: &Files, findings: &[Finding], output: BundleOutputArg, report: &Report) {
    let is_format = |finding: &&Finding| finding.validator == "format";
    let format: Vec<&str> = findings
        .iter()
        .filter(is_format)
        .map(|finding| finding.detail.as_str())
        .collect();
    let mut messages = Vec::new();
    if !format.is_empty() {
        messages.push(Message {
            level: Level::Error,
            text: format!(
                "error validating format in {}: Bundle validation errors: {}",
                files.root(),
                format.join(",")
            ),
            finding: findings.iter().find(is_format),
        });
    }
    let others = findings.iter().filter(|finding| !is_format(finding));
    messages.extend(others.map(|finding| Message {
        level: finding.level,
        text: finding.message(),
        finding: Some(finding),
    }));
    let passed = !findings.iter().any(Finding::is_error);
    match output {
        BundleOutputArg::Text => {
            for message in &messages {
                report.line(&line(files, message));
            }
            if passed {
                report.progress("level=info msg=\"All validation tests have completed successfully\"");
            }
        }
        BundleOutputArg::JsonAlpha1 => report.line(&indented(&json_alpha1(&messages, passed))),
        BundleOutputArg::Sarif => report.line(&format!("{:#}", sarif(files, findings))),
    }
}

fn line(files: &Files, message: &Message<'_>) -> String {
    let level = match message.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    let text = apimachinery::go::quote(&message.text);
    let place = message.finding.filter(|finding| !finding.path.is_empty());
    let place = place.map(|finding| {
        let file = files.shown(&finding.path);
        format!(" at={file}:{}:{}", finding.place.line, finding.place.column)
    });
    format!("level={level} msg={text}{}", place.unwrap_or_default())
}

fn json_alpha1(messages: &[Message<'_>], passed: bool) -> Value {
    let outputs: Vec<Value> = messages
        .iter()
        .map(|message| {
            let level = message.level.as_str().to_lowercase();
            json!({"type": level, "message": message.text})
        })
        .collect();
    let outputs = if outputs.is_empty() {
        Value::Null
    } else {
        outputs.into()
    };
    json!({"passed": passed, "outputs": outputs})
}

/// Returns the JSON document of operator-sdk, indented by four spaces and with `passed` first.
fn indented(document: &Value) -> String {
    let passed = &document["passed"];
    let outputs = match document["outputs"].as_array() {
        None => "null".to_owned(),
        Some(outputs) => {
            let items: Vec<String> = outputs
                .iter()
                .map(|output| {
                    format!(
                        "        {{\n            \"type\": {},\n            \"message\": {}\n        }}",
                        output["type"], output["message"]
                    )
                })
                .collect();
            format!("[\n{}\n    ]", items.join(",\n"))
        }
    };
    format!("{{\n    \"passed\": {passed},\n    \"outputs\": {outputs}\n}}")
}

fn sarif(files: &Files, findings: &[Finding]) -> Value {
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let level = match finding.level {
                Level::Error => "error",
                Level::Warning => "warning",
            };
            let place = finding.place;
            json!({
                "ruleId": format!("{}/{}", finding.validator, finding.kind),
                "level": level,
                "message": {"text": finding.message()},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": files.shown(&finding.path)},
                    "region": {"startLine": place.line.max(1), "startColumn": place.column.max(1)},
                }}],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "operator-sdk bundle validate", "version": env!("CARGO_PKG_VERSION")}},
            "results": results,
        }],
    })
}
