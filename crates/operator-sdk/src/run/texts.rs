//! Every text of a directory, for commands that look at more than the tree of a project.

use std::collections::BTreeMap;
use std::path::Path;

/// Folders that hold no text of the project.
const SKIPPED: [&str; 4] = [".git", "target", "vendor", ".operator-sdk"];

/// Texts by their path relative to `root`, with `/` between. What is no text, and what cannot be read, is left out.
pub(crate) fn of(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    collect(root, root, &mut files);
    files
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if SKIPPED.iter().all(|name| entry.file_name() != *name) {
                collect(root, &path, files);
            }
        } else if let (Ok(name), Ok(text)) = (path.strip_prefix(root), std::fs::read_to_string(&path)) {
            files.insert(name.to_string_lossy().into_owned(), text);
        }
    }
}
