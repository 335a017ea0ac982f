//! Compares a recorded response with the actual one. The order of fields is ignored, and so is the age of an object in
//! seconds, which is in tables and depends on the speed of the machine.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the differences, one line for each, with the path of the field.
pub(crate) fn values(want: &Value, got: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare(want, got, "", &mut lines);
    lines
}

fn compare(want: &Value, got: &Value, path: &str, lines: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(wanted), Value::Object(found)) => {
            let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (wanted.get(name), found.get(name)) {
                    (Some(want), Some(got)) => compare(want, got, &path, lines),
                    (Some(want), None) => lines.push(format!("{path}: missing, want {}", short(want))),
                    (None, Some(got)) => lines.push(format!("{path}: unexpected {}", short(got))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (index, (want, got)) in wanted.iter().zip(found).enumerate() {
                compare(want, got, &format!("{path}[{index}]"), lines);
            }
        }
        (Value::Array(wanted), Value::Array(found)) => lines.push(format!(
            "{path}: want {} items, got {}: want {}, got {}",
            wanted.len(),
            found.len(),
            short(want),
            short(got)
        )),
        _ if want == got => {}
        (Value::String(want), Value::String(got)) if is_cell(path) && is_seconds(want) && is_seconds(got) => {
        }
        _ => lines.push(format!("{path}: want {}, got {}", short(want), short(got))),
    }
}

/// Returns true for the path of a cell of a table.
fn is_cell(path: &str) -> bool {
    path.rsplit_once('[')
        .is_some_and(|(list, _)| list.ends_with(".cells"))
}

/// Returns true for a duration below two minutes in the format of tables.
fn is_seconds(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|digits| digits.parse::<u8>().is_ok_and(|seconds| seconds < 120))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_in_seconds_are_alike_in_cells_only() {
        let table = |age: &str| json!({"rows": [{"cells": ["a", age]}]});
        assert_eq!(values(&table("0s"), &table("2s")), Vec::<String>::new());
        assert_eq!(values(&table("0s"), &table("2m")).len(), 1);
        assert_eq!(
            values(&json!({"timeout": "0s"}), &json!({"timeout": "2s"})).len(),
            1
        );
    }
}
