//! [`Project`]: the PROJECT file and the files of the project, read once.
//!
//! This module does not depend on templates or commands. [`layout`] defines all paths of a project.

pub(crate) mod builtin;
mod config;
pub(crate) mod layout;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::config::{Api, Config, ConfigError, LAYOUT, NamedController, Resource, Webhooks};
pub(crate) use self::tree::Tree;
use crate::failure::Hinted;
use crate::file;

/// A project on disk.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) config: Config,
    pub(crate) tree: Tree,
}

/// An error of reading a project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    #[error("{} is not an operator project: it has no PROJECT file", .0.display())]
    Missing(PathBuf),
    #[error("the PROJECT file cannot be used: {0}")]
    Config(#[from] ConfigError),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Hinted for ProjectError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing(_) => {
                "go to the project's directory, or start one with `operator-sdk init --domain example.com`"
                    .to_owned()
            }
            Self::Config(error) => error.remedy(),
            Self::Read { .. } => "check that the file exists and is readable".to_owned(),
        })
    }
}

// === impl Project ===

impl Project {
    /// Reads the project with its PROJECT file in `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let tree = Tree::read(root)?;
        let path = root.join(layout::PROJECT);
        let text = file::read_text(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if path.is_symlink() => {
                ConfigError::File(io::Error::other("it is a link to a file that does not exist")).into()
            }
            io::ErrorKind::NotFound => ProjectError::Missing(root.to_owned()),
            io::ErrorKind::PermissionDenied => ProjectError::Read { path, source },
            _ => ConfigError::File(source).into(),
        })?;
        let config = Config::parse(&text)?;
        Ok(Self {
            root: root.to_owned(),
            config,
            tree,
        })
    }
}
