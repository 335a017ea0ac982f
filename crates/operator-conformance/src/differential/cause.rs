//! Reduces two different responses to a short cause, so that equal differences are counted together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The maximum length of a cause. Most errors of an object with several mistakes fit into it.
const CAUSE_LENGTH_MAX: usize = 4000;

/// Returns the reason why the responses of two servers to the same request differ; `None` if they are equal.
pub(crate) fn cause(real: &Value, other: &Value) -> Option<String> {
    if real == other {
        return None;
    }
    let found = statuses(real, other)
        .or_else(|| causes(real, other))
        .or_else(|| messages(real, other))
        .or_else(|| warnings(real, other))
        .or_else(|| first_path(real, other, ""))?;
    Some(found.chars().take(CAUSE_LENGTH_MAX).collect())
}

fn statuses(real: &Value, other: &Value) -> Option<String> {
    let status = |answer: &Value| {
        answer
            .get("status")
            .or_else(|| answer.get("watch_status"))
            .cloned()
    };
    let (real_status, other_status) = (status(real), status(other));
    (real_status != other_status).then(|| {
        let show = |status: Option<Value>| status.unwrap_or_default().to_string();
        format!(
            "status {} -> {}: {} | {}",
            show(real_status),
            show(other_status),
            generalise(&message(real)),
            generalise(&message(other))
        )
    })
}

fn message(answer: &Value) -> String {
    let text = &answer["body"]["message"];
    let text = text
        .as_str()
        .or_else(|| answer["text"].as_str())
        .or_else(|| answer["error"].as_str());
    text.unwrap_or_default().to_owned()
}

/// Compares the causes of a Status, first as sets and then in their order.
fn causes(real: &Value, other: &Value) -> Option<String> {
    let listed = |answer: &Value| -> Vec<String> {
        let causes = answer["body"]["details"]["causes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        causes
            .iter()
            .map(|cause| {
                let part = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
                format!(
                    "{} {}: {}",
                    part("reason"),
                    general_path(&part("field")),
                    generalise(&part("message"))
                )
            })
            .collect()
    };
    let (real_causes, other_causes) = (listed(real), listed(other));
    if real_causes == other_causes {
        return None;
    }
    let count = |causes: &[String]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for cause in causes {
            *counts.entry(cause.clone()).or_default() += 1;
        }
        counts
    };
    let (real_counts, other_counts) = (count(&real_causes), count(&other_causes));
    let more = |first: &BTreeMap<String, usize>, second: &BTreeMap<String, usize>| {
        first
            .iter()
            .find(|(cause, times)| second.get(*cause).is_none_or(|found| found < times))
            .map(|(cause, _)| cause.clone())
    };
    Some(
        match (
            more(&real_counts, &other_counts),
            more(&other_counts, &real_counts),
        ) {
            (Some(missing), Some(extra)) => format!("cause differs: {missing} | {extra}"),
            (Some(missing), None) => format!("cause missing: {missing}"),
            (None, Some(extra)) => format!("cause unexpected: {extra}"),
            (None, None) => format!(
                "order of causes: {} | {}",
                real_causes.join("; "),
                other_causes.join("; ")
            ),
        },
    )
}

fn messages(real: &Value, other: &Value) -> Option<String> {
    let (real_message, other_message) = (message(real), message(other));
    (real_message != other_message && !real_message.is_empty()).then(|| {
        format!(
            "message: {} | {}",
            generalise(&real_message),
            generalise(&other_message)
        )
    })
}

fn warnings(real: &Value, other: &Value) -> Option<String> {
    let listed = |answer: &Value| -> BTreeSet<String> {
        let warnings = answer["headers"]["warning"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |warning: &Value| {
            let quoted = warning.as_str()?.strip_prefix("299 - ")?.to_owned();
            serde_json::from_str::<String>(&quoted).ok()
        };
        warnings
            .iter()
            .filter_map(text)
            .map(|text| generalise(&text))
            .collect()
    };
    let (real_warnings, other_warnings) = (listed(real), listed(other));
    let missing = real_warnings.difference(&other_warnings).next();
    let extra = other_warnings.difference(&real_warnings).next();
    match (missing, extra) {
        (None, None) => None,
        (missing, extra) => Some(format!(
            "warning: {} | {}",
            missing.map_or("", String::as_str),
            extra.map_or("", String::as_str)
        )),
    }
}

/// Returns the path of the first difference, without indexes.
fn first_path(real: &Value, other: &Value, path: &str) -> Option<String> {
    match (real, other) {
        (Value::Object(wanted), Value::Object(found)) => {
            let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
            names.into_iter().find_map(|name| {
                let path = format!("{path}.{name}");
                match (wanted.get(name), found.get(name)) {
                    (Some(real), Some(other)) => first_path(real, other, &path),
                    (Some(real), None) => Some(format!("missing {path}: {}", generalise(&real.to_string()))),
                    (None, Some(other)) => {
                        Some(format!("unexpected {path}: {}", generalise(&other.to_string())))
                    }
                    (None, None) => None,
                }
            })
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => wanted
            .iter()
            .zip(found)
            .find_map(|(real, other)| first_path(real, other, &format!("{path}[]"))),
        (Value::Array(wanted), Value::Array(found)) => {
            Some(format!("{path}: {} items -> {}", wanted.len(), found.len()))
        }
        _ if real == other => None,
        _ => Some(format!(
            "{path}: {} -> {}",
            generalise(&real.to_string()),
            generalise(&other.to_string())
        )),
    }
}

fn general_path(path: &str) -> String {
    static INDEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\[[^\]]*\]|\d+").ok());
    INDEX.as_ref().map_or_else(
        || path.to_owned(),
        |index| index.replace_all(path, "[]").into_owned(),
    )
}

/// Replaces quoted strings and numbers.
pub(crate) fn generalise(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r#"\\?"(?:[^"\\]|\\[^"])*\\?""#, "\"_\""),
            (r"\b[du]?\d[\w.-]*\b", "N"),
            (r"\[\d+\]", "[]"),
        ]
        .into_iter()
        .filter_map(|(pattern, replacement)| Some((Regex::new(pattern).ok()?, replacement)))
        .collect()
    });
    let mut text = text.to_owned();
    for (pattern, replacement) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    text
}
