//! Path elements: one step from a value to a field, or to a list item by key, value or index ([`PathElement`]).

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::go;

/// One step of a path. Sorted as in the API server: fields, keys, values, indexes.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(Arc<str>),
    /// The item of a map list whose key fields have these values; the fields are ordered by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// The item of a set with this value.
    Value(Arc<Value>),
    /// The item of a list at this position.
    Index(i64),
}

impl PathElement {
    /// Returns the field `name`.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Returns the item with these key fields, given in any order.
    pub fn key<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Value)>) -> Self {
        let mut fields: Vec<(Arc<str>, Value)> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields.into())
    }

    /// Returns the set item `value`.
    pub fn value(value: Value) -> Self {
        Self::Value(Arc::new(value))
    }

    /// Parses a key of `FieldsV1`: `f:NAME`, `k:{...}`, `v:VALUE` or `i:INDEX`. Returns `Ok(None)` for an element of an
    /// unknown kind, which a reader skips.
    ///
    /// # Errors
    /// Returns an error if the text is too short, has no colon, or its JSON or number is malformed.
    pub fn parse(text: &str) -> Result<Option<Self>, ParseError> {
        let malformed = || ParseError(text.to_owned());
        let kind = text.as_bytes().first().copied().ok_or_else(malformed)?;
        if text.as_bytes().get(1) != Some(&b':') {
            return Err(malformed());
        }
        let rest = text.get(2..).unwrap_or_default();
        Ok(Some(match kind {
            b'f' => Self::field(rest),
            b'v' => Self::value(scalar(rest).ok_or_else(malformed)?),
            b'k' => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| malformed())?;
                Self::key(fields.into_iter().map(|(name, value)| (Arc::from(name), value)))
            }
            b'i' => Self::Index(rest.parse().map_err(|_| malformed())?),
            _ => return Ok(None),
        }))
    }

    /// Returns the key of this element in `FieldsV1`.
    pub fn to_text(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(fields) => {
                let mut text = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write_quoted(&mut text, name);
                    text.push(':');
                    text.push_str(&go_json(value));
                }
                text.push('}');
                text
            }
            Self::Value(value) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// An error of parsing a key of `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element")]
pub struct ParseError(String);

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => go::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(left: &[(Arc<str>, Value)], right: &[(Arc<str>, Value)]) -> Ordering {
    let fields = left
        .iter()
        .zip(right)
        .map(|(left, right)| left.0.cmp(&right.0).then_with(|| go::compare(&left.1, &right.1)));
    fields
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let entries: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", readable(value)))
                    .collect();
                write!(f, "[{}]", entries.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", readable(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a value as JSON. Go writes large and small floats in other notations than Rust.
fn go_json(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map_or_else(String::new, apimachinery::go::json_float),
        value => value.to_string(),
    }
}

/// Appends a text as JSON.
pub(crate) fn write_quoted(out: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Number(number) => apimachinery::go::number(number),
        Value::String(text) => apimachinery::go::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(readable).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| format!("{key}={}", readable(value)))
            .collect(),
        Value::Bool(value) => value.to_string(),
    }
}

/// The name of a field, which is formatted as a path element in messages.
pub(crate) struct FieldName<'a>(pub(crate) &'a str);

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.0)
    }
}

/// Formats a path for messages: `.spec.containers[name="a"].image`.
pub fn display(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// Parses a JSON value. Floats are parsed exactly, so that formatting and parsing returns the same number.
fn scalar(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    if value.is_f64() {
        return text.trim().parse::<f64>().ok().map(Value::from);
    }
    Some(value)
}
