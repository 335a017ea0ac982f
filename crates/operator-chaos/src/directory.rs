//! [`Directory`], a temporary directory.
//!
//! It avoids another dependency: the CLI and the operators of its users share compiled dependencies, which an
//! additional crate would build with other features.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory that only this user can read. It is removed with its content when the value is dropped.
pub(crate) struct Directory(PathBuf);

// === impl Directory ===

impl Directory {
    /// Creates a directory with a name that other users cannot guess.
    pub(crate) fn create() -> io::Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("operator-chaos-{random:016x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The system removes the remaining files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
