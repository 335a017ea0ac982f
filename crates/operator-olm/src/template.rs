//! Renders catalog templates, which are short descriptions of catalogs: [`render()`].

mod basic;
mod semver;

use serde_json::Value;

use crate::catalog::{Bundle, Catalog};

/// Renders the bundle of an image reference.
///
/// # Errors
/// Returns the reason why the bundle cannot be rendered.
pub type RenderBundle<'a> = dyn Fn(&str) -> Result<Bundle, String> + 'a;

/// Renders a template with the schema `olm.semver` or `olm.template.basic`.
///
/// # Errors
/// Returns an error if the template has another schema, or an error of [`semver`] or [`basic`].
pub fn render(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    let documents = crate::catalog::stream(text)?;
    let schema = documents.first().and_then(|template| template.get("schema"));
    match schema.and_then(Value::as_str).unwrap_or_default() {
        basic::SCHEMA => basic(text, bundle),
        semver::SCHEMA => semver(text, bundle),
        other => Err(format!(
            "unknown template schema {other:?}: use {:?} or {:?}",
            semver::SCHEMA,
            basic::SCHEMA
        )),
    }
}

/// Renders an `olm.semver` template: creates channels for major and minor versions from lists of bundles.
///
/// # Errors
/// Returns an error with the text of `opm` if the template cannot be read, a bundle cannot be rendered, the bundles
/// belong to several packages, or the versions cannot be ordered.
pub fn semver(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    semver::render(text, bundle)
}

/// Renders an `olm.template.basic` template, which is a catalog whose bundles contain only their image.
///
/// # Errors
/// Returns an error with the text of `opm` if the template cannot be read, or a bundle cannot be rendered.
pub fn basic(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    basic::render(text, bundle)
}
