//! The built-in tests of `operator-sdk scorecard`.

use serde_json::{Map, Value};

use crate::bundle::{Bundle, list, text};
use crate::files::Files;
use crate::finding::Level;
use crate::validator::{self, Examples, Options, Validator, examples};

/// The state of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The bundle passes the test.
    #[default]
    Pass,
    /// The bundle fails the test.
    Fail,
    /// The test could not run.
    Error,
}

impl State {
    /// Returns the word that the command prints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Error => "error",
        }
    }
}

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The name of the test.
    pub name: String,
    /// The log.
    pub log: String,
    /// The state.
    pub state: State,
    /// The reasons of a failure.
    pub errors: Vec<String>,
    /// Suggested improvements, which do not affect the state.
    pub suggestions: Vec<String>,
}

/// The names of the built-in tests.
pub const TESTS: [&str; 6] = [
    "basic-check-spec",
    "olm-bundle-validation",
    "olm-crds-have-validation",
    "olm-crds-have-resources",
    "olm-spec-descriptors",
    "olm-status-descriptors",
];

/// Runs a built-in test; returns `None` if no test has this name.
pub fn run(test: &str, files: &Files, bundle: &Bundle) -> Option<Outcome> {
    let mut outcome = Outcome {
        name: test.to_owned(),
        ..Outcome::default()
    };
    match test {
        "basic-check-spec" => check_spec(bundle, &mut outcome),
        "olm-bundle-validation" => bundle_validation(files, bundle, &mut outcome),
        "olm-crds-have-validation" => with_examples(bundle, &mut outcome, |bundle, objects, outcome| {
            for object in objects {
                if has_validation(object, bundle, outcome) {
                    outcome.state = State::Fail;
                }
            }
        }),
        "olm-crds-have-resources" => {
            outcome.log = loaded(bundle);
            let owned = bundle.csv_list("/spec/customresourcedefinitions/owned");
            if owned.iter().any(|owned| list(owned, "/resources").is_empty()) {
                outcome.fail("Owned CRDs do not have resources specified".to_owned());
            }
        }
        "olm-spec-descriptors" => with_examples(bundle, &mut outcome, |bundle, objects, outcome| {
            objects
                .iter()
                .for_each(|object| spec_descriptors(object, bundle, outcome));
        }),
        "olm-status-descriptors" => with_examples(bundle, &mut outcome, |bundle, objects, outcome| {
            objects
                .iter()
                .for_each(|object| status_descriptors(object, bundle, outcome));
        }),
        _ => return None,
    }
    Some(outcome)
}

impl Outcome {
    fn fail(&mut self, error: String) {
        self.state = State::Fail;
        self.errors.push(error);
    }
}

fn loaded(bundle: &Bundle) -> String {
    format!("Loaded ClusterServiceVersion: {}\n", bundle.csv_name())
}

/// Parses the examples of the annotation `alm-examples`.
///
/// # Errors
/// Returns an error if the annotation is not a JSON list of objects.
pub fn objects(bundle: &Bundle) -> Result<Vec<Value>, String> {
    let Some(annotation) = bundle.csv_annotation("alm-examples") else {
        return Ok(Vec::new());
    };
    match examples(annotation, false) {
        Examples::Objects(objects) => Ok(objects),
        Examples::Syntax(_, message) | Examples::Type(message) => {
            Err(format!("failed to parse alm-examples annotation: {message}"))
        }
    }
}

fn with_examples(bundle: &Bundle, outcome: &mut Outcome, run: impl FnOnce(&Bundle, &[Value], &mut Outcome)) {
    outcome.log = loaded(bundle);
    match objects(bundle) {
        Ok(objects) => {
            outcome.log += &format!("Loaded {} Custom Resources from alm-examples\n", objects.len());
            run(bundle, &objects, outcome);
        }
        Err(error) => {
            outcome.state = State::Error;
            outcome.errors.push(error);
        }
    }
}

fn check_spec(bundle: &Bundle, outcome: &mut Outcome) {
    match objects(bundle) {
        Err(error) => outcome.fail(format!("error getting custom resources: {error}")),
        Ok(objects) => {
            let without = objects
                .iter()
                .filter(|object| object.get("spec").is_none_or(Value::is_null));
            for object in without {
                let name = text(object, "/metadata/name");
                outcome.suggestions.push(format!("spec missing from [{name}]"));
            }
        }
    }
}

fn bundle_validation(files: &Files, bundle: &Bundle, outcome: &mut Outcome) {
    let format: Vec<String> = validator::format(files)
        .into_iter()
        .map(|finding| finding.detail)
        .collect();
    if !format.is_empty() {
        outcome.fail(format!("Bundle validation errors: {}", format.join(",")));
    }
    for validator in [Validator::Bundle, Validator::Csv, Validator::Crd] {
        for finding in validator.run(bundle, &Options::default()) {
            match finding.level {
                Level::Error => outcome.fail(finding.message()),
                Level::Warning => outcome.suggestions.push(finding.message()),
            }
        }
    }
}

