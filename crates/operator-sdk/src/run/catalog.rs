//! `catalog`: file-based catalogs in directories.

mod messages;
mod queries;
mod serve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use operator_olm::catalog::{Bundle, Catalog, Channel, Entry, Package, diff, mermaid, svg, validate};
use operator_olm::files::{self, ReadError};
use operator_olm::{bundle, render, template};

use super::scaffold::finish;
use crate::args::{
    CatalogAddArgs, CatalogCommand, CatalogDiffArgs, CatalogForm, CatalogInitArgs, CatalogRenderArgs,
    CatalogValidateArgs,
};
use crate::failure::{Failure, Hinted};
use crate::plan::Plan;
use crate::report::Report;

/// The file that `init` and `add` write.
const FILE: &str = "catalog.yaml";

/// An error of reading, creating or validating a catalog.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogError {
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    #[error("cannot load {path}: {reason}")]
    Load { path: String, reason: String },
    #[error("cannot render the template {}: {reason}", path.display())]
    Template { path: PathBuf, reason: String },
    #[error("cannot render the bundle {}: {reason}", path.display())]
    Bundle { path: PathBuf, reason: String },
    #[error("{} already has a catalog", .0.display())]
    Exists(PathBuf),
    #[error("the catalog already has bundle {0}")]
    HasBundle(String),
    #[error("the catalog is invalid with this bundle: {0}")]
    Invalid(String),
    #[error("the upgrade graph cannot be drawn: {0}")]
    Graph(String),
    #[error("the catalog is invalid: {0}")]
    NotServed(String),
    #[error("cannot listen at {address}: {reason}")]
    Address { address: String, reason: String },
}

impl Hinted for CatalogError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Read { .. } => "give an existing directory or file",
            Self::Load { .. } => "correct the document; every document needs a `schema`",
            Self::Template { .. } => {
                "images are directories of bundles relative to the template, or bundles of the catalog --bundles"
            }
            Self::Bundle { .. } => "check the bundle with `operator-sdk bundle validate`",
            Self::Exists(_) => "add a bundle with `operator-sdk catalog add`, or choose another directory",
            Self::HasBundle(_) => {
                "give the bundle a new version with `operator-sdk generate bundle --version`"
            }
            Self::Invalid(_) => {
                "set `replaces` or `skips` in the ClusterServiceVersion (`generate bundle --replaces`), or choose \
                 another channel"
            }
            Self::Address { .. } => "choose another address with `--address`; port 0 selects a free port",
            Self::Graph(_) | Self::NotServed(_) => "check the catalog with `operator-sdk catalog validate`",
        };
        Some(hint.to_owned())
    }

    fn is_tree(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Graph(_) | Self::NotServed(_))
    }
}

/// Runs `operator-sdk catalog`.
pub(crate) fn run(command: &CatalogCommand, report: &Report) -> Result<ExitCode, Failure> {
    match command {
        CatalogCommand::Init(args) => init(args, report),
        CatalogCommand::Add(args) => add(args, report),
        CatalogCommand::Render(args) => print(args, report),
        CatalogCommand::Validate(args) => check(args, report),
        CatalogCommand::Diff(args) => compare(args, report),
        CatalogCommand::Serve(args) => serve::run(args, report),
    }
}

fn init(args: &CatalogInitArgs, report: &Report) -> Result<ExitCode, Failure> {
    if args.dir.join(FILE).exists() {
        return Err(CatalogError::Exists(args.dir.clone()).into());
    }
    let description = args.description.as_deref().map(read_text).transpose()?;
    let catalog = Catalog {
        packages: vec![Package {
            name: args.package.clone(),
            default_channel: args.default_channel.clone(),
            description: description.unwrap_or_default(),
            ..Package::default()
        }],
        ..Catalog::default()
    };
    write(&args.dir, None, &catalog, false, report)?;
    report.line("Next: operator-sdk catalog add DIR BUNDLE");
    Ok(ExitCode::SUCCESS)
}

