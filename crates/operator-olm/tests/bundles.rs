//! Replays recorded results of the Go programs: bundles, validators, `bundle validate` and the scorecard.
//!
//! `recorded/bundles.json` contains two bundles, and for each case the operations that change one of them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use operator_olm::bundle::{self, Bundle};
use operator_olm::files::Files;
use operator_olm::finding::Finding;
use operator_olm::scorecard;
use operator_olm::validator::{self, Options, Validator};
use serde_json::{Value, json};

mod recording;

use recording::{Recording, on_all_cores};

/// The cases that differ, with the reason. Each counts as failed.
const DIFFERENCES: [(&str, &str); 4] = [
    (
        "csv-release-1",
        "the Go program does not know the package, so it expects a wrong name",
    ),
    ("csv-release-named-right", "the Go program refuses the right name"),
    (
        "csv-release-with-substitutes",
        "the Go program refuses the right name",
    ),
    (
        "size-warn",
        "another implementation of gzip compresses noise to another size",
    ),
];

#[test]
fn recorded_bundles_are_met() {
    let recording = Recording::read();
    let mut failed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let results = on_all_cores(recording.cases(), |case| problems(case, &recording.files(case)));
    for (case, problems) in recording.cases().iter().zip(results) {
        if !problems.is_empty() {
            failed.insert(recording::name(case).to_owned(), problems);
        }
    }
    let total = recording.cases().len();
    println!("{} of {total} recorded bundles are met", total - failed.len());
    let expected: Vec<&str> = DIFFERENCES.iter().map(|(name, _)| *name).collect();
    let unexpected: Vec<_> = failed
        .iter()
        .filter(|(name, _)| !expected.contains(&name.as_str()))
        .collect();
    for (name, problems) in &unexpected {
        println!("{name}:\n  {}", problems.join("\n  "));
    }
    assert!(unexpected.is_empty(), "{} cases differ", unexpected.len());
    for name in expected {
        assert!(
            failed.contains_key(name),
            "{name} no longer differs: remove it from the list"
        );
    }
}

fn problems(case: &Value, files: &Files) -> Vec<String> {
    let expected = &case["expected"];
    let mut problems = Vec::new();
    let format = validator::format(files).into_iter().map(|finding| finding.detail);
    compare(
        "format",
        format.collect(),
        strings(&expected["format"]),
        &mut problems,
    );
    let loaded = bundle::load(files);
    match (&loaded, expected.get("fatal")) {
        (Err(error), Some(fatal)) => {
            let fatal = up_to_decoder(fatal.as_str().unwrap());
            if up_to_decoder(&error.message) != fatal {
                problems.push(format!("fatal: {:?}, recorded {fatal:?}", error.message));
            }
        }
        (Err(error), None) => problems.push(format!("fatal: {error}, recorded none")),
        (Ok(_), Some(fatal)) => problems.push(format!("recorded fatal: {fatal}")),
        (Ok(_), None) => {}
    }
    if let Ok(bundle) = &loaded {
        check_validators(case, bundle, &mut problems);
        check_validate(expected, files, bundle, &mut problems);
        check_scorecard(expected, files, bundle, &mut problems);
    }
    problems
}

/// Returns the part of an error before the text of Go's decoders.
fn up_to_decoder(text: &str) -> &str {
    let ends = ["while decoding JSON:", "converting YAML to JSON:"];
    let end = ends
        .iter()
        .filter_map(|end| Some(text.find(end)? + end.len()))
        .min();
    text.get(..end.unwrap_or(text.len())).unwrap()
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
        .collect()
}

/// Compares two lists, ignoring their order. `<dump>` and `<pointer>` match any text.
fn compare(what: &str, mut ours: Vec<String>, recorded: Vec<String>, problems: &mut Vec<String>) {
    for text in recorded {
        match ours.iter().position(|ours| matches(ours, &text)) {
            Some(at) => drop(ours.remove(at)),
            None => problems.push(format!("{what}: missing {text}")),
        }
    }
    problems.extend(ours.into_iter().map(|text| format!("{what}: extra {text}")));
}

fn matches(ours: &str, recorded: &str) -> bool {
    let recorded = recorded.replace("<pointer>", "<dump>");
    let parts: Vec<&str> = recorded.split("<dump>").collect();
    let [first, middle @ .., last] = parts.as_slice() else {
        return ours == recorded;
    };
    let rest = ours.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let mut rest = rest;
    for part in middle {
        rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
    }
    rest.is_some()
}

