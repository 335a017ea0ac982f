//! `generate manifests`: build, ask, plan, apply.

use std::path::Path;

use operator_manifests::operator::OperatorManifests;

use super::scaffold::{current_directory, finish};
use crate::args::ManifestsArgs;
use crate::plan::{self, PlanError};
use crate::process::cargo::{self, BuildOptions};
use crate::project::Project;
use crate::report::{Failure, Report};

/// `operator-sdk generate manifests` in the current directory.
pub(crate) fn generate(args: &ManifestsArgs, report: &Report) -> Result<(), Failure> {
    generate_in(
        &current_directory()?,
        args.dry_run,
        &BuildOptions::default(),
        report,
    )
}

/// `operator-sdk generate manifests` in `root`.
pub(crate) fn generate_in(
    root: &Path,
    dry_run: bool,
    options: &BuildOptions,
    report: &Report,
) -> Result<(), Failure> {
    let project = Project::read(root)?;
    let program = cargo::build(root, options)?;
    let answer = cargo::manifests(&program)?;
    let operator =
        OperatorManifests::from_json(&answer).map_err(|error| PlanError::Manifests(error.to_string()))?;
    let plan = plan::manifests::plan(&project, &operator)?;
    if plan.is_empty() {
        report.line("Nothing has changed: the manifests are those of the source.");
        return Ok(());
    }
    finish(root, &plan, dry_run, report)
}
