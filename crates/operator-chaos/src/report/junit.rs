//! The report as JUnit XML, with one test case for each finding and one for the campaign.

use super::{Report, escaped};

pub(super) fn render(report: &Report) -> String {
    let failures = report.findings.len();
    let seconds = f64::from(u32::try_from(report.elapsed_ms).unwrap_or(u32::MAX)) / 1000.0;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n  <testsuite name=\"operator-chaos\" tests=\"{}\" failures=\"{failures}\" time=\"{seconds:.3}\">\n    \
         <testcase classname=\"operator-chaos\" name=\"{} plans\"/>\n",
        failures + 1,
        report.plans,
    );
    for finding in &report.findings {
        let messages = finding.violations.iter();
        let messages: Vec<String> = messages
            .map(|it| format!("{:?} {}: {}", it.oracle, it.subject, it.message))
            .collect();
        text.push_str(&format!(
            "    <testcase classname=\"operator-chaos\" name=\"{}: {}\">\n      \
             <failure message=\"{}\">{}</failure>\n    </testcase>\n",
            escaped(&finding.id),
            escaped(&finding.text),
            escaped(&messages.join("; ")),
            escaped(&finding.to_string()),
        ));
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}
