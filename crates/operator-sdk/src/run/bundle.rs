//! `bundle validate`: runs the validators of Operator Lifecycle Manager on a bundle directory.

mod build;
mod external;
mod output;
mod pull;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apimachinery::selector::LabelSelector;
use operator_olm::bundle::{self, Bundle, LoadError};
use operator_olm::files::{self, Files, ReadError};
use operator_olm::finding::Finding;
use operator_olm::validator::{self, OPTIONAL, Optional, Options, Platform, Validator};

use crate::args::{BundleCommand, BundleValidateArgs};
use crate::failure::{Failure, Hinted};
use crate::oci::reference::Reference;
use crate::process::registry::Repository;
use crate::report::Report;

pub(crate) use build::image as bundle_image;

/// The maximum size of a file that an option names.
const FILE_MAX: u64 = 1 << 20;

/// An error of reading a bundle, or of invalid arguments.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    #[error("invalid command args: an image tag or directory is a required argument")]
    Missing,
    #[error("{0} is not a directory")]
    Image(String),
    #[error("directory {0} does not exist")]
    NoDirectory(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{error}")]
    Load { error: LoadError, place: String },
    #[error("invalid command args: selector {0:?} does not match any validator labels")]
    Selector(String),
    #[error("invalid selector {selector:?}: {reason}")]
    SelectorSyntax { selector: String, reason: String },
    #[error("invalid value {0:?} of --optional-values: it must be KEY=VALUE")]
    Value(String),
    #[error("invalid value {0:?} of container-tools: it must be docker, podman or none")]
    ContainerTools(String),
    #[error("the external validator {program} failed: {reason}")]
    External { program: String, reason: String },
    #[error("cannot read {path}: {reason}")]
    File { path: String, reason: String },
    #[error("the directory {0} is not empty")]
    NotEmpty(String),
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
}

impl Hinted for BundleError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => "give the bundle directory, such as `bundle`".to_owned(),
            Self::Image(image) => format!(
                "write the files of the image into a directory first: `operator-sdk bundle pull {image} bundle`"
            ),
            Self::NoDirectory(_) => {
                "give the bundle directory; `operator-sdk generate bundle` creates one".to_owned()
            }
            Self::Read(_) => "give a directory with metadata/ and manifests/".to_owned(),
            Self::Load { place, .. } => {
                format!("correct {place}, and run the command again for the other findings")
            }
            Self::Selector(_) => "list the labels with --list-optional".to_owned(),
            Self::SelectorSyntax { .. } => "write labels such as name=good-practices".to_owned(),
            Self::Value(_) => "write, for example, --optional-values k8s-version=1.25".to_owned(),
            Self::ContainerTools(_) => {
                "omit it: images are inspected in their registries, without a container engine".to_owned()
            }
            Self::External { .. } => {
                "use a program that prints {\"Name\", \"Errors\", \"Warnings\"} as JSON".to_owned()
            }
            Self::File { .. } => "give a readable file".to_owned(),
            Self::NotEmpty(_) => "name another directory, or replace its files with --overwrite".to_owned(),
            Self::Write { .. } => "name another directory".to_owned(),
        })
    }
}

/// A loaded bundle directory.
pub(crate) struct Loaded {
    pub(crate) files: Files,
    pub(crate) bundle: Bundle,
}

/// Loads the bundle in a directory or an image, which is pulled.
pub(crate) fn load(place: &str, insecure: bool) -> Result<Loaded, Failure> {
    let files = if Path::new(place).is_dir() {
        files::read(Path::new(place)).map_err(BundleError::from)?
    } else if is_image(place) {
        let mut files = Files::new(place);
        for (path, content) in pull::files(place, insecure)? {
            files.insert(&path, content);
        }
        files
    } else {
        return Err(BundleError::NoDirectory(place.to_owned()).into());
    };
    let bundle = bundle::load(&files).map_err(|error| BundleError::Load {
        place: match &error.path {
            Some(path) => files.shown(path),
            None => place.to_owned(),
        },
        error,
    })?;
    Ok(Loaded { files, bundle })
}

/// Returns true if a text is the name of an image: only image names have a tag, a digest or a registry host.
pub(crate) fn is_image(place: &str) -> bool {
    place.contains([':', '@'])
        || place
            .split_once('/')
            .is_some_and(|(host, _)| host.trim_matches('.').contains('.'))
}

/// Runs `operator-sdk bundle`.
pub(crate) fn run(command: &BundleCommand, report: &Report) -> Result<ExitCode, Failure> {
    match command {
        BundleCommand::Validate(args) => validate(args, report),
        BundleCommand::Build(args) => build::build(args, report),
        BundleCommand::Push(args) => build::push(args, report),
        BundleCommand::Pull(args) => pull::pull(args, report),
    }
}

