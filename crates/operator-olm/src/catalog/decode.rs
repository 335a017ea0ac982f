//! Decodes fields of JSON objects with the errors of Go's decoder.

use apimachinery::go;
use serde_json::{Map, Value};

/// Decodes the fields of a Go struct. The name of the struct is a part of the errors.
#[derive(Clone, Copy)]
pub(super) struct Struct<'a> {
    /// The name of the outermost struct.
    pub(super) name: &'static str,
    /// The path of this struct in the outermost one, with a dot at the end.
    pub(super) path: &'static str,
    pub(super) fields: &'a Map<String, Value>,
}

impl<'a> Struct<'a> {
    /// Decodes a JSON object as an outermost struct.
    pub(super) fn whole(value: &'a Value, go_type: &'static str) -> Result<Option<Self>, String> {
        match value {
            Value::Null => Ok(None),
            Value::Object(fields) => Ok(Some(Self {
                name: go_type.rsplit('.').next().unwrap_or(go_type),
                path: "",
                fields,
            })),
            other => Err(format!(
                "json: cannot unmarshal {} into Go value of type {go_type}",
                go::json_kind(other)
            )),
        }
    }

    /// Returns a field by its name, or else a field whose name differs only in case. Null counts as a missing field.
    pub(super) fn field(&self, name: &str) -> Option<&'a Value> {
        let exact = self.fields.get(name);
        let found = exact.or_else(|| {
            let mut others = self.fields.iter();
            others
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        });
        found.filter(|value| !value.is_null())
    }

    pub(super) fn mismatch(&self, field: &str, value: &Value, go_type: &str) -> String {
        format!(
            "json: cannot unmarshal {} into Go struct field {}.{}{field} of type {go_type}",
            go::json_kind(value),
            self.name,
            self.path
        )
    }

    pub(super) fn text(&self, field: &str) -> Result<String, String> {
        match self.field(field) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.mismatch(field, other, "string")),
        }
    }

    pub(super) fn list(&self, field: &str, go_type: &str) -> Result<Option<&'a [Value]>, String> {
        match self.field(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.mismatch(field, other, go_type)),
        }
    }

    /// Decodes a struct in a field or an item of a list; `path` is its path in the outermost struct.
    pub(super) fn nested(
        &self,
        value: &'a Value,
        path: &'static str,
        go_type: &str,
    ) -> Result<Option<Self>, String> {
        match value {
            Value::Null => Ok(None),
            Value::Object(fields) => Ok(Some(Self {
                path,
                fields,
                ..*self
            })),
            other => {
                let field = path.trim_end_matches('.');
                let outermost = Self { path: "", ..*self };
                Err(outermost.mismatch(field, other, go_type))
            }
        }
    }

    pub(super) fn texts(&self, field: &str) -> Result<Vec<String>, String> {
        let items = self.list(field, "[]string")?.unwrap_or_default();
        items
            .iter()
            .map(|item| match item {
                Value::Null => Ok(String::new()),
                Value::String(text) => Ok(text.clone()),
                other => Err(self.mismatch(field, other, "string")),
            })
            .collect()
    }
}
