//! Reading of files that may not be regular files.

use std::io::ErrorKind;
use std::path::Path;
use std::{fs, io};

/// Returns the content of a file, or of the file that a link points to.
///
/// # Errors
/// Returns an error for directories, and for pipes and devices, whose reads may never end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    let refused = |kind, message: &str| Err(io::Error::new(kind, message));
    if kind.is_file() {
        fs::read(path)
    } else if kind.is_dir() {
        refused(ErrorKind::IsADirectory, "it is a directory")
    } else {
        refused(ErrorKind::InvalidInput, "it is not a regular file")
    }
}

/// Returns the text of a file, like [`read`].
///
/// # Errors
/// As for [`read`]; `InvalidData` if the content is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
