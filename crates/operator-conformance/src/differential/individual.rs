//! Removes data that is specific to one server or one run: builds, addresses, certificates and random numbers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::wire;

/// Fields whose values are not part of the behaviour.
const FIELDS: [&str; 6] = [
    "healthCheckNodePort",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "serverAddress",
    "authentication.kubernetes.io/credential-id",
];

/// The field with the managers, whose order depends on the times of one run.
const MANAGERS: &str = "managedFields";

static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("kube-api-access-[a-z0-9]{5}").ok());

/// The age of an object in a table cell.
static AGE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d{1,2}s$").ok());

/// Parses a `Status` in protobuf, so that its texts are compared like those of other responses.
pub(crate) fn parse_status(mut answer: Value) -> Value {
    if let Some(status) = wire::status(&answer["protobuf"]) {
        answer["body"] = status;
        answer["protobuf"] = Value::Null;
    }
    answer
}

/// Parses a body that is an object in YAML, because the order of its fields and its line breaks are not compared.
pub(crate) fn parse_yaml(mut answer: Value) -> Value {
    let is_yaml = answer["headers"]["content-type"][0] == "application/yaml";
    if is_yaml
        && let Some(text) = answer["text"].as_str()
        && let Ok(body) = serde_saphyr::from_str::<Value>(text)
        && let Some(fields) = answer.as_object_mut()
    {
        fields.remove("text");
        fields.insert("body".to_owned(), body);
    }
    answer
}

fn age(cell: &Value) -> Value {
    let is_age = |text: &str| AGE.as_ref().is_some_and(|age| age.is_match(text));
    if cell.as_str().is_some_and(is_age) {
        "AGE".into()
    } else {
        without(cell)
    }
}

/// Sorts managers as a server does if all of them wrote in the same second.
fn ordered(managers: &[Value]) -> Value {
    let mut managers = managers.to_vec();
    managers.sort_by_cached_key(|manager| {
        let text = |name: &str| manager[name].as_str().unwrap_or_default().to_owned();
        let is_timed = manager.get("time").is_some();
        (
            text("operation"),
            is_timed,
            text("manager"),
            text("apiVersion"),
            text("subresource"),
        )
    });
    managers.into()
}

/// Replaces an audience that is the server's issuer, which contains its address.
fn audience(audience: &Value) -> Value {
    let is_issuer = audience
        .as_str()
        .is_some_and(|text| text.starts_with("https://127.0.0.1:"));
    if is_issuer {
        "ISSUER".into()
    } else {
        audience.clone()
    }
}

/// Removes the resource version of a list, which is that of the whole server, including the server's own writes.
fn without_list_version(metadata: &Value) -> Value {
    let mut metadata = without(metadata);
    if let Some(version) = metadata.get_mut("resourceVersion")
        && version.as_str().is_some_and(|version| !version.is_empty())
    {
        *version = "LIST".into();
    }
    metadata
}

/// Returns a value without data that is specific to one server or one run.
pub(crate) fn without(value: &Value) -> Value {
    let is_list =
        value.get("items").is_some_and(Value::is_array) || value.get("rows").is_some_and(Value::is_array);
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                if is_list && name == "metadata" {
                    return (name.clone(), without_list_version(value));
                }
                let value = if let (true, Value::Array(cells)) = (name == "cells", value) {
                    cells.iter().map(age).collect()
                } else if let (MANAGERS, Value::Array(managers)) = (name.as_str(), value) {
                    ordered(managers)
                } else if let ("audiences", Value::Array(audiences)) = (name.as_str(), value) {
                    audiences.iter().map(audience).collect()
                } else if FIELDS.contains(&name.as_str()) {
                    "INDIVIDUAL".into()
                } else {
                    without(value)
                };
                (name.clone(), value)
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without).collect(),
        Value::String(text) => NAMES.as_ref().map_or_else(
            || value.clone(),
            |names| names.replace_all(text, "kube-api-access-GEN").into(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::without;

    #[test]
    fn only_what_belongs_to_one_run_is_removed() {
        let manager = |name: &str, time: &str| json!({"manager": name, "operation": "Update", "time": time});
        let list = |version: &str, managers: [serde_json::Value; 2], name: &str| {
            let item = json!({"metadata": {"name": name, "resourceVersion": "3", "managedFields": managers}});
            json!({"metadata": {"resourceVersion": version}, "items": [item]})
        };
        let first = list("7", [manager("a", "t"), manager("b", "t")], "x");
        let second = list("9", [manager("b", "t"), manager("a", "t")], "x");
        assert_eq!(without(&first), without(&second));
        assert_eq!(without(&first)["items"][0]["metadata"]["resourceVersion"], "3");
        let other = list("9", [manager("b", "t"), manager("c", "t")], "x");
        assert_ne!(without(&first), without(&other));
        let unversioned = json!({"metadata": {"resourceVersion": ""}, "items": []});
        assert_eq!(without(&unversioned), unversioned);
        let issuer = |port: u16| json!({"audiences": [format!("https://127.0.0.1:{port}/")]});
        assert_eq!(without(&issuer(1)), without(&issuer(2)));
    }
}
