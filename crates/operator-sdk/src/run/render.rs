//! Renders the project's kustomize tree, and the single file for the installation.

use std::path::Path;
use std::process::Command;

use operator_manifests::kustomize::build::{self, BuildError, Overrides};
use operator_manifests::kustomize::order;
use operator_manifests::render;
use serde_json::Value;

use super::scaffold::{current_directory, finish};
use crate::args::InstallerArgs;
use crate::failure::{Failure, Hinted};
use crate::file;
use crate::oci::reference::{Reference, ReferenceError};
use crate::plan::Plan;
use crate::project::{Project, ProjectError};
use crate::report::Report;

/// The image of the scaffolded manifests.
pub(crate) const PLACEHOLDER: &str = "controller";

/// An error of rendering a tree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("{directory} cannot be rendered: {error}")]
    Build { directory: String, error: BuildError },
    #[error("{directory} uses {what}, and `kubectl kustomize` cannot render it: {reason}")]
    Kubectl {
        directory: String,
        what: String,
        reason: String,
    },
    #[error("{0} contains no objects")]
    Empty(String),
    #[error("{0:?} is not a valid namespace name")]
    Namespace(String),
    #[error(transparent)]
    Image(#[from] ReferenceError),
}

impl Hinted for RenderError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Image(error) => return error.hint(),
            Self::Build {
                error: BuildError::Missing(_),
                ..
            } => "add a kind with `operator-sdk create api`, and generate the manifests with `operator-sdk generate manifests`"
                .to_owned(),
            Self::Build { .. } => "correct the file; `kubectl kustomize` shows more details".to_owned(),
            Self::Kubectl { .. } => "install kubectl, or avoid that feature of kustomize".to_owned(),
            Self::Empty(_) => "use another directory with `--kustomization`".to_owned(),
            Self::Namespace(_) => "use lower-case letters, digits and `-`, such as `--namespace my-operator`".to_owned(),
        })
    }
}

/// Returns true if a workload still has the image of the scaffold.
pub(crate) fn has_placeholder_image(object: &Value) -> bool {
    let containers = object
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    let latest = format!("{PLACEHOLDER}:latest");
    containers
        .into_iter()
        .flatten()
        .any(|container| [PLACEHOLDER, &latest].contains(&container["image"].as_str().unwrap_or_default()))
}

/// Returns the objects of a directory of the project in creation order.
pub(crate) fn render(root: &Path, directory: &str, overrides: &Overrides) -> Result<Vec<Value>, RenderError> {
    if let Some(namespace) = &overrides.namespace {
        check_namespace(namespace)?;
    }
    let read = |path: &str| file::read_text(&root.join(path)).ok();
    let objects = match build::build(directory, &read, overrides) {
        Err(BuildError::Unsupported { path, field }) if overrides.namespace.is_none() => {
            let mut objects = with_kubectl(root, directory, &format!("`{field}` in {path}"))?;
            build::set_images(&mut objects, &overrides.images);
            order::sort_objects(&mut objects);
            objects
        }
        built => built.map_err(|error| RenderError::Build {
            directory: directory.to_owned(),
            error,
        })?,
    };
    if objects.is_empty() {
        return Err(RenderError::Empty(directory.to_owned()));
    }
    Ok(objects)
}

/// Checks that a namespace name is a DNS label.
fn check_namespace(name: &str) -> Result<(), RenderError> {
    let inner =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    let edge = |character: Option<char>| character.is_some_and(|character| character != '-');
    let fits = (1..=63).contains(&name.len()) && name.chars().all(inner);
    if fits && edge(name.chars().next()) && edge(name.chars().last()) {
        Ok(())
    } else {
        Err(RenderError::Namespace(name.to_owned()))
    }
}

/// Renders with kubectl, which supports all features of kustomize.
fn with_kubectl(root: &Path, directory: &str, what: &str) -> Result<Vec<Value>, RenderError> {
    let failed = |reason: String| RenderError::Kubectl {
        directory: directory.to_owned(),
        what: what.to_owned(),
        reason,
    };
    let output = Command::new("kubectl")
        .args(["kustomize", directory])
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    serde_saphyr::from_multiple(&text).map_err(|error| failed(apimachinery::yaml::summary(&error)))
}

/// Returns the changes for `--image` and `--namespace`.
pub(crate) fn overrides(image: Option<&str>, namespace: Option<&str>) -> Result<Overrides, RenderError> {
    let image = image.filter(|image| !image.is_empty());
    if let Some(image) = image {
        Reference::check(image)?;
    }
    Ok(Overrides {
        images: image
            .map(|image| (PLACEHOLDER.to_owned(), image.to_owned()))
            .into_iter()
            .collect(),
        namespace: namespace.map(str::to_owned),
    })
}

/// Runs `operator-sdk generate installer` in the current directory.
pub(crate) fn installer(args: &InstallerArgs, report: &Report) -> Result<(), Failure> {
    let project = Project::read(&current_directory()?)?;
    let overrides = overrides(args.render.image.as_deref(), args.render.namespace.as_deref())?;
    let objects = render(&project.root, &args.render.kustomization, &overrides)?;
    let path = project.root.join(&args.output);
    let before = match file::read_text(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        text => Some(text.map_err(|source| ProjectError::Read { path, source })?),
    };
    let mut plan = Plan::default();
    plan.put(&args.output, before.as_deref(), render::documents(&objects));
    if plan.is_empty() {
        report.line(&format!("No changes: {} is up to date.", args.output));
        return Ok(());
    }
    finish(&project.root, &plan, args.dry_run, report)
}
