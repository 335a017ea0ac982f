//! `bundle pull`: writes the files of a bundle image into a directory, without a container engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::BundleError;
use crate::args::BundlePullArgs;
use crate::failure::Failure;
use crate::oci::reference::Reference;
use crate::process::registry::Repository;
use crate::report::Report;

/// Runs `operator-sdk bundle pull`.
pub(super) fn pull(args: &BundlePullArgs, report: &Report) -> Result<ExitCode, Failure> {
    let directory = Path::new(&args.directory);
    let is_used = std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    if is_used && !args.overwrite {
        return Err(BundleError::NotEmpty(args.directory.clone()).into());
    }
    let files = files(&args.image, args.insecure)?;
    for (path, content) in &files {
        let file = directory.join(path);
        write(&file, content).map_err(|error| BundleError::Write {
            path: file,
            reason: error.to_string(),
        })?;
        report.line(&format!(" create {path}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the files of an image.
pub(super) fn files(image: &str, insecure: bool) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let reference = Reference::parse_any(image)?;
    crate::run::block_on(async {
        let mut repository = Repository::open_to_pull(&reference, insecure)?;
        Ok(repository.pull().await?)
    })
}

fn write(path: &PathBuf, content: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(path, content)
}
