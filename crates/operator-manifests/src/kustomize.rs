//! Kustomize trees: renders them ([`build`]) and edits the user's kustomizations, keeping comments, order and layout.
//!
//! An edit finds the location in the YAML tree, changes the text only there, and parses the result again. It is
//! rejected if the result is not exactly the old content with or without the entry.

pub mod build;
mod kustomization;
pub mod order;
mod patch;
mod place;
mod reference;
mod replacement;
mod resource;
mod transform;

use serde_json::{Map, Value};

use crate::render;

/// An error of editing a kustomization.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is not YAML.
    #[error("it is not valid YAML: {0}")]
    Parse(String),
    /// The key does not hold a list, or the file has a form that cannot be edited in place.
    #[error("its `{key}` is not a list that can be edited in place; {action} `- {entry}` by hand")]
    Layout {
        /// The key of the list.
        key: String,
        /// The edit to make by hand: add or remove.
        action: &'static str,
        /// The entry.
        entry: String,
    },
}

/// Adds `entry` at the end of the top-level list `key`, which is created if missing. Returns `None` if the entry
/// exists.
///
/// An entry is a string, such as a resource's path, or an object, such as a patch. Objects with the same `path` are the
/// same entry; the user's other fields are kept.
///
/// ```
/// let text = "resources:\n# the roles\n- ../rbac\n";
/// let edited = operator_manifests::kustomize::add_entry(text, "resources", &"../crd".into()).unwrap();
/// assert_eq!(edited.as_deref(), Some("resources:\n# the roles\n- ../rbac\n- ../crd\n"));
/// ```
///
/// # Errors
/// Returns an error if the text is not YAML, or `key` is not a list.
pub fn add_entry(text: &str, key: &str, entry: &Value) -> Result<Option<String>, EditError> {
    let before = parse(text)?;
    if position(&before, key, entry).is_some() {
        return Ok(None);
    }
    let edited = place::find(text, key)?.add(text, key, entry);
    let mut expected = before;
    append(&mut expected, key, entry);
    verified(edited, &expected, key, "add", entry).map(Some)
}

/// Removes `entry` from the top-level list `key`. The key is removed with its last entry. Returns `None` if the entry
/// is missing.
///
/// ```
/// let text = "resources:\n# the roles\n- ../rbac\n- ../crd # the kinds\n";
/// let edited = operator_manifests::kustomize::remove_entry(text, "resources", &"../crd".into()).unwrap();
/// assert_eq!(edited.as_deref(), Some("resources:\n# the roles\n- ../rbac\n"));
/// ```
///
/// # Errors
/// Returns an error if the text is not YAML, or the list has a form that cannot be edited in place.
pub fn remove_entry(text: &str, key: &str, entry: &Value) -> Result<Option<String>, EditError> {
    let before = parse(text)?;
    let Some(index) = position(&before, key, entry) else {
        return Ok(None);
    };
    let edited = place::find(text, key)?.remove(text, index);
    let mut expected = before;
    cut(&mut expected, key, index);
    verified(edited, &expected, key, "remove", entry).map(Some)
}

/// Returns true if the top-level list `key` has the entry.
///
/// # Errors
/// Returns an error if the text is not YAML.
pub fn has_entry(text: &str, key: &str, entry: &Value) -> Result<bool, EditError> {
    Ok(position(&parse(text)?, key, entry).is_some())
}

fn verified(
    edited: Option<String>,
    expected: &Value,
    key: &str,
    action: &'static str,
    entry: &Value,
) -> Result<String, EditError> {
    edited
        .filter(|text| parse(text).is_ok_and(|after| after == *expected))
        .ok_or_else(|| EditError::Layout {
            key: key.to_owned(),
            action,
            entry: one_line(entry),
        })
}

/// Returns the entry in one line, as it is written.
fn one_line(entry: &Value) -> String {
    match entry {
        Value::String(_) => render::yaml(entry).trim_end().to_owned(),
        other => other.to_string(),
    }
}

fn parse(text: &str) -> Result<Value, EditError> {
    let has_content = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    };
    if !text.lines().any(has_content) {
        return Ok(Value::Object(Map::new()));
    }
    serde_saphyr::from_str(text).map_err(|error| EditError::Parse(apimachinery::yaml::summary(&error)))
}

fn position(document: &Value, key: &str, entry: &Value) -> Option<usize> {
    let items = document.get(key)?.as_array()?;
    items.iter().position(|item| is_same(item, entry))
}

fn is_same(item: &Value, entry: &Value) -> bool {
    let same_path = || {
        let path = entry.get("path")?;
        Some(item.get("path")? == path)
    };
    item == entry || same_path().unwrap_or(false)
}

fn append(document: &mut Value, key: &str, entry: &Value) {
    let Some(map) = document.as_object_mut() else {
        return;
    };
    match map.entry(key).or_insert(Value::Null) {
        Value::Array(items) => items.push(entry.clone()),
        list @ Value::Null => *list = Value::Array(vec![entry.clone()]),
        _ => {}
    }
}

fn cut(document: &mut Value, key: &str, index: usize) {
    let Some(map) = document.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(items)) = map.get_mut(key) {
        items.remove(index);
        if items.is_empty() {
            map.remove(key);
        }
    }
}
