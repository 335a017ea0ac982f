//! Go's text formats of values, for the API server's messages: quoted strings, numbers and JSON.

pub mod base64;
pub mod ip;
pub mod netip;
mod strconv;
pub mod url;

use serde_json::{Number, Value};

pub use self::strconv::{atoi, parse_float, parse_int, parse_uint};

/// Quotes a string as `strconv.Quote` does: in double quotes, with unprintable characters escaped.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c);
    }
    out.push('"');
    out
}

fn push_quoted(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        ' '..='~' => out.push(c),
        _ if is_printable(c) => out.push(c),
        _ => {
            let code = u32::from(c);
            out.push_str(&match code {
                0..=0x7f => format!("\\x{code:02x}"),
                0x80..=0xffff => format!("\\u{code:04x}"),
                _ => format!("\\U{code:08x}"),
            });
        }
    }
}

/// Quotes a string as Go's package `time` does: control characters and the bytes of non-ASCII characters are escaped.
pub fn quote_bytes(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    out.push('"');
    out
}

/// Returns true if Go prints a non-ASCII character without escaping it.
fn is_printable(c: char) -> bool {
    // Rust's debug format escapes the same classes; the leading letter keeps combining marks unescaped.
    let shown = format!("{:?}", ['a', c].iter().collect::<String>());
    !c.is_ascii() && !c.is_whitespace() && shown.chars().nth(2) == Some(c)
}

/// Formats a `float64` as `%v` does: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return exponent(value, 2);
    }
    format!("{value}")
}

/// Formats a `float32` as `%v` does.
pub fn float32(value: f32) -> String {
    // The shortest digits of 32 bits are also the shortest ones of this number of 64 bits.
    value
        .to_string()
        .parse()
        .map_or_else(|_| value.to_string(), float)
}

/// Formats a `float64` as Go's `encoding/json` does.
pub fn json_float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        return exponent(value, 1);
    }
    format!("{value}")
}

fn exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, size) = match exponent.strip_prefix('-') {
        Some(size) => ('-', size),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{size:0>digits$}")
}

/// Converts a float to an integer as Go does on amd64: without the fraction, and the lowest integer for a value beyond 64
/// bits.
pub fn truncate(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the fraction is removed")]
    match value {
        value if (-END..END).contains(&value) => value as i64,
        _ => i64::MIN,
    }
}

/// Formats a JSON number as `%v` does.
pub fn number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(value)) => float(value),
        (None, None) => number.to_string(),
    }
}

/// Converts a float to an integer, within the range in which floats represent all integers.
pub fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is whole and within ±2^53"
    )]
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

/// Returns the name of a value's type in errors of Go's JSON decoder, as in `json: cannot unmarshal array into Go value
/// of type string`.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Formats a value as compact JSON like Go: keys are sorted; `<`, `>` and `&` are escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    push_json(&mut out, value);
    out
}

fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => out.push_str(&integer.to_string()),
            (None, Some(value)) => out.push_str(&json_float(value)),
            (None, None) => out.push_str(&number.to_string()),
        },
        Value::String(text) => push_json_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (index, (key, field)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json_text(out, key);
                out.push(':');
                push_json(out, field);
            }
            out.push('}');
        }
    }
}

fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(
            quote("a\"b\\\n\t\u{7f}\u{0}é😀"),
            "\"a\\\"b\\\\\\n\\t\\x7f\\x00é😀\""
        );
        assert_eq!(quote("\u{ad}\u{a0}"), "\"\\u00ad\\u00a0\"");
    }

    #[test]
    fn floats_switch_to_exponents_where_go_does() {
        assert_eq!(float(1e20), "1e+20");
        assert_eq!(float(1e6), "1e+06");
        assert_eq!(float(-1_234_567.5), "-1.2345675e+06");
        assert_eq!(float(999_999.5), "999999.5");
        assert_eq!(json_float(1e20), "100000000000000000000");
        assert_eq!(float(1e21), "1e+21");
        assert_eq!(float(0.00001), "1e-05");
        assert_eq!(json_float(0.0000001), "1e-7");
        assert_eq!(float(1.5), "1.5");
        assert_eq!(float(3.0), "3");
    }

    #[test]
    fn json_escapes_markup() {
        assert_eq!(
            json(&serde_json::json!({"b": "<&>", "a": [1, 2.5]})),
            "{\"a\":[1,2.5],\"b\":\"\\u003c\\u0026\\u003e\"}"
        );
    }
}
