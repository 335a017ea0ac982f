//! `capabilities`: checks the capability level.

use super::Options;
use crate::bundle::Bundle;
use crate::finding::{Finding, Findings, Fix, Level};

const LEVELS: [&str; 5] = [
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
];

pub(super) fn validate(bundle: &Bundle, _: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("capabilities");
    if let Some(level) = bundle.csv_annotation("capabilities")
        && !LEVELS.contains(&level)
    {
        let quoted = apimachinery::go::quote(level);
        let detail =
            format!("csv.Metadata.Annotations.Capabilities {quoted} is not a valid capabilities level");
        let pointer = "/metadata/annotations/capabilities";
        let finding = findings.csv(Level::Error, bundle, detail, pointer);
        let right = LEVELS
            .iter()
            .find(|right| right.eq_ignore_ascii_case(level.trim()));
        finding.fix = right.map(|right| Fix {
            from: level.to_owned(),
            to: (*right).to_owned(),
        });
    }
    findings.list
}
