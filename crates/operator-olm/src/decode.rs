//! Decodes values like `encoding/json` decodes them into a Go struct after sigs.k8s.io/yaml, according to a [`Shape`].
//!
//! A number or a boolean is accepted for a string field. Any other value of a wrong type is an error.

use apimachinery::go;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value};
use structured_merge::builtin::{self, FieldKind, Type};

use crate::catalog::version::{self, Version};

/// The type of a value in a Go struct.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Bool,
    Int,
    Any,
    /// A `version.OperatorVersion`.
    Version,
    /// The release of a bundle.
    Release,
    IntOrString,
    List(&'static Shape),
    Map(&'static Shape),
    Struct(&'static [(&'static str, Shape)]),
    /// A built-in Kubernetes type, by its OpenAPI name.
    Builtin(&'static str),
}

/// The error of a value with a wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError {
    /// The JSON pointer of the value.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

/// Returns the value as decoded by the struct: without unknown fields and nulls, and with scalars converted to strings.
pub(crate) fn decode(shape: Shape, value: &Value) -> Result<Value, DecodeError> {
    Decoder {
        pointer: String::new(),
        owner: "ClusterServiceVersion",
    }
    .shape(shape, value)
}

struct Decoder {
    pointer: String,
    /// The name of the decoded struct in messages.
    owner: &'static str,
}

impl Decoder {
    fn inside<T>(
        &mut self,
        segment: &str,
        run: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let outer = self.pointer.len();
        self.pointer.push('/');
        let escaped = segment.replace('~', "~0").replace('/', "~1");
        self.pointer.push_str(&escaped);
        let result = run(self)?;
        self.pointer.truncate(outer);
        Ok(result)
    }

