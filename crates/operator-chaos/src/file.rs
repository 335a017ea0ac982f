//! Reading of YAML files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;

/// Returns the documents of a YAML file, or of all YAML files of a directory, by name.
pub(crate) fn documents(path: &Path) -> Result<Vec<Value>, Error> {
    if !path.is_dir() {
        let text = text_of(path)?;
        return serde_saphyr::from_multiple(&text).map_err(|error| Error::Yaml {
            path: path.to_owned(),
            problem: apimachinery::yaml::summary(&error),
        });
    }
    let read = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<PathBuf> = entries
        .map_err(read)?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    let is_yaml = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    paths.retain(is_yaml);
    paths.sort();
    let documents: Result<Vec<_>, _> = paths.iter().map(|path| documents(path)).collect();
    Ok(documents?.concat())
}

/// Returns the text of a file.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
