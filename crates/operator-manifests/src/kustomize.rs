//! Kustomize trees: rendered ([`build`]), and edited where they belong to the user: comments, order and layout stay.
//!
//! When a kustomization is edited, the text is changed at one place, and the result is read back: an edit that would not give exactly the old
//! content plus the new entry is refused.

pub mod build;
mod kustomization;
pub mod order;
mod patch;
mod reference;
mod replacement;
mod resource;
mod transform;

use serde_json::{Value, json};

/// Why a kustomization could not be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is no YAML.
    #[error("it is not valid YAML: {0}")]
    Parse(String),
    /// The key holds something else than a list, or a list in a form that cannot be edited in place.
    #[error("its `{key}` is not a list with one entry a line; add `- {entry}` to it by hand")]
    Layout {
        /// The key of the list.
        key: String,
        /// The entry that is to be added.
        entry: String,
    },
}

/// Adds `entry` at the end of the top-level list `key`, or makes the list; `None` when the entry is there already.
///
/// ```
/// let text = "resources:\n# the roles\n- ../rbac\n";
/// let edited = operator_manifests::kustomize::add_entry(text, "resources", "../crd").unwrap();
/// assert_eq!(edited.as_deref(), Some("resources:\n# the roles\n- ../rbac\n- ../crd\n"));
/// ```
///
/// # Errors
/// When the text is no YAML, or the list has a form (such as `[a, b]` over several lines) that cannot be edited.
pub fn add_entry(text: &str, key: &str, entry: &str) -> Result<Option<String>, EditError> {
    let before = parse(text)?;
    let listed = before.get(key).cloned().unwrap_or(Value::Null);
    if listed
        .as_array()
        .is_some_and(|items| items.iter().any(|item| item == entry))
    {
        return Ok(None);
    }
    let edited = insert_line(text, key, entry);
    let mut expected = before;
    append(&mut expected, key, entry);
    match parse(&edited) {
        Ok(after) if after == expected => Ok(Some(edited)),
        _ => Err(EditError::Layout {
            key: key.to_owned(),
            entry: entry.to_owned(),
        }),
    }
}

fn parse(text: &str) -> Result<Value, EditError> {
    if text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    }) {
        return Ok(json!({}));
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        EditError::Parse(message.lines().next().unwrap_or_default().to_owned())
    })
}

fn append(value: &mut Value, key: &str, entry: &str) {
    let Some(map) = value.as_object_mut() else { return };
    let list = map.entry(key).or_insert(Value::Null);
    match list {
        Value::Array(items) => items.push(json!(entry)),
        Value::Null => *list = json!([entry]),
        _ => {}
    }
}

fn insert_line(text: &str, key: &str, entry: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let header = lines
        .iter()
        .position(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')));
    match header {
        None => {
            lines.push(format!("{key}:"));
            lines.push(format!("- {entry}"));
        }
        Some(header) => {
            if let Some(line) = lines.get_mut(header) {
                *line = line.replacen("[]", "", 1).trim_end().to_owned();
            }
            let (at, indent) = end_of_list(&lines, header);
            lines.insert(at, format!("{indent}- {entry}"));
        }
    }
    lines.join("\n") + "\n"
}

/// Where the next item of the list under line `header` goes, and with which indent.
fn end_of_list(lines: &[String], header: usize) -> (usize, String) {
    let is_item = |line: &str| line.trim_start().starts_with("- ");
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut at = header + 1;
    let mut indent = None;
    for (index, line) in lines.iter().enumerate().skip(header + 1) {
        let inside = line.starts_with(' ') || is_item(line);
        if is_content(line) && !inside {
            break;
        }
        if is_content(line) {
            at = index + 1;
        }
        if is_item(line) && indent.is_none() {
            indent = line.find('-').map(|width| " ".repeat(width));
        }
    }
    (at, indent.unwrap_or_default())
}
