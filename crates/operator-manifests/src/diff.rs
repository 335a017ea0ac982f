//! The difference of two texts as a unified diff with three lines of context.

use diffy::DiffOptions;

/// Returns the unified diff from `old` to `new`; empty if they are equal. The header has the path; the header of a new
/// file has `/dev/null` as the old path.
///
/// ```
/// let diff = operator_manifests::diff::unified("config/x.yaml", "a\nb\n", "a\nc\n");
/// assert!(diff.contains("-b\n+c\n"));
/// ```
pub fn unified(path: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old_path = if old.is_empty() { "/dev/null" } else { path };
    DiffOptions::new()
        .set_original_filename(old_path.to_owned())
        .set_modified_filename(path.to_owned())
        .create_patch(old, new)
        .to_string()
}
