//! Values of expressions ([`Value`]). JSON is not copied: lists and maps are converted when an expression reads them.

mod collection;
mod compare;
mod text;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use apimachinery::go::base64;
use apimachinery::go::ip::Cidr;
use apimachinery::go::url::Url;
use apimachinery::quantity::Quantity;
use apimachinery::time::{self, OffsetTime, Timestamp};
use serde_json::Value as Json;

use crate::ast::Literal;
use crate::schema::Schema;
use crate::semver::Version;

pub(crate) use collection::{Entries, InsertError, Walk};
pub use collection::{List, Map};
pub(crate) use compare::{Members, compare, equals};
pub use text::Text;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.5`
    Double(f64),
    /// `'a'`
    String(Text<'a>),
    /// `b'a'`
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A point in time. Its offset only determines how it is shown.
    Timestamp(OffsetTime),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// An optional value.
    Optional(Option<Box<Value<'a>>>),
    /// A type, by its name.
    Type(Cow<'static, str>),
    /// A value of a library's type.
    #[expect(private_interfaces, reason = "values are made and read by this module")]
    Opaque(Arc<Opaque>),
}

/// A value of the host program, with the functions that are declared for its type.
pub trait Host: std::fmt::Debug + Send + Sync {
    /// Returns the name of the value's type, such as `kubernetes.authorization.Authorizer`.
    fn type_name(&self) -> &'static str;

    /// Calls one of the value's functions. Returns `None` if it has no overload for these arguments.
    fn call<'a>(&self, function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>, String>>;
}

/// A value of a Kubernetes library.
#[derive(Clone, Debug)]
pub(crate) enum Opaque {
    Host(Arc<dyn Host>),
    Url(Url),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Quantity),
    Semver(Version),
    Format(&'static str),
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a == b,
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Host(a), Self::Host(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A key of a map. Equal numbers of different types are the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true`
    Bool(bool),
    /// `1`, `1u`
    Number(i128),
    /// `'a'`
    Text(String),
}

impl Key {
    /// Converts a value to a key, if its type is valid for keys.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Int(number) => Some(Self::Number((*number).into())),
            Value::Uint(number) => Some(Self::Number((*number).into())),
            Value::Double(number) => {
                apimachinery::go::whole(*number).map(|number| Self::Number(number.into()))
            }
            Value::String(text) => Some(Self::Text(text.to_string())),
            _ => None,
        }
    }
}

/// The maximum size of a value that is converted to JSON, in bytes of memory.
const MAX_JSON: usize = 32 << 20;

fn weight(json: &Json) -> usize {
    size_of::<Json>()
        + match json {
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(weight).sum(),
            Json::Object(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + weight(value))
                .sum(),
            _ => 0,
        }
}

/// Converts JSON with its schema to a value: formats determine times, durations and bytes.
pub fn from_json<'a>(json: &'a Json, schema: Option<&'a dyn Schema>) -> Value<'a> {
    let kind = schema.map_or("", Schema::kind);
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match (number.as_i64(), kind) {
            #[expect(clippy::cast_precision_loss, reason = "numbers are doubles")]
            (Some(integer), "number") => Value::Double(integer as f64),
            (Some(integer), _) => Value::Int(integer),
            (None, "integer") => {
                let float = number.as_f64().unwrap_or_default();
                apimachinery::go::whole(float).map_or(Value::Double(float), Value::Int)
            }
            (None, _) => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => match schema {
            Some(schema) if kind == "string" => formatted(text, schema.format()),
            _ => Value::String(text.as_str().into()),
        },
        Json::Array(items) => Value::List(List::Json(items, schema)),
        Json::Object(fields) => Value::Map(Map::Json(fields, schema)),
    }
}

fn formatted<'a>(text: &'a str, format: &str) -> Value<'a> {
    let found = match format {
        "duration" => time::parse_loose_duration(text).map(Value::Duration),
        "date-time" => time::parse_rfc3339(text).ok().map(Value::Timestamp),
        "date" => time::parse_date(text).map(|date| {
            let seconds = date.days() * 86_400;
            Value::Timestamp(Timestamp { seconds, nanos: 0 }.into())
        }),
        "byte" => base64::decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        _ => None,
    };
    found.unwrap_or_else(|| Value::String(text.into()))
}

/// The reserved words of the language.
pub const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const ESCAPES: [(&str, &str); 4] = [
    ("__dot__", "."),
    ("__dash__", "-"),
    ("__slash__", "/"),
    ("__underscores__", "__"),
];

/// Returns the name by which an expression selects a property; `None` if that is not possible.
pub fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let valid = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(valid) {
        return None;
    }
    let escaped = name
        .replace("__", "\u{1}")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped.replace('\u{1}', "__underscores__"))
}

