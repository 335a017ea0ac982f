//! `envtest assets`: creates the directory for KUBEBUILDER_ASSETS.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::PROGRAMS;
use crate::args::AssetsArgs;
use crate::failure::{Failure, Hinted};
use crate::report::Report;

/// The file that marks a directory with programs that may be replaced.
const MARKER: &str = ".operator-sdk";

#[derive(Debug, thiserror::Error)]
enum AssetsError {
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} exists and was not written by the Operator SDK", .0.display())]
    Foreign(PathBuf),
    #[error("cannot find the running program: {0}")]
    Program(#[source] io::Error),
}

impl Hinted for AssetsError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Write { .. } => "use a writable directory".to_owned(),
            Self::Foreign(_) => "use another directory: the existing one is not changed".to_owned(),
            Self::Program(_) => "start the program by its path".to_owned(),
        })
    }
}

pub(crate) fn assets(args: &AssetsArgs, report: &Report) -> Result<(), Failure> {
    let directory = put(&args.directory)?;
    report.line(&directory.display().to_string());
    Ok(())
}

fn put(directory: &Path) -> Result<PathBuf, AssetsError> {
    let program = std::env::current_exe().map_err(AssetsError::Program)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| AssetsError::Write { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    // Made absolute, because tests run in other directories.
    let directory = directory.canonicalize().map_err(failed(directory))?;
    let marker = directory.join(MARKER);
    if !marker.exists() {
        let mut paths = PROGRAMS.iter().map(|program| directory.join(program.name));
        if let Some(foreign) = paths.find(|path| path.symlink_metadata().is_ok()) {
            return Err(AssetsError::Foreign(foreign));
        }
        fs::write(&marker, "").map_err(failed(&marker))?;
    }
    for name in PROGRAMS.map(|program| program.name) {
        let path = directory.join(name);
        replace(&path, |new| {
            fs::hard_link(&program, new).or_else(|_| fs::copy(&program, new).map(drop))
        })
        .map_err(failed(&path))?;
    }
    link_kubectl(&directory).map_err(failed(&directory.join("kubectl")))?;
    Ok(directory)
}

/// Creates a file with a temporary name and renames it, so that readers see either the old or the new file.
fn replace(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let made = make(&new).and_then(|()| fs::rename(&new, path));
    // Renaming a file to another hard link of the same file keeps both.
    let _ = fs::remove_file(&new);
    made
}

/// Links the kubectl in the PATH. An existing file of the user is kept.
fn link_kubectl(directory: &Path) -> io::Result<()> {
    let path = directory.join("kubectl");
    let theirs = path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
    let found = std::env::var_os("PATH").and_then(|search| executable(&search, directory));
    match found {
        Some(kubectl) if !theirs => replace(&path, |new| symlink(&kubectl, new)),
        _ => Ok(()),
    }
}

/// Returns the first executable kubectl on a search path outside the directory.
fn executable(search: &OsStr, except: &Path) -> Option<PathBuf> {
    let folders = std::env::split_paths(search).filter(|folder| folder != except && folder.is_absolute());
    let mut paths = folders.map(|folder| folder.join("kubectl"));
    paths.find(|path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
