//! [`Shared`]: target directories that several projects share.
//!
//! Cargo distinguishes packages of one workspace layout only by name, version and relative path. In a shared target
//! directory, two copies of a project are the same package, and the build of one is considered a fresh build of the
//! other if it is newer than the other's sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::file;

/// The last build of one package in a target directory that other projects may use.
pub(super) struct Shared {
    name: String,
    root: PathBuf,
    /// True if the directory is in the project. Then it is only shared if another project has recorded a build in it.
    is_own: bool,
    /// The directory of the profile.
    profile: PathBuf,
}

// === impl Shared ===

impl Shared {
    /// Returns the build of the project in `root` with a program or a test program, or `None` if `Cargo.toml` has no name.
    pub(super) fn of(root: &Path, program: &Path) -> Option<Self> {
        let root = root.canonicalize().ok()?;
        let manifest: toml_edit::DocumentMut =
            file::read_text(&root.join("Cargo.toml")).ok()?.parse().ok()?;
        let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
        let folder = program.parent()?;
        let profile = match folder.ends_with("deps") {
            true => folder.parent()?,
            false => folder,
        };
        let profile = profile.canonicalize().ok()?;
        Some(Self {
            name,
            is_own: profile.starts_with(&root),
            root,
            profile,
        })
    }

    /// Returns true if the last build in this directory may be one of another project.
    pub(super) fn is_of_another(&self) -> bool {
        match fs::read_to_string(self.marker()) {
            Ok(text) => text != self.built(),
            Err(_) => !self.is_own,
        }
    }

    /// Makes cargo compile the package again.
    pub(super) fn invalidate(&self) {
        let entries = fs::read_dir(self.profile.join(".fingerprint"));
        let ours = |name: &str| {
            let hash = name
                .strip_prefix(&self.name)
                .and_then(|rest| rest.strip_prefix('-'));
            hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let folders = entries.into_iter().flatten().filter_map(Result::ok);
        for folder in folders.filter(|entry| entry.file_name().to_str().is_some_and(ours)) {
            let files = fs::read_dir(folder.path()).into_iter().flatten();
            for file in files.filter_map(Result::ok) {
                // Makes every source newer than the build. If the file is missing, no build exists.
                if file.file_name().to_string_lossy().starts_with("dep-") {
                    let opened = File::options().append(true).open(file.path());
                    let _ = opened.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
                }
            }
        }
    }

    /// Records that the last build in this directory was that of this project. Without the record the next build
    /// compiles again.
    pub(super) fn record(&self) {
        let marker = self.marker();
        if self.is_own && !marker.exists() {
            return;
        }
        let folder = marker.parent().map_or(Ok(()), fs::create_dir_all);
        let _ = folder.and_then(|()| fs::write(&marker, self.built()));
    }

    fn marker(&self) -> PathBuf {
        self.profile.join(".operator-sdk").join(&self.name)
    }

    /// Returns a text that identifies this project and one build of its program.
    fn built(&self) -> String {
        let metadata = self.profile.join(&self.name).metadata();
        let modified = metadata.and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let nanoseconds = since.unwrap_or_default().as_nanos();
        format!("{nanoseconds} {}\n", self.root.display())
    }
}
