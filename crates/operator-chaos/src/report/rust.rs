//! A Rust test that replays a finding.

use super::Finding;

pub(super) fn render(finding: &Finding) -> String {
    let plan = serde_json::to_string_pretty(&finding.plan).unwrap_or_default();
    let workload = serde_json::to_string_pretty(&finding.workload).unwrap_or_default();
    let id = &finding.id;
    format!(
        "/// {text}\n\
         #[test]\n\
         fn replay_{id}() {{\n    \
             let plan = serde_json::from_str(r##\"{plan}\"##).unwrap();\n    \
             let workload = serde_json::from_str(r##\"{workload}\"##).unwrap();\n    \
             // `chaos()` returns the `Chaos` of the operator.\n    \
             chaos().workload(workload).replay(&plan).unwrap().assert_clean();\n\
         }}\n",
        text = finding.text,
    )
}
