//! `init`, `create`, `edit` and `delete`: reads the project, plans and applies the changes.

use std::path::{Path, PathBuf};

use super::prompt;
use crate::apply::{self, Applied};
use crate::args::{
    ConsentArgs, CreateApiArgs, CreateWebhookArgs, DeleteApiArgs, DeleteWebhookArgs, EditArgs, InitArgs,
    License, SdkArgs,
};
use crate::failure::{Failure, Hinted};
use crate::plan::init::{Head, Surroundings};
use crate::plan::sdk::SdkSource;
use crate::plan::{self, Plan, PlanError};
use crate::process::git;
use crate::project::{Project, ProjectError, Tree, layout};
use crate::record;
use crate::report::Report;

/// The directory of the SDK's crates, if this tool was built in a checkout.
const BUILT_IN: &str = env!("OPERATOR_SDK_CRATES");

/// Runs `operator-sdk init` in the current directory.
pub(crate) fn init(args: &InitArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    finish(&root, &plan_init(&root, args)?, args.dry_run, report)?;
    if !args.dry_run {
        report.line("Next: operator-sdk create api --group GROUP --version v1alpha1 --kind KIND");
    }
    Ok(())
}

/// Runs `operator-sdk init` in `root`, without output.
pub(crate) fn init_in(root: &Path, args: &InitArgs) -> Result<Applied, Failure> {
    Ok(apply::apply(root, &plan_init(root, args)?)?)
}

fn plan_init(root: &Path, args: &InitArgs) -> Result<Plan, Failure> {
    if args.component_config == Some(true) {
        return Err(PlanError::Usage(
            "`--component-config` is not supported: an operator has no configuration file".to_owned(),
            "omit it; operators take flags and environment variables, which config/manager/manager.yaml sets",
        )
        .into());
    }
    let tree = Tree::read(root)?;
    let around = Surroundings {
        directory: directory_name(root),
        sdk: sdk_source(root, &args.sdk)?.unwrap_or_else(default_source),
        head: head(args.owner.as_deref(), args.license, args.license_file.as_deref())?,
    };
    Ok(plan::init::plan(args, &tree, &around)?)
}

fn head(owner: Option<&str>, license: License, file: Option<&Path>) -> Result<Head, ProjectError> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|source| ProjectError::Read {
            path: path.to_owned(),
            source,
        })
    };
    Ok(Head {
        owner: owner.map(str::to_owned),
        license,
        year: jiff::Zoned::now().year().into(),
        file: file.map(read).transpose()?,
    })
}

/// Runs `operator-sdk edit` in the current directory.
pub(crate) fn edit(args: &EditArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    let changes_head = args.owner.is_some() || args.license.is_some() || args.license_file.is_some();
    let head = changes_head
        .then(|| {
            head(
                args.owner.as_deref(),
                args.license.unwrap_or(License::Apache2),
                args.license_file.as_deref(),
            )
        })
        .transpose()?;
    let source = sdk_source(&root, &args.sdk)?;
    let plan = plan::edit::plan(args, &project, head.as_ref(), source.as_ref())?;
    if plan.is_empty() {
        report.line("No changes: the project already has these settings.");
        return Ok(());
    }
    finish(&root, &plan, args.dry_run, report)
}

/// Runs `operator-sdk delete api` in the current directory.
pub(crate) fn delete_api(args: &DeleteApiArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let plan = plan::delete::api(args, &Project::read(&root)?)?;
    remove(&root, &plan, &args.consent, report)
}

/// Runs `operator-sdk create webhook` in the current directory.
pub(crate) fn create_webhook(args: &CreateWebhookArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let plan = plan::create_webhook::plan(args, &Project::read(&root)?)?;
    finish(&root, &plan, args.dry_run, report)?;
    if !args.dry_run {
        if args.parts.conversion {
            report.line(&format!(
                "Objects of {} are stored in {}, the hub version of the conversion",
                args.kind.kind, args.kind.version
            ));
        }
        report.line("Next: implement the webhooks, then operator-sdk generate manifests");
    }
    Ok(())
}

/// Runs `operator-sdk delete webhook` in the current directory.
pub(crate) fn delete_webhook(args: &DeleteWebhookArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let plan = plan::create_webhook::deletion(args, &Project::read(&root)?)?;
    remove(&root, &plan, &args.consent, report)
}

/// Applies a plan that removes files, after confirmation.
fn remove(root: &Path, plan: &Plan, consent: &ConsentArgs, report: &Report) -> Result<(), Failure> {
    let files: Vec<&str> = plan
        .changes
        .iter()
        .filter(|change| change.after.is_none() && change.before.is_some())
        .map(|change| change.path.as_str())
        .collect();
    if !consent.dry_run {
        warn_of_uncommitted(root, &files, report);
    }
    if !consent.dry_run && !consent.yes {
        prompt::check("Remove files")?;
        report.progress(&format!("These files will be removed:\n  {}", files.join("\n  ")));
        if !prompt::confirm("Remove them", false)? {
            report.line("Nothing was removed.");
            return Ok(());
        }
    }
    finish(root, plan, consent.dry_run, report)
}

/// Warns about removed or overwritten files that git cannot restore.
fn warn_of_uncommitted(root: &Path, files: &[&str], report: &Report) {
    let files: Vec<&str> = files
        .iter()
        .copied()
        .filter(|path| !record::contains(path))
        .collect();
    let changed = git::uncommitted(root, &files);
    if !changed.is_empty() {
        report.warning(
            &format!("uncommitted changes are lost in {}", changed.join(", ")),
            Some("commit changes before such a command, so that they can be restored"),
        );
    }
}

