//! `generate bundle`: reads the objects and the base, generates the bundle, and writes it.

mod certificates;
mod digests;

use std::io::{IsTerminal, Read};
use std::path::{Component, Path};
use std::process::Command;

use operator_manifests::kustomize::build::Overrides;
use operator_olm::generate::{self, GenerateError, Generated, Level, Options};
use serde_json::Value;

use super::render::{overrides, render};
use super::scaffold::{current_directory, finish};
use crate::args::GenerateBundleArgs;
use crate::failure::{Failure, Hinted};
use crate::plan::generate_bundle::{self as bundle, Metadata};
use crate::project::{LAYOUT, Project};
use crate::report::Report;

/// The maximum size of standard input.
const INPUT_MAX: u64 = 64 << 20;

/// Kinds in the input of every project that are not part of bundles.
const EXPECTED_TO_GO: [&str; 3] = ["Namespace", "Certificate", "Issuer"];

/// An error of generating a bundle.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    #[error("cannot generate the bundle: {0}")]
    Generate(#[from] GenerateError),
    #[error("cannot read standard input: {0}")]
    Input(std::io::Error),
    #[error("standard input has more than {INPUT_MAX} bytes")]
    TooLong,
    #[error("{path} is not valid YAML: {reason}")]
    Base { path: String, reason: String },
    #[error("{0} is not a directory inside the project")]
    Outside(String),
    #[error("SOURCE_DATE_EPOCH is {0:?}, which is not a number of seconds")]
    Epoch(String),
    #[error(
        "the format \"packagemanifests\" is not supported: OLM reads bundles and file-based catalogs only"
    )]
    Packagemanifests,
}

impl Hinted for BundleError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Generate(GenerateError::Version { .. }) => "use a version such as `--version 0.1.0`",
            Self::Generate(GenerateError::NoBase { .. }) => {
                "create the base with `operator-sdk generate kustomize manifests`, or name its package with `--package`"
            }
            Self::Generate(GenerateError::ImageFromReference(_)) => "give the variable a literal `value`",
            Self::Generate(GenerateError::Invalid(_)) => "correct the base in config/manifests/bases",
            Self::Generate(_) | Self::Base { .. } => "correct the field in the manifest",
            Self::Input(_) | Self::TooLong => "pass only the objects of the operator",
            Self::Outside(_) => "use a relative path such as `--output-dir bundle`",
            Self::Epoch(_) => "set it as in `SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)`",
            Self::Packagemanifests => {
                "use `operator-sdk generate bundle`, and `operator-sdk catalog add` to publish several versions"
            }
        };
        Some(hint.to_owned())
    }
}

/// Returns the error for `operator-sdk generate packagemanifests`.
pub(crate) fn packagemanifests() -> Failure {
    BundleError::Packagemanifests.into()
}

/// Runs `operator-sdk generate bundle` in the current directory.
pub(crate) fn generate(args: &GenerateBundleArgs, report: &Report) -> Result<(), Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    check_output(&args.output_dir)?;
    let package = args.package.as_deref().unwrap_or(&project.config.project_name);
    let base = base(&project, package)?;
    let overrides = overrides(args.image.as_deref(), None)?;
    let objects = objects(&root, &args.kustomize_dir, &overrides, report)?;
    let mut generated = generate_from(&objects, base.as_ref(), package, args, &root)?;
    if args.use_image_digests {
        digests::pin(&mut generated.csv, report)?;
    }
    for message in &generated.log {
        match message.level {
            Level::Info => report.progress(&message.text),
            Level::Warning | Level::Error => report.warning(&message.text, None),
        }
    }
    for dropped in &generated.dropped {
        if !EXPECTED_TO_GO
            .iter()
            .any(|kind| dropped.starts_with(&format!("{kind} ")))
        {
            let text = format!("{dropped} is not included: bundles cannot contain this kind");
            report.warning(&text, None);
        }
    }
    if args.stdout {
        let manifests = std::iter::once(&generated.csv).chain(generated.files.values());
        report.text(&apimachinery::yaml::to_documents(manifests));
        return Ok(());
    }
    let metadata = Metadata {
        package,
        channels: &args.channels,
        default_channel: args.default_channel.as_deref(),
        layout: LAYOUT,
        directory: args.output_dir.trim_end_matches('/'),
        overwrite: args.overwrite,
    };
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let plan = bundle::plan(&generated, &metadata, &read);
    warn_about_others(&root, &generated, &metadata, report);
    if plan.is_empty() {
        report.line("No changes: the bundle is up to date.");
        return Ok(());
    }
    finish(&root, &plan, args.dry_run, report)
}

