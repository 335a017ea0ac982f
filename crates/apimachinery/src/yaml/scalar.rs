//! Scalars of YAML 1.1 ([`Scalar`]), as values and as keys.

use serde_json::{Number, Value};

use crate::go;

/// A scalar with its YAML type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer that is larger than 63 bits.
    Uint(u64),
    Float(f64),
    Text(String),
}

/// A key whose type JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsupported {
    Null,
    Uint(u64),
}

impl Unsupported {
    /// Returns the text of the error, which contains the value of the key.
    pub(super) fn message(self, value: &Value) -> String {
        let (of_type, key) = match self {
            Self::Null => ("%!s(<nil>)".to_owned(), "<nil>".to_owned()),
            Self::Uint(key) => ("uint64".to_owned(), format!("{key:#x}")),
        };
        let value = match value {
            Value::Null => "<nil>".to_owned(),
            value => go_syntax(value),
        };
        format!("unsupported map key of type: {of_type}, key: {key}, value: {value}")
    }
}

impl Scalar {
    /// Returns the scalar of a text: quoted texts are strings, plain texts are resolved, and tagged ones have the type of
    /// the tag.
    ///
    /// # Errors
    /// Returns an error if the text does not have the type of the tag.
    pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Self, String> {
        let untagged = || match plain {
            true => Self::plain(text),
            false => Self::Text(text.to_owned()),
        };
        let Some(tag) = tag else { return Ok(untagged()) };
        let is_standard = tag.contains(':') || tag.starts_with("!!");
        let wanted = tag.rsplit([':', '!']).next().unwrap_or_default();
        if !is_standard {
            return Ok(Self::Text(text.to_owned()));
        }
        match wanted {
            "str" => return Ok(Self::Text(text.to_owned())),
            "binary" => {
                let bytes = go::base64::decode(text);
                let bytes = bytes.map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
                return Ok(Self::Text(String::from_utf8_lossy(&bytes).into_owned()));
            }
            "null" | "bool" | "int" | "float" | "timestamp" => {}
            _ => return Ok(Self::Text(text.to_owned())),
        }
        let found = match Self::plain(text) {
            Self::Int(integer) if wanted == "float" => Self::Float(integer as f64),
            Self::Text(text) if wanted == "timestamp" && is_timestamp(&text) => return Ok(Self::Text(text)),
            found => found,
        };
        if found.type_name() == wanted {
            return Ok(found);
        }
        let found = found.type_name();
        Err(format!("cannot decode !!{found} `{text}` as a !!{wanted}"))
    }

    fn plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Self::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
                Self::Bool(false)
            }
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Self::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Self::Float(f64::NEG_INFINITY),
            ".nan" | ".NaN" | ".NAN" => Self::Float(f64::NAN),
            _ => number(text).unwrap_or_else(|| Self::Text(text.to_owned())),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
        }
    }

    /// Converts a value to JSON. A float without a fraction becomes an integer, as Go writes it.
    ///
    /// # Errors
    /// Returns an error for infinite values, and for those that are not a number.
    pub(super) fn into_json(self) -> Result<Value, String> {
        const EXACT: f64 = 9.2e18;
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => flag.into(),
            Self::Int(integer) => integer.into(),
            Self::Uint(integer) => (integer as f64).into(),
            Self::Float(float) if float.fract() == 0.0 && float.abs() < EXACT => (float as i64).into(),
            Self::Float(float) => match Number::from_f64(float) {
                Some(number) => number.into(),
                None => return Err(format!("json: unsupported value: {}", go::float(float))),
            },
            Self::Text(text) => text.into(),
        })
    }

    /// Converts a key to the name of a field. Floats have the precision of 32 bits.
    pub(super) fn to_key(&self) -> Result<String, Unsupported> {
        Ok(match self {
            Self::Null => return Err(Unsupported::Null),
            Self::Uint(integer) => return Err(Unsupported::Uint(*integer)),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(integer) => integer.to_string(),
            Self::Float(float) => match go::float32(*float as f32).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                text => text.to_owned(),
            },
            Self::Text(text) => text.clone(),
        })
    }
}

/// Returns true if a text starts with a date, as the timestamps of YAML 1.1 do.
fn is_timestamp(text: &str) -> bool {
    let is_number = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => is_number(year, 4..=4) && is_number(month, 1..=2) && is_number(day, 1..=2),
        _ => false,
    }
}

/// Formats a value in Go's syntax, as `%#v` does.
pub(super) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go::number(number),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let field =
                |(name, value): (&String, &Value)| format!("{}:{}", go::quote(name), go_syntax(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

fn number(text: &str) -> Option<Scalar> {
    match text.as_bytes().first()? {
        b'.' => go::parse_float(text).map(Scalar::Float),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))
        }
        _ => None,
    }
}

/// Parses an integer like Go's `strconv.ParseInt` with base 0: a prefix sets the base, a leading zero means octal.
fn integer(text: &str) -> Option<Scalar> {
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
        (false, Ok(integer)) => Some(Scalar::Int(integer)),
        (true, Ok(integer)) => Some(Scalar::Int(-integer)),
        (true, Err(_)) if magnitude == 1 << 63 => Some(Scalar::Int(i64::MIN)),
        (false, Err(_)) => Some(Scalar::Uint(magnitude)),
        (true, Err(_)) => None,
    }
}

/// Parses a decimal float with a finite value.
fn float(text: &str) -> Option<Scalar> {
    let allowed = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-');
    let is_decimal = text.chars().all(allowed);
    is_decimal.then(|| go::parse_float(text))?.map(Scalar::Float)
}
