//! Trees to YAML text in the style of `sigs.k8s.io/yaml`: sorted keys, two spaces, lists not indented under their key.

use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::Value;

use super::scalar;

/// Writes a tree as one YAML document, with a final line break.
///
/// Every text that YAML 1.1 would read as something else is quoted, so that [`super::parse`] gives the tree again.
pub fn to_string(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => sequence(&mut text, value, 0),
        scalar => {
            inline(&mut text, scalar, 0);
            text.push('\n');
        }
    }
    text
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn mapping(text: &mut String, value: &Value, depth: usize) {
    let Value::Object(fields) = value else { return };
    for (position, name) in in_order(fields.keys().collect()).into_iter().enumerate() {
        // The first field of a list item stands behind its dash.
        if position > 0 || text.ends_with('\n') || text.is_empty() {
            indent(text, depth);
        }
        key(text, name);
        text.push(':');
        if let Some(value) = fields.get(name) {
            field_value(text, value, depth);
        }
    }
}

fn field_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            mapping(text, value, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            sequence(text, value, depth);
        }
        scalar => {
            text.push(' ');
            inline(text, scalar, depth + 1);
            text.push('\n');
        }
    }
}

fn sequence(text: &mut String, value: &Value, depth: usize) {
    let Value::Array(items) = value else { return };
    for (position, item) in items.iter().enumerate() {
        // The first item of a list in a list stands behind the outer dash.
        if position > 0 || text.ends_with('\n') || text.is_empty() {
            indent(text, depth);
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(text, item, depth + 1),
            Value::Array(items) if !items.is_empty() => sequence(text, item, depth + 1),
            scalar => {
                inline(text, scalar, depth + 1);
                text.push('\n');
            }
        }
    }
}

fn inline(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(string) if is_block(string) => block(text, string, depth),
        Value::String(string) => folded(text, string, depth),
        Value::Object(_) => text.push_str("{}"),
        Value::Array(_) => text.push_str("[]"),
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// A text of several lines that a literal block can hold.
fn is_block(string: &str) -> bool {
    let plain =
        |letter: char| letter == '\n' || letter == '\t' || (!letter.is_control() && letter != '\u{feff}');
    string.contains('\n') && !string.starts_with([' ', '\n', '\t']) && string.chars().all(plain)
}

fn block(text: &mut String, string: &str, depth: usize) {
    let trimmed = string.trim_end_matches('\n');
    text.push_str(match string.len() - trimmed.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let body = string.strip_suffix('\n').unwrap_or(string);
    for line in body.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            indent(text, depth);
            text.push_str(line);
        }
    }
}

/// Lines are broken at the first space behind this column.
const WIDTH: usize = 80;

/// A key stands on one line.
fn key(text: &mut String, string: &str) {
    text.push_str(&scalar_text(string));
}

/// A value is folded; `depth` is that of its continuation lines.
fn folded(text: &mut String, string: &str, depth: usize) {
    let whole = scalar_text(string);
    let double = whole.starts_with('"') && !looks_like_another_type(string);
    let quoted = whole.starts_with(['\'', '"']) && whole != string;
    let mut column = text.chars().rev().take_while(|letter| *letter != '\n').count();
    let mut letters = whole.chars();
    let mut after_space = false;
    while let Some(letter) = letters.next() {
        let mut ahead = letters.clone();
        let next = ahead.next();
        let is_last = quoted && ahead.next().is_none();
        let next_is_word = next.is_some_and(|next| next != ' ') && !is_last;
        if letter == ' ' && !after_space && column > WIDTH && next_is_word && !double {
            text.push('\n');
            indent(text, depth);
            column = depth * 2;
        } else {
            text.push(letter);
            column += 1;
        }
        after_space = letter == ' ';
    }
}

/// A scalar on one line, quoted if it would be read as something else.
fn scalar_text(string: &str) -> String {
    if needs_double_quotes(string) {
        Value::from(string).to_string()
    } else if !needs_quotes(string) {
        string.to_owned()
    } else if looks_like_another_type(string) {
        // As Go's encoder does.
        format!("\"{string}\"")
    } else {
        format!("'{}'", string.replace('\'', "''"))
    }
}

/// Sorts keys as Go's YAML encoder does: letters after other characters, runs of digits by their value.
///
/// That order is not transitive, for example for `1`, `1a` and `01a`; the sort of the standard library may panic on it.
pub fn in_order(keys: Vec<&String>) -> Vec<&String> {
    if keys.len() > INSERTION_MAX {
        let mut left = keys;
        let right = left.split_off(left.len() / 2);
        let (left, right) = (in_order(left), in_order(right));
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        return std::iter::from_fn(|| match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if natural(b, a).is_lt() => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        })
        .collect();
    }
    let mut sorted: Vec<&String> = Vec::with_capacity(keys.len());
    for key in keys {
        let after = sorted.iter().rposition(|before| !natural(key, before).is_lt());
        sorted.insert(after.map_or(0, |after| after + 1), key);
    }
    sorted
}

/// Go sorts up to this number of keys by insertion.
const INSERTION_MAX: usize = 12;

/// The order of keys: letters after everything else, runs of digits by their value.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (Some(x), Some(y)) = (a.get(at), b.get(at)) else {
        return Ordering::Equal;
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(y),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => number_at(&a, at).cmp(&number_at(&b, at)).then(x.cmp(y)),
    }
}

/// The run of digits that begins at a position: its value, then its length. Zeros inside a number count for it.
fn number_at(letters: &[char], at: usize) -> (u128, usize) {
    let before = letters.get(..at).unwrap_or_default();
    let inside = before
        .iter()
        .rev()
        .take_while(|letter| letter.is_ascii_digit())
        .any(|digit| *digit != '0');
    let digits = letters
        .get(at..)
        .unwrap_or_default()
        .iter()
        .map_while(|letter| letter.to_digit(10))
        .take(30);
    digits.fold((u128::from(inside), 0), |(value, length), digit| {
        (
            value.saturating_mul(10).saturating_add(u128::from(digit)),
            length + 1,
        )
    })
}

fn needs_double_quotes(string: &str) -> bool {
    string
        .chars()
        .any(|letter| letter.is_control() || matches!(letter, '\u{feff}' | '\u{2028}' | '\u{2029}'))
}

fn needs_quotes(string: &str) -> bool {
    let indicator = |first: char| "-?:,[]{}#&*!|>'\"%@`".contains(first);
    let starts_special = match string.strip_prefix(['-', '?', ':']) {
        Some(rest) => rest.is_empty() || rest.starts_with([' ', ',', '[', ']', '{', '}']),
        None => string.starts_with(indicator),
    };
    looks_like_another_type(string)
        || starts_special
        || string == "<<"
        || string == "="
        || string.starts_with([' ', '\t'])
        || string.ends_with([' ', '\t', ':'])
        || string.contains(": ")
        || string.contains(" #")
        || string.starts_with("---")
        || string.starts_with("...")
}

fn looks_like_another_type(string: &str) -> bool {
    looks_like_a_time(string) || !matches!(scalar::resolve(string, true, None), Ok(Value::String(_)))
}

/// YAML 1.1 has a type for dates, which Go's encoder keeps texts from.
fn looks_like_a_time(string: &str) -> bool {
    let bytes = string.as_bytes();
    let shape = |range: std::ops::Range<usize>| {
        bytes
            .get(range)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    bytes.len() >= 10
        && shape(0..4)
        && bytes.get(4) == Some(&b'-')
        && shape(5..7)
        && bytes.get(7) == Some(&b'-')
        && shape(8..10)
}
