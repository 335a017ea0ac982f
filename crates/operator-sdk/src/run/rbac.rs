//! `rbac check`: runs the tests, compares the requests that they recorded with the rules, and reports the result.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use operator_manifests::rbac::check::AccessRequest;
use serde::Deserialize;

use super::crd::counted;
use super::manifests::ask;
use super::scaffold::{current_directory, finish};
use crate::args::{CheckArgs, OutputArg, RbacCommand};
use crate::failure::{Failure, Hinted};
use crate::plan::PlanError;
use crate::plan::rbac::{self, Comparison, Missing, TestRecord, Unused};
use crate::process::cargo::{self, BuildOptions};
use crate::project::Project;
use crate::report::Report;
use crate::source::{self, Sources};

/// The directory with the records of the tests. `operator-envtest` has the same constant.
const RECORDS: &str = "target/operator-sdk/rbac";

/// An error of reading or comparing records.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error("no test has recorded requests of the operator")]
    None,
    #[error("the tests of the operator fail")]
    Tests,
    #[error("cannot use the records in {}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl Hinted for RecordError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::None => {
                "a test records where it runs the operator's manager with `env.client()` of a TestEnv; run \
                it with `cargo test`, or without `--no-run`"
                    .to_owned()
            }
            Self::Tests => {
                "correct them first, or compare the requests until the failure with `--no-run`".to_owned()
            }
            Self::Unusable { .. } => "remove the directory and run the tests again".to_owned(),
        })
    }
}

/// The file that a test writes.
#[derive(Deserialize)]
struct Record {
    requested: Vec<AccessRequest>,
}

/// Runs `operator-sdk rbac`.
pub(crate) fn run(command: &RbacCommand, report: &Report) -> Result<ExitCode, Failure> {
    let RbacCommand::Check(args) = command;
    check(args, report)
}

fn check(args: &CheckArgs, report: &Report) -> Result<ExitCode, Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    source::rbac::markers(&Sources::of(&project.tree)).map_err(PlanError::from)?;
    let folder = root.join(RECORDS);
    if !args.no_run {
        run_tests(&root, &folder, args)?;
    }
    let records = read(&folder)?;
    if records.iter().all(|record| record.requested.is_empty()) {
        return Err(RecordError::None.into());
    }
    let operator = ask(&root, &BuildOptions::default())?;
    let comparison = rbac::compare(&project, &operator, &records)?;
    if args.fix {
        let plan = rbac::fix(&project, &operator, &comparison)?;
        finish(&root, &plan, args.dry_run, report)?;
        if !args.dry_run {
            report.progress("Next: operator-sdk generate manifests");
        }
    }
    print(&comparison, records.len(), args.output, report);
    let failed = !comparison.missing.is_empty() || (args.strict && !comparison.unused.is_empty());
    let fixed = args.fix && !args.dry_run;
    Ok(ExitCode::from(u8::from(failed && !fixed)))
}

fn run_tests(root: &Path, folder: &Path, args: &CheckArgs) -> Result<(), Failure> {
    // Records of deleted tests must not be included.
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(unusable(folder, &error).into());
        }
        _ => {}
    }
    match cargo::test(root, folder, &args.arguments)? {
        true => Ok(()),
        false => Err(RecordError::Tests.into()),
    }
}

/// Returns the records, by test.
fn read(folder: &Path) -> Result<Vec<TestRecord>, RecordError> {
    let mut records = Vec::new();
    for program in entries(folder)?.iter().filter(|path| path.is_dir()) {
        let files = entries(program)?;
        let files = files
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        for file in files {
            let text = std::fs::read(file).map_err(|error| unusable(file, &error))?;
            let record: Record = serde_json::from_slice(&text).map_err(|error| unusable(file, &error))?;
            records.push(TestRecord {
                test: format!("{}: {}", stem(program), stem(file).replace('.', "::")),
                requested: record.requested,
            });
        }
    }
    Ok(records)
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> RecordError {
    RecordError::Unusable {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Returns the entries of a directory, sorted. Returns none if it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(folder, &error)),
    };
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|error| unusable(folder, &error))?;
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn print(comparison: &Comparison, tests: usize, output: OutputArg, report: &Report) {
    if output == OutputArg::Json {
        report.line(&format!("{:#}", serde_json::json!(comparison)));
        return;
    }
    for missing in &comparison.missing {
        report.line(&missing_text(missing));
    }
    for unused in &comparison.unused {
        report.line(&unused_text(unused));
    }
    report.line(&format!(
        "{} missing, {} never requested, in the records of {}",
        comparison.missing.len(),
        comparison.unused.len(),
        counted(tests, "test")
    ));
}

fn missing_text(missing: &Missing) -> String {
    let what = format!(
        "error: {} of {} is requested but not granted ({})",
        missing.verbs.join(", "),
        qualified(&missing.group, &missing.resource),
        missing.test
    );
    let place = missing.place.as_ref().zip(missing.function.as_ref());
    let place = place.map(|(place, function)| format!(" above `fn {function}` ({place})"));
    let attribute = missing.attribute.replace('\n', "\n        ");
    format!(
        "{what}\n    fix: add{}\n        {attribute}",
        place.unwrap_or_default()
    )
}

fn unused_text(unused: &Unused) -> String {
    format!(
        "{}: warning: {} of {} is granted but never requested\n    fix: remove it, or add a test that needs it",
        unused.place,
        unused.verbs.join(", "),
        qualified(&unused.group, &unused.resource)
    )
}

/// Returns `deployments.apps`. The core group is omitted.
fn qualified(group: &str, resource: &str) -> String {
    match group {
        "" | "core" => resource.to_owned(),
        group => match resource.split_once('/') {
            Some((resource, subresource)) => format!("{resource}.{group}/{subresource}"),
            None => format!("{resource}.{group}"),
        },
    }
}
