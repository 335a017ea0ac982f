//! Which files come of a command, as values: `(&Project, &Args) → Plan`, pure; one file per command.

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

/// Files to create, change or remove, and files of the user that stay.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    pub(crate) kept: Vec<String>,
}

/// One file: its text before and after; `None` is no file.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// A command cannot be done on this project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("the directory has {}, which `init` would overwrite", list(.0))]
    InTheWay(Vec<String>),
    #[error("the directory is a project already: it has a PROJECT file")]
    AlreadyProject,
    #[error("{0} exists already in this project")]
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
    #[error("{} changed since the tool wrote it, and would have to change again", list(.0))]
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
            Self::InTheWay(_) => "run it in an empty directory, or move these files away".to_owned(),
            Self::AlreadyProject => "add to it with `operator-sdk create api`".to_owned(),
            Self::AlreadyThere(_) => {
                "write its files again with `--force`, or choose another name".to_owned()
            }
            Self::NoSuchKind(_) => "add the kind first, with `operator-sdk create api --resource`".to_owned(),
            Self::NotThere(_) => {
                "PROJECT lists what the project has; check the group, the version and the kind".to_owned()
            }
            Self::Edit { remedy, .. } => remedy.clone(),
            Self::Usage(_, hint) => (*hint).to_owned(),
            Self::Changed(_) => {
                "put your changes where they last (a patch of your own), or write over them with `--force`"
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
            Self::Template(_) => "this is a defect of operator-sdk; please report it".to_owned(),
            Self::Marker(_) => {
                "as in `// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch`"
                    .to_owned()
            }
            Self::Manifests(_) => "look at the types under src/api and at the `rbac` attributes".to_owned(),
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
    /// Writes a file; `before` is what is on disk.
    pub(crate) fn put(&mut self, path: &str, before: Option<&str>, after: String) {
        self.set(path, before, Some(after));
    }

    /// Removes a file.
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

    /// What the plan makes of a file: nothing said, or its text, if there will be one.
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
