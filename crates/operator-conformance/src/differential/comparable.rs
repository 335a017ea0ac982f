//! Makes the texts of two errors comparable where they differ for a listed reason.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The end of a text whose rest, a difference in Go's notation, is not compared.
pub(crate) const CUT: &str = "\u{2026}";

/// Addresses, ports and revisions in the text of a patched object belong to one server.
static OF_ONE_SERVER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"10\.0\.0\.\d+|(nodePort|healthCheckNodePort)\\*":\d+|resourceVersion\\*":\\*"\w+"#).ok()
});

/// An empty list or map in the value of an error.
static EMPTY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[\]|\{\}").ok());

/// Returns both answers with their messages and the messages of their causes made comparable.
pub(crate) fn texts(real: &Value, other: &Value) -> (Value, Value) {
    let (mut real, mut other) = (real.clone(), other.clone());
    for path in paths(&real) {
        let found = (
            real.pointer(&path).and_then(Value::as_str),
            other.pointer(&path).and_then(Value::as_str),
        );
        let (Some(wanted), Some(found)) = found else {
            continue;
        };
        let (wanted, mut found) = (general(wanted), general(found));
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
    (real, other)
}

/// Returns the places of the texts of a Status.
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
    if text.contains("patch: Invalid value: ") || text.starts_with("Invalid value: \"{") {
        return replaced(text, &OF_ONE_SERVER, "INDIVIDUAL");
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
        let (real, other) = texts(
            &error("spec: Invalid value: 1: no"),
            &error("spec: Invalid value: 2: no"),
        );
        assert_ne!(real, other);
    }
}
