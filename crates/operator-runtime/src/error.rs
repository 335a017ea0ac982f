//! The error of a reconciler: any error, with what the queue needs to know about it.
//! It never knows why a reconcile failed, only whether trying again can help.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error that ends a reconcile; `?` turns every [`std::error::Error`] into it.
///
/// The key is tried again with exponential backoff (5 ms doubling up to 1000 s) until a reconcile succeeds.
/// [`Error::terminal`] says that trying again cannot help, [`Error::retry_after`] when it can.
///
/// Like `anyhow::Error` it does not implement [`std::error::Error`] itself, which is what lets `?` accept them all.
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

/// What becomes of a key after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It is tried again after its backoff.
    Backoff,
    /// It is tried again after this time.
    After(Duration),
    /// It waits for the next event.
    Never,
    /// It is no error: the key is reconciled again after this time.
    Wait(Duration),
}

// === impl Error ===

impl Error {
    /// An error with a text of one's own, which is tried again with backoff.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self {
            source: message.to_string().into(),
            retry: Retry::Backoff,
        }
    }

    /// An error that is not tried again: the key waits for the next event. For what only a change of the object can
    /// mend, such as a spec that makes no sense.
    ///
    /// The count of failures stays until the next success, as with controller-runtime's `TerminalError`.
    pub fn terminal(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
            retry: Retry::Never,
        }
    }

    /// An error after which the key is tried again when this time is over, in the place of the backoff: for somebody
    /// who said when to come back, as a `Retry-After` header does. The failures that were counted are forgotten.
    pub fn retry_after(source: impl Into<Box<dyn StdError + Send + Sync>>, after: Duration) -> Self {
        Self {
            source: source.into(),
            retry: Retry::After(after),
        }
    }

    /// Ends a reconcile that has to wait for something else, such as a Secret that somebody will create. It is not counted
    /// or logged as an error: the reason is logged at the level `info`, and the request is reconciled again after this time, or
    /// after the next event if that comes before. A time of zero means that an event will come.
    pub fn wait(reason: impl Into<Box<dyn StdError + Send + Sync>>, after: Duration) -> Self {
        Self {
            source: reason.into(),
            retry: Retry::Wait(after),
        }
    }

    /// Returns true if it was made by [`Error::wait`].
    pub fn is_waiting(&self) -> bool {
        matches!(self.retry, Retry::Wait(_))
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// Returns true if it was made by [`Error::terminal`], so that the key is not tried again.
    pub fn is_terminal(&self) -> bool {
        self.retry == Retry::Never
    }

    /// The error of type `T` in the chain of causes, if there is one.
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        self.chain().find_map(|error| error.downcast_ref())
    }

    /// The error and its causes, outermost first.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let outermost: &(dyn StdError + 'static) = self.source.as_ref();
        std::iter::successors(Some(outermost), cause)
    }

    /// Returns the `Status` with which the API server rejected a request, if that is the cause.
    ///
    /// A conflict (409) need not be handled: the request is reconciled again, and the next attempt reads the newer state.
    /// [`Client::apply`](crate::Client::apply) has no such conflicts, and [`Client::update_status`](crate::Client::update_status)
    /// and [`Client::create_or_update`](crate::Client::create_or_update) resolve them.
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
    /// One line: the error and its causes, without repeating a cause that the text before it already contains.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&describe(self.source.as_ref()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// An error and its causes in one line; many errors print their cause as well as offering it, so a cause whose text
/// is already there is left out.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for error in std::iter::successors(Some(error), cause) {
        // kube prints the whole Status twice, once as a structure; the message is what its user needs.
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

/// `panic: ` and the message of a panic.
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
    fn refusals_of_the_server_are_recognised() {
        let status = kube::core::Status::failure("memcacheds \"a\" not found", "NotFound").with_code(404);
        let error = Error::from(kube::Error::Api(status.boxed()));
        assert_eq!(error.to_string(), "memcacheds \"a\" not found");
        assert!(error.status().is_some_and(|status| status.is_not_found()));
    }
}
