//! What differs between a recorded answer and the one that was got. The order of fields does not count.

use std::collections::BTreeSet;

use serde_json::Value;

/// The differences, one line each with the path of the field.
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
        _ => lines.push(format!("{path}: want {}, got {}", short(want), short(got))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
