//! Reading of objects from YAML files: [`read_object`].

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An error of reading objects from a file.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_envtest::{FileError, read_object};
///
/// let error = read_object::<Pod>("no/such/pod.yaml").unwrap_err();
/// assert!(matches!(error, FileError::Read { .. }));
/// assert_eq!(error.to_string(), "cannot read no/such/pod.yaml");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file or directory could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is not YAML, or has another kind.
    #[error("{}: {problem}", .path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The position and the cause.
        problem: String,
    },
}

/// Reads one object from a YAML file, such as the sample of a kind.
///
/// ```no_run
/// # fn example() -> Result<(), operator_envtest::FileError> {
/// # type Memcached = k8s_openapi::api::core::v1::ConfigMap;
/// let sample: Memcached = operator_envtest::read_object("config/samples/cache_v1alpha1_memcached.yaml")?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns an error if the file cannot be read, or has no object of this kind.
pub fn read_object<K: DeserializeOwned>(path: impl AsRef<Path>) -> Result<K, FileError> {
    let path = path.as_ref();
    serde_saphyr::from_str(&text_of(path)?).map_err(|error| not_yaml(path, &error))
}

/// Returns the documents in a YAML file, or in all YAML files of a directory, by name of the file. `deep` includes
/// subdirectories.
pub(crate) fn documents(path: &Path, deep: bool) -> Result<Vec<Value>, FileError> {
    if !path.is_dir() {
        return serde_saphyr::from_multiple(&text_of(path)?).map_err(|error| not_yaml(path, &error));
    }
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<PathBuf> = entries
        .map_err(|source| cannot_read(path, source))?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| is_yaml(path) || (deep && path.is_dir()))
        .collect();
    paths.sort();
    let read: Result<Vec<_>, _> = paths.iter().map(|path| documents(path, deep)).collect();
    Ok(read?.concat())
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn text_of(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|source| cannot_read(path, source))
}

fn cannot_read(path: &Path, source: std::io::Error) -> FileError {
    let path = path.to_owned();
    FileError::Read { path, source }
}

fn not_yaml(path: &Path, error: &dyn std::fmt::Display) -> FileError {
    FileError::Yaml {
        path: path.to_owned(),
        problem: apimachinery::yaml::summary(error),
    }
}
