//! `man`: writes the manual pages.

use crate::args::ManArgs;
use crate::failure::{Failure, Hinted};

/// An error of writing the pages.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the manual pages to {directory}: {source}")]
struct ManError {
    directory: String,
    source: std::io::Error,
}

impl Hinted for ManError {
    fn hint(&self) -> Option<String> {
        Some("use a writable directory".to_owned())
    }
}

/// Runs `operator-sdk man`.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let written = args.write().map_err(|source| ManError {
        directory: args.directory.display().to_string(),
        source,
    });
    Ok(written?)
}