/// Returns true if a file is overwritten and lines of it are removed. Otherwise all lines of the user are kept.
fn loses_lines(change: &plan::Change) -> bool {
    let Some(before) = &change.before else {
        return false;
    };
    let mut after = change.after.as_deref().unwrap_or_default().lines();
    !before.lines().all(|line| after.any(|kept| kept == line))
}

/// Runs `operator-sdk create api` in the current directory.
pub(crate) fn create_api(args: &CreateApiArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let args = &asked(args)?;
    let plan = plan_create_api(&root, args)?;
    if args.force && !args.dry_run {
        let again = plan.changes.iter().filter(|change| loses_lines(change));
        let files: Vec<&str> = again.map(|change| change.path.as_str()).collect();
        warn_of_uncommitted(&root, &files, report);
    }
    finish(&root, &plan, args.dry_run, report)?;
    warn_of_domain(&root, args, report)?;
    if !args.dry_run {
        match plan::manifests::check_conversions(&Project::read(&root)?.config) {
            Ok(()) => report.line("Next: operator-sdk run local --embedded"),
            Err(unconverted) => report.warning(&unconverted.to_string(), unconverted.hint().as_deref()),
        }
    }
    Ok(())
}

/// Warns if the given group ends with the domain of the project, because the domain is appended to it.
fn warn_of_domain(root: &Path, args: &CreateApiArgs, report: &Report) -> Result<(), Failure> {
    let domain = Project::read(root)?.config.domain;
    let is_ours = args.external.external_api_path.is_none() && args.resource != Some(false);
    let short = args.group.strip_suffix(&format!(".{domain}"));
    if let Some(short) = short.filter(|_| is_ours) {
        let group = &args.group;
        let remedy = if args.dry_run {
            "use"
        } else {
            "remove the kind with `operator-sdk delete api`, and use"
        };
        report.warning(
            &format!("the API group is {group}.{domain}: the domain of the project is appended to `--group {group}`"),
            Some(&format!("if you want {group}, {remedy} `--group {short}`")),
        );
    }
    Ok(())
}

/// Runs `operator-sdk create api` in `root`, without output.
pub(crate) fn create_api_in(root: &Path, args: &CreateApiArgs) -> Result<Applied, Failure> {
    Ok(apply::apply(root, &plan_create_api(root, args)?)?)
}

/// Sets the arguments that decide about the type and the controller: asks on a terminal, otherwise uses the defaults.
fn asked(args: &CreateApiArgs) -> Result<CreateApiArgs, Failure> {
    let mut args = args.clone();
    let ours = args.external.external_api_path.is_none();
    if prompt::is_possible() && ours && args.controller_name.is_none() {
        if args.resource.is_none() {
            args.resource = Some(prompt::confirm("Create Resource", true)?);
        }
        if args.controller.is_none() {
            args.controller = Some(prompt::confirm("Create Controller", true)?);
        }
    }
    Ok(args)
}

fn plan_create_api(root: &Path, args: &CreateApiArgs) -> Result<Plan, Failure> {
    let project = Project::read(root)?;
    Ok(plan::create_api::plan(args, &project)?)
}

/// Writes the plan, or shows it.
pub(crate) fn finish(root: &Path, plan: &Plan, dry_run: bool, report: &Report) -> Result<(), Failure> {
    if dry_run {
        report.text(&apply::diff_of(plan));
    } else {
        let mut applied = apply::apply(root, plan)?;
        applied
            .files
            .retain(|(_, path)| !path.to_str().is_some_and(record::contains));
        report.applied(&applied);
    }
    Ok(())
}

pub(crate) fn current_directory() -> Result<PathBuf, ProjectError> {
    std::env::current_dir().map_err(|source| ProjectError::Read {
        path: PathBuf::from("."),
        source,
    })
}

fn directory_name(root: &Path) -> String {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    whole
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the source of the SDK's crates in the arguments, or `None` if they contain none.
fn sdk_source(root: &Path, args: &SdkArgs) -> Result<Option<SdkSource>, PlanError> {
    if args.sdk_registry {
        return Ok(Some(SdkSource::Registry));
    }
    if let (Some(url), Some(rev)) = (&args.sdk_git, &args.sdk_rev) {
        return Ok(Some(SdkSource::Git {
            url: url.clone(),
            rev: rev.clone(),
        }));
    }
    let Some(path) = &args.sdk_path else {
        return Ok(None);
    };
    let source = sdk_at(&root.join(path)).ok_or_else(|| {
        PlanError::Usage(
            format!("{} has no crates of the SDK", path.display()),
            "name a checkout of the SDK, or its directory `crates`",
        )
    })?;
    Ok(Some(source))
}

/// Returns the crates of a checkout, or of its directory `crates`, as a source.
pub(crate) fn sdk_at(directory: &Path) -> Option<SdkSource> {
    let candidates = [directory.to_owned(), directory.join("crates")];
    let crates = candidates
        .iter()
        .find(|path| has_sdk(path))?
        .canonicalize()
        .ok()?;
    Some(SdkSource::Path(crates.to_string_lossy().into_owned()))
}

/// Returns the checkout from which this tool was built, otherwise the registry.
pub(crate) fn default_source() -> SdkSource {
    let checkout = Some(Path::new(BUILT_IN)).filter(|crates| crates.is_absolute());
    checkout.and_then(sdk_at).unwrap_or(SdkSource::Registry)
}

fn has_sdk(crates: &Path) -> bool {
    let is_there = |name: &&str| crates.join(name).join("Cargo.toml").is_file();
    layout::SDK_CRATES.iter().all(is_there)
}
