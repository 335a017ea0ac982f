//! Container engines: docker, podman and buildah.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Hinted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Docker,
    Podman,
    Buildah,
}

/// An error of an engine, whose output is already on standard error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error("cannot run {program}: {source}")]
    Start {
        program: &'static str,
        source: io::Error,
    },
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: String },
}

impl Hinted for EngineError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Start { .. } => "install it, or build without an engine: `--builder oci`".to_owned(),
            Self::Failed { .. } => {
                "fix the errors above, or build without an engine: `--builder oci`".to_owned()
            }
        })
    }
}

// === impl Engine ===

impl Engine {
    pub(crate) const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Buildah];

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// Returns true if the engine is installed and its daemon, if any, responds.
    pub(crate) fn works(self) -> bool {
        let question: &[&str] = match self {
            Self::Docker => &["version", "--format", "{{.Server.Version}}"],
            Self::Podman | Self::Buildah => &["info"],
        };
        let mut command = Command::new(self.program());
        command
            .args(question)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Builds the Dockerfile of a directory.
    pub(crate) fn build(self, root: &Path, image: &str, arguments: &[String]) -> Result<(), EngineError> {
        let verb: &[&str] = match self {
            Self::Docker | Self::Podman => &["build"],
            Self::Buildah => &["bud"],
        };
        let words: Vec<&str> = verb
            .iter()
            .copied()
            .chain(["-t", image, "-f", "Dockerfile"])
            .chain(arguments.iter().map(String::as_str))
            .chain(["."])
            .collect();
        self.run(root, &words)
    }

    pub(crate) fn push(self, root: &Path, image: &str) -> Result<(), EngineError> {
        self.run(root, &["push", image])
    }

    fn run(self, root: &Path, words: &[&str]) -> Result<(), EngineError> {
        let program = self.program();
        let status = Command::new(program)
            .args(words)
            .current_dir(root)
            .stdin(Stdio::null())
            .status()
            .map_err(|source| EngineError::Start { program, source })?;
        if status.success() {
            return Ok(());
        }
        Err(EngineError::Failed {
            command: format!("{program} {}", words.join(" ")),
            status: status.to_string(),
        })
    }
}
