//! [`Shared`]: target directories that several projects share.
//!
//! Cargo distinguishes packages of one workspace layout only by name, version and relative path. In a shared target
//! directory, two copies of a project are the same package, and the build of one is considered a fresh build of the
//! other if it is newer than the other's sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::BuildOptions;
use crate::file;

/// The build of one package in a target directory outside of its project.
pub(super) struct Shared {
    name: String,
    root: PathBuf,
    /// The directory of the profile.
    profile: PathBuf,
}

// === impl Shared ===

impl Shared {
    /// Returns the shared build of the project in `root`, or `None` if its target directory is its own.
    pub(super) fn of(root: &Path, options: &BuildOptions) -> Option<Self> {
        let root = root.canonicalize().ok()?;
        let chosen = options.target_dir.clone();
        let target = root.join(chosen.or_else(|| std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from))?);
        if target.starts_with(&root) {
            return None;
        }
        let manifest: toml_edit::DocumentMut =
            file::read_text(&root.join("Cargo.toml")).ok()?.parse().ok()?;
        let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
        let target = options
            .target
            .as_ref()
            .map_or(target.clone(), |triple| target.join(triple));
        let profile = target.join(if options.release { "release" } else { "debug" });
        Some(Self { name, root, profile })
    }

    /// Makes cargo compile the package again, unless the last build in this directory was that of this project.
    pub(super) fn prepare(&self) {
        let program = self.profile.join(&self.name);
        if fs::read_to_string(self.marker()).is_ok_and(|text| text == self.built(&program)) {
            return;
        }
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
    pub(super) fn record(&self, program: &Path) {
        let marker = self.marker();
        let folder = marker.parent().map_or(Ok(()), fs::create_dir_all);
        let _ = folder.and_then(|()| fs::write(&marker, self.built(program)));
    }

    fn marker(&self) -> PathBuf {
        self.profile.join(".operator-sdk").join(&self.name)
    }

    /// Returns a text that identifies this project and one build of its program.
    fn built(&self, program: &Path) -> String {
        let modified = program.metadata().and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let nanoseconds = since.unwrap_or_default().as_nanos();
        format!("{nanoseconds} {}\n", self.root.display())
    }
}