fn shown(finding: &Finding) -> String {
    shown_parts(
        finding.kind,
        finding.level.as_str(),
        &finding.field,
        finding.value.as_deref(),
        &finding.detail,
    )
}

fn shown_parts(kind: &str, level: &str, field: &str, value: Option<&str>, detail: &str) -> String {
    json!([kind, level, field, value, detail]).to_string()
}

fn check_validators(case: &Value, bundle: &Bundle, problems: &mut Vec<String>) {
    let expected = &case["expected"];
    let values = case["options"].as_object().into_iter().flatten();
    let options = Options {
        values: values
            .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
            .collect(),
        ..Options::default()
    };
    // The others are not recorded.
    let recorded = Validator::ALL.into_iter().filter(|validator| {
        !matches!(
            validator,
            Validator::OperatorHub | Validator::OlmV1 | Validator::Strict
        )
    });
    let ours: BTreeMap<&str, Vec<Finding>> = recorded
        .map(|validator| (validator.name(), validator.run(bundle, &options)))
        .collect();
    for (name, findings) in ours {
        if expected.get(format!("panic:{name}")).is_some() {
            // The Go program panics.
            assert!(findings.iter().any(Finding::is_error), "{name}");
            continue;
        }
        let recorded = expected["validators"][name].as_array().into_iter().flatten();
        let recorded = recorded.map(|finding| {
            let text = |field: &str| finding[field].as_str();
            shown_parts(
                text("type").unwrap(),
                text("level").unwrap(),
                text("field").unwrap_or_default(),
                text("value"),
                text("detail").unwrap_or_default(),
            )
        });
        compare(
            name,
            findings.iter().map(shown).collect(),
            recorded.collect(),
            problems,
        );
    }
}

fn check_validate(expected: &Value, files: &Files, bundle: &Bundle, problems: &mut Vec<String>) {
    let mut outputs: Vec<String> = Vec::new();
    let mut format: Vec<String> = validator::format_of(files, bundle)
        .into_iter()
        .map(|finding| finding.detail)
        .collect();
    format.sort();
    if !format.is_empty() {
        let text = format!(
            "error validating format in bundle: Bundle validation errors: {}",
            format.join(",")
        );
        outputs.push(json!(["error", text]).to_string());
    }
    for finding in validator::validate(bundle) {
        let level = finding.level.as_str().to_lowercase();
        outputs.push(json!([level, finding.message()]).to_string());
    }
    let recorded = expected["validate"]["outputs"].as_array().into_iter().flatten();
    let recorded = recorded.map(|output| json!([output["type"], output["message"]]).to_string());
    compare("validate", outputs, recorded.collect(), problems);
}

fn check_scorecard(expected: &Value, files: &Files, bundle: &Bundle, problems: &mut Vec<String>) {
    let expected = &expected["scorecard"];
    if expected.is_null() {
        return;
    }
    for test in scorecard::TESTS {
        let outcome = scorecard::run(test, files, bundle).unwrap();
        let recorded = &expected[test];
        if recorded.get("panic").is_some() {
            assert_eq!(outcome.state.as_str(), "error", "{test}");
            continue;
        }
        let state = recorded["state"].as_str().unwrap_or("pass");
        if outcome.state.as_str() != state {
            problems.push(format!("{test}: {}, recorded {state}", outcome.state.as_str()));
        }
        let errors = outcome.errors.iter().map(|error| sorted_format(error));
        let recorded_errors = strings(&recorded["errors"]);
        let recorded_errors = recorded_errors.iter().map(|error| sorted_format(error));
        compare(test, errors.collect(), recorded_errors.collect(), problems);
        compare(
            test,
            outcome.suggestions,
            strings(&recorded["suggestions"]),
            problems,
        );
    }
}

/// Sorts the parts of a finding about the format, as in the recording.
fn sorted_format(error: &str) -> String {
    let before = "Bundle validation errors: ";
    let Some(parts) = error.strip_prefix(before) else {
        return error.to_owned();
    };
    let mut parts: Vec<&str> = parts.split(',').collect();
    parts.sort_unstable();
    format!("{before}{}", parts.join(","))
}
