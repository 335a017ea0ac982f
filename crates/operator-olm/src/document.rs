//! Objects in files, with the positions of their nodes: [`Manifest`].

use apimachinery::yaml::{self, Document, Place};
use serde_json::Value;

/// An object of a bundle.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file, relative to the bundle.
    pub path: String,
    /// The object, with the positions of its nodes.
    pub document: Document,
}

impl Manifest {
    /// Returns the object as written.
    pub fn value(&self) -> &Value {
        &self.document.value
    }

    /// Returns the string at a JSON pointer; empty if it is missing.
    pub fn text(&self, pointer: &str) -> &str {
        let value = self.document.value.pointer(pointer);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the `kind`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns the `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns the name of the file.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Formats group, version and kind as Go prints a `GroupVersionKind`.
    pub fn group_version_kind(&self) -> String {
        let api_version = self.api_version();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        group_version_kind(group, version, self.kind())
    }

    /// Returns the position of the node at a JSON pointer, or of its nearest existing ancestor.
    pub fn place(&self, pointer: &str) -> Place {
        self.document.place(pointer)
    }
}

/// Formats group, version and kind as Go prints a `GroupVersionKind`.
pub(crate) fn group_version_kind(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}

/// Parses the first YAML document of a file. Returns `None` if the file is empty.
///
/// # Errors
/// Returns an error with the text of the YAML parser, which starts with `yaml: `.
pub(crate) fn first(content: &[u8]) -> Result<Option<Document>, String> {
    let text = std::str::from_utf8(content).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    if text.contains(is_control) {
        return Err("yaml: control characters are not allowed".to_owned());
    }
    let chunk = first_chunk(text);
    if chunk.is_empty() {
        return Ok(None);
    }
    let documents = yaml::documents(chunk)?;
    Ok(Some(documents.into_iter().next().unwrap_or_default()))
}

/// Returns the text up to the first line `---` after content, like the YAML reader of Kubernetes.
fn first_chunk(text: &str) -> &str {
    let mut end = 0;
    let mut has_content = false;
    for line in text.split_inclusive('\n') {
        let after = line.strip_prefix("---").map(str::trim_start);
        let is_separator = after.is_some_and(|after| after.is_empty() || after.starts_with('#'));
        if is_separator && has_content {
            return text.get(..end).unwrap_or_default();
        }
        has_content |= !is_separator;
        end += line.len();
    }
    if has_content { text } else { "" }
}
