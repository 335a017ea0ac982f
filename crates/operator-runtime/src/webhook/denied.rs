//! [`Denied`], the rejection of a request in the form that the API server returns to the client.

use std::error::Error as StdError;
use std::fmt;

use http::StatusCode;
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails, StatusSummary};
use serde_json::Value;

use crate::error::{Error, describe};
use crate::object::{Kind, Object};

/// The rejection of a request. `?` converts any error: the `Status` of an API server stays as it is, and every other
/// error becomes 403 Forbidden with the text of the error and its causes.
pub struct Denied {
    status: Box<Status>,
    warnings: Vec<String>,
}

/// An invalid field, with the messages of Kubernetes' own validation.
///
/// ```
/// use operator_runtime::webhook::FieldError;
///
/// let error = FieldError::invalid("spec.size", 4, "must be odd");
/// assert_eq!(error.to_string(), "spec.size: Invalid value: 4: must be odd");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    field: String,
    reason: &'static str,
    message: String,
}

// === impl Denied ===

impl Denied {
    /// Creates a 403 Forbidden with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_code(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// Creates a 422 Invalid with these field errors.
    pub fn invalid<K: Object>(name: &str, errors: impl IntoIterator<Item = FieldError>) -> Self {
        let kind = Kind::of::<K>();
        let errors: Vec<FieldError> = errors.into_iter().collect();
        let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut denied = Self::with_code(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{kind} \"{name}\" is invalid: {text}"),
        );
        denied.status.details = Some(StatusDetails {
            name: name.to_owned(),
            group: kind.group,
            kind: kind.kind,
            uid: String::new(),
            causes: errors.into_iter().map(FieldError::into_cause).collect(),
            retry_after_seconds: 0,
        });
        denied
    }

    /// Creates a rejection with this HTTP status code and this machine-readable reason, such as `TooManyRequests`.
    pub fn with_code(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        let status = Status {
            status: Some(StatusSummary::Failure),
            code: code.as_u16(),
            message: message.into(),
            metadata: None,
            reason: reason.to_owned(),
            details: None,
        };
        Self::from_status(status)
    }

    /// Adds warnings, which clients show in addition to the message.
    #[must_use]
    pub fn warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    fn from_status(status: Status) -> Self {
        Self {
            status: Box::new(status),
            warnings: Vec::new(),
        }
    }

    pub(super) fn into_parts(self) -> (Box<Status>, Vec<String>) {
        (self.status, self.warnings)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.status.message)
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Denied")
            .field("status", &self.status)
            .field("warnings", &self.warnings)
            .finish()
    }
}

impl<E: StdError + 'static> From<E> for Denied {
    fn from(error: E) -> Self {
        match answered(&error) {
            Some(status) => Self::from_status(status.clone()),
            None => Self::new(describe(&error)),
        }
    }
}

/// Returns the `Status` of an API server in the causes of an error.
fn answered<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status),
        _ => answered(error.source()?),
    }
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        match error.status() {
            Some(status) => Self::from_status(status.clone()),
            None => Self::new(error.to_string()),
        }
    }
}

// === impl FieldError ===

impl FieldError {
    /// Creates an error for an invalid value.
    pub fn invalid(field: &str, value: impl Into<Value>, detail: &str) -> Self {
        Self::new(
            field,
            "FieldValueInvalid",
            format!("Invalid value: {}: {detail}", value.into()),
        )
    }

    /// Creates an error for a missing value.
    pub fn required(field: &str, detail: &str) -> Self {
        Self::new(field, "FieldValueRequired", format!("Required value: {detail}"))
    }

    /// Creates an error for a value that must be absent.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {detail}"))
    }

    /// Creates an error for a duplicate in a list.
    pub fn duplicate(field: &str, value: impl Into<Value>) -> Self {
        Self::new(
            field,
            "FieldValueDuplicate",
            format!("Duplicate value: {}", value.into()),
        )
    }

    /// Creates an error for a value that is not among the supported ones.
    pub fn not_supported<'a>(
        field: &str,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let supported: Vec<String> = supported.into_iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            value.into(),
            supported.join(", ")
        );
        Self::new(field, "FieldValueNotSupported", message)
    }

    fn new(field: &str, reason: &'static str, message: String) -> Self {
        let field = field.to_owned();
        Self {
            field,
            reason,
            message,
        }
    }

    fn into_cause(self) -> StatusCause {
        StatusCause {
            reason: self.reason.to_owned(),
            message: self.message,
            field: self.field,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}
