//! [`Signal`], which tells readers that a store has changed.
//!
//! The receivers of tokio's watch channel wake in a random order. Here they wake in the order in which they began to
//! wait, so that a simulation can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Sends the newest revision. The readers end when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Signal(Arc<Shared>);

/// Waits for changes.
#[derive(Debug)]
pub(crate) struct Changes {
    shared: Arc<Shared>,
    /// The newest revision when the reader last looked.
    seen: u64,
}

/// The store was dropped.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store was dropped")]
pub(crate) struct Closed;

#[derive(Debug, Default)]
struct Shared {
    revision: AtomicU64,
    is_closed: AtomicBool,
    changed: Notify,
}

impl Signal {
    pub(super) fn send(&self, revision: u64) {
        self.0.revision.store(revision, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    pub(super) fn subscribe(&self) -> Changes {
        let mut changes = Changes {
            shared: self.0.clone(),
            seen: 0,
        };
        changes.mark_seen();
        changes
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

impl Changes {
    /// Makes [`Changes::changed`] wait for a later change.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.shared.revision.load(Ordering::Acquire);
    }

    /// Waits until there is a change that was not seen, and marks it as seen. No change is lost if the future is dropped.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            let mut notified = std::pin::pin!(self.shared.changed.notified());
            // From here on, a change wakes this reader.
            notified.as_mut().enable();
            let revision = self.shared.revision.load(Ordering::Acquire);
            if revision != self.seen {
                self.seen = revision;
                return Ok(());
            }
            if self.shared.is_closed.load(Ordering::Acquire) {
                return Err(Closed);
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::stream::{FuturesUnordered, StreamExt};

    use super::*;

    #[tokio::test]
    async fn readers_wake_in_the_order_in_which_they_wait() {
        let signal = Signal::default();
        let mut readers: FuturesUnordered<_> = (0..40)
            .map(|number| {
                let mut changes = signal.subscribe();
                async move { changes.changed().await.map(|()| number) }
            })
            .collect();
        assert!(readers.next().now_or_never().is_none());
        signal.send(1);
        let woken: Vec<_> = readers.map(|woken| woken.unwrap_or(-1)).collect().await;
        assert_eq!(woken, (0..40).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_the_end_is_an_error() {
        let signal = Signal::default();
        signal.send(1);
        let mut changes = signal.subscribe();
        assert!(changes.changed().now_or_never().is_none());
        signal.send(2);
        assert!(changes.changed().await.is_ok());
        assert!(changes.changed().now_or_never().is_none());
        drop(signal);
        assert!(changes.changed().await.is_err());
    }
}
