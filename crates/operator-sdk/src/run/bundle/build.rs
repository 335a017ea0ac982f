//! `bundle build`: builds the image of a bundle directory, without a container engine.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Loaded, load};
use crate::args::{BundleBuildArgs, BundlePushArgs};
use crate::failure::Failure;
use crate::oci::Image;
use crate::oci::reference::Reference;
use crate::process::registry::Repository;
use crate::report::Report;
use crate::run::build::{ImageError, created, write};

/// The directories of a bundle that are part of its image.
const PARTS: [&str; 3] = ["manifests/", "metadata/", "tests/"];

/// Runs `operator-sdk bundle build`.
pub(super) fn build(args: &BundleBuildArgs, report: &Report) -> Result<ExitCode, Failure> {
    let reference = Reference::parse(&args.image)?;
    let image = image(&load(&args.bundle, args.insecure)?, &args.bundle)?;
    let default = (!args.push).then(|| PathBuf::from("bundle.tar"));
    if let Some(file) = args.output.clone().or(default) {
        write(&file, &image.layout(&reference.name, &reference.tag))?;
        report.line(&format!("wrote {} with {}", file.display(), args.image));
    }
    if args.push {
        crate::run::block_on(async {
            let mut repository = Repository::open(&reference, args.insecure)?;
            repository.push(&image).await?;
            Ok(())
        })?;
        report.line(&format!("{} was pushed", args.image));
    }
    report.line(&format!("{}@{}", reference.name, image.manifest.digest));
    Ok(ExitCode::SUCCESS)
}

/// Runs `operator-sdk bundle push`.
pub(super) fn push(args: &BundlePushArgs, report: &Report) -> Result<ExitCode, Failure> {
    let args = BundleBuildArgs {
        image: args.image.clone(),
        bundle: args.bundle.clone(),
        push: true,
        output: None,
        insecure: args.insecure,
    };
    build(&args, report)
}

/// Returns the image of a bundle.
pub(crate) fn image(loaded: &Loaded, place: &str) -> Result<Image, Failure> {
    let labels = labels(&loaded.bundle.annotations.document.value);
    let files = loaded
        .files
        .iter()
        .filter(|(path, _)| PARTS.iter().any(|part| path.starts_with(part)));
    let image = Image::of_files(files, created()?.as_deref(), &labels);
    Ok(image.map_err(|source| ImageError::File {
        path: PathBuf::from(place),
        source,
    })?)
}

/// Returns the labels of the image, which are the annotations of the bundle.
fn labels(metadata: &serde_json::Value) -> Vec<(String, String)> {
    let annotations = metadata["annotations"].as_object();
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}
