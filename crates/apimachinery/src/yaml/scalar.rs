//! Resolves plain scalars of YAML 1.1, and converts keys to strings.

use serde_json::{Number, Value};

/// Returns the value of a scalar: quoted scalars are strings, plain scalars are resolved, and tagged scalars have the
/// type of the tag.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Value, String> {
    match tag.map(|tag| tag.rsplit(':').next().unwrap_or_default()) {
        Some("str" | "binary" | "!") => Ok(Value::String(text.to_owned())),
        Some("null") => Ok(Value::Null),
        Some(wanted @ ("bool" | "int" | "float")) => match (wanted, plain_value(text)?) {
            ("bool", value @ Value::Bool(_)) | ("int" | "float", value @ Value::Number(_)) => Ok(value),
            _ => Err(format!("cannot decode !!str `{text}` as a !!{wanted}")),
        },
        _ if plain => plain_value(text),
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn plain_value(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Ok(Value::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Ok(Value::Bool(false))
        }
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            Err("json: unsupported value: +Inf".to_owned())
        }
        "-.inf" | "-.Inf" | "-.INF" => Err("json: unsupported value: -Inf".to_owned()),
        ".nan" | ".NaN" | ".NAN" => Err("json: unsupported value: NaN".to_owned()),
        _ => Ok(number(text).unwrap_or_else(|| Value::String(text.to_owned()))),
    }
}

fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

/// Parses an integer like Go's `strconv.ParseInt` with base 0: a prefix sets the base, a leading zero means octal.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..)?)
    } else {
        (10, lower.as_str())
    };
    // The standard library would accept a second sign.
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (false, Ok(integer)) => Some(integer.into()),
        (true, Ok(integer)) => Some((-integer).into()),
        (true, Err(_)) if magnitude == 1 << 63 => Some(i64::MIN.into()),
        // The number becomes a float when it is converted to JSON.
        (false, Err(_)) => Number::from_f64(magnitude as f64).map(Value::Number),
        (true, Err(_)) => None,
    }
}

/// Parses a float. In JSON, a float without a fraction becomes an integer.
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let allowed = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-');
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !unsigned.chars().all(allowed)
    {
        return None;
    }
    let float: f64 = text.parse().ok()?;
    if float.fract() == 0.0 && float.abs() < 9.2e18 {
        return Some(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number)
}

/// Converts a key to its string in JSON.
pub(super) fn key(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err("unsupported map key of type: <nil>".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("invalid map key".to_owned()),
    }
}

/// Formats a key for the message about its duplicate.
pub(super) fn shown_key(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
