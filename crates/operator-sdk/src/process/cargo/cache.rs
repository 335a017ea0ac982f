//! [`Cache`], the compiled dependencies for the first build of a project.
//!
//! A first build compiles about 200 crates. They are stored for each version of the tool and of the compiler in the
//! user's cache directory, and the target directory of the next project starts with them.
//!
//! Projects do not share one target directory, for three reasons. Cargo locks it, so builds would wait for each other.
//! Cargo treats two copies of a project as the same package. Cargo never removes files from it. The large files are
//! hard links, which need their space only once. This is safe because the compiler and the linker replace their output
//! and never modify it in place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use super::messages::Messages;
use super::{BuildOptions, cargo_in};
use crate::process::temporary::TemporaryDirectory;

/// The variable with the directory of the compiled dependencies. They are not stored if it is empty.
const VARIABLE: &str = "OPERATOR_SDK_BUILD_CACHE";

/// Maximum number of stored sets of dependencies.
const KEPT: usize = 4;

/// The subdirectories of a profile with the output of the compiler, the build scripts, and cargo's records.
const OUTPUT: &str = "deps";
const SCRIPTS: &str = "build";
const RECORDS: &str = ".fingerprint";

/// The extensions of files that are linked.
const LINKED: [&str; 4] = ["rlib", "rmeta", "so", "dylib"];

/// The file that marks a directory as one that need not be in a backup. Cargo writes it into the target directories
/// that it creates.
const TAG: (&str, &str) = (
    "CACHEDIR.TAG",
    "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag created by operator-sdk.\n\
     # For information about cache directory tags see https://bford.info/cachedir/\n",
);

/// The compiled dependencies of one version of the tool and of the compiler, for one profile.
pub(super) struct Cache {
    root: PathBuf,
    directory: PathBuf,
    profile: &'static str,
}

// === impl Cache ===

impl Cache {
    /// Returns the cache for builds with these options, or `None` if such builds are not cached.
    pub(super) fn of(root: &Path, options: &BuildOptions) -> Option<Self> {
        if options.target.is_some()
            || !options.flags.is_empty()
            || !options.arguments.is_empty()
            || options.test.is_some()
        {
            return None;
        }
        let directory = match std::env::var_os(VARIABLE) {
            Some(chosen) => PathBuf::from(chosen),
            None => {
                let chosen = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
                let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
                let caches = chosen.filter(|path| path.is_absolute()).or_else(home)?;
                caches.join("operator-sdk/builds")
            }
        };
        directory.is_absolute().then(|| Self {
            root: root.to_owned(),
            directory,
            profile: if options.release { "release" } else { "debug" },
        })
    }

    /// Copies the stored dependencies into a project that was never built. Returns false if the build must compile
    /// them.
    ///
    /// After an error the target directory is unchanged, and the build compiles the missing dependencies.
    pub(super) fn fill(&self) -> bool {
        if self.root.join("target").join(self.profile).exists() {
            return true;
        }
        let Some(target) = self.target_directory() else {
            return true;
        };
        let target = target.join(self.profile);
        target.exists() || self.fill_directory(&target).is_ok()
    }

    fn fill_directory(&self, profile: &Path) -> io::Result<()> {
        let entry = self.entry()?;
        if !entry.is_dir() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let target = profile.parent().ok_or(io::ErrorKind::NotFound)?;
        if !target.exists() {
            fs::create_dir_all(target)?;
            fs::write(target.join(TAG.0), TAG.1)?;
        }
        let part = TemporaryDirectory::create_in(target).map_err(io::Error::other)?;
        let copy = part.path().join(self.profile);
        for folder in [OUTPUT, SCRIPTS, RECORDS] {
            copy_tree(&entry.join(folder), &copy.join(folder))?;
        }
        // Fails if a concurrent build has created it.
        fs::rename(copy, profile)
    }

    /// Returns the target directory if it is in the project and not shared with others.
    fn target_directory(&self) -> Option<PathBuf> {
        let output = cargo_in(&self.root)
            .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let target = PathBuf::from(metadata.get("target_directory")?.as_str()?);
        let root = self.root.canonicalize().ok()?;
        (target.starts_with(&root) || target.starts_with(&self.root)).then_some(target)
    }

