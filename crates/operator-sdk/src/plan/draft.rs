//! [`Draft`], a plan under construction: the project as it is changed by a command.

use serde_json::Value;

use operator_manifests::kustomize::{self, EditError};

use super::{Plan, PlanError};
use crate::edit::rust::RustEditError;
use crate::project::Tree;

/// A plan based on the files of a project. Later steps see the changes of earlier ones.
pub(crate) struct Draft<'a> {
    pub(crate) plan: Plan,
    tree: &'a Tree,
    /// True if files that the user changed may be overwritten.
    pub(crate) force: bool,
}

// === impl Draft ===

impl<'a> Draft<'a> {
    pub(crate) fn new(tree: &'a Tree, force: bool) -> Self {
        Self {
            plan: Plan::default(),
            tree,
            force,
        }
    }

    /// Returns the planned text of a file.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.plan.planned(path).unwrap_or_else(|| self.tree.get(path))
    }

    /// Writes a file that the tool owns.
    pub(crate) fn put(&mut self, path: &str, text: String) {
        self.plan.put(path, self.tree.get(path), text);
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&mut self, path: &str) {
        if self.get(path).is_some() {
            self.plan.remove(path, self.tree.get(path));
        }
    }

    /// Writes a file that the user will own, unless it exists.
    pub(crate) fn own(&mut self, path: &str, text: String) -> Result<(), PlanError> {
        if self.tree.get(path).is_some() && !self.force {
            return Err(PlanError::AlreadyThere(path.to_owned()));
        }
        self.put(path, text);
        Ok(())
    }

    /// Edits Rust source. A missing file is created with the content `start`.
    pub(crate) fn edit_rust(
        &mut self,
        path: &str,
        start: Option<String>,
        edit: impl FnOnce(&str) -> Result<String, RustEditError>,
    ) -> Result<(), PlanError> {
        let failed = |reason: String| PlanError::Edit {
            path: path.to_owned(),
            reason,
            remedy: "correct the file or restore the form that `init` wrote, then run the command again"
                .to_owned(),
        };
        let source = match (self.get(path), start) {
            (Some(text), _) => text.to_owned(),
            (None, Some(start)) => start,
            (None, None) => return Err(failed("the file does not exist".to_owned())),
        };
        let after = edit(&source).map_err(|error| failed(error.to_string()))?;
        self.put(path, after);
        Ok(())
    }

    /// Adds an entry to an existing kustomization.
    pub(crate) fn add_entry(&mut self, path: &str, key: &str, entry: &Value) -> Result<(), PlanError> {
        self.edit_yaml(path, |text| kustomize::add_entry(text, key, entry))
    }

    /// Removes an entry from an existing kustomization.
    pub(crate) fn remove_entry(&mut self, path: &str, key: &str, entry: &Value) -> Result<(), PlanError> {
        self.edit_yaml(path, |text| kustomize::remove_entry(text, key, entry))
    }

    fn edit_yaml(
        &mut self,
        path: &str,
        edit: impl FnOnce(&str) -> Result<Option<String>, EditError>,
    ) -> Result<(), PlanError> {
        let Some(text) = self.get(path) else { return Ok(()) };
        let edited = edit(text).map_err(|error| yaml_error(path, &error))?;
        if let Some(edited) = edited {
            self.put(path, edited);
        }
        Ok(())
    }
}

pub(crate) fn yaml_error(path: &str, error: &EditError) -> PlanError {
    PlanError::Edit {
        path: path.to_owned(),
        reason: error.to_string(),
        remedy: "correct the file, then run the command again".to_owned(),
    }
}