fn generate_from(
    objects: &[Value],
    base: Option<&Value>,
    package: &str,
    args: &GenerateBundleArgs,
    root: &Path,
) -> Result<Generated, Failure> {
    let mut annotations = vec![
        ("operators.operatorframework.io/builder", bundle::builder()),
        ("operators.operatorframework.io/project_layout", LAYOUT.to_owned()),
    ];
    annotations.extend(created_at(root)?.map(|time| ("createdAt", time)));
    let options = Options {
        package,
        version: &args.version,
        extra_service_accounts: &args.extra_service_accounts,
        replaces: args.replaces.as_deref(),
        skips: &args.skips,
        skip_range: args.skip_range.as_deref(),
        annotations: &annotations,
    };
    match generate::generate(objects, base, &options) {
        Err(GenerateError::Invalid(messages)) => {
            let first = messages.iter().find(|message| message.level == Level::Error);
            let mut failure = Failure::from(BundleError::from(GenerateError::Invalid(Vec::new())));
            if let Some(message) = first {
                failure.message = format!("{}: {}", failure.message, message.text);
            }
            Err(failure)
        }
        generated => Ok(generated.map_err(BundleError::from)?),
    }
}

/// Checks that the directory is a relative path inside the project.
fn check_output(directory: &str) -> Result<(), BundleError> {
    let is_inside = Path::new(directory)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if is_inside && !directory.is_empty() {
        Ok(())
    } else {
        Err(BundleError::Outside(directory.to_owned()))
    }
}

/// Reads the base of a package, if there is one.
fn base(project: &Project, package: &str) -> Result<Option<Value>, BundleError> {
    let path = format!("config/manifests/bases/{package}.clusterserviceversion.yaml");
    let Some(text) = project.tree.get(&path) else {
        return Ok(None);
    };
    match serde_saphyr::from_str(text) {
        Ok(base) => Ok(Some(base)),
        Err(error) => Err(BundleError::Base {
            path,
            reason: apimachinery::yaml::summary(&error),
        }),
    }
}

/// Reads the objects from standard input if it is a pipe or a file with content. Otherwise renders the kustomization.
fn objects(
    root: &Path,
    directory: &str,
    overrides: &Overrides,
    report: &Report,
) -> Result<Vec<Value>, Failure> {
    let text = standard_input()?;
    if text.trim().is_empty() {
        let mut objects = render(root, directory, overrides)?;
        certificates::use_those_of_olm(&mut objects);
        return Ok(objects);
    }
    let (objects, skipped) = generate::parse_stream(&text);
    for reason in skipped {
        report.warning(
            &format!("standard input, {reason}: the document is skipped"),
            None,
        );
    }
    Ok(objects)
}

fn standard_input() -> Result<String, BundleError> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() || !is_pipe_or_file() {
        return Ok(String::new());
    }
    let mut text = String::new();
    let read = stdin.lock().take(INPUT_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(BundleError::Input)?;
    if u64::try_from(length).is_ok_and(|length| length > INPUT_MAX) {
        return Err(BundleError::TooLong);
    }
    Ok(text)
}

#[cfg(unix)]
fn is_pipe_or_file() -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata("/dev/stdin").map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

#[cfg(not(unix))]
fn is_pipe_or_file() -> bool {
    true
}

/// Returns the time in SOURCE_DATE_EPOCH, otherwise that of the last commit.
fn created_at(root: &Path) -> Result<Option<String>, BundleError> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => Some(text.parse().map_err(|_| BundleError::Epoch(text))?),
        Err(_) => commit_time(root),
    };
    let time = seconds.and_then(|seconds: i64| jiff::Timestamp::from_second(seconds).ok());
    Ok(time.map(|time| time.to_string()))
}

fn commit_time(root: &Path) -> Option<i64> {
    let git = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(git.stdout).ok()?;
    text.trim().parse().ok().filter(|_| git.status.success())
}

/// Warns about other manifests in the directory, which may be from another version or from the user.
fn warn_about_others(root: &Path, generated: &Generated, metadata: &Metadata<'_>, report: &Report) {
    let directory = format!("{}/manifests", metadata.directory);
    let csv = format!("{}.clusterserviceversion.yaml", metadata.package);
    let entries = std::fs::read_dir(root.join(&directory));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != csv && !generated.files.contains_key(&name) {
            let fix = "remove the file if it is from an earlier version of the operator";
            let text = format!("{directory}/{name} is kept: it is not generated from the project");
            report.warning(&text, Some(fix));
        }
    }
}
