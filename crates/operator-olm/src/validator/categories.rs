//! `categories`: checks the categories under which a catalog lists the operator.

use super::Options;
use crate::bundle::Bundle;
use crate::finding::{Finding, Findings, Fix, Level};

const STANDARD: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Developer Tools",
    "Database",
    "Integration & Delivery",
    "Logging & Tracing",
    "Monitoring",
    "Modernization & Migration",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
    "Observability",
];

pub(super) fn validate(bundle: &Bundle, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("categories");
    let Some(given) = bundle.csv_annotation("categories") else {
        return findings.list;
    };
    let (allowed, which): (Vec<&str>, _) = match &options.categories {
        Some(custom) => (custom.iter().map(String::as_str).collect(), "custom"),
        None => (STANDARD.to_vec(), "standard"),
    };
    for category in given.split(',').map(str::trim) {
        if allowed.contains(&category) {
            continue;
        }
        let quoted = apimachinery::go::quote(category);
        let detail = format!(
            "csv.Metadata.Annotations[\"categories\"] value {quoted} is not in the set of {which} categories"
        );
        let pointer = "/metadata/annotations/categories";
        let finding = findings.csv(Level::Error, bundle, detail, pointer);
        let right = allowed.iter().find(|right| right.eq_ignore_ascii_case(category));
        finding.fix = right.map(|right| Fix {
            from: category.to_owned(),
            to: (*right).to_owned(),
        });
    }
    findings.list
}
