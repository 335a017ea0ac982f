//! [`TemporaryDirectory`], a directory that only this user can read. A directory that a killed process left behind is
//! removed by the next process that creates one.
//!
//! Each process holds a lock (flock) on its directories. The kernel releases it when the process ends for any reason.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::Hinted;

const PREFIX: &str = "operator-sdk-";

/// The number of hexadecimal digits after the prefix.
const DIGITS: usize = 16;

/// Maximum number of names to try.
const ATTEMPTS: usize = 16;

/// A directory that is removed with its content when the value is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    path: PathBuf,
    _lock: File,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot create the temporary directory {}: {source}", path.display())]
pub(crate) struct TemporaryError {
    path: PathBuf,
    source: io::Error,
}

impl Hinted for TemporaryError {
    fn hint(&self) -> Option<String> {
        Some("free space in its parent directory, or choose another one with TMPDIR".to_owned())
    }
}

// === impl TemporaryDirectory ===

impl TemporaryDirectory {
    /// Creates a directory with a name that other users cannot guess.
    pub(crate) fn create() -> Result<Self, TemporaryError> {
        Self::create_in(&std::env::temp_dir())
    }

    /// Creates a directory in `parent`, like [`create`](Self::create).
    pub(crate) fn create_in(parent: &Path) -> Result<Self, TemporaryError> {
        remove_stale(parent);
        for _ in 0..ATTEMPTS {
            let random = RandomState::new().hash_one(std::process::id());
            let path = parent.join(format!("{PREFIX}{random:0DIGITS$x}"));
            match create_locked(&path) {
                Ok(Some(lock)) => return Ok(Self { path, _lock: lock }),
                Ok(None) => {}
                Err(source) => return Err(TemporaryError { path, source }),
            }
        }
        Err(TemporaryError {
            path: parent.join(PREFIX),
            source: io::ErrorKind::AlreadyExists.into(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory in this one.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, TemporaryError> {
        let path = self.path.join(name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(TemporaryError { path, source }),
        }
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Creates and locks a directory. Returns `None` if another process used the name first, or removed the directory
/// before this process held the lock.
fn create_locked(path: &Path) -> io::Result<Option<File>> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        made => made?,
    }
    let lock = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        // If this file system has no locks, no process considers a directory stale.
        Err(fs::TryLockError::Error(_)) => return Ok(Some(lock)),
    }
    let inode = lock.metadata()?.ino();
    let is_there = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.ino() == inode);
    Ok(is_there.then_some(lock))
}

/// Removes the directories of this user's processes that ended without removing them.
fn remove_stale(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let is_ours = entry.file_name().to_str().is_some_and(is_name)
            // Does not follow symbolic links.
            && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        if !is_ours {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = File::open(&path)
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn directories_without_a_process_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let kept = [
            "operator-sdk-0123456789abcde",
            "operator-sdk-projects-of-mine",
            "other-0123456789abcdef",
        ];
        for name in kept.iter().chain(&["operator-sdk-0123456789abcdef"]) {
            fs::create_dir_all(parent.path().join(name).join("inner")).unwrap();
        }
        let target = parent.path().join("operator-sdk-fedcba9876543210");
        std::os::unix::fs::symlink(parent.path().join(kept[2]), &target).unwrap();

        let first = TemporaryDirectory::create_in(parent.path()).unwrap();
        let second = TemporaryDirectory::create_in(parent.path()).unwrap();
        first.directory("inner").unwrap();
        let name = |directory: &TemporaryDirectory| {
            let name = directory.path().file_name().unwrap();
            name.to_str().unwrap().to_owned()
        };
        let mut expected: Vec<String> = kept.map(str::to_owned).into();
        expected.extend([
            name(&first),
            name(&second),
            "operator-sdk-fedcba9876543210".to_owned(),
        ]);
        expected.sort();
        assert_eq!(names(parent.path()), expected);
        assert_eq!(first.path().metadata().unwrap().mode() & 0o777, 0o700);

        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
        assert!(second.path().exists());
    }

    #[test]
    fn concurrent_creations_do_not_remove_each_other() {
        let parent = tempfile::tempdir().unwrap();
        let create = || {
            for _ in 0..50 {
                let directory = TemporaryDirectory::create_in(parent.path()).unwrap();
                directory.directory("inner").unwrap();
                assert!(directory.path().join("inner").is_dir());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(create);
            }
        });
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }
}
