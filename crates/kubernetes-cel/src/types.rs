//! The types of expressions: [`Type`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// `dyn`: the type is only known at run time.
    Dyn,
    /// The type of an invalid expression, which is assignable to every type.
    Error,
    /// The type of `null`.
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// The type of a type.
    Type(Box<Type>),
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<Type>, Arc<Type>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// An object with known fields.
    Object(Arc<ObjectType>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A parameter in a declaration.
    Param(char),
    /// A type variable during inference.
    Var(usize),
}

/// An object type.
#[derive(Debug, PartialEq)]
pub struct ObjectType {
    /// The name of the type in messages.
    pub name: String,
    /// The fields, with the names that expressions use.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    /// Returns `list(item)`.
    pub fn list(item: Type) -> Self {
        Self::List(Arc::new(item))
    }

    /// Returns `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// Returns `optional_type(inner)`.
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// Returns a type of a family with unknown fields, by its full name.
    pub(crate) fn family(name: &str) -> Self {
        Self::Object(Arc::new(ObjectType {
            name: name.to_owned(),
            fields: BTreeMap::new(),
        }))
    }

    /// Returns the name of the type of values, without type parameters: `list`, `google.protobuf.Duration`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Type(_) => "type".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns true if the type is `dyn`.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Var(index) => write!(f, "_var{index}"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

/// The types of libraries.
pub(crate) const OPAQUE: [&str; 11] = [
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
    "kubernetes.URL",
    "net.IP",
    "net.CIDR",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
];

/// Parses a type in a declaration: `list<A>`, `map<string,int>`, `optional<A>`, `kubernetes.URL`.
pub(crate) fn parse(text: &str) -> Type {
    let text = text.trim();
    if let Some((outer, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        return match outer {
            "list" => Type::list(parse(inner)),
            "optional" => Type::optional(parse(inner)),
            "type" => Type::Type(Box::new(parse(inner))),
            _ => match split_top_level(inner).as_slice() {
                [key, value] => Type::map(parse(key), parse(value)),
                _ => Type::Dyn,
            },
        };
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "A" | "B" | "K" | "V" => Type::Param(text.chars().next().unwrap_or('A')),
        _ => OPAQUE
            .iter()
            .find(|name| **name == text)
            .map_or(Type::Dyn, |name| Type::Opaque(name)),
    }
}

/// Splits a text at commas outside angle brackets.
pub(crate) fn split_top_level(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (index, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..index).unwrap_or(""));
                start = index + 1;
            }
            _ => {}
        }
    }
    let last = text.get(start..).unwrap_or("");
    if !last.trim().is_empty() {
        parts.push(last);
    }
    parts
}