/// Returns the property that a name in an expression selects.
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("__") {
        return name.into();
    }
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    if let Some(inner) = inner
        && RESERVED.contains(&inner)
    {
        return inner.into();
    }
    let mut out = String::new();
    let mut rest = name;
    'next: while !rest.is_empty() {
        for (escaped, plain) in ESCAPES {
            if let Some(tail) = rest.strip_prefix(escaped) {
                out.push_str(plain);
                rest = tail;
                continue 'next;
            }
        }
        let mut chars = rest.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out.into()
}

impl<'a> Value<'a> {
    /// Creates a string.
    pub(crate) fn text(text: impl Into<Text<'a>>) -> Self {
        Self::String(text.into())
    }

    /// Creates a value of the host program.
    pub fn host(host: Arc<dyn Host>) -> Self {
        Self::Opaque(Arc::new(Opaque::Host(host)))
    }

    /// Checks that constructed objects have the types of the fields that contain them: `Object.spec` in the field
    /// `spec` of an `Object`.
    ///
    /// # Errors
    /// Returns an error with the wrong type and the expected one.
    pub fn check_type_names(&self) -> Result<(), String> {
        match self {
            Self::Map(Map::Object(name, _)) => self.check_type_names_at(name),
            _ => Ok(()),
        }
    }

    fn check_type_names_at(&self, expected: &str) -> Result<(), String> {
        match self {
            Self::Map(Map::Object(name, fields)) => {
                if &**name != expected {
                    return Err(format!(
                        "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root Object type"
                    ));
                }
                fields.values().try_for_each(|(key, value)| match key {
                    Key::Text(field) => value.check_type_names_at(&format!("{expected}.{field}")),
                    _ => Ok(()),
                })
            }
            Self::List(List::Owned(items)) => items
                .iter()
                .try_for_each(|item| item.check_type_names_at(expected)),
            _ => Ok(()),
        }
    }

    /// Converts the value to JSON: bytes to base64, times and durations to strings, and an optional value to its
    /// content.
    ///
    /// # Errors
    /// Returns an error with the type of a part that JSON cannot represent, such as a library's type.
    pub fn to_json(&self) -> Result<Json, String> {
        self.to_json_within(&mut { MAX_JSON })
    }

    fn to_json_within(&self, left: &mut usize) -> Result<Json, String> {
        let size = match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(List::Json(items, _)) => items.iter().map(weight).sum(),
            Self::Map(Map::Json(fields, _)) => fields.values().map(weight).sum(),
            _ => 0,
        };
        *left = left
            .checked_sub(size + size_of::<Json>())
            .ok_or("a value that is too large")?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(flag) => (*flag).into(),
            Self::Int(number) => (*number).into(),
            Self::Uint(number) => (*number).into(),
            Self::Double(number) => (*number).into(),
            Self::String(text) => (**text).into(),
            Self::Bytes(bytes) => base64::encode(bytes).into(),
            Self::Duration(nanos) => time::duration_seconds(*nanos).into(),
            Self::Timestamp(time) => time.to_rfc3339().into(),
            Self::Optional(Some(inner)) => inner.to_json_within(left)?,
            Self::List(List::Json(items, _)) => Json::Array(items.to_vec()),
            Self::List(list) => Json::Array(
                list.iter()
                    .map(|item| item.to_json_within(left))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Map(Map::Json(fields, _)) => Json::Object((*fields).clone()),
            Self::Map(map) => {
                let entries = map.entries();
                let fields = entries.iter().map(|(key, value)| {
                    let key = match key {
                        Self::String(text) => text.to_string(),
                        other => return Err(format!("a key of type {}", other.type_name())),
                    };
                    Ok((key, value.to_json_within(left)?))
                });
                Json::Object(fields.collect::<Result<_, _>>()?)
            }
            other => return Err(format!("a value of type {}", other.type_name())),
        })
    }

    /// Returns the name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(opaque) => match **opaque {
                Opaque::Url(_) => "kubernetes.URL",
                Opaque::Ip(_) => "net.IP",
                Opaque::Cidr(_) => "net.CIDR",
                Opaque::Quantity(_) => "kubernetes.Quantity",
                Opaque::Semver(_) => "kubernetes.Semver",
                Opaque::Format(_) => "kubernetes.NamedFormat",
                Opaque::Host(ref host) => host.type_name(),
            },
        }
    }

    /// Returns the size for costs: the number of characters, bytes or items; 1 for scalars.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            _ => 1,
        };
        size as u64
    }
}

impl Value<'_> {
    /// Returns the value of a literal.
    pub(crate) fn of(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::String(value) => Self::text(value.clone()),
            Literal::Bytes(value) => Self::Bytes(value.clone()),
        }
    }
}
