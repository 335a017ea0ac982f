//! Catalog templates: short descriptions from which catalogs are generated.

mod basic;
mod semver;

use serde_json::Value;

use crate::catalog::{Bundle, Catalog};

/// Returns the bundle of an image reference.
///
/// # Errors
/// The reason why the bundle cannot be rendered.
pub type RenderBundle<'a> = dyn Fn(&str) -> Result<Bundle, String> + 'a;

/// Renders a template of either kind: `olm.semver` or `olm.template.basic`.
///
/// # Errors
/// The template has another schema, or one of the errors of [`semver`] and [`basic`].
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

/// Renders an `olm.semver` template: channels for major and minor versions are made from lists of bundles.
///
/// # Errors
/// The text of `opm` for a template that cannot be read, a bundle that cannot be rendered, bundles of several
/// packages, or versions that have no order.
pub fn semver(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    semver::render(text, bundle)
}

/// Renders an `olm.template.basic` template: the bundles of a catalog are given only by their image.
///
/// # Errors
/// The text of `opm` for a template that cannot be read or a bundle that cannot be rendered.
pub fn basic(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    basic::render(text, bundle)
}
