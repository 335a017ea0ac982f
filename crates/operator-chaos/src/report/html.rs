//! One HTML page without other files.

use super::{Finding, Report, escaped};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}code,pre{font:13px/1.45 ui-monospace,monospace}\
pre{background:#f5f5f5;padding:.8rem;overflow:auto;margin:0}.severe{color:#b00020;font-weight:600}\
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}\
.runs{display:grid;grid-template-columns:1fr 1fr;gap:1rem}.fault{background:#ffe3a3}.first{background:#ffc9c9}\
.clean{color:#0a7a2f}";

pub(super) fn render(report: &Report) -> String {
    let verdict = match report.findings.len() {
        0 => "<p class=\"clean\">No findings.</p>".to_owned(),
        count => format!("<p class=\"severe\">{count} findings.</p>"),
    };
    let rows = [
        ("Plans", report.plans.to_string()),
        ("Time", format!("{} ms", report.elapsed_ms)),
        (
            "Single faults",
            format!("{} of {}", report.single_faults_run, report.single_faults),
        ),
        ("Sequences of writes", report.traces.to_string()),
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
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Operator chaos report</title>\
         <style>{STYLE}</style></head><body><h1>Operator chaos report</h1>{verdict}<table>{rows}</table>{findings}\
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
    let divergence = finding.first_divergence.as_deref();
    format!(
        "<h2>{} <small>{}</small></h2><table>{}</table><ol>{steps}</ol>\
         <div class=\"runs\"><div><b>With the fault</b><pre>{}</pre></div><div><b>Without faults</b><pre>{}</pre></div></div>\
         <p>Replay: <code>operator-sdk chaos replay {}</code></p><details><summary>Rust test</summary><pre>{}</pre></details>",
        escaped(&finding.text),
        escaped(&finding.id),
        violations.collect::<String>(),
        lines(&finding.timeline, divergence),
        lines(&finding.reference_timeline, None),
        escaped(&finding.id),
        escaped(&finding.rust_test()),
    )
}

/// Marks the faults, and the first write that differs.
fn lines(lines: &[String], divergence: Option<&str>) -> String {
    let mut is_marked = false;
    let mut text = String::new();
    for line in lines {
        let shown = escaped(line);
        let is_first = !is_marked && divergence.is_some_and(|write| line.contains(write));
        is_marked |= is_first;
        match (is_first, line.contains("FAULT ")) {
            (true, _) => text.push_str(&format!("<span class=\"first\">{shown}</span>\n")),
            (_, true) => text.push_str(&format!("<span class=\"fault\">{shown}</span>\n")),
            _ => text.push_str(&format!("{shown}\n")),
        }
    }
    text
}
