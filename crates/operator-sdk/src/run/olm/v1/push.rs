//! The images of a bundle and of its catalog, which OLM v1 pulls from a registry.

use std::path::Path;

use operator_olm::catalog::{Bundle, Catalog};

use super::super::OlmError;
use super::super::install::Source;
use crate::failure::Failure;
use crate::oci::Image;
use crate::oci::reference::Reference;
use crate::process::registry::Repository;
use crate::report::Report;
use crate::run::bundle::{bundle_image, is_image};

/// The label of a catalog image with the directory of its content.
const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
/// The directory with the content of a catalog image.
const DIRECTORY: &str = "configs";

/// The repository for the images of a bundle.
pub(super) struct Target<'a> {
    pub(super) repository: &'a str,
    /// The bundle directory or image.
    pub(super) bundle: &'a str,
    pub(super) insecure: bool,
    pub(super) report: &'a Report,
}

/// Returns the tag of the image of a bundle.
pub(super) fn tag(csv: &str) -> String {
    csv.replace('+', "-")
}

/// Pushes the image of a bundle, unless it is one already; returns the bundle with the image in place of its objects.
pub(super) async fn push_bundle(target: &Target<'_>, source: &Source) -> Result<Bundle, Failure> {
    let mut rendered = source.rendered.clone();
    rendered.image = if is_image(target.bundle) && !Path::new(target.bundle).is_dir() {
        target.bundle.to_owned()
    } else {
        let image = bundle_image(&source.loaded, target.bundle)?;
        upload(target, &tag(&rendered.name), &image).await?
    };
    rendered
        .properties
        .retain(|property| property.kind != "olm.bundle.object");
    Ok(rendered)
}

/// Pushes the image of a catalog, and returns its name.
pub(super) async fn push_catalog(
    target: &Target<'_>,
    catalog: &Catalog,
    csv: &str,
) -> Result<String, Failure> {
    let package = catalog
        .packages
        .first()
        .map_or("catalog", |package| package.name.as_str());
    let path = format!("{DIRECTORY}/{package}/catalog.json");
    let content = catalog.to_json();
    let labels = [(CONFIGS.to_owned(), format!("/{DIRECTORY}"))];
    let image = Image::of_files([(path.as_str(), content.as_bytes())], None, &labels);
    let image = image.map_err(|source| crate::run::build::ImageError::File {
        path: path.clone().into(),
        source,
    })?;
    upload(target, &format!("{}-catalog", tag(csv)), &image).await
}

async fn upload(target: &Target<'_>, tag: &str, image: &Image) -> Result<String, Failure> {
    let name = format!("{}:{tag}", target.repository);
    let reference = Reference::parse(&name)?;
    target.report.progress(&format!("Pushing {name}"));
    Repository::open(&reference, target.insecure)?.push(image).await?;
    Ok(format!("{}@{}", reference.name, image.manifest.digest))
}

/// Pulls the catalog of an image that [`push_catalog`] made.
pub(super) async fn pull_catalog(image: &str, insecure: bool) -> Result<Catalog, Failure> {
    let reference = Reference::parse_any(image)?;
    let files = Repository::open_to_pull(&reference, insecure)?.pull().await?;
    let mut catalog = Catalog::default();
    for (path, content) in &files {
        if path.starts_with(&format!("{DIRECTORY}/")) {
            let failed = |reason: String| OlmError::Catalog(format!("{path} of {image}: {reason}"));
            let text = std::str::from_utf8(content).map_err(|error| failed(error.to_string()))?;
            catalog.merge(Catalog::load(text).map_err(failed)?);
        }
    }
    Ok(catalog)
}