fn validate(args: &BundleValidateArgs, report: &Report) -> Result<ExitCode, Failure> {
    if args.list_optional {
        output::list(report);
        return Ok(ExitCode::SUCCESS);
    }
    let place = args.bundle.as_deref().ok_or(BundleError::Missing)?;
    let selected = selected(args.select_optional.as_deref())?;
    let mut options = options(&args.optional_values)?;
    let needs_directory = args.fix || args.alpha_select_external.is_some();
    if needs_directory && !Path::new(place).is_dir() && is_image(place) {
        return Err(BundleError::Image(place.to_owned()).into());
    }
    let mut loaded = load(place, args.insecure)?;
    if selected
        .iter()
        .any(|optional| optional.validator == Validator::Multiarch)
    {
        inspect(&loaded.bundle, &mut options, args.insecure)?;
    }
    let mut findings = findings(&loaded, &selected, &options);
    if args.fix {
        for _ in 0..FIXES_MAX {
            if !fix(place, &loaded, &findings, report)? {
                break;
            }
            loaded = load(place, args.insecure)?;
            findings = self::findings(&loaded, &selected, &options);
        }
    }
    if let Some(programs) = &args.alpha_select_external {
        findings.extend(external::run(programs, place)?);
    }
    output::print(&loaded.files, &findings, args.output, report);
    Ok(if findings.iter().any(Finding::is_error) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Maximum number of rounds of fixes. Each round corrects at least one finding of each file.
const FIXES_MAX: usize = 100;

fn findings(loaded: &Loaded, selected: &[&Optional], options: &Options) -> Vec<Finding> {
    let mut findings = validator::format_of(&loaded.files, &loaded.bundle);
    findings.extend(validator::validate(&loaded.bundle));
    for optional in selected {
        findings.extend(validator::warnings_first(
            optional.validator.run(&loaded.bundle, options),
        ));
    }
    findings
}

fn selected(selector: Option<&str>) -> Result<Vec<&'static Optional>, BundleError> {
    let Some(selector) = selector else {
        return Ok(Vec::new());
    };
    let parsed: LabelSelector = selector.parse().map_err(|reason| BundleError::SelectorSyntax {
        selector: selector.to_owned(),
        reason,
    })?;
    let matches = |optional: &&Optional| {
        let object = serde_json::json!({"metadata": {"labels": optional.labels()}});
        parsed.matches(&object)
    };
    let selected: Vec<&Optional> = OPTIONAL.iter().filter(matches).collect();
    if selected.is_empty() {
        return Err(BundleError::Selector(selector.to_owned()));
    }
    Ok(selected)
}

fn options(values: &[String]) -> Result<Options, BundleError> {
    let pair = |value: &String| match value.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(BundleError::Value(value.clone())),
    };
    let values: BTreeMap<String, String> = values.iter().map(pair).collect::<Result<_, _>>()?;
    let index = values.get("index-path").map(|path| read(path));
    let categories = match std::env::var("OPERATOR_BUNDLE_CATEGORIES") {
        Ok(path) if !path.is_empty() => Some(categories(&path)?),
        _ => None,
    };
    Ok(Options {
        values,
        categories,
        index,
        ..Options::default()
    })
}

/// Reads the platforms of the images of a bundle from their registries, unless the value `container-tools` is `none`.
fn inspect(bundle: &Bundle, options: &mut Options, insecure: bool) -> Result<(), Failure> {
    match options.values.get("container-tools").map(String::as_str) {
        None | Some("docker" | "podman") => {}
        Some("none") => return Ok(()),
        Some(other) => return Err(BundleError::ContainerTools(other.to_owned()).into()),
    }
    crate::run::block_on(async {
        for image in validator::images_of(bundle) {
            let platforms = platforms(&image, insecure)
                .await
                .map_err(|failure| failure.message);
            options.platforms.insert(image, platforms);
        }
        Ok(())
    })
}

async fn platforms(image: &str, insecure: bool) -> Result<BTreeSet<Platform>, Failure> {
    let reference = Reference::parse_any(image)?;
    let platforms = Repository::open_to_pull(&reference, insecure)?
        .platforms()
        .await?;
    let platforms = platforms.into_iter();
    Ok(platforms
        .map(|(os, architecture)| Platform { os, architecture })
        .collect())
}

fn read(path: &str) -> Result<String, String> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut content = String::new();
    let read = file.take(FILE_MAX).read_to_string(&mut content);
    read.map_err(|error| error.to_string())?;
    Ok(content)
}

/// Reads the categories in a file of the form `{"categories": ["a", "b"]}`.
fn categories(path: &str) -> Result<Vec<String>, BundleError> {
    let fail = |reason: String| BundleError::File {
        path: path.to_owned(),
        reason,
    };
    let content = read(path).map_err(fail)?;
    let parsed = apimachinery::json::parse(content.as_bytes()).map_err(fail)?;
    let list = parsed
        .value
        .get("categories")
        .and_then(serde_json::Value::as_array);
    let list = list.ok_or_else(|| fail("it has no list `categories`".to_owned()))?;
    Ok(list
        .iter()
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect())
}

/// Applies the first fix of each file. Returns false if no finding has a fix.
fn fix(place: &str, loaded: &Loaded, findings: &[Finding], report: &Report) -> Result<bool, BundleError> {
    let mut fixed: BTreeMap<&str, String> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.fix.is_some()) {
        if fixed.contains_key(finding.path.as_str()) {
            continue;
        }
        let content = loaded.files.content(&finding.path).unwrap_or_default();
        let Some(new) = std::str::from_utf8(content)
            .ok()
            .and_then(|content| finding.fixed(content))
        else {
            continue;
        };
        if let Some(fix) = &finding.fix {
            let (file, line) = (loaded.files.shown(&finding.path), finding.place.line);
            report.progress(&format!("fixed {file}:{line}: {} is now {}", fix.from, fix.to));
        }
        fixed.insert(&finding.path, new);
    }
    for (path, content) in &fixed {
        let path = Path::new(place).join(path);
        std::fs::write(&path, content).map_err(|error| BundleError::File {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
    }
    Ok(!fixed.is_empty())
}
