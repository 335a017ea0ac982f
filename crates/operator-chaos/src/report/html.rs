//! The report as one self-contained HTML page.

use super::align::aligned;
use super::{FaultCoverage, Finding, Report, escaped};
use crate::progress::counted_findings;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}code,pre{font:13px/1.45 ui-monospace,monospace}\
pre{background:#f5f5f5;padding:.8rem;overflow:auto;margin:0}.severe{color:#b00020;font-weight:600}\
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}\
h3{font-size:1rem;margin:1rem 0 .3rem}.scroll{overflow-x:auto}.runs{font:12px/1.45 ui-monospace,monospace;background:#f8f8f8}\
.runs td,.runs th{white-space:pre;border-left:3px solid #ddd;padding:0 .8rem}.fault{background:#ffe3a3}\
.first{background:#ffb3b3;font-weight:600}.other{background:#eef3ff}.bar{width:12rem;height:.8rem;background:#eee}\
.bar div{height:100%;background:#3a7bd5}.cover th{font-weight:400;font-family:ui-monospace,monospace}\
.clean{color:#0a7a2f}";

pub(super) fn render(report: &Report) -> String {
    let verdict = match report.findings.len() {
        0 => "<p class=\"clean\">No findings.</p>".to_owned(),
        count => format!("<p class=\"severe\">{}.</p>", counted_findings(count)),
    };
    let rows = [
        ("Plans", report.plans.to_string()),
        ("Time", format!("{:.1} s", report.seconds())),
        (
            "Single faults",
            format!("{} of {}", report.single_faults_run, report.single_faults),
        ),
        ("Plans that ended early", report.pruned.to_string()),
        ("Changes of the spec", report.mutations.to_string()),
        ("Sequences of writes", report.traces.to_string()),
        ("States of the cluster", report.states.to_string()),
        ("End states", report.end_states.to_string()),
        ("Requests without faults", report.reference_calls.to_string()),
        ("Masked fields", report.masked_fields.to_string()),
        ("Seed", report.seed.to_string()),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{value}</td></tr>"))
        .collect();
    let findings: String = report.findings.iter().map(finding).collect();
    let faults: String = report.faults.iter().map(covered).collect();
    let faults = match faults.is_empty() {
        true => faults,
        false => format!("<h2>Coverage of single faults</h2><table class=\"cover\">{faults}</table>"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Operator chaos report</title>\
         <style>{STYLE}</style></head><body><h1>Operator chaos report</h1>{verdict}<table>{rows}</table>{findings}{faults}\
         </body></html>\n"
    )
}

fn finding(finding: &Finding) -> String {
    let violations = finding.violations.iter().map(|violation| {
        let class = if violation.severe { " class=\"severe\"" } else { "" };
        format!(
            "<tr{class}><td>{:?}</td><td><code>{}</code></td><td>{}</td></tr>",
            violation.oracle,
            escaped(&violation.subject),
            escaped(&violation.message)
        )
    });
    let steps: String = finding
        .workload
        .steps
        .iter()
        .map(|step| format!("<li>{}</li>", escaped(&step.change.to_string())))
        .collect();
    let differences: String = finding
        .state_diff
        .iter()
        .map(|line| format!("<li><code>{}</code></li>", escaped(line)))
        .collect();
    let differences = match differences.is_empty() {
        true => differences,
        false => format!("<h3>End state, without faults → with the fault</h3><ul>{differences}</ul>"),
    };
    format!(
        "<h2>{} <small>{}</small></h2><table>{}</table><h3>Workload</h3><ol>{steps}</ol>{differences}\
         <h3>Timeline</h3><div class=\"scroll\"><table class=\"runs\"><tr><th>Without faults</th><th>With the fault</th></tr>{}</table></div>\
         <p>Replay: <code>operator-sdk chaos replay {}</code></p><details><summary>Rust test</summary><pre>{}</pre></details>",
        escaped(&finding.text),
        escaped(&finding.id),
        violations.collect::<String>(),
        rows(finding),
        escaped(&finding.id),
        escaped(&finding.rust_test()),
    )
}

/// Returns a row with the bar of a kind of fault.
fn covered(fault: &FaultCoverage) -> String {
    let percent = fault.run * 100 / fault.total.max(1);
    format!(
        "<tr><th>{}</th><td>{} of {}</td><td><div class=\"bar\"><div style=\"width:{percent}%\"></div></div></td></tr>",
        escaped(&fault.kind),
        fault.run,
        fault.total,
    )
}

/// Returns the rows of both timelines. Faults and the first write that differs are marked.
fn rows(finding: &Finding) -> String {
    let (left, right) = (&finding.reference_timeline, &finding.timeline);
    let pairs = aligned(left, right);
    let cell = |class: &str, line: Option<&String>| {
        let text = line.map(|line| escaped(line)).unwrap_or_default();
        format!("<td{class}>{text}</td>")
    };
    let row = |(reference, found): (Option<usize>, Option<usize>)| {
        let line = found.and_then(|index| right.get(index));
        let class = match line {
            Some(_) if found == finding.divergent_line => {
                " class=\"first\" title=\"the first write that differs\""
            }
            Some(line) if line.contains("FAULT ") => " class=\"fault\"",
            Some(_) if reference.is_none() => " class=\"other\"",
            _ => "",
        };
        let expected = reference.and_then(|index| left.get(index));
        let missing = if found.is_none() { " class=\"other\"" } else { "" };
        format!("<tr>{}{}</tr>", cell(missing, expected), cell(class, line))
    };
    pairs.into_iter().map(row).collect()
}
