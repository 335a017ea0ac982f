//! `scorecard`: the built-in tests of a bundle, in-process.

mod behaviour;
mod change;
mod writes;

use std::path::Path;
use std::process::ExitCode;

use apimachinery::selector::LabelSelector;
use operator_olm::bundle::Bundle;
use operator_olm::files::Files;
use operator_olm::scorecard::{self, Outcome, State};
use serde_json::{Value, json};

use super::bundle::load;
use crate::args::{ScoreOutputArg, ScorecardArgs};
use crate::failure::{Failure, Hinted};
use crate::process::signal::INTERRUPTED;
use crate::report::Report;

/// A scorecard that cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScorecardError {
    #[error("could not find config file {0}")]
    Config(String),
    #[error("the config file {file} is not valid: {reason}")]
    Invalid { file: String, reason: String },
    #[error("could not parse selector {0}")]
    Selector(String),
    #[error("0 tests selected")]
    Nothing,
}

impl Hinted for ScorecardError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config(_) => {
                "name a configuration with --config, or add tests/scorecard/config.yaml".to_owned()
            }
            Self::Invalid { .. } => "a configuration has stages, each with a list of tests".to_owned(),
            Self::Selector(_) => "write labels such as suite=olm".to_owned(),
            Self::Nothing => "list the tests of the configuration with --list".to_owned(),
        })
    }
}

/// A test of a configuration.
struct Test {
    value: Value,
    /// The name of the built-in test; `None` for a test of the user's own.
    built_in: Option<&'static str>,
}

