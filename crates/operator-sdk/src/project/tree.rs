//! [`Tree`], the text files of a project, read once.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::ProjectError;
use crate::file;

/// Files in other directories: the cargo configuration of one checkout.
const FILES: [&str; 2] = [".cargo/config.toml", ".cargo/.gitignore"];

/// The directories that commands read.
const FOLDERS: [&str; 4] = ["config", "hack", "src", "tests"];

/// Text files by their path relative to the root, with `/` as separator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree(BTreeMap<String, String>);

// === impl Tree ===

impl Tree {
    /// Reads the files directly under `root` and those under `config`, `hack`, `src` and `tests`.
    ///
    /// Links to directories are not followed. A binary file, a pipe or a device is read as an empty text: it exists,
    /// and no command edits it.
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let mut tree = Self::default();
        tree.read_folder(root, "", false)?;
        for folder in FOLDERS {
            let path = root.join(folder);
            if path.is_dir() && !path.is_symlink() {
                tree.read_folder(&path, &format!("{folder}/"), true)?;
            }
        }
        for file in FILES {
            let path = root.join(file);
            if path.is_file() {
                tree.0.insert(file.to_owned(), read_text(&path)?);
            }
        }
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, deep: bool) -> Result<(), ProjectError> {
        let failed = |source| ProjectError::Read {
            path: folder.to_owned(),
            source,
        };
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && deep {
                self.read_folder(&entry.path(), &format!("{name}/"), deep)?;
            } else if !entry.path().is_dir() {
                self.0.insert(name, read_text(&entry.path())?);
            }
        }
        Ok(())
    }

    /// Returns all files, by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }
}

fn read_text(path: &Path) -> Result<String, ProjectError> {
    match file::read_text(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(String::new()),
        // A dangling link; a pipe or a device.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            Ok(String::new())
        }
        Err(source) => Err(ProjectError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