fn add(args: &CatalogAddArgs, report: &Report) -> Result<ExitCode, Failure> {
    let path = args.dir.join(FILE);
    let before = read_text(&path)?;
    let mut catalog = load_text(&path, &before)?;
    let (loaded, rendered) = render_bundle(&args.bundle, &args.image)?;
    if catalog.bundles.iter().any(|bundle| bundle.name == rendered.name) {
        return Err(CatalogError::HasBundle(rendered.name).into());
    }
    let own: Vec<String> = loaded
        .annotations
        .channels()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let channels = if args.channels.is_empty() {
        &own
    } else {
        &args.channels
    };
    let text = |pointer: &str| {
        let value = loaded.csv_at(pointer).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let skips = loaded.csv_list("/spec/skips").iter();
    let entry = Entry {
        name: rendered.name.clone(),
        replaces: text("/spec/replaces"),
        skips: skips
            .filter_map(|skip| skip.as_str().map(str::to_owned))
            .collect(),
        skip_range: loaded
            .csv_annotation("olm.skipRange")
            .unwrap_or_default()
            .to_owned(),
    };
    for name in channels {
        let entry = entry.clone();
        let mut known = catalog.channels.iter_mut();
        match known.find(|channel| channel.package == rendered.package && channel.name == *name) {
            Some(channel) => channel.entries.get_or_insert_default().push(entry),
            None => catalog.channels.push(Channel {
                name: name.clone(),
                package: rendered.package.clone(),
                entries: Some(vec![entry]),
                properties: Vec::new(),
            }),
        }
    }
    catalog.bundles.push(rendered);
    validate(&catalog).map_err(CatalogError::Invalid)?;
    write(&args.dir, Some(&before), &catalog, args.dry_run, report)?;
    Ok(ExitCode::SUCCESS)
}

fn write(
    directory: &Path,
    before: Option<&str>,
    catalog: &Catalog,
    dry_run: bool,
    report: &Report,
) -> Result<(), Failure> {
    let mut plan = Plan::default();
    plan.put(FILE, before, catalog.to_yaml());
    if !dry_run {
        std::fs::create_dir_all(directory).map_err(|error| read_fault(directory, &error))?;
    }
    finish(directory, &plan, dry_run, report)
}

fn print(args: &CatalogRenderArgs, report: &Report) -> Result<ExitCode, Failure> {
    let bundles = args.bundles.as_deref().map(load).transpose()?.unwrap_or_default();
    let mut catalog = Catalog::default();
    for path in &args.paths {
        let is_bundle = path.join("manifests").is_dir() && path.join("metadata").is_dir();
        if is_bundle {
            catalog.bundles.push(render_bundle(path, "")?.1);
        } else if path.is_file() && is_template(path)? {
            catalog.merge(render_template(path, &bundles)?);
        } else {
            catalog.merge(load(path)?);
        }
    }
    let text = match args.output {
        CatalogForm::Json => catalog.to_json(),
        CatalogForm::Yaml => catalog.to_yaml(),
        CatalogForm::Mermaid => mermaid(&catalog).map_err(CatalogError::Graph)?,
        CatalogForm::Svg => svg(&catalog).map_err(CatalogError::Graph)?,
    };
    report.text(&text);
    Ok(ExitCode::SUCCESS)
}

fn check(args: &CatalogValidateArgs, report: &Report) -> Result<ExitCode, Failure> {
    let catalog = load(&args.path)?;
    match validate(&catalog) {
        Ok(index) => {
            for (name, package) in index.packages {
                report.line(&format!(
                    "package {name}, default channel {}",
                    package.default_channel
                ));
                for (channel, head) in package.heads {
                    report.line(&format!("  channel {channel}, head {head}"));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            report.line(&faults);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn compare(args: &CatalogDiffArgs, report: &Report) -> Result<ExitCode, Failure> {
    let lines = diff(&load(&args.old)?, &load(&args.new)?);
    for line in &lines {
        report.line(line);
    }
    Ok(if lines.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn read_fault(path: &Path, error: &dyn std::fmt::Display) -> CatalogError {
    CatalogError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

fn read_text(path: &Path) -> Result<String, CatalogError> {
    std::fs::read_to_string(path).map_err(|error| read_fault(path, &error))
}

fn load_text(path: &Path, text: &str) -> Result<Catalog, CatalogError> {
    Catalog::load(text).map_err(|reason| CatalogError::Load {
        path: path.display().to_string(),
        reason,
    })
}

/// Loads a file, or all files of a directory that `.indexignore` does not exclude.
pub(super) fn load(path: &Path) -> Result<Catalog, CatalogError> {
    if path.is_file() {
        return load_text(path, &read_text(path)?);
    }
    let files = files::read(path).map_err(|error| match error {
        ReadError::Io { path, source } => read_fault(&path, &source),
        error => read_fault(path, &error),
    })?;
    let ignored = files.content(".indexignore").map(String::from_utf8_lossy);
    let ignored: Vec<&str> = ignored
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .collect();
    let mut catalog = Catalog::default();
    for (name, content) in files.iter() {
        let last = name.rsplit('/').next().unwrap_or_default();
        if last == ".indexignore" || is_ignored(name, &ignored) {
            continue;
        }
        let file = path.join(name);
        let text = std::str::from_utf8(content).map_err(|error| read_fault(&file, &error))?;
        catalog.merge(load_text(&file, text)?);
    }
    Ok(catalog)
}

/// Matches a path against the patterns of `.indexignore`. The last match takes precedence, and `!` includes a path
/// again.
fn is_ignored(path: &str, patterns: &[&str]) -> bool {
    let mut ignored = false;
    for pattern in patterns
        .iter()
        .filter(|pattern| !pattern.is_empty() && !pattern.starts_with('#'))
    {
        let (pattern, includes) = match pattern.strip_prefix('!') {
            Some(pattern) => (pattern, true),
            None => (*pattern, false),
        };
        let is_anchored = pattern.trim_end_matches('/').contains('/');
        let pattern = pattern.trim_matches('/').as_bytes();
        // A pattern matches a file, or one of its parent directories.
        let mut ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let matches = ends.any(|end| {
            let whole = path.get(..end).unwrap_or_default();
            let name = if is_anchored {
                whole
            } else {
                whole.rsplit('/').next().unwrap_or_default()
            };
            glob(pattern, name.as_bytes())
        });
        if matches {
            ignored = !includes;
        }
    }
    ignored
}

/// Matches `*` (any text without `/`) and `?`, with one backtracking position instead of recursion.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut retry = None;
    while place < text.len() {
        match (pattern.get(at), text.get(place)) {
            (Some(b'*'), _) => {
                retry = Some((at, place));
                at += 1;
            }
            (Some(wanted), Some(found)) if wanted == found || (*wanted == b'?' && *found != b'/') => {
                at += 1;
                place += 1;
            }
            _ => match retry {
                Some((star, start)) if text.get(start) != Some(&b'/') => {
                    retry = Some((star, start + 1));
                    at = star + 1;
                    place = start + 1;
                }
                _ => return false,
            },
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

pub(super) fn render_bundle(path: &Path, image: &str) -> Result<(bundle::Bundle, Bundle), CatalogError> {
    let fault = |reason: String| CatalogError::Bundle {
        path: path.to_owned(),
        reason,
    };
    let files = files::read(path).map_err(|error| fault(error.to_string()))?;
    let loaded = bundle::load(&files).map_err(|error| fault(error.to_string()))?;
    let rendered = render::render(&loaded, image).map_err(fault)?;
    Ok((loaded, rendered))
}

fn is_template(path: &Path) -> Result<bool, CatalogError> {
    let text = read_text(path)?;
    let documents = apimachinery::yaml::documents(&text).unwrap_or_default();
    let schema = documents
        .first()
        .and_then(|document| document.value.get("schema"));
    let schema = schema.and_then(serde_json::Value::as_str).unwrap_or_default();
    Ok(matches!(schema, "olm.semver" | "olm.template.basic"))
}

fn render_template(path: &Path, bundles: &Catalog) -> Result<Catalog, CatalogError> {
    let beside = path.parent().unwrap_or(Path::new("."));
    let bundle = |image: &str| {
        if let Some(bundle) = bundles.bundles.iter().find(|bundle| bundle.image == image) {
            return Ok(bundle.clone());
        }
        let directory = beside.join(image);
        if !image.is_empty() && directory.is_dir() {
            let rendered = render_bundle(&directory, "").map_err(|error| error.to_string())?;
            return Ok(rendered.1);
        }
        Err(format!("render reference {image:?}: not found"))
    };
    template::render(&read_text(path)?, &bundle).map_err(|reason| CatalogError::Template {
        path: path.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn patterns_exclude_files_and_directories() {
        let patterns = ["*.md", "drafts/", "/a/b?.yaml", "# c.yaml", "!keep.md"];
        for (path, expected) in [
            ("README.md", true),
            ("x/README.md", true),
            ("keep.md", false),
            ("drafts/catalog.yaml", true),
            ("x/drafts/catalog.yaml", true),
            ("a/b1.yaml", true),
            ("x/a/b1.yaml", false),
            ("c.yaml", false),
        ] {
            assert_eq!(is_ignored(path, &patterns), expected, "{path}");
        }
    }
}
