//! [`Failure`], an error in the form in which the user sees it.

/// An error for the user: a message, and a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// An error that may have a hint.
pub(crate) trait Hinted: std::error::Error {
    /// Returns a hint that says what the user can do.
    fn hint(&self) -> Option<String>;

    /// Returns true if the lines of the message are a tree. The lines of other messages are joined to one line.
    fn is_tree(&self) -> bool {
        false
    }
}

impl<E: Hinted> From<E> for Failure {
    fn from(error: E) -> Self {
        let message = error.to_string();
        Self {
            message: if error.is_tree() {
                message
            } else {
                message.lines().collect::<Vec<_>>().join(" ")
            },
            hint: error.hint(),
        }
    }
}
