//! The size and the nesting of a tree, as pure functions.

use apimachinery::json::DEPTH_MAX;
use serde_json::Value;

/// The estimated memory of a value in addition to its text: the value, its key, and its share of the map node.
const NODE_BYTES: usize = 72;

/// The size of an object in storage and in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// The length of the JSON text.
    pub(crate) json: usize,
    /// The length of all strings, without keys and escapes.
    pub(crate) text: usize,
    /// The number of values.
    pub(crate) nodes: usize,
    /// The nesting: 0 for a scalar, 1 for a flat list or object. At most [`DEPTH_MAX`] + 1: deeper values are not
    /// measured.
    pub(crate) depth: usize,
}

impl Measure {
    /// Measures a tree.
    pub(crate) fn of(value: &Value) -> Self {
        let mut measure = Self::default();
        measure.add(value, 0);
        measure
    }

    /// Returns true if the tree is nested deeper than a request body may be.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth > DEPTH_MAX
    }

    /// Returns the memory that the tree and its JSON text take, in bytes; an estimate.
    pub(crate) fn memory(&self) -> usize {
        self.json * 2 + self.nodes * NODE_BYTES
    }

    fn add(&mut self, value: &Value, depth: usize) {
        self.nodes += 1;
        match value {
            Value::Null => self.json += 4,
            Value::Bool(value) => self.json += if *value { 4 } else { 5 },
            Value::Number(number) => self.json += number_length(number),
            Value::String(text) => {
                self.text += text.len();
                self.json += text_length(text);
            }
            Value::Array(items) => {
                self.json += 2 + items.len().saturating_sub(1);
                if self.enter(depth) {
                    items.iter().for_each(|item| self.add(item, depth + 1));
                }
            }
            Value::Object(fields) => {
                self.json += 2 + fields.len().saturating_sub(1);
                if self.enter(depth) {
                    for (key, value) in fields {
                        self.json += text_length(key) + 1;
                        self.add(value, depth + 1);
                    }
                }
            }
        }
    }

    /// Records a level of nesting; returns true if it is measured.
    fn enter(&mut self, depth: usize) -> bool {
        self.depth = self.depth.max(depth + 1);
        depth < DEPTH_MAX
    }
}

/// Returns the length of a text with its quotes and escapes.
fn text_length(text: &str) -> usize {
    // Most texts have no escapes. Without an early end, the loop handles many bytes at once.
    let has_escapes = text.bytes().fold(false, |found, byte| {
        found | (byte < b' ') | (byte == b'"') | (byte == b'\\')
    });
    if !has_escapes {
        return text.len() + 2;
    }
    let escapes: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x8 | 0xc => 1,
            0..0x20 => 5,
            _ => 0,
        })
        .sum();
    text.len() + escapes + 2
}

fn number_length(number: &serde_json::Number) -> usize {
    match number.as_i64() {
        Some(integer) => {
            let digits = integer.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
            digits + usize::from(integer < 0)
        }
        None => apimachinery::json::to_string(&Value::Number(number.clone())).len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_length_is_that_of_the_written_text() {
        let values = [
            json!(null),
            json!({"a": [true, false, null, -10, 0, 9, 10, i64::MIN, 1.5, 1e30], "b\"": {}, "c": []}),
            json!("q\"\\\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}\u{e9}\u{2028}"),
            json!([[], [{}], [{"x": "y"}]]),
        ];
        for value in values {
            let measure = Measure::of(&value);
            assert_eq!(
                measure.json,
                apimachinery::json::to_string(&value).len(),
                "{value}"
            );
        }
        assert_eq!(Measure::of(&json!([[], [{}], [{"x": "y"}]])).depth, 3);
    }

    #[test]
    fn nesting_is_measured_up_to_the_limit() {
        let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(Measure::of(&nested(DEPTH_MAX)).depth, DEPTH_MAX);
        assert!(!Measure::of(&nested(DEPTH_MAX)).is_too_deep());
        assert!(Measure::of(&nested(DEPTH_MAX + 1)).is_too_deep());
        assert!(Measure::of(&nested(DEPTH_MAX + 100)).is_too_deep());
    }
}
