//! The conversion of objects between the versions of their kind: [`Converter`].

use std::fmt;

use serde_json::Value;

/// Converts objects from one version of their kind to another.
pub trait Converter: fmt::Debug + Send + Sync {
    /// Converts the object to the version `api_version`.
    ///
    /// # Errors
    /// [`ConvertError::MissingVersion`] removes the managers that used this version. Any other error fails an apply;
    /// other writes then leave the managers unchanged.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// An error of a conversion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The kind does not exist in this version.
    #[error("no such version")]
    MissingVersion,
    /// The conversion failed with this message of the server.
    #[error("{0}")]
    Failed(String),
}
