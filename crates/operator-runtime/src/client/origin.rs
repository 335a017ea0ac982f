//! [`Current`], the reconcile request of a write, in a task-local variable. Every client that is used within a
//! reconcile reads it.

use super::request::Target;
use super::{Client, ClientError};
use crate::cache::informer::CachedState;
use crate::cache::skips::{Interest, Origin};
use crate::object::View;

/// The request of the running reconcile.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// The request and its queue.
    pub(crate) origin: Origin,
    /// True if the controller sends every write.
    pub(crate) always_send: bool,
}

tokio::task_local! {
    static CURRENT: Current;
}

/// Runs a reconcile.
pub(crate) async fn within<F: Future>(current: Current, reconcile: F) -> F::Output {
    CURRENT.scope(current, reconcile).await
}

/// Maximum attempts of a skip, because the object may change between the comparison and the record.
const ATTEMPTS: usize = 3;

// === impl Client ===

impl Client {
    /// Returns the object in the cache if a write would not change it, and records that the write is skipped. Returns
    /// `None` if the write must be sent: outside a reconcile, if skipping is disabled, if `changes_nothing` returns
    /// false, or if the watch is not live.
    pub(super) fn skip_if<K: View>(
        &self,
        target: &Target,
        interest: impl Fn() -> Interest,
        changes_nothing: impl Fn(&CachedState<K>) -> Result<bool, ClientError>,
    ) -> Result<Option<CachedState<K>>, ClientError> {
        let decide = |known: &CachedState<K>| Ok(changes_nothing(known)?.then(|| (interest(), ())));
        let skipped = self.skip_part(target, decide)?;
        Ok(skipped.map(|(known, ())| {
            self.count_skip(target);
            known
        }))
    }

    /// Skips a part of a write; see [`Client::skip_if`]. `decide` returns the interest of the skipped part, and the
    /// remaining part to send.
    pub(super) fn skip_part<K: View, T>(
        &self,
        target: &Target,
        decide: impl Fn(&CachedState<K>) -> Result<Option<(Interest, T)>, ClientError>,
    ) -> Result<Option<(CachedState<K>, T)>, ClientError> {
        let Some(origin) = self.origin() else {
            return Ok(None);
        };
        let informer = self.cache.existing(&target.kind);
        let Some(informer) = informer.filter(|informer| informer.is_synced::<K>()) else {
            return Ok(None);
        };
        for _ in 0..ATTEMPTS {
            let Some(known) = informer.known::<K>(&target.key) else {
                return Ok(None);
            };
            let Some((interest, left)) = decide(&known)? else {
                return Ok(None);
            };
            if informer.skip(&target.key, known.revision, origin.clone(), interest) {
                return Ok(Some((known, left)));
            }
        }
        Ok(None)
    }

    pub(super) fn count_skip(&self, target: &Target) {
        self.metrics.write_skipped(&target.kind.to_string());
        tracing::trace!(kind = %target.kind, object = %target.key, verb = target.verb, "Write skipped: no change");
    }

    /// Records that a write was sent, which supersedes earlier skips of the same request.
    pub(super) fn sent(&self, target: &Target, interest: &Interest) {
        if let Some(origin) = self.origin()
            && let Some(informer) = self.cache.existing(&target.kind)
        {
            informer.sent(&target.key, &origin, interest);
        }
    }

    fn origin(&self) -> Option<Origin> {
        if self.options.always_send || self.options.dry_run {
            return None;
        }
        let current = CURRENT.try_with(Clone::clone).ok()?;
        (!current.always_send).then_some(current.origin)
    }
}
