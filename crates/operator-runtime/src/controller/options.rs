//! [`ControllerOptions`] and their defaults.

use std::time::Duration;

use tracing::Span;

use crate::queue::limiter::RateLimit;

/// Options of a controller. A field that is `None` has the value in [`ManagerOptions::controller_options`], and
/// otherwise its default.
///
/// [`ManagerOptions::controller_options`]: crate::manager::ManagerOptions::controller_options
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// Maximum number of keys that are reconciled concurrently.
    /// [`group_kind_concurrency`](crate::manager::ManagerOptions::group_kind_concurrency) sets it for the controllers
    /// of one primary kind. Default: 1.
    pub max_concurrent_reconciles: Option<usize>,
    /// The backoff of keys. Default: for each key 5 ms, doubling up to 1000 s; without `priority_queue`,
    /// [`RateLimit::classic`].
    pub rate_limit: Option<RateLimit>,
    /// Serves keys of the first list and of resyncs, and keys that were added with a lower priority, after the others.
    /// If false, keys are served in the order in which they became ready. Default: true.
    pub priority_queue: Option<bool>,
    /// Maximum duration of a reconcile. It is then cancelled at its next `await`, which counts as an error of its key.
    /// Default: no limit.
    pub reconciliation_timeout: Option<Duration>,
    /// Maximum duration of the first lists. The manager then stops with an error. Default: no limit; the controller
    /// waits and logs it, and other controllers are not affected.
    pub cache_sync_timeout: Option<Duration>,
    /// Treats a panic as an error of its key. If false, a panic stops the manager with an error. Default: true.
    pub recover_panic: Option<bool>,
    /// Fills the queue while the instance waits for leadership, so that reconciles begin immediately after the
    /// election. Caches are filled on every instance in any case. Default: false.
    pub warmup: Option<bool>,
    /// Runs the controller only on the leader, if leader election is enabled. Default: true.
    pub needs_leader_election: Option<bool>,
    /// Allows the name of another controller of the manager. The two share their metrics. Default: false.
    pub skip_name_validation: Option<bool>,
    /// The parent span of the controller and of the span of each reconcile
    /// ([`Controller::span`](crate::Controller::span)), for example with fields for all of its messages. Default: none.
    pub parent_span: Option<Span>,
    /// Sends every write of a reconcile, including those that would change nothing according to the cache.
    /// [`ClientOptions::always_send`](crate::client::ClientOptions::always_send) does it for single writes. Default:
    /// false.
    pub always_send: Option<bool>,
}

/// [`ControllerOptions`] with defaults for the fields that are `None`.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) max_concurrent_reconciles: usize,
    pub(crate) rate_limit: RateLimit,
    pub(crate) priority_queue: bool,
    pub(crate) reconciliation_timeout: Option<Duration>,
    pub(crate) cache_sync_timeout: Option<Duration>,
    pub(crate) recover_panic: bool,
    pub(crate) warmup: bool,
    pub(crate) needs_leader_election: bool,
    pub(crate) skip_name_validation: bool,
    pub(crate) parent_span: Option<Span>,
    pub(crate) always_send: bool,
}

// === impl ControllerOptions ===

impl ControllerOptions {
    /// Returns these options, with those of `other` for fields that are `None`.
    #[must_use]
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            max_concurrent_reconciles: self.max_concurrent_reconciles.or(other.max_concurrent_reconciles),
            rate_limit: self.rate_limit.or_else(|| other.rate_limit.clone()),
            priority_queue: self.priority_queue.or(other.priority_queue),
            reconciliation_timeout: self.reconciliation_timeout.or(other.reconciliation_timeout),
            cache_sync_timeout: self.cache_sync_timeout.or(other.cache_sync_timeout),
            recover_panic: self.recover_panic.or(other.recover_panic),
            warmup: self.warmup.or(other.warmup),
            needs_leader_election: self.needs_leader_election.or(other.needs_leader_election),
            skip_name_validation: self.skip_name_validation.or(other.skip_name_validation),
            parent_span: self.parent_span.or_else(|| other.parent_span.clone()),
            always_send: self.always_send.or(other.always_send),
        }
    }
}

// === impl Settings ===

impl Settings {
    pub(crate) fn of(options: &ControllerOptions) -> Self {
        let priority_queue = options.priority_queue.unwrap_or(true);
        let rate_limit = options
            .rate_limit
            .clone()
            .unwrap_or_else(|| match priority_queue {
                true => RateLimit::default(),
                false => RateLimit::classic(),
            });
        Self {
            max_concurrent_reconciles: options.max_concurrent_reconciles.unwrap_or(1).max(1),
            rate_limit,
            priority_queue,
            reconciliation_timeout: options.reconciliation_timeout,
            cache_sync_timeout: options.cache_sync_timeout,
            recover_panic: options.recover_panic.unwrap_or(true),
            warmup: options.warmup.unwrap_or(false),
            needs_leader_election: options.needs_leader_election.unwrap_or(true),
            skip_name_validation: options.skip_name_validation.unwrap_or(false),
            parent_span: options.parent_span.clone(),
            always_send: options.always_send.unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_options_override_others_and_the_defaults() {
        let own = ControllerOptions {
            warmup: Some(false),
            ..ControllerOptions::default()
        };
        let common = ControllerOptions {
            warmup: Some(true),
            recover_panic: Some(false),
            ..ControllerOptions::default()
        };
        let settings = Settings::of(&own.or(&common));
        assert!(!settings.warmup && !settings.recover_panic && settings.needs_leader_election);
    }

    #[test]
    fn defaults_are_those_of_controller_runtime() {
        let settings = Settings::of(&ControllerOptions::default());
        assert_eq!(settings.max_concurrent_reconciles, 1);
        assert!(settings.priority_queue && settings.recover_panic && settings.needs_leader_election);
        assert!(!settings.warmup && !settings.skip_name_validation);
        assert_eq!(settings.reconciliation_timeout, None);
        assert_eq!(
            format!("{:?}", settings.rate_limit),
            format!("{:?}", RateLimit::default())
        );
        let fifo = ControllerOptions {
            priority_queue: Some(false),
            ..ControllerOptions::default()
        };
        assert_eq!(
            format!("{:?}", Settings::of(&fifo).rate_limit),
            format!("{:?}", RateLimit::classic())
        );
    }
}
