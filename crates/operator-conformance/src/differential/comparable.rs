//! Makes the texts of two errors comparable if they differ for a listed reason.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::wire;

/// The end of a text whose rest, which is a difference in Go's notation, is not compared.
pub(crate) const CUT: &str = "\u{2026}";

/// Addresses, ports and revisions in the text of a patched object, which differ between servers.
static OF_ONE_SERVER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"10\.0\.0\.\d+|(nodePort|healthCheckNodePort)\\*":\d+|resourceVersion\\*":\\*"\w+"#).ok()
});

/// An empty list or map in the value of an error.
static EMPTY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[\]|\{\}").ok());

/// A struct or a list in the text of an error. The real server prints the fields of its internal types.
static STRUCTURE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?s)^(Invalid value): [\[{].*[\]}]: ").ok());

/// The object in the text of an invalid patch, whose fields have the order of Go structs.
static PATCHED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?s)^(Invalid value): "\{.*\}": "#).ok());

/// Sorts the causes of two errors in the same order if they differ only in the order of map entries, which is random in
/// Go. The messages repeat the causes, so they are not compared if the causes are equal.
pub(crate) fn causes(real: &mut Value, other: &mut Value) {
    const CAUSES: &str = "/body/details/causes";
    let listed = |answer: &Value| {
        answer
            .pointer(CAUSES)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let (wanted, found) = (listed(real), listed(other));
    let fixed = |causes: &[Value]| -> Vec<Value> {
        let fixed = causes.iter().filter(|cause| !is_of_map(cause));
        fixed.cloned().collect()
    };
    let sorted = |mut causes: Vec<Value>| {
        causes.sort_by_cached_key(ToString::to_string);
        causes
    };
    if wanted.is_empty() || fixed(&wanted) != fixed(&found) || sorted(wanted.clone()) != sorted(found) {
        return;
    }
    if let Some(causes) = other.pointer_mut(CAUSES) {
        *causes = wanted.into();
    }
    let message = real.pointer("/body/message").cloned().unwrap_or_default();
    if let Some(text) = other.pointer_mut("/body/message") {
        *text = message;
    }
}

/// Returns true if a cause belongs to an entry of a map, or to one of several field managers.
fn is_of_map(cause: &Value) -> bool {
    static ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let maps = "labels|annotations|matchLabels|nodeSelector|selector|parameters|attributes|capacity|allocatedResource(?:Statuse)?s";
        Regex::new(&format!(
            r"\[[^\]]*[^\]\d][^\]]*\]|\[\]|(?:{maps})$|^status\.(?:capacity|allocatable)\."
        ))
        .ok()
    });
    let field = cause["field"].as_str().unwrap_or_default();
    // The sources that a metric must not have are a set in Go, and so are the properties of a custom resource.
    let is_of_set = cause["message"].as_str().is_some_and(|message| {
        message.ends_with("must populate the given metric source only")
            || message.contains(" in body must be of type ")
    });
    is_of_set
        || cause["reason"] == "FieldManagerConflict"
        || ENTRY.as_ref().is_some_and(|entry| entry.is_match(field))
}

/// Returns both responses with comparable messages and causes.
pub(crate) fn texts(real: &Value, other: &Value) -> (Value, Value) {
    let (mut real, mut other) = (real.clone(), other.clone());
    if let (Some(real), Some(other)) = (real.get_mut("protobuf"), other.get_mut("protobuf")) {
        wire::align(real, other);
        wire::align(other, real);
    }
    for answer in [&mut real, &mut other] {
        for path in paths(answer) {
            if let Some(Value::String(text)) = answer.pointer_mut(&path) {
                *text = general(text);
            }
        }
    }
    for path in paths(&real) {
        let found = (
            real.pointer(&path).and_then(Value::as_str),
            other.pointer(&path).and_then(Value::as_str),
        );
        let (Some(wanted), Some(found)) = found else {
            continue;
        };
        let (wanted, mut found) = (wanted.to_owned(), found.to_owned());
        if wanted
            .strip_suffix(CUT)
            .is_some_and(|start| found.starts_with(start))
        {
            found.clone_from(&wanted);
        }
        for (answer, text) in [(&mut real, wanted), (&mut other, found)] {
            if let Some(place) = answer.pointer_mut(&path) {
                *place = text.into();
            }
        }
    }
    causes(&mut real, &mut other);
    (real, other)
}

/// Returns the paths of the texts in a Status.
fn paths(answer: &Value) -> Vec<String> {
    let causes = answer["body"]["details"]["causes"].as_array().map_or(0, Vec::len);
    (0..causes)
        .map(|index| format!("/body/details/causes/{index}/message"))
        .chain(["/body/message".to_owned()])
        .collect()
}

fn general(text: &str) -> String {
    let replaced = |text: &str, pattern: &LazyLock<Option<Regex>>, by: &str| match pattern.as_ref() {
        Some(pattern) => pattern.replace_all(text, by).into_owned(),
        None => text.to_owned(),
    };
    if text.starts_with("Invalid value: \"{") {
        return replaced(text, &PATCHED, "$1: OBJECT: ");
    }
    if text.contains("patch: Invalid value: ") {
        return replaced(text, &OF_ONE_SERVER, "INDIVIDUAL");
    }
    let is_empty = ["Invalid value: []: ", "Invalid value: {}: "]
        .iter()
        .any(|start| text.starts_with(start));
    if !is_empty && (text.starts_with("Invalid value: [") || text.starts_with("Invalid value: {")) {
        return replaced(text, &STRUCTURE, "$1: STRUCTURE: ");
    }
    if text.contains("value: ") {
        return replaced(text, &EMPTY, "null");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::texts;

    #[test]
    fn only_listed_differences_of_texts_are_made_equal() {
        let error = |message: &str| json!({"body": {"message": message}});
        let (real, other) = texts(
            &error("spec: Forbidden: no\u{2026}"),
            &error("spec: Forbidden: not at all"),
        );
        assert_eq!(real, other);
        let (real, other) = texts(
            &error("spec: Invalid value: []: no"),
            &error("spec: Invalid value: null: no"),
        );
        assert_eq!(real, other);
        let invalid = |causes: [(&str, &str); 3]| {
            let causes = causes.map(|(field, message)| json!({"field": field, "message": message}));
            json!({"body": {"details": {"causes": causes}}})
        };
        let (label, other_label) = ("metadata.labels", "Invalid value: \"b\": no");
        let real = invalid([
            (label, "x"),
            (label, other_label),
            ("spec", "Invalid value: {\"A\":null}: no"),
        ]);
        let other = invalid([
            (label, other_label),
            (label, "x"),
            ("spec", "Invalid value: {\"a\":1}: no"),
        ]);
        let (real, other) = texts(&real, &other);
        assert_eq!(real, other);
        let (real, other) = texts(
            &invalid([("spec.a", "x"), ("spec.b", "x"), (label, "x")]),
            &invalid([("spec.b", "x"), ("spec.a", "x"), (label, "x")]),
        );
        assert_ne!(real, other);
        let protobuf = |value: serde_json::Value| json!({"protobuf": {"1": [value, "text"]}});
        let (real, other) = texts(&protobuf(json!({"4": [80]})), &protobuf(json!(" P")));
        assert_eq!(real, other);
        let (real, other) = texts(
            &error("spec: Invalid value: 1: no"),
            &error("spec: Invalid value: 2: no"),
        );
        assert_ne!(real, other);
    }
}
