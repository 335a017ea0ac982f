//! How a controller works, and the defaults.

use std::time::Duration;

use tracing::Span;

use crate::queue::limiter::RateLimit;

/// How a controller works. What is `None` is as [`ManagerOptions::controller_options`] says, and otherwise as the
/// default that is named here.
///
/// [`ManagerOptions::controller_options`]: crate::manager::ManagerOptions::controller_options
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// Maximum number of keys that are reconciled at the same time; 1. [`group_kind_concurrency`](crate::manager::ManagerOptions::group_kind_concurrency) sets it for
    /// the controllers of one primary kind.
    pub max_concurrent_reconciles: Option<usize>,
    /// How long keys wait that failed or asked for it. By default each for itself, 5 ms doubling up to 1000 s; without
    /// `priority_queue`, [`RateLimit::classic`].
    pub rate_limit: Option<RateLimit>,
    /// Whether keys of the first list and of resyncs, and those that were added with a lower priority, wait behind the
    /// others; true. Otherwise keys come in the order in which they became ready.
    pub priority_queue: Option<bool>,
    /// A reconcile that takes longer is cancelled at its next `await`, which is an error of its key; no limit.
    pub reconciliation_timeout: Option<Duration>,
    /// How long the first lists may take before the manager stops with an error. By default there is no limit: the
    /// controller waits, says so in the log and in `/readyz`, and the other controllers go on.
    pub cache_sync_timeout: Option<Duration>,
    /// Whether a panic is an error of its key; true. Otherwise it ends the manager with an error.
    pub recover_panic: Option<bool>,
    /// Whether an instance that waits to lead fills the queue already, so that it begins at once when it does; false.
    /// The caches are filled on every instance in any case.
    pub warmup: Option<bool>,
    /// Whether the controller runs on the leader alone, where leader election is on; true.
    pub needs_leader_election: Option<bool>,
    /// Whether the controller may have the name of another one of the manager; false. The two share their metrics then.
    pub skip_name_validation: Option<bool>,
    /// The span that the controller and its reconciles run in, such as one with values that all of its messages are to
    /// have; none by default. The span of each reconcile ([`Controller::span`](crate::Controller::span)) is a child of it.
    pub parent_span: Option<Span>,
    /// Send every write of a reconcile, also those that would change nothing as far as the cache knows; false by default.
    /// [`ClientOptions::always_send`](crate::client::ClientOptions::always_send) does it for single writes.
    pub always_send: Option<bool>,
}

/// [`ControllerOptions`] with the defaults in the place of what was left open.
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
    /// These options, and those of `other` where these leave something open.
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
    fn options_of_the_controller_go_before_others_and_before_the_defaults() {
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
