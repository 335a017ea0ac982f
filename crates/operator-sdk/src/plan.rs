//! The files that a command writes, as values: pure functions from project and arguments to a [`Plan`]; one file per
//! command.

mod chaos;
pub(crate) mod config;
pub(crate) mod create_api;
pub(crate) mod create_webhook;
pub(crate) mod delete;
mod draft;
pub(crate) mod edit;
pub(crate) mod generate_bundle;
pub(crate) mod init;
pub(crate) mod lint;
pub(crate) mod manifests;
pub(crate) mod rbac;
pub(crate) mod sdk;

use crate::failure::Hinted;
use crate::names::InvalidName;
use crate::source::rbac::InvalidMarker;
use crate::template::TemplateError;

/// Files to create, change or remove, and files of the user that are kept.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    pub(crate) kept: Vec<String>,
}

/// The change of one file: its text before and after. `None` means that the file does not exist.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// An error of planning a command on this project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("`init` would overwrite existing files: {}", list(.0))]
    InTheWay(Vec<String>),
    #[error("the directory is already a project: it has a PROJECT file")]
    AlreadyProject,
    #[error("{0} already exists in this project")]
    AlreadyThere(String),
    #[error("{0} is not a kind of this project")]
    NoSuchKind(String),
    #[error("{0} is not in the PROJECT file")]
    NotThere(String),
    #[error("{path} cannot be edited: {reason}")]
    Edit {
        path: String,
        reason: String,
        remedy: String,
    },
    #[error("{0}")]
    Usage(String, &'static str),
    #[error("version {version} of {kind} is served, and the conversion webhook does not convert it to {hub}")]
    Unconverted {
        group: String,
        kind: String,
        hub: String,
        version: String,
    },
    #[error("{} was edited by hand, and the command would overwrite it", list(.0))]
    Changed(Vec<String>),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Marker(#[from] InvalidMarker),
    #[error("{0}")]
    Manifests(String),
}

impl Hinted for PlanError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(error) => return error.hint(),
            Self::InTheWay(_) => "run the command in an empty directory, or move these files".to_owned(),
            Self::AlreadyProject => "add a kind with `operator-sdk create api`".to_owned(),
            Self::AlreadyThere(_) => {
                "overwrite its files with `--force`, or choose another name".to_owned()
            }
            Self::NoSuchKind(_) => "add the kind first, with `operator-sdk create api --resource`".to_owned(),
            Self::NotThere(_) => {
                "check the group, the version and the kind; the PROJECT file lists those of the project".to_owned()
            }
            Self::Edit { remedy, .. } => remedy.clone(),
            Self::Usage(_, hint) => (*hint).to_owned(),
            Self::Changed(_) => {
                "move your changes to a file that is not generated, such as a kustomize patch, or overwrite them with `--force`"
                    .to_owned()
            }
            Self::Unconverted {
                group,
                kind,
                hub,
                version,
            } => format!(
                "add it with `operator-sdk create webhook --group {group} --version {hub} --kind {kind} --conversion --spoke {version}`"
            ),
            Self::Template(_) => "this is a bug in operator-sdk; please report it".to_owned(),
            Self::Marker(_) => {
                "write it as `// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch`"
                    .to_owned()
            }
            Self::Manifests(_) => "check the types under src/api and the `rbac` attributes".to_owned(),
        })
    }
}

fn list(paths: &[String]) -> String {
    let shown = paths.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
    match paths.len() {
        0..=4 => shown,
        more => format!("{shown} and {} more", more - 4),
    }
}

// === impl Plan ===

impl Plan {
    /// Adds the write of a file. `before` is the text on disk.
    pub(crate) fn put(&mut self, path: &str, before: Option<&str>, after: String) {
        self.set(path, before, Some(after));
    }

    /// Adds the removal of a file.
    pub(crate) fn remove(&mut self, path: &str, before: Option<&str>) {
        self.set(path, before, None);
    }

    fn set(&mut self, path: &str, before: Option<&str>, after: Option<String>) {
        match self.changes.iter_mut().find(|change| change.path == path) {
            Some(change) => change.after = after,
            None => self.changes.push(Change {
                path: path.to_owned(),
                before: before.map(str::to_owned),
                after,
            }),
        }
    }

    /// Returns the planned text of a file: `None` if the plan does not change it, `Some(None)` if it is removed.
    pub(crate) fn planned(&self, path: &str) -> Option<Option<&str>> {
        let change = self.changes.iter().find(|change| change.path == path)?;
        Some(change.after.as_deref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.changes.iter().any(Change::is_effective)
    }
}

// === impl Change ===

impl Change {
    pub(crate) fn is_effective(&self) -> bool {
        self.before != self.after
    }
}
