//! Translates paths of the server's internal form to paths of the CRD as written.

use apimachinery::field::Path;

/// Prefixes of the internal form, and their equivalents in `apiextensions.k8s.io/v1`.
///
/// The server reports the shared parts of all versions once, above the versions. They are mapped to the first version.
const PREFIXES: &[(&str, &str)] = &[
    ("spec.validation", "spec.versions[0].schema"),
    ("spec.subresources", "spec.versions[0].subresources"),
    (
        "spec.additionalPrinterColumns",
        "spec.versions[0].additionalPrinterColumns",
    ),
    ("spec.selectableFields", "spec.versions[0].selectableFields"),
    ("spec.version", "spec.versions[0].name"),
    (
        "spec.conversion.webhookClientConfig",
        "spec.conversion.webhook.clientConfig",
    ),
    (
        "spec.conversion.conversionReviewVersions",
        "spec.conversion.webhook.conversionReviewVersions",
    ),
];

pub(super) fn as_written(path: &Path) -> Path {
    let text = path.as_str();
    let renamed = PREFIXES.iter().find_map(|(internal, written)| {
        let rest = text.strip_prefix(internal)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!("{written}{rest}"))
    });
    let text = renamed.unwrap_or_else(|| text.to_owned());
    match text.strip_suffix(".JSONPath") {
        Some(column) => Path::new(&format!("{column}.jsonPath")),
        None => Path::new(&text),
    }
}
