//! Conversion of objects between the versions of their kind.

use std::fmt;

use serde_json::Value;

/// Converts objects from one version of their kind to another.
pub trait Converter: fmt::Debug + Send + Sync {
    /// Returns the object in the version `api_version`.
    ///
    /// # Errors
    /// [`ConvertError::MissingVersion`] makes managers that used this version disappear; any other error fails the
    /// apply, and leaves managers as they are in other writes.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// An error of a conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The kind does not exist in this version.
    #[error("no such version")]
    MissingVersion,
    /// The server's own message.
    #[error("{0}")]
    Failed(String),
}
