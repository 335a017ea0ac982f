//! Field paths ([`Path`]) and field errors ([`Error`], [`ErrorList`]) with the texts of Kubernetes
//! (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;
use std::ops::Deref;

use serde_json::Value;

use crate::go;

/// The path of a field inside an object: `spec.containers[0].name`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

/// The maximum length of a path. A key can be as long as a request, and each field below it repeats the key.
const MAX_PATH: usize = 1024;

/// Appends to a path up to the length limit.
pub fn append(path: &mut String, text: &str) {
    const MORE: &str = "…";
    let room = MAX_PATH.saturating_sub(path.len());
    if text.len() <= room {
        return path.push_str(text);
    }
    if path.ends_with(MORE) {
        return;
    }
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end));
    path.push_str(text.get(..end.unwrap_or(0)).unwrap_or(""));
    path.push_str(MORE);
}

impl Path {
    fn with(&self, parts: &[&str]) -> Self {
        let mut path = self.0.clone();
        parts.iter().for_each(|part| append(&mut path, part));
        Self(path)
    }

    /// Returns a path that starts with the field `name`; the empty name is the object itself. Paths are truncated at
    /// 1,024 bytes.
    pub fn new(name: &str) -> Self {
        Self::default().with(&[name])
    }

    /// Returns the field `name` below this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if name.is_empty() {
            // Go prints a path without a name as an empty key.
            return self.key("");
        }
        let dot = if self.0.is_empty() { "" } else { "." };
        self.with(&[dot, name])
    }

    /// Returns the list item `index` below this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(&["[", &index.to_string(), "]"])
    }

    /// Returns the map entry `key` below this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(&["[", key, "]"])
    }

    /// Returns the path `<nil>`, which the real server's messages show for a whole object.
    pub fn nil() -> Self {
        Self("<nil>".to_owned())
    }

    /// Returns true if this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path as text; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of error of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// A value is missing: `FieldValueRequired`.
    Required,
    /// A value appears twice in a set: `FieldValueDuplicate`.
    Duplicate,
    /// A value is malformed or out of range: `FieldValueInvalid`.
    Invalid,
    /// A value is not one of the supported values: `FieldValueNotSupported`.
    NotSupported,
    /// A value is not allowed here: `FieldValueForbidden`.
    Forbidden,
    /// A string is too long: `FieldValueTooLong`.
    TooLong,
    /// A list has too many items: `FieldValueTooMany`.
    TooMany,
    /// A value refers to an object that does not exist: `FieldValueNotFound`.
    NotFound,
    /// A value has the wrong type: `FieldValueTypeInvalid`.
    TypeInvalid,
    /// The server failed while it checked the value: `InternalError`.
    Internal,
}

impl ErrorType {
    /// Returns the `reason` of the cause in a Status, such as `FieldValueInvalid`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    /// Returns the start of the message, such as `Invalid value`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// An error of one field of an object.
///
/// ```
/// use apimachinery::field::{Error, Path};
/// let error = Error::invalid(Path::new("spec").child("replicas"), (-1).into(), "must be greater than or equal to 0");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorType,
    /// The path; some of the API server's validators write `<nil>` for the empty path.
    pub field: Path,
    /// The value as Kubernetes renders it; `None` omits it from the message.
    pub value: Option<String>,
    /// The detail; may be empty.
    pub detail: String,
}

/// Formats a value as Go's `field.Error` does: strings are quoted, other values are JSON.
pub fn render(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Number(number) => go::number(number),
        other => go::json(other),
    }
}

