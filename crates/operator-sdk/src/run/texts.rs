//! All text files of a directory, for commands that read more than the tree of a project.

use std::collections::BTreeMap;
use std::path::Path;

/// Directories without text files of the project.
const SKIPPED: [&str; 4] = [".git", "target", "vendor", ".operator-sdk"];

/// Returns texts by their path relative to `root`, with `/` as separator. Binary and unreadable files are omitted.
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
