//! Objects in files, with their positions.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use apimachinery::yaml::{self, Document, Place};
use serde_json::Value;

use crate::failure::Hinted;

/// The extensions of files that are read in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// An error of reading files with objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{file} is not valid YAML: {reason}")]
    Yaml { file: String, reason: String },
    #[error("no {what} found in {place}")]
    Nothing { what: &'static str, place: String },
}

impl Hinted for SourceError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } => "give a readable file or directory".to_owned(),
            Self::Yaml { .. } => "correct the file at the reported line".to_owned(),
            Self::Nothing { .. } => {
                "definitions are written by `operator-sdk generate manifests` to config/crd/bases".to_owned()
            }
        })
    }
}

/// A text with objects, and its display name.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// An object and its source.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) file: String,
    pub(crate) value: Value,
    document: Rc<Document>,
    /// The path of the object in its document. Not the root for an item of a List.
    base: String,
}

impl Object {
    /// Returns the position of a field by its path in the form of the API server.
    pub(crate) fn place(&self, path: &str) -> Place {
        let pointer = pointer(&self.value, path);
        self.document.place(&format!("{}{pointer}", self.base))
    }

    /// Returns the keys that the document sets twice.
    pub(crate) fn duplicates(&self) -> &[String] {
        &self.document.duplicates
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns true if this is a CustomResourceDefinition of any version.
    pub(crate) fn is_definition(&self) -> bool {
        self.text("/kind") == "CustomResourceDefinition"
            && self.text("/apiVersion").starts_with("apiextensions.k8s.io/")
    }
}

/// Returns the texts of files, and of all YAML and JSON files below directories, ordered by name.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Text>, SourceError> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, &mut files)?;
    }
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|source| SourceError::Read {
                path: path.clone(),
                source,
            })?;
            Ok(Text {
                file: path.display().to_string(),
                text,
            })
        })
        .collect()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let failed = |source| SourceError::Read {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        inside.push(entry.map_err(failed)?.path());
    }
    inside.sort();
    for path in inside {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let known = path
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        // Links to directories could lead to a loop.
        let is_directory = path.is_dir() && !path.is_symlink();
        if !hidden && (is_directory || known) {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// Returns the objects of a text: one per document, or the items of a List.
pub(crate) fn objects(text: &Text) -> Result<Vec<Object>, SourceError> {
    let documents = yaml::documents(&text.text).map_err(|reason| SourceError::Yaml {
        file: text.file.clone(),
        reason,
    })?;
    Ok(documents
        .into_iter()
        .flat_map(|document| in_document(&text.file, &Rc::new(document)))
        .collect())
}

fn in_document(file: &str, document: &Rc<Document>) -> Vec<Object> {
    let object = |value: &Value, base: String| Object {
        file: file.to_owned(),
        value: value.clone(),
        document: document.clone(),
        base,
    };
    let is_list = document
        .value
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    match document.value.get("items").and_then(Value::as_array) {
        Some(items) if is_list => items
            .iter()
            .enumerate()
            .map(|(index, item)| object(item, format!("/items/{index}")))
            .collect(),
        _ => vec![object(&document.value, String::new())],
    }
}

/// Converts a field path such as `spec.list[0].labels[a.b/c]` to a JSON pointer, as far as it exists in the value.
fn pointer(value: &Value, path: &str) -> String {
    let mut pointer = String::new();
    let (mut node, mut rest) = (value, path);
    while let Some((name, tail)) = step(node, rest) {
        let next = match node {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(&name),
        };
        let Some(next) = next else { break };
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        (node, rest) = (next, tail);
    }
    pointer
}

/// Splits off the first name of a path. Names may contain dots: the longest existing name is used.
fn step<'p>(node: &Value, path: &'p str) -> Option<(String, &'p str)> {
    if let Value::Array(_) = node {
        let (index, tail) = path.strip_prefix('[')?.split_once(']')?;
        return Some((index.to_owned(), tail));
    }
    let fields = node.as_object()?;
    let candidates = fields.keys().filter_map(|name| {
        let tail = if let Some(inside) = path.strip_prefix('[') {
            inside.strip_prefix(name.as_str())?.strip_prefix(']')?
        } else {
            path.strip_prefix('.')
                .unwrap_or(path)
                .strip_prefix(name.as_str())?
        };
        (tail.is_empty() || tail.starts_with(['.', '['])).then(|| (name.clone(), tail))
    });
    candidates.max_by_key(|(name, _)| name.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_paths_become_pointers() {
        let value = json!({"spec": {"list": [{"a": 1}], "labels": {"a.b/c": 1, "a": {"b": 2}}}});
        for (path, wanted) in [
            ("spec.list[0].a", "/spec/list/0/a"),
            ("spec.list[0].missing.b", "/spec/list/0"),
            ("spec.list[7]", "/spec/list"),
            ("spec.labels[a.b/c]", "/spec/labels/a.b~1c"),
            ("spec.labels.a.b", "/spec/labels/a/b"),
            ("spec.labels.a.b/c", "/spec/labels/a.b~1c"),
            ("<nil>", ""),
            ("", ""),
        ] {
            assert_eq!(pointer(&value, path), wanted, "{path}");
        }
    }
}