impl Error {
    /// Returns an error of the given kind whose message has no value.
    pub fn new(kind: ErrorType, field: Path, detail: impl Into<String>) -> Self {
        Self {
            kind,
            field,
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns the error `Invalid value: VALUE: DETAIL`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the value for this error"
    )]
    pub fn invalid(field: Path, value: Value, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorType::Invalid,
            field,
            value: Some(render(&value)),
            detail: detail.into(),
        }
    }

    /// Returns the error `Invalid value: VALUE: DETAIL` with the cause `FieldValueTypeInvalid`.
    pub fn type_invalid(field: Path, value: &Value, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorType::TypeInvalid,
            field,
            value: Some(render(value)),
            detail: detail.into(),
        }
    }

    /// Returns the error `Required value: DETAIL`.
    pub fn required(field: Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, field, detail)
    }

    /// Returns the error `Forbidden: DETAIL`.
    pub fn forbidden(field: Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, field, detail)
    }

    /// Returns the error `Duplicate value: VALUE`.
    pub fn duplicate(field: Path, value: &Value) -> Self {
        Self {
            kind: ErrorType::Duplicate,
            field,
            value: Some(render(value)),
            detail: String::new(),
        }
    }

    /// Returns the error `Unsupported value: VALUE: supported values: "a", "b"`.
    pub fn not_supported(field: Path, value: &Value, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|text| go::quote(text)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self {
            kind: ErrorType::NotSupported,
            field,
            value: Some(render(value)),
            detail,
        }
    }

    /// Returns the error `Too long: may not be more than MAX bytes`.
    pub fn too_long(field: Path, max: usize) -> Self {
        Self::new(
            ErrorType::TooLong,
            field,
            format!(
                "may not be more than {max} {}",
                if max == 1 { "byte" } else { "bytes" }
            ),
        )
    }

    /// Returns the error `Too many: FOUND: must have at most MAX items`.
    pub fn too_many(field: Path, found: usize, max: usize) -> Self {
        Self {
            kind: ErrorType::TooMany,
            field,
            value: Some(found.to_string()),
            detail: format!(
                "must have at most {max} {}",
                if max == 1 { "item" } else { "items" }
            ),
        }
    }

    /// Returns the size in memory, in bytes.
    fn size(&self) -> usize {
        let value = self.value.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.field.as_str().len() + value + self.detail.len()
    }

    /// Returns the message without the path, as in a Status cause: `Invalid value: -1: must be …`.
    pub fn message(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

impl std::error::Error for Error {}

/// The errors of an object, in the order in which they were found, up to a size limit: an object with a million wrong
/// fields has an error for each, and the API server shows a long list again in each error of its items.
///
/// When the size exceeds [`ErrorList::SIZE_MAX`], an error that says so is appended, and further errors are dropped.
///
/// ```
/// use apimachinery::field::{Error, ErrorList, Path};
/// let mut errors = ErrorList::new();
/// errors.push(Error::required(Path::new("spec").child("image"), ""));
/// assert_eq!(errors[0].to_string(), "spec.image: Required value");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList {
    errors: Vec<Error>,
    size: usize,
}

impl ErrorList {
    /// The maximum size of the errors in memory, in bytes; the last error can exceed it.
    pub const SIZE_MAX: usize = 8 << 20;

    /// Returns an empty list.
    pub const fn new() -> Self {
        Self {
            errors: Vec::new(),
            size: 0,
        }
    }

    /// Appends an error, unless the list is full.
    pub fn push(&mut self, error: Error) {
        if self.is_full() {
            return;
        }
        self.size += error.size();
        self.errors.push(error);
        if self.is_full() {
            let detail = "there are too many errors: the others are not shown";
            self.errors.push(Error::invalid(Path::nil(), Value::Null, detail));
        }
    }

    /// Returns true if the size limit is reached, so that no more errors are appended.
    pub fn is_full(&self) -> bool {
        self.size > Self::SIZE_MAX
    }

    /// Sorts the errors by their texts.
    pub fn sort(&mut self) {
        let last = if self.is_full() { self.errors.pop() } else { None };
        self.errors.sort_by_cached_key(ToString::to_string);
        self.errors.extend(last);
    }
}

impl Deref for ErrorList {
    type Target = [Error];

    fn deref(&self) -> &[Error] {
        &self.errors
    }
}

impl From<Error> for ErrorList {
    fn from(error: Error) -> Self {
        Self::from_iter([error])
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

impl Extend<Error> for ErrorList {
    fn extend<I: IntoIterator<Item = Error>>(&mut self, errors: I) {
        for error in errors {
            if self.is_full() {
                return;
            }
            self.push(error);
        }
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'l> IntoIterator for &'l ErrorList {
    type Item = &'l Error;
    type IntoIter = std::slice::Iter<'l, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}