    fn wrong<T>(&self, value: &Value, wanted: &str) -> Result<T, DecodeError> {
        let found = go::json_kind(value);
        let field = self.pointer.trim_start_matches('/').replace('/', ".");
        self.fail(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{field} of type {wanted}",
            self.owner
        ))
    }

    fn fail<T>(&self, message: String) -> Result<T, DecodeError> {
        Err(DecodeError {
            pointer: self.pointer.clone(),
            message,
        })
    }

    fn shape(&mut self, shape: Shape, value: &Value) -> Result<Value, DecodeError> {
        match (shape, value) {
            (Shape::Version, Value::Null) => self.version(""),
            (_, Value::Null) => Ok(Value::Null),
            (Shape::Any, value) => Ok(value.clone()),
            (Shape::Text, value) => self.text(value),
            (Shape::Bool, Value::Bool(_)) => Ok(value.clone()),
            (Shape::Bool, _) => self.wrong(value, "bool"),
            (Shape::Int, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (Shape::Int, _) => self.wrong(value, "int32"),
            (Shape::Version, Value::String(text)) => self.version(text),
            (Shape::Version | Shape::Release, value) if !value.is_string() => self.wrong(value, "string"),
            (Shape::Release, value) => {
                let text = value.as_str().unwrap_or_default();
                match version::pre_release(text) {
                    Err(error) if !text.is_empty() => self.fail(error),
                    _ => Ok(value.clone()),
                }
            }
            (Shape::IntOrString, Value::String(_)) => Ok(value.clone()),
            (Shape::IntOrString, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (Shape::IntOrString, _) => self.wrong(value, "int32"),
            (Shape::List(item), Value::Array(items)) => {
                self.list(items, |decoder, value| decoder.shape(*item, value))
            }
            (Shape::List(_), _) => self.wrong(value, "list"),
            (Shape::Map(item), Value::Object(fields)) => {
                self.map(fields, |decoder, value| decoder.shape(*item, value))
            }
            (Shape::Map(_), _) => self.wrong(value, "map"),
            (Shape::Struct(shapes), Value::Object(fields)) => {
                let mut decoded = Map::new();
                for (name, shape) in shapes {
                    if let Some(value) = fields.get(*name) {
                        let value = self.inside(name, |decoder| decoder.shape(*shape, value))?;
                        if !value.is_null() {
                            decoded.insert((*name).to_owned(), value);
                        }
                    }
                }
                Ok(Value::Object(decoded))
            }
            (Shape::Struct(_), _) => self.wrong(value, "struct"),
            (Shape::Builtin(name), _) => match builtin::types().named(name) {
                Some(kind) => self.object(kind, value),
                None => Ok(value.clone()),
            },
            (Shape::Version, _) => self.wrong(value, "string"),
        }
    }

    fn version(&self, text: &str) -> Result<Value, DecodeError> {
        match Version::parse_tolerant(text) {
            Ok(version) => Ok(version.to_string().into()),
            Err(error) => self.fail(error),
        }
    }

    fn text(&self, value: &Value) -> Result<Value, DecodeError> {
        match value {
            Value::String(_) => Ok(value.clone()),
            Value::Bool(flag) => Ok(flag.to_string().into()),
            Value::Number(number) => Ok(apimachinery::go::number(number).into()),
            _ => self.wrong(value, "string"),
        }
    }

    fn list(
        &mut self,
        items: &[Value],
        mut item: impl FnMut(&mut Self, &Value) -> Result<Value, DecodeError>,
    ) -> Result<Value, DecodeError> {
        let mut decoded = Vec::with_capacity(items.len());
        for (index, value) in items.iter().enumerate() {
            decoded.push(self.inside(&index.to_string(), |decoder| item(decoder, value))?);
        }
        Ok(Value::Array(decoded))
    }

    fn map(
        &mut self,
        fields: &Map<String, Value>,
        mut item: impl FnMut(&mut Self, &Value) -> Result<Value, DecodeError>,
    ) -> Result<Value, DecodeError> {
        let mut decoded = Map::new();
        for (name, value) in fields {
            let value = self.inside(name, |decoder| item(decoder, value))?;
            decoded.insert(name.clone(), value);
        }
        Ok(Value::Object(decoded))
    }

    fn object(&mut self, kind: &'static Type, value: &Value) -> Result<Value, DecodeError> {
        if let Some(special) = &kind.special {
            return self.field(special, value);
        }
        let Value::Object(fields) = value else {
            return self.wrong(value, kind.name.rsplit('.').next().unwrap_or_default());
        };
        let name = kind.name.rsplit('.').next().unwrap_or_default();
        let outer = std::mem::replace(&mut self.owner, name);
        let mut decoded = Map::new();
        for (name, value) in fields {
            if let Some(field) = kind.field(name) {
                let value = self.inside(name, |decoder| decoder.field(&field.kind, value))?;
                if !value.is_null() {
                    decoded.insert(name.clone(), value);
                }
            }
        }
        self.owner = outer;
        Ok(Value::Object(decoded))
    }

    /// Decodes a field. The recursion is limited, because the tree is at most `apimachinery::json::DEPTH_MAX` deep.
    fn field(&mut self, kind: &'static FieldKind, value: &Value) -> Result<Value, DecodeError> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        match kind {
            FieldKind::String | FieldKind::Bytes | FieldKind::Time | FieldKind::MicroTime => self.text(value),
            FieldKind::Boolean => self.shape(Shape::Bool, value),
            FieldKind::Int32 | FieldKind::Int64 => self.shape(Shape::Int, value),
            FieldKind::Number if value.is_number() => Ok(value.clone()),
            FieldKind::Number => self.wrong(value, "float64"),
            FieldKind::IntOrString => self.shape(Shape::IntOrString, value),
            FieldKind::Quantity => match Quantity::from_json(value) {
                Ok(_) => Ok(value.clone()),
                Err(error) => self.fail(error.to_string()),
            },
            FieldKind::Ref(id) => self.object(id.resolve(), value),
            FieldKind::List(item) => match value {
                Value::Array(items) => self.list(items, |decoder, value| decoder.field(item, value)),
                _ => self.wrong(value, "list"),
            },
            FieldKind::Map(item) => match value {
                Value::Object(fields) => self.map(fields, |decoder, value| decoder.field(item, value)),
                _ => self.wrong(value, "map"),
            },
            FieldKind::Object | FieldKind::Raw | FieldKind::Any => Ok(value.clone()),
        }
    }
}

/// Returns true if the value is the zero value of its Go type. Lists and maps that are present are not zero.
pub(crate) fn is_zero(shape: Shape, value: Option<&Value>) -> bool {
    match (shape, value) {
        (_, None | Some(Value::Null | Value::Bool(false))) => true,
        (Shape::Version, Some(Value::String(text))) => text == "0.0.0",
        (_, Some(Value::String(text))) => text.is_empty(),
        (_, Some(Value::Number(number))) => number.as_f64() == Some(0.0),
        (Shape::Struct(shapes), Some(Value::Object(fields))) => shapes
            .iter()
            .all(|(name, shape)| is_zero(*shape, fields.get(*name))),
        (Shape::Builtin(_), Some(Value::Object(fields))) => fields.is_empty(),
        _ => false,
    }
}