    /// Stores the dependencies of a build that compiled some of them. Also stores them if no set is stored, because
    /// cargo may have compiled them without this tool. Otherwise the next project would compile its own.
    pub(super) fn keep(&self, messages: &Messages) {
        if messages.compiled_dependencies || !self.has_set() {
            let _ = self.keep_units(&messages.dependencies);
        }
    }

    fn keep_units(&self, files: &[PathBuf]) -> io::Result<()> {
        let Some(profile) = files.iter().find_map(|file| profile_of(file)) else {
            return Ok(());
        };
        let units: BTreeSet<&str> = files.iter().filter_map(|file| unit_of(file)).collect();
        let entry = self.entry()?;
        fs::create_dir_all(&self.directory)?;
        let part = TemporaryDirectory::create_in(&self.directory).map_err(io::Error::other)?;
        let copy = part.path().join("new");
        for folder in [OUTPUT, SCRIPTS, RECORDS] {
            fs::create_dir_all(copy.join(folder))?;
            for file in fs::read_dir(profile.join(folder))? {
                let file = file?;
                if hash_of(&file.file_name().to_string_lossy()).is_some_and(|hash| units.contains(hash)) {
                    copy_tree(&file.path(), &copy.join(folder).join(file.file_name()))?;
                }
            }
        }
        if entry.exists() {
            fs::rename(&entry, part.path().join("old"))?;
        }
        fs::rename(copy, &entry)?;
        self.remove_old()
    }

    /// Returns true if a set of this version is stored, for any compiler.
    fn has_set(&self) -> bool {
        let version = concat!(env!("CARGO_PKG_VERSION"), "-");
        let is_set = |name: &str| name.starts_with(version) && name.ends_with(self.profile);
        let sets = fs::read_dir(&self.directory).into_iter().flatten();
        sets.filter_map(Result::ok)
            .any(|entry| entry.file_name().to_str().is_some_and(is_set))
    }

    /// Returns the directory of this version and the compiler of the project.
    fn entry(&self) -> io::Result<PathBuf> {
        let compiler = Command::new("rustc")
            .arg("-vV")
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&compiler.stdout).into_owned();
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.unwrap_or("unknown").trim().to_owned()
        };
        Ok(self.directory.join(format!(
            "{}-{}-{}-{}",
            env!("CARGO_PKG_VERSION"),
            value("release:"),
            value("host:"),
            self.profile
        )))
    }

    /// Removes all but the newest sets.
    fn remove_old(&self) -> io::Result<()> {
        let mut sets = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.join(RECORDS).is_dir() {
                let modified = path.metadata()?.modified()?;
                sets.insert((modified, path.clone()), path);
            }
        }
        for old in sets.values().rev().skip(KEPT) {
            fs::remove_dir_all(old)?;
        }
        Ok(())
    }
}

/// Returns the directory of the profile that contains a file of a unit.
fn profile_of(file: &Path) -> Option<&Path> {
    let folder = file
        .ancestors()
        .find(|path| path.ends_with(OUTPUT) || path.ends_with(SCRIPTS))?;
    folder.parent()
}

/// Returns the hash with which cargo names the files of a unit.
fn unit_of(file: &Path) -> Option<&str> {
    file.iter()
        .rev()
        .find_map(|component| hash_of(component.to_str()?))
}

/// Returns the hash in the name of a file or a directory: `libserde-0123456789abcdef.rlib`.
fn hash_of(name: &str) -> Option<&str> {
    let stem = name.split('.').next()?;
    let (_, hash) = stem.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// Copies a file or a directory with the times of its files, which cargo compares. Libraries are hard-linked.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_tree(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    let is_library = from
        .extension()
        .and_then(OsStr::to_str)
        .is_some_and(|extension| LINKED.contains(&extension));
    // Fails across file systems.
    if is_library && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let modified = from.metadata()?.modified()?;
    fs::copy(from, to)?;
    fs::File::options().append(true).open(to)?.set_modified(modified)
}
