//! [`WatchErrorHandler`] receives the failures of watches.

use std::fmt;
use std::sync::Arc;

use kube::runtime::watcher;

use crate::object::Kind;

/// Receives each failure of a watch, which is then not logged; see [`CacheOptions::watch_errors`].
///
/// It is called for every failed attempt, including those that are followed immediately by a new list (410). It must
/// not block.
///
/// ```
/// use operator_runtime::cache::{CacheOptions, WatchErrorHandler};
///
/// let watch_errors = WatchErrorHandler::new(|failure| {
///     tracing::warn!(kind = %failure.kind, namespace = failure.namespace, error = %failure.message, "watch failed");
/// });
/// let options = CacheOptions { watch_errors, ..CacheOptions::default() };
/// # let _ = options;
/// ```
///
/// [`CacheOptions::watch_errors`]: super::CacheOptions::watch_errors
#[derive(Clone, Default)]
pub struct WatchErrorHandler(Option<Handler>);

type Handler = Arc<dyn Fn(&WatchFailure<'_>) + Send + Sync>;

/// A failed attempt to list or to watch.
#[derive(Debug)]
#[non_exhaustive]
pub struct WatchFailure<'a> {
    /// The kind.
    pub kind: &'a Kind,
    /// The namespace of the watch. `None` for all.
    pub namespace: Option<&'a str>,
    /// The error, with a hint if one is known.
    pub message: &'a str,
    /// The error.
    pub error: &'a watcher::Error,
}

// === impl WatchErrorHandler ===

impl WatchErrorHandler {
    /// Calls a function for each failure.
    pub fn new(handler: impl Fn(&WatchFailure<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(handler)))
    }

    /// Calls the handler. Returns false if no handler is set.
    pub(super) fn call(&self, failure: &WatchFailure<'_>) -> bool {
        if let Some(handler) = &self.0 {
            handler(failure);
        }
        self.0.is_some()
    }
}

impl fmt::Debug for WatchErrorHandler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handler = self.0.as_ref().map_or("log", |_| "own");
        formatter
            .debug_tuple("WatchErrorHandler")
            .field(&handler)
            .finish()
    }
}
