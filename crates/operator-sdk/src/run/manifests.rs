//! `generate manifests` and its parts: builds the operator, runs it to get its description, then plans and applies the
//! changes.

use std::path::Path;

use operator_manifests::operator::OperatorManifests;

use super::scaffold::{current_directory, finish};
use crate::args::{CrdsArgs, KustomizeArgs, ManifestsArgs, RbacArgs, WebhooksArgs};
use crate::failure::Failure;
use crate::plan::lint::Lint;
use crate::plan::manifests::Wanted;
use crate::plan::{self, Plan, PlanError};
use crate::process::cargo::{self, BuildOptions};
use crate::project::Project;
use crate::report::Report;
use crate::source::{self, Sources};

/// Runs `operator-sdk generate manifests` in the current directory.
pub(crate) fn generate(args: &ManifestsArgs, report: &Report) -> Result<(), Failure> {
    let wanted = Wanted {
        max_description_len: args.max_description_len,
        ..Wanted::ALL
    };
    part(wanted, args.dry_run, report)
}

/// Runs `operator-sdk generate crds`.
pub(crate) fn crds(args: &CrdsArgs, report: &Report) -> Result<(), Failure> {
    let wanted = Wanted {
        crds: true,
        max_description_len: args.manifests.max_description_len,
        ..Wanted::NONE
    };
    part(wanted, args.manifests.dry_run, report)
}

/// Runs `operator-sdk generate rbac`.
pub(crate) fn rbac(args: &RbacArgs, report: &Report) -> Result<(), Failure> {
    let wanted = Wanted {
        rbac: true,
        ..Wanted::NONE
    };
    part(wanted, args.dry_run, report)
}

/// Runs `operator-sdk generate webhooks`.
pub(crate) fn webhooks(args: &WebhooksArgs, report: &Report) -> Result<(), Failure> {
    let wanted = Wanted {
        webhooks: true,
        ..Wanted::NONE
    };
    part(wanted, args.dry_run, report)
}

/// Runs `operator-sdk generate kustomize manifests`.
pub(crate) fn kustomize(args: &KustomizeArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    let operator = ask(&root, &BuildOptions::default())?;
    check(&project, &operator, false, report)?;
    let plan = plan::manifests::kustomize(&project, &operator)?;
    report_plan(&root, &plan, args.dry_run, report)
}

fn part(wanted: Wanted, dry_run: bool, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    plan::manifests::check_conversions(&project.config)?;
    if wanted.rbac {
        // Checked before the build, which takes longer.
        source::rbac::markers(&Sources::of(&project.tree)).map_err(PlanError::from)?;
    }
    let operator = ask(&root, &BuildOptions::default())?;
    check(&project, &operator, wanted.crds, report)?;
    let plan = plan::manifests::plan(&project, &operator, wanted)?;
    report_plan(&root, &plan, dry_run, report)
}

/// Runs `operator-sdk generate manifests` in `root`.
pub(crate) fn generate_in(
    root: &Path,
    dry_run: bool,
    options: &BuildOptions,
    report: &Report,
) -> Result<(), Failure> {
    let project = Project::read(root)?;
    plan::manifests::check_conversions(&project.config)?;
    let operator = ask(root, options)?;
    check(&project, &operator, false, report)?;
    let plan = plan::manifests::plan(&project, &operator, Wanted::ALL)?;
    report_plan(root, &plan, dry_run, report)
}

/// Rejects types that no API server accepts. With `lint`, also reports types that it accepts with a different meaning.
fn check(
    project: &Project,
    operator: &OperatorManifests,
    with_warnings: bool,
    report: &Report,
) -> Result<(), Failure> {
    let lints = plan::manifests::lints(&project.tree, operator)?;
    let (errors, warnings): (Vec<Lint>, Vec<Lint>) = lints.into_iter().partition(|lint| lint.is_error);
    for warning in warnings.iter().filter(|_| with_warnings) {
        report.warning(&warning.text(), warning.fix.as_deref());
    }
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else {
        return Ok(());
    };
    for further in errors {
        report.failure(&further.into());
    }
    Err(first.into())
}

/// Builds the operator and returns its description.
pub(super) fn ask(root: &Path, options: &BuildOptions) -> Result<OperatorManifests, Failure> {
    let program = cargo::build(root, options)?;
    let answer = cargo::manifests(&program)?;
    let operator =
        OperatorManifests::from_json(&answer).map_err(|error| PlanError::Manifests(error.to_string()))?;
    Ok(operator)
}

fn report_plan(root: &Path, plan: &Plan, dry_run: bool, report: &Report) -> Result<(), Failure> {
    if plan.is_empty() {
        report.line("No changes: the manifests are up to date.");
        return Ok(());
    }
    finish(root, plan, dry_run, report)
}
