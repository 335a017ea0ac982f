//! Errors as the user sees them.

/// An error as it is shown: one line, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// An error that says what the user can do.
pub(crate) trait Hinted: std::error::Error {
    /// What the user can do.
    fn hint(&self) -> Option<String>;
}

impl<E: Hinted> From<E> for Failure {
    fn from(error: E) -> Self {
        let message = error.to_string();
        Self {
            message: message.lines().collect::<Vec<_>>().join(" "),
            hint: error.hint(),
        }
    }
}