/// Returns the fields of a part of an example. If it is not an object, the Go program panics, and this function reports
/// an error.
fn part<'a>(object: &'a Value, name: &str, outcome: &mut Outcome) -> Option<&'a Map<String, Value>> {
    match object.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::Object(fields)) => Some(fields),
        Some(_) => {
            let example = text(object, "/metadata/name");
            outcome
                .errors
                .push(format!("the {name} of example {example} is not an object"));
            outcome.state = State::Error;
            None
        }
    }
}

/// Reports fields of an example that its CRDs do not have; returns true if there are any.
fn has_validation(object: &Value, bundle: &Bundle, outcome: &mut Outcome) -> bool {
    let kind = text(object, "/kind");
    let version = text(object, "/apiVersion").rsplit('/').next().unwrap_or_default();
    let (spec, status) = (part(object, "spec", outcome), part(object, "status", outcome));
    for old in [false, true] {
        for (_, crd) in &bundle.crds {
            if validator::is_old_crd(crd) != old {
                continue;
            }
            let crd = if old {
                validator::converted_crd(crd)
            } else {
                crd.clone()
            };
            let crd_kind = text(&crd, "/spec/names/kind");
            for found in list(&crd, "/spec/versions") {
                let name = text(found, "/name");
                if !name.eq_ignore_ascii_case(version) || !is_same_kind(kind, crd_kind) {
                    continue;
                }
                let Some(schema) = found.get("schema").filter(|schema| !schema.is_null()) else {
                    outcome
                        .suggestions
                        .push(format!("Add CRD validation for {crd_kind}/{name}"));
                    continue;
                };
                let mut failed = false;
                for (part, fields) in [("spec", spec), ("status", status)] {
                    let known = schema.pointer(&format!("/openAPIV3Schema/properties/{part}/properties"));
                    for field in fields.into_iter().flatten().map(|(field, _)| field) {
                        if known.and_then(|known| known.get(field)).is_none() {
                            failed = true;
                            outcome.suggestions.push(format!(
                                "Add CRD validation for {part} field `{field}` in {kind}/{version}"
                            ));
                        }
                    }
                }
                if failed {
                    return true;
                }
            }
        }
    }
    false
}

/// Compares kinds, ignoring case and a plural `s`.
fn is_same_kind(left: &str, right: &str) -> bool {
    let singular = |kind: &str| {
        let kind = kind.to_lowercase();
        match kind.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => match kind.strip_suffix("es").filter(|stem| stem.ends_with(['s', 'x'])) {
                Some(stem) => stem.to_owned(),
                None => kind.strip_suffix('s').unwrap_or(&kind).to_owned(),
            },
        }
    };
    left.eq_ignore_ascii_case(right) || singular(left) == singular(right)
}

/// Finds the owned CRD of an example.
fn owned<'a>(object: &Value, bundle: &'a Bundle, outcome: &mut Outcome) -> Option<&'a Value> {
    let kind = text(object, "/kind");
    let version = text(object, "/apiVersion").rsplit('/').next().unwrap_or_default();
    let mut owned = bundle.csv_list("/spec/customresourcedefinitions/owned").iter();
    let found = owned.find(|owned| text(owned, "/kind") == kind && text(owned, "/version") == version);
    if found.is_none() {
        outcome.fail(format!(
            "Failed to find an owned CRD for CR {} with GVK {}",
            text(object, "/metadata/name"),
            validator::api_of(object)
        ));
    }
    found
}

fn spec_descriptors(object: &Value, bundle: &Bundle, outcome: &mut Outcome) {
    let Some(fields) = part(object, "spec", outcome) else {
        if outcome.state == State::Pass {
            outcome.state = State::Fail;
        }
        let name = text(object, "/metadata/name");
        outcome.log += &format!("example {name} has no spec\n");
        return;
    };
    let Some(owned) = owned(object, bundle, outcome) else {
        return;
    };
    let descriptors = list(owned, "/specDescriptors");
    for field in fields.keys() {
        if !descriptors
            .iter()
            .any(|descriptor| text(descriptor, "/path") == field)
        {
            outcome.fail(format!("{field} does not have a spec descriptor"));
            outcome
                .suggestions
                .push(format!("Add a spec descriptor for {field}"));
        }
    }
}

fn status_descriptors(object: &Value, bundle: &Bundle, outcome: &mut Outcome) {
    let Some(owned) = owned(object, bundle, outcome) else {
        return;
    };
    let name = text(owned, "/name");
    let errors = outcome.errors.len();
    let has_status = part(object, "status", outcome).is_some_and(|status| !status.is_empty());
    if outcome.errors.len() > errors {
        return;
    }
    if !has_status {
        outcome.suggestions.push(format!(
            "{name} does not have status spec. Note that all objects that represent a physical resource whose state may vary from the user's desired intent SHOULD have a spec and a status. More info: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#spec-and-status"
        ));
    } else if list(owned, "/statusDescriptors").is_empty() {
        outcome.fail(format!("{name} does not have a status descriptor"));
        outcome.suggestions.push(format!(
            "add status descriptor for the crd {name}. If your project is built using Golang you can use the csv markers. More info: https://sdk.operatorframework.io/docs/building-operators/golang/references/markers/"
        ));
    }
}
