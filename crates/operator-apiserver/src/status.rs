//! `metav1.Status`: every answer of the server that is not an object.

use serde_json::Value;

/// An error answer, as `k8s.io/apimachinery/pkg/api/errors` makes it. `body` is the whole Status object.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .body.get("message").and_then(Value::as_str).unwrap_or("unknown"))]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The Status object, ready to be sent.
    pub body: Value,
}

impl Status {
    /// The machine-readable reason, such as `NotFound`; empty when there is none.
    pub fn reason(&self) -> &str {
        self.body
            .get("reason")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}
