//! `init` and `create api`: read the project, plan, apply.

use std::path::{Path, PathBuf};

use crate::apply::{self, Applied};
use crate::args::{CreateApiArgs, InitArgs};
use crate::plan::init::Surroundings;
use crate::plan::{self, Plan};
use crate::project::{Project, ProjectError, Tree};
use crate::report::{Failure, Report};
use crate::template::SdkSource;

/// The directory of the SDK's crates, if this tool was built in a checkout.
const BUILT_IN: &str = env!("CARGO_MANIFEST_DIR");

/// `operator-sdk init` in the current directory.
pub(crate) fn init(args: &InitArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    finish(&root, &plan_init(&root, args)?, args.dry_run, report)?;
    if !args.dry_run {
        report.line("Next: operator-sdk create api --group GROUP --version v1alpha1 --kind KIND");
    }
    Ok(())
}

/// `operator-sdk init` in `root`, without a word.
pub(crate) fn init_in(root: &Path, args: &InitArgs) -> Result<Applied, Failure> {
    Ok(apply::apply(root, &plan_init(root, args)?)?)
}

fn plan_init(root: &Path, args: &InitArgs) -> Result<Plan, Failure> {
    let tree = Tree::read(root)?;
    let around = Surroundings {
        directory: directory_name(root),
        sdk: sdk_source(args.sdk_path.as_deref()),
        year: jiff::Zoned::now().year().into(),
    };
    Ok(plan::init::plan(args, &tree, &around)?)
}

/// `operator-sdk create api` in the current directory.
pub(crate) fn create_api(args: &CreateApiArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    finish(&root, &plan_create_api(&root, args)?, args.dry_run, report)?;
    if !args.dry_run {
        report.line("Next: operator-sdk run local --embedded");
    }
    Ok(())
}

/// `operator-sdk create api` in `root`, without a word.
pub(crate) fn create_api_in(root: &Path, args: &CreateApiArgs) -> Result<Applied, Failure> {
    Ok(apply::apply(root, &plan_create_api(root, args)?)?)
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
        report.applied(&apply::apply(root, plan)?);
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

/// By the path that was asked for, or of the checkout that this tool comes from, or by version.
fn sdk_source(asked: Option<&Path>) -> SdkSource {
    if let Some(path) = asked {
        return SdkSource::Path(path.to_string_lossy().trim_end_matches('/').to_owned());
    }
    let crates = Path::new(BUILT_IN).parent();
    match crates.filter(|crates| crates.join("operator-runtime/Cargo.toml").is_file()) {
        Some(crates) => SdkSource::Path(crates.to_string_lossy().into_owned()),
        None => SdkSource::Version,
    }
}
