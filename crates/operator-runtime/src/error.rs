//! [`Error`], the error of a reconciler: any error, with its kind of retry.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A result whose error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that ends a reconcile. `?` converts every [`std::error::Error`] into it.
///
/// The key is retried with exponential backoff (5 ms doubling up to 1000 s) until a reconcile succeeds.
/// [`Error::terminal`] is not retried; [`Error::retry_after`] sets the delay.
///
/// Like `anyhow::Error`, it does not implement [`std::error::Error`] itself, so that `?` accepts all errors.
///
/// ```
/// use operator_runtime::{Error, Result};
///
/// fn replicas(text: &str) -> Result<u16> {
///     let replicas: u16 = text.parse()?;
///     if replicas > 1_000 {
///         return Err(Error::terminal("more replicas than the license allows"));
///     }
///     Ok(replicas)
/// }
/// assert!(!replicas("many").unwrap_err().is_terminal());
/// assert!(replicas("2000").unwrap_err().is_terminal());
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    retry: Retry,
}

/// The retry after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// After the backoff of the key.
    Backoff,
    /// After this time.
    After(Duration),
    /// At the next event.
    Never,
    /// Not an error: reconcile again after this time.
    Wait(Duration),
}

// === impl Error ===

impl Error {
    /// Creates an error with a message. It is retried with backoff.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self {
            source: message.to_string().into(),
            retry: Retry::Backoff,
        }
    }

    /// Creates an error that is not retried: the key waits for the next event. Use it for errors that only a change of
    /// the object can resolve, such as an invalid spec.
    ///
    /// The backoff of the key is kept until the next success, like with controller-runtime's `TerminalError`.
    pub fn terminal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            retry: Retry::Never,
        }
    }

    /// Creates an error that is retried after this time instead of the backoff, for example after the time in a
    /// `Retry-After` header. Resets the backoff of the key.
    pub fn retry_after(source: impl Into<Box<dyn StdError + Send + Sync>>, after: Duration) -> Self {
        Self {
            source: source.into(),
            retry: Retry::After(after),
        }
    }

    /// Creates an error for a reconcile that waits for something else, such as a Secret that another controller
    /// creates. It is not counted as an error, and its reason is logged at the level `info`. The key is reconciled
    /// again after this time or at the next event, whichever comes first. Zero means at the next event.
    pub fn wait(reason: impl Into<Box<dyn StdError + Send + Sync>>, after: Duration) -> Self {
        Self {
            source: reason.into(),
            retry: Retry::Wait(after),
        }
    }

    /// Returns true if the error was created with [`Error::wait`].
    pub fn is_waiting(&self) -> bool {
        matches!(self.retry, Retry::Wait(_))
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// Returns true if the error was created with [`Error::terminal`].
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// Returns the error of type `T` in the chain of causes.
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        self.chain().find_map(|error| error.downcast_ref())
    }

    /// Returns the error and its causes, outermost first.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let outermost: &(dyn StdError + 'static) = self.source.as_ref();
        std::iter::successors(Some(outermost), cause)
    }

    /// Returns the `Status` with which the API server rejected a request, if that caused the error.
    ///
    /// A conflict (409) needs no handling: the key is reconciled again, and the next attempt reads the newer state.
    /// [`Client::apply`](crate::Client::apply) has no such conflicts, and
    /// [`Client::update_status`](crate::Client::update_status) retries them.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self.find::<kube::Error>()? {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        Self {
            source: Box::new(source),
            retry: Retry::Backoff,
        }
    }
}

impl fmt::Display for Error {
    /// Writes the error and its causes in one line. A cause is omitted if the preceding text already contains it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&describe(self.source.as_ref()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Returns an error and its causes in one line. Many errors print their cause and also return it as their source, so a
/// cause is omitted if its text is already there.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for error in std::iter::successors(Some(error), cause) {
        // kube prints the whole Status twice, once as a structure. The message is sufficient.
        let refusal = match error.downcast_ref() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        };
        let is_refusal = refusal.is_some();
        let part = refusal.unwrap_or_else(|| error.to_string());
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        if is_refusal {
            break;
        }
    }
    text
}

fn cause<'a>(error: &&'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    (*error).source()
}

/// Returns `panic: ` and the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("(no message)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the licence")]
    struct Outer(#[source] std::num::ParseIntError);

    fn outer() -> Outer {
        Outer("x".parse::<u8>().unwrap_err())
    }

    #[test]
    fn text_names_each_cause_once() {
        let error = Error::from(outer());
        assert_eq!(
            error.to_string(),
            "cannot read the licence: invalid digit found in string"
        );
    }

    #[test]
    fn causes_are_found_by_type() {
        assert!(Error::from(outer()).find::<std::num::ParseIntError>().is_some());
        assert!(Error::msg("plain").find::<std::num::ParseIntError>().is_none());
    }

    #[test]
    fn errors_of_the_server_are_recognized() {
        let status = kube::core::Status::failure("memcacheds \"a\" not found", "NotFound").with_code(404);
        let error = Error::from(kube::Error::Api(status.boxed()));
        assert_eq!(error.to_string(), "memcacheds \"a\" not found");
        assert!(error.status().is_some_and(|status| status.is_not_found()));
    }
}
