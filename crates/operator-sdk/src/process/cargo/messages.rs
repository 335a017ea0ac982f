//! [`Messages`] of `cargo build --message-format=json`.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The outcome of a build.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The program of the project.
    pub(super) program: Option<PathBuf>,
    /// The files of the dependencies, without those of packages in the project's directory.
    pub(super) dependencies: Vec<PathBuf>,
    /// True if a dependency was compiled.
    pub(super) compiled_dependencies: bool,
    /// True if a part of the project was not compiled, because its last build seems to be up to date.
    pub(super) reused: bool,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: Option<PathBuf>,
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    out_dir: Option<PathBuf>,
    #[serde(default)]
    fresh: bool,
}

#[derive(Default, Deserialize)]
struct Target {
    #[serde(default)]
    kind: Vec<String>,
}

// === impl Messages ===

impl Messages {
    /// Parses the messages of the build of the project in `root`. The build of a test also builds the program.
    pub(super) fn read(root: &Path, of_test: bool, output: impl BufRead) -> Self {
        let mut messages = Self::default();
        let Ok(root) = root.canonicalize() else {
            return messages;
        };
        let mut local = BTreeSet::new();
        for line in output.lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str::<Message>(&line) else {
                continue;
            };
            let manifest = message.manifest_path.and_then(|path| path.canonicalize().ok());
            if manifest.as_ref().is_some_and(|path| path.starts_with(&root)) {
                local.insert(message.package_id.clone());
            }
            let is_test = message.target.kind.iter().any(|kind| kind == "test");
            let is_own = manifest.is_some_and(|path| path == root.join("Cargo.toml"));
            if is_own && is_test == of_test && message.executable.is_some() {
                messages.program = message.executable;
            }
            let is_artifact = message.reason == "compiler-artifact";
            if local.contains(&message.package_id) {
                messages.reused |= is_artifact && message.fresh;
                continue;
            }
            messages.compiled_dependencies |= is_artifact && !message.fresh;
            messages.dependencies.extend(message.filenames);
            messages.dependencies.extend(message.out_dir);
        }
        messages
    }
}
