//! Strict decoding of configuration files: kind and version, types and unknown fields, with the texts of the real
//! server.

use apimachinery::go::{json_kind, quote};
use apimachinery::{object, time};
use serde_json::Value;

/// The shape of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Bool,
    /// A string such as `30s`.
    Duration,
    Texts,
    Object(&'static Struct),
    List(&'static Struct),
    /// Any value; another decoder parses it.
    Any,
}

/// The fields of an object.
#[derive(Debug)]
pub(crate) struct Struct {
    /// The name of the type in error texts.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [(&'static str, Shape)],
}

/// A kind of configuration file.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) versions: &'static [&'static str],
    pub(crate) shape: &'static Struct,
    /// The name of the scheme in error texts.
    pub(crate) scheme: &'static str,
}

impl Kind {
    /// Parses a file in YAML or JSON.
    ///
    /// # Errors
    /// Returns an error if the file is not of this kind, or has fields of wrong types or with unknown names.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let parsed = apimachinery::yaml::parse(text)?;
        let value = parsed.value;
        let (version, kind) = (
            object::text(&value, &["apiVersion"]),
            object::text(&value, &["kind"]),
        );
        for (field, given) in [("Kind", kind), ("apiVersion", version)] {
            if given.is_empty() {
                return Err(format!("Object '{field}' is missing in '{text}'"));
            }
        }
        let known = self.versions.iter();
        let is_known = known
            .map(|short| format!("{}/{short}", self.group))
            .any(|known| known == version);
        if !is_known || kind != self.shape.name {
            return Err(format!(
                "no kind {} is registered for version {} in scheme {}",
                quote(kind),
                quote(version),
                quote(self.scheme)
            ));
        }
        let version = version.rsplit('/').next().unwrap_or_default();
        let mut decoder = Decoder {
            version,
            unknown: Vec::new(),
        };
        decoder.object(self.shape, &value, "", "")?;
        let mut faults = Vec::new();
        if !parsed.duplicates.is_empty() {
            faults.push(format!(
                "yaml: unmarshal errors:\n  {}",
                parsed.duplicates.join("\n  ")
            ));
        }
        faults.append(&mut decoder.unknown);
        if faults.is_empty() {
            return Ok(value);
        }
        Err(format!("strict decoding error: {}", faults.join(", ")))
    }
}

struct Decoder<'a> {
    /// The version in the names of types.
    version: &'a str,
    unknown: Vec<String>,
}

impl Decoder<'_> {
    /// Decodes an object. `path` is its path, and `plain` its path without the indices of lists.
    fn object(&mut self, shape: &Struct, value: &Value, path: &str, plain: &str) -> Result<(), String> {
        let Some(fields) = value.as_object() else {
            return Ok(());
        };
        for (name, value) in fields {
            let join = |path: &str| {
                if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                }
            };
            let (path, plain) = (join(path), join(plain));
            if plain == *name && matches!(name.as_str(), "apiVersion" | "kind") {
                continue;
            }
            match shape.fields.iter().find(|(known, _)| known == name) {
                Some((_, field)) => self.field(shape, *field, value, &path, &plain)?,
                None => self.unknown.push(format!("unknown field {}", quote(&path))),
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        parent: &Struct,
        shape: Shape,
        value: &Value,
        path: &str,
        plain: &str,
    ) -> Result<(), String> {
        let misfit = |value: &Value, wanted: &str| {
            Err(format!(
                "json: cannot unmarshal {} into Go struct field {}.{plain} of type {wanted}",
                json_kind(value),
                parent.name
            ))
        };
        match (shape, value) {
            (_, Value::Null)
            | (Shape::Any, _)
            | (Shape::Text, Value::String(_))
            | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Duration, Value::String(text)) => time::parse_duration(text).map(drop),
            (Shape::Texts, Value::Array(items)) => {
                match items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    Some(item) => misfit(item, "string"),
                    None => Ok(()),
                }
            }
            (Shape::Object(inner), Value::Object(_)) => self.object(inner, value, path, plain),
            (Shape::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Value::Object(_) => self.object(inner, item, &format!("{path}[{index}]"), plain)?,
                        Value::Null => {}
                        other => return misfit(other, &format!("{}.{}", self.version, inner.name)),
                    }
                }
                Ok(())
            }
            (Shape::Text | Shape::Duration, value) => misfit(value, "string"),
            (Shape::Bool, value) => misfit(value, "bool"),
            (Shape::Texts, value) => misfit(value, "[]string"),
            (Shape::Object(inner), value) => misfit(value, &format!("{}.{}", self.version, inner.name)),
            (Shape::List(inner), value) => misfit(value, &format!("[]{}.{}", self.version, inner.name)),
        }
    }
}

/// Joins the errors of a configuration as Go's aggregate does.
pub(crate) fn join(errors: &[apimachinery::field::Error]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}
