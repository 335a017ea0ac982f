//! Writes a [`Plan`] to disk: all of its files, or none.

use std::path::{Path, PathBuf};
use std::{fs, io};

use operator_manifests::diff;

use crate::failure::Hinted;
use crate::file;
use crate::plan::{Change, Plan};

/// The outcome for the files of a plan.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) files: Vec<(Effect, PathBuf)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Created,
    Updated,
    Removed,
    Unchanged,
    /// The user's file is kept; the plan contained only initial content for it.
    Kept,
}

impl Applied {
    /// Returns the number of files that are created, changed or removed.
    pub(crate) fn written(&self) -> usize {
        let is_written =
            |effect: &Effect| matches!(effect, Effect::Created | Effect::Updated | Effect::Removed);
        self.files.iter().filter(|(effect, _)| is_written(effect)).count()
    }
}

/// An error of writing a plan. Completed writes were rolled back.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub(crate) struct ApplyError {
    path: PathBuf,
    source: io::Error,
}

impl Hinted for ApplyError {
    fn hint(&self) -> Option<String> {
        Some("nothing was changed; check the permissions and the space of the directory".to_owned())
    }
}

/// Returns the plan as a diff against the files on disk.
pub(crate) fn diff_of(plan: &Plan) -> String {
    plan.changes
        .iter()
        .map(|change| {
            diff::unified(
                &change.path,
                change.before.as_deref().unwrap_or_default(),
                change.after.as_deref().unwrap_or_default(),
            )
        })
        .collect()
}

/// Writes a plan under `root`. If a file cannot be written, the earlier writes are rolled back.
pub(crate) fn apply(root: &Path, plan: &Plan) -> Result<Applied, ApplyError> {
    let mut journal = Journal::default();
    for change in plan.changes.iter().filter(|change| change.is_effective()) {
        if let Err(source) = journal.write(root, change) {
            journal.take_back();
            return Err(ApplyError {
                path: PathBuf::from(&change.path),
                source,
            });
        }
    }
    for change in plan.changes.iter().filter(|change| change.after.is_none()) {
        remove_empty_folders(root, &change.path);
    }
    let files = plan
        .changes
        .iter()
        .map(|change| (effect_of(change), PathBuf::from(&change.path)));
    let kept = plan.kept.iter().map(|path| (Effect::Kept, PathBuf::from(path)));
    Ok(Applied {
        files: files.chain(kept).collect(),
    })
}

fn effect_of(change: &Change) -> Effect {
    match (&change.before, &change.after) {
        (before, after) if before == after => Effect::Unchanged,
        (None, _) => Effect::Created,
        (Some(_), Some(_)) => Effect::Updated,
        (Some(_), None) => Effect::Removed,
    }
}

/// Removes directories that are empty after the removal of a file.
fn remove_empty_folders(root: &Path, path: &str) {
    let above = Path::new(path).ancestors().skip(1);
    for folder in above.filter(|folder| !folder.as_os_str().is_empty()) {
        // A directory that is not empty cannot be removed, which ends the loop.
        if fs::remove_dir(root.join(folder)).is_err() {
            return;
        }
    }
}

/// The completed writes, for a rollback.
#[derive(Default)]
struct Journal {
    folders: Vec<PathBuf>,
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

// === impl Journal ===

impl Journal {
    fn write(&mut self, root: &Path, change: &Change) -> io::Result<()> {
        let mut path = root.join(&change.path);
        if path.is_symlink() && change.after.is_some() {
            // The target of a symbolic link is written, and the link stays.
            path = path.canonicalize()?;
        }
        if let (Some(folder), Some(_)) = (path.parent(), &change.after) {
            self.make_folder(folder)?;
        }
        let before = match file::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if before.as_deref() != change.before.as_ref().map(String::as_bytes) {
            return Err(io::Error::other(
                "it was modified by another process while the command was running",
            ));
        }
        let Some(text) = &change.after else {
            fs::remove_file(&path)?;
            self.files.push((path, before));
            return Ok(());
        };
        // A rename replaces the whole file atomically.
        let part = path.with_file_name(format!(
            ".{}.operator-sdk",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        } else {
            self.files.push((path, before));
        }
        written
    }

    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.make_folder(parent)?;
        }
        fs::create_dir(folder)?;
        self.folders.push(folder.to_owned());
        Ok(())
    }

    /// Rolls back as far as possible. Only the error that caused the rollback is reported.
    fn take_back(self) {
        for (path, before) in self.files.into_iter().rev() {
            let _ = match before {
                Some(bytes) => fs::write(&path, bytes),
                None => fs::remove_file(&path),
            };
        }
        for folder in self.folders.into_iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}
