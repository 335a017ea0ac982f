//! Classification of the errors of a watch.

use kube::runtime::watcher;

use crate::error::describe;
use crate::object::Kind;

/// Returns the status of the server's error response.
fn refusal(error: &watcher::Error) -> Option<&kube::core::Status> {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => Some(status),
        _ => None,
    }
}

pub(super) fn is_too_many_requests(error: &watcher::Error) -> bool {
    refusal(error).is_some_and(|status| status.code == 429)
}

pub(super) fn is_expired(error: &watcher::Error) -> bool {
    refusal(error).is_some_and(|status| status.code == 410)
}

/// Returns true if a resumed watch would miss events or fail again, so that a new list is needed. kube's `watcher`
/// lists again by itself only if a watch event reports that its revision has expired.
pub(super) fn is_out_of_step(error: &watcher::Error) -> bool {
    is_expired(error) || is_garbled(error)
}

/// Returns true if a watch event is unreadable. Any event may have been lost with it.
pub(super) fn is_garbled(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_)))
}

/// Returns the server's message, with a hint if one is known.
pub(super) fn explain(kind: &Kind, error: &watcher::Error) -> String {
    match refusal(error) {
        Some(status) if status.code == 404 => {
            format!(
                "the server does not serve {}.{}: install its CRD",
                kind.plural, kind.group
            )
        }
        Some(status) if status.code == 403 => {
            format!(
                "{} (the operator's role needs get, list and watch on {})",
                status.message, kind.plural
            )
        }
        Some(status) => status.message.clone(),
        None => describe(error),
    }
}
