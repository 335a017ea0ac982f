//! Reads recorded scenarios (`tests/recorded/<category>/*.json`).

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::resource::resources;
use crate::tree::{at, text};
use apimachinery::gvk::Gvk;

/// A request and its recorded response. `${ns}` is replaced by `NS`, as in the responses.
pub(super) struct Step {
    /// The file and the step, for messages.
    pub(super) name: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) status: i64,
    pub(super) answer: Value,
    pub(super) ignore: Vec<String>,
    /// The texts of the Warning headers.
    pub(super) warnings: Vec<String>,
}

impl Step {
    /// Returns the kind and the subresource of the path, if it is a built-in resource.
    pub(super) fn target(&self) -> Option<(&'static Gvk, String)> {
        let mut parts = self.path.trim_start_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            _ => (parts.next()?, parts.next()?),
        };
        let rest: Vec<&str> = parts.collect();
        let rest = match rest.as_slice() {
            ["namespaces", _, resource, rest @ ..] if !["finalize", "status"].contains(resource) => {
                [&[*resource], rest].concat()
            }
            rest => rest.to_vec(),
        };
        let plural = rest.first()?;
        let subresource = rest.get(2).copied().unwrap_or_default();
        let found = resources().iter().find(|resource| {
            (resource.served_group, resource.served_version, resource.name) == (group, version, *plural)
        });
        Some((&found?.gvk, subresource.to_owned()))
    }
}

/// Returns the steps of every scenario of a category, by scenario.
pub(super) fn scenarios(category: &str) -> Vec<Vec<Step>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../operator-apiserver/tests/recorded")
        .join(category);
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(read).collect()
}

fn read(file: &PathBuf) -> Vec<Step> {
    let text_of_file = fs::read_to_string(file).unwrap();
    let text_of_file = text_of_file.replace("${ns}", "NS");
    let scenario: Value = serde_json::from_str(&text_of_file).unwrap();
    let steps = scenario["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|step| Step {
            name: format!("{} {}", text(&scenario, &["name"]), text(step, &["id"])),
            method: text(step, &["method"]).to_owned(),
            path: text(step, &["path"]).to_owned(),
            body: at(step, &["body"]).clone(),
            status: at(step, &["expect", "status"]).as_i64().unwrap_or(0),
            answer: at(step, &["expect", "body"]).clone(),
            ignore: at(step, &["ignore"])
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|path| path.as_str().map(str::to_owned))
                .collect(),
            warnings: at(step, &["expect", "headers", "warning"])
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|header| warning_text(header.as_str()?))
                .collect(),
        })
        .collect()
}

/// Returns `text` of a header `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 - ")?;
    serde_json::from_str(quoted).ok()
}

/// Returns true if a value equals the recorded one; the recorder's placeholders match any string or number.
pub(super) fn matches(recorded: &Value, value: &Value) -> bool {
    match (recorded, value) {
        (Value::String(text), value) if is_placeholder(text) => value.is_string() || value.is_number(),
        (Value::Array(recorded), Value::Array(items)) => {
            recorded.len() == items.len() && recorded.iter().zip(items).all(|(r, item)| matches(r, item))
        }
        (Value::Object(recorded), Value::Object(fields)) => {
            recorded.len() == fields.len()
                && recorded
                    .iter()
                    .all(|(name, r)| fields.get(name).is_some_and(|field| matches(r, field)))
        }
        (recorded, value) => recorded == value,
    }
}

fn is_placeholder(text: &str) -> bool {
    let number = text.strip_prefix('U').unwrap_or("x");
    matches!(text, "TIME" | "IP" | "PORT" | "TOKEN") || number.parse::<u32>().is_ok()
}
