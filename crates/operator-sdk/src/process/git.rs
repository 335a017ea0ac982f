//! Files of other revisions, read with git.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Hinted;

/// An error of reading a revision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("cannot run git: {0}")]
    Start(#[from] std::io::Error),
    #[error("git cannot show {path} at {revision}: {reason}")]
    Refused {
        revision: String,
        path: String,
        reason: String,
    },
}

impl Hinted for GitError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Start(_) => "install git, and check that `git --version` works".to_owned(),
            Self::Refused { .. } => {
                "use a revision and a path (relative to the current directory) that `git log -- PATH` lists"
                    .to_owned()
            }
        })
    }
}

/// Returns the files at or below a path of a revision: their paths, relative to the current directory, and their texts.
pub(crate) fn files(revision: &str, path: &str) -> Result<Vec<(String, String)>, GitError> {
    let listing = git(
        revision,
        path,
        &["ls-tree", "-r", "--name-only", revision, "--", path],
    )?;
    if listing.trim().is_empty() {
        return Err(refused(revision, path, "no such file or directory"));
    }
    listing
        .lines()
        .map(|name| {
            let text = git(revision, name, &["show", &format!("{revision}:./{name}")])?;
            Ok((name.to_owned(), text))
        })
        .collect()
}

/// Returns the given files that have uncommitted changes. Returns none without git or outside a repository.
pub(crate) fn uncommitted<'a>(root: &Path, paths: &[&'a str]) -> Vec<&'a str> {
    if paths.is_empty() {
        return Vec::new();
    }
    let output = Command::new("git")
        .current_dir(root)
        .args([
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--",
        ])
        .args(paths)
        .stdin(Stdio::null())
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return Vec::new();
    };
    // Each entry is a two-letter state, a space, and the path from the root of the repository.
    let text = String::from_utf8_lossy(&output.stdout);
    let is_changed = |path: &str| {
        text.split('\0').filter_map(|entry| entry.get(3..)).any(|entry| {
            let rest = entry.strip_suffix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    };
    paths.iter().copied().filter(|path| is_changed(path)).collect()
}

fn git(revision: &str, path: &str, arguments: &[&str]) -> Result<String, GitError> {
    if revision.starts_with('-') {
        return Err(refused(revision, path, "a revision does not begin with a dash"));
    }
    let output = Command::new("git")
        .args(["-c", "core.quotePath=false"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.lines().next().unwrap_or("it failed");
    Err(refused(
        revision,
        path,
        reason.strip_prefix("fatal: ").unwrap_or(reason),
    ))
}

fn refused(revision: &str, path: &str, reason: &str) -> GitError {
    GitError::Refused {
        revision: revision.to_owned(),
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}
