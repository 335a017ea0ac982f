//! `scorecard`: runs the built-in tests of a bundle in this process, and other tests as pods.

mod behaviour;
mod change;
mod pods;
mod writes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apimachinery::selector::LabelSelector;
use operator_olm::files::Files;
use operator_olm::scorecard::{self, Outcome, State};
use serde_json::{Value, json};

use super::bundle::load;
use crate::args::{ScoreOutputArg, ScorecardArgs};
use crate::failure::{Failure, Hinted};
use crate::process::signal::INTERRUPTED;
use crate::report::Report;

/// An error of running the scorecard.
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
    #[error("invalid value {0:?} of --test-program: it must be IMAGE=PATH with the path of a program")]
    Program(String),
    #[error("--test-program needs an embedded control plane, which this cluster is not")]
    NoPrograms,
    #[error("cannot write the files of a test to {}: {reason}", directory.display())]
    Storage { directory: PathBuf, reason: String },
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
            Self::Program(_) => {
                "write, for example, --test-program quay.io/example/tests:v1=./tests.sh".to_owned()
            }
            Self::NoPrograms => {
                "add --embedded, or start a cluster with `operator-sdk cluster up`".to_owned()
            }
            Self::Storage { .. } => "name another directory with --test-output".to_owned(),
        })
    }
}

/// A test of a configuration.
struct Test {
    value: Value,
    /// The name of the built-in test. `None` for a test of the user.
    built_in: Option<&'static str>,
    /// The number of its stage.
    stage: usize,
    /// True if the tests of the stage run in parallel.
    is_parallel: bool,
    /// The service account in the configuration. Empty if it is not set.
    account: String,
}

/// Runs `operator-sdk scorecard`.
pub(crate) fn run(args: &ScorecardArgs, report: &Report) -> Result<ExitCode, Failure> {
    let loaded = load(&args.bundle, args.insecure)?;
    let selector: LabelSelector = args.selector.parse().map_err(ScorecardError::Selector)?;
    // The tests of the suite build the project and take seconds, so they run only if they are selected.
    let with_behaviour = args.selector.contains(behaviour::SUITE);
    let mut tests = tests(args, &loaded.files, with_behaviour)?;
    if with_behaviour {
        for (name, value) in behaviour::entries() {
            if tests.iter().all(|test| test.built_in != Some(name)) {
                tests.push(Test {
                    value,
                    built_in: Some(name),
                    stage: 0,
                    is_parallel: false,
                    account: String::new(),
                });
            }
        }
    }
    let is_selected = |test: &Test| selector.matches(&json!({"metadata": {"labels": test.value["labels"]}}));
    let tests: Vec<Test> = tests.into_iter().filter(is_selected).collect();
    if tests.is_empty() {
        return Err(ScorecardError::Nothing.into());
    }
    let built_in = tests.iter().filter_map(|test| test.built_in);
    let of_operator: Vec<&'static str> = built_in.filter(|name| behaviour::TESTS.contains(name)).collect();
    let behaviour = if !args.list && !of_operator.is_empty() {
        match behaviour::run(args, &loaded.bundle, &of_operator, report)? {
            Some(outcomes) => outcomes,
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
    } else {
        Default::default()
    };
    let mut of_pods = if !args.list && tests.iter().any(|test| test.built_in.is_none()) {
        match pods::run(args, &loaded.files, &tests, report)? {
            Some(outcomes) => outcomes,
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
    } else {
        Default::default()
    };
    let results: Vec<(Test, Vec<Outcome>)> = tests
        .into_iter()
        .enumerate()
        .map(|(index, test)| {
            let outcomes = match test.built_in {
                _ if args.list => Vec::new(),
                None => of_pods.remove(&index).unwrap_or_default(),
                Some(name) => {
                    let of_operator = behaviour.get(name).cloned();
                    let outcome = of_operator.or_else(|| scorecard::run(name, &loaded.files, &loaded.bundle));
                    outcome.into_iter().collect()
                }
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

/// Reads the tests of the configuration, which may be missing if it is optional.
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
    let account = config["serviceaccount"].as_str().unwrap_or_default();
    let stages = config["stages"].as_array().into_iter().flatten().enumerate();
    let tests = stages.flat_map(|(number, stage)| {
        let tests = stage["tests"].as_array().into_iter().flatten();
        tests.map(move |test| (number, stage["parallel"] == true, test))
    });
    Ok(tests
        .map(|(stage, is_parallel, test)| {
            let entrypoint: Vec<&str> = words(test);
            let built_in = match entrypoint.as_slice() {
                ["scorecard-test", name, ..] => {
                    let mut known = scorecard::TESTS.into_iter().chain(behaviour::TESTS);
                    known.find(|test| test == name)
                }
                _ => None,
            };
            let mut value = test.clone();
            if value.is_object() && value["storage"].is_null() && !config["storage"].is_null() {
                value["storage"] = config["storage"].clone();
            }
            Test {
                value,
                built_in,
                stage,
                is_parallel,
                account: account.to_owned(),
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

fn text((test, outcomes): &(Test, Vec<Outcome>)) -> String {
    let mut text = format!("{}\n", "-".repeat(80));
    // The tests of the suite `behaviour` have no image.
    if let Some(image) = test.value["image"].as_str() {
        text += &format!("Image:      {image}\n");
    }
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
