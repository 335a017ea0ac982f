//! The difference of two strings as a unified diff with three lines of context.

use diffy::DiffOptions;

/// Returns the unified diff from `old` to `new`. It is empty if they are equal. The header contains the path; for a new
/// file the old path is `/dev/null`.
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