/// `operator-sdk scorecard`.
pub(crate) fn run(args: &ScorecardArgs, report: &Report) -> Result<ExitCode, Failure> {
    let loaded = load(&args.bundle)?;
    let selector: LabelSelector = args.selector.parse().map_err(ScorecardError::Selector)?;
    // The tests of the suite build the project and take seconds: they must be asked for.
    let with_behaviour = args.selector.contains(behaviour::SUITE);
    let mut tests = tests(args, &loaded.files, with_behaviour)?;
    if with_behaviour {
        for (name, value) in behaviour::entries() {
            if tests.iter().all(|test| test.built_in != Some(name)) {
                tests.push(Test {
                    value,
                    built_in: Some(name),
                });
            }
        }
    }
    let is_selected = |test: &Test| selector.matches(&json!({"metadata": {"labels": test.value["labels"]}}));
    let tests: Vec<Test> = tests.into_iter().filter(is_selected).collect();
    if tests.is_empty() {
        return Err(ScorecardError::Nothing.into());
    }
    let needs_operator = |test: &Test| test.built_in.is_some_and(|name| behaviour::TESTS.contains(&name));
    let behaviour = if !args.list && tests.iter().any(needs_operator) {
        match behaviour::run(args, &loaded.bundle, report)? {
            Some(outcomes) => outcomes,
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
    } else {
        Default::default()
    };
    let results: Vec<(Test, Vec<Outcome>)> = tests
        .into_iter()
        .map(|test| {
            let outcomes = if args.list {
                Vec::new()
            } else {
                let shared = test.built_in.and_then(|name| behaviour.get(name).cloned());
                vec![shared.unwrap_or_else(|| outcome(&test, &loaded.files, &loaded.bundle))]
            };
            (test, outcomes)
        })
        .collect();
    match args.output {
        ScoreOutputArg::Text => results.iter().for_each(|result| report.line(&text(result))),
        ScoreOutputArg::Json => report.line(&format!("{:#}", document(&results))),
        ScoreOutputArg::Xunit => report.line(&xunit(&results)),
    }
    let passed = results
        .iter()
        .all(|(_, outcomes)| outcomes.iter().all(|outcome| outcome.state == State::Pass));
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Reads the tests of the configuration, which may be absent if it is optional.
fn tests(args: &ScorecardArgs, files: &Files, is_optional: bool) -> Result<Vec<Test>, ScorecardError> {
    let default = "tests/scorecard/config.yaml";
    let (file, content) = match &args.config {
        Some(path) => (path.display().to_string(), read(path)),
        None => {
            let content = files.content(default).map(<[u8]>::to_vec);
            (files.shown(default), content)
        }
    };
    let content = match content {
        None if is_optional && args.config.is_none() => return Ok(Vec::new()),
        content => content.ok_or_else(|| ScorecardError::Config(file.clone()))?,
    };
    let invalid = |reason: String| ScorecardError::Invalid {
        file: file.clone(),
        reason,
    };
    let content = String::from_utf8(content).map_err(|error| invalid(error.to_string()))?;
    let config = apimachinery::yaml::parse(&content).map_err(invalid)?.value;
    let stages = config["stages"].as_array().into_iter().flatten();
    let tests = stages.flat_map(|stage| stage["tests"].as_array().into_iter().flatten());
    Ok(tests
        .map(|test| {
            let entrypoint: Vec<&str> = words(test);
            let built_in = match entrypoint.as_slice() {
                ["scorecard-test", name, ..] => {
                    let mut known = scorecard::TESTS.into_iter().chain(behaviour::TESTS);
                    known.find(|test| test == name)
                }
                _ => None,
            };
            Test {
                value: test.clone(),
                built_in,
            }
        })
        .collect())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let size = std::fs::metadata(path).ok()?.len();
    (size <= 1 << 20).then(|| std::fs::read(path).ok())?
}

fn words(test: &Value) -> Vec<&str> {
    let words = test["entrypoint"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).collect()
}

fn outcome(test: &Test, files: &Files, bundle: &Bundle) -> Outcome {
    let built_in = test.built_in.and_then(|name| scorecard::run(name, files, bundle));
    built_in.unwrap_or_else(|| {
        let name = test.value["labels"]["test"].as_str().unwrap_or("test");
        let image = test.value["image"].as_str().unwrap_or_default();
        Outcome {
            name: name.to_owned(),
            state: State::Error,
            errors: vec![format!(
                "the test runs the image {image:?}, which needs a cluster: this command runs the built-in tests only ({})",
                scorecard::TESTS.join(", ")
            )],
            ..Outcome::default()
        }
    })
}

fn text((test, outcomes): &(Test, Vec<Outcome>)) -> String {
    let mut text = format!("{}\n", "-".repeat(80));
    text += &format!(
        "Image:      {}\n",
        test.value["image"].as_str().unwrap_or_default()
    );
    text += &format!("Entrypoint: [{}]\n", words(&test.value).join(" "));
    if let Some(labels) = test.value["labels"]
        .as_object()
        .filter(|labels| !labels.is_empty())
    {
        text += "Labels:\n";
        for (key, value) in labels {
            text += &format!("\t{key:?}:{value}\n");
        }
    }
    if outcomes.is_empty() {
        return text;
    }
    text += "Results:\n";
    for outcome in outcomes {
        text += &format!(
            "\tName: {}\n\tState: {}\n\n",
            outcome.name,
            outcome.state.as_str()
        );
        let parts = [("Suggestions", &outcome.suggestions), ("Errors", &outcome.errors)];
        for (title, items) in parts.into_iter().filter(|(_, items)| !items.is_empty()) {
            text += &format!("\t{title}:\n");
            for item in items {
                text += &format!("\t\t{item}\n");
            }
        }
        if !outcome.log.is_empty() {
            text += "\tLog:\n";
            for line in outcome.log.lines() {
                text += &format!("\t\t{line}\n");
            }
        }
        text.push('\n');
    }
    text
}

fn document(results: &[(Test, Vec<Outcome>)]) -> Value {
    let items: Vec<Value> = results
        .iter()
        .map(|(test, outcomes)| {
            let outcomes: Vec<Value> = outcomes.iter().map(result).collect();
            json!({
                "kind": "Test",
                "apiVersion": "scorecard.operatorframework.io/v1alpha3",
                "spec": test.value,
                "status": if outcomes.is_empty() { json!({}) } else { json!({"results": outcomes}) },
            })
        })
        .collect();
    json!({
        "kind": "TestList",
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "items": items,
    })
}

fn result(outcome: &Outcome) -> Value {
    let mut result = json!({"name": outcome.name, "state": outcome.state.as_str()});
    if !outcome.log.is_empty() {
        result["log"] = outcome.log.as_str().into();
    }
    for (field, items) in [("errors", &outcome.errors), ("suggestions", &outcome.suggestions)] {
        if !items.is_empty() {
            result[field] = items.as_slice().into();
        }
    }
    result
}

fn xunit(results: &[(Test, Vec<Outcome>)]) -> String {
    let mut text = String::from("<testsuites name=\"scorecard\">\n");
    for (test, outcomes) in results {
        let name = escaped(test.value["labels"]["test"].as_str().unwrap_or_default());
        let count = |state| outcomes.iter().filter(|outcome| outcome.state == state).count();
        text += &format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
            outcomes.len(),
            count(State::Fail),
            count(State::Error)
        );
        for outcome in outcomes {
            text += &format!("    <testcase name=\"{}\">\n", escaped(&outcome.name));
            let tag = match outcome.state {
                State::Pass => None,
                State::Fail => Some("failure"),
                State::Error => Some("error"),
            };
            if let Some(tag) = tag {
                let message = escaped(&outcome.errors.join("; "));
                text += &format!("      <{tag} message=\"{message}\"></{tag}>\n");
            }
            text += &format!(
                "      <system-out>{}</system-out>\n    </testcase>\n",
                escaped(&outcome.log)
            );
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
