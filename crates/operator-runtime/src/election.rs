//! Leader election: one instance of an operator is active, the others wait. The main type is [`Election`].
//!
//! * [`LeaderElection`], leader with lease: the leader renews a `Lease` every two seconds, and stops when it cannot.
//!   Another instance takes over when the lease was not renewed for 15 s, or immediately when it was released.
//! * `LeaderForLife` of the crate `operator-lib`: the lock is a `ConfigMap` that the leader's pod owns. The leader
//!   leads until its pod is gone and the garbage collector has deleted the lock.
//!
//! [`ManagerOptions::election`](crate::manager::ManagerOptions::election) accepts both.
//!
//! # Guarantee
//! At most one of the candidates for a lease leads at any time, provided that
//! * the API server rejects writes with an outdated `resourceVersion`, as every conforming API server does;
//! * no clock runs faster than another by more than `lease_duration / renew_deadline` (default: 1.5). The clocks may
//!   show different times, and may be set while the operator runs;
//! * no clock stops: a machine that is suspended together with its clock cannot detect the suspension, but a suspended
//!   process can;
//! * nothing else writes or deletes the lease.
//!
//! A candidate leads while [`Leadership::is_leader`] returns true. Work that continues after that breaks the guarantee:
//! end it, or end the process. A manager aborts its controllers and the runnables of the leader, and their clients
//! reject writes from that moment on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::clock;
use crate::error::{Error, Result};

mod campaign;
mod driver;
#[cfg(test)]
mod fake;
mod lease;
#[cfg(test)]
mod simulation;

pub use self::driver::{LeaderElection, LeaderElectionOptions};

/// A lock that at most one instance holds at a time, in the form in which a manager uses it.
///
/// The manager calls `acquire`, starts the controllers, and calls `keep`. It calls `release` after everything that
/// needs leadership has stopped. It may drop the future of `acquire` or `keep` at any `await` and call the method
/// again.
///
/// ```
/// use futures::future::BoxFuture;
/// use operator_runtime::election::Election;
/// use operator_runtime::{Error, Result};
///
/// /// Always leads: something else ensures that there is only one instance.
/// struct Appointed;
///
/// impl Election for Appointed {
///     fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
///         Box::pin(async { Ok(()) })
///     }
///
///     fn keep(&mut self) -> BoxFuture<'_, Error> {
///         Box::pin(std::future::pending())
///     }
///
///     fn release(&mut self) -> BoxFuture<'_, ()> {
///         Box::pin(async {})
///     }
/// }
/// ```
pub trait Election: Send + 'static {
    /// Waits until this instance leads.
    ///
    /// # Errors
    /// Returns an error if this instance cannot become a candidate. The manager then stops with this error.
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Keeps the leadership, and returns the reason when it is lost. The manager then aborts everything that needs it.
    fn keep(&mut self) -> BoxFuture<'_, Error>;

    /// Returns the leadership of this instance as it changes. Clients of the leader check it for each attempt of a
    /// write, so that a reconcile that is resumed after the end of leadership writes nothing. With the default, `None`,
    /// clients check the state that the manager knows: this instance leads from the end of `acquire` to the end of
    /// `keep`.
    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        None
    }

    /// Releases the leadership, so that the next instance need not wait until it expires. The manager calls it after
    /// everything that needs leadership has stopped.
    fn release(&mut self) -> BoxFuture<'_, ()>;
}

/// The file with the namespace of the service account in a pod.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The leadership of this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Another instance leads, or no instance leads yet.
    Standby,
    /// This instance leads.
    Leader {
        /// The time at which leadership ends without a renewal. `None` for a leader for life.
        until: Option<Instant>,
    },
    /// This instance was the leader and must stop.
    Lost,
}

/// An error of an election, or the loss of leadership.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The lock has no name.
    #[error(
        "LeaderElectionID must be configured: a name for the lock, unique to the operator, such as `memcached-operator-lock`"
    )]
    NoName,
    /// The namespace is not set and cannot be determined.
    #[error(
        "unable to find leader election namespace: not running in-cluster, please specify LeaderElectionNamespace \
         (--leader-election-namespace; {path} cannot be read)"
    )]
    NoNamespace {
        /// The file with the namespace.
        path: PathBuf,
        /// The error of reading it.
        #[source]
        source: std::io::Error,
    },
    /// The name of the pod is not set.
    #[error(
        "leader-for-life needs the name of its pod: set POD_NAME from the field `metadata.name` in the Deployment"
    )]
    NoPodName,
    /// Two durations of the options contradict each other.
    #[error("{longer} must be greater than {shorter} ({longer_value:?}, {shorter_value:?})")]
    Timing {
        /// The duration that must be longer.
        longer: &'static str,
        /// Its value.
        longer_value: Duration,
        /// The duration that must be shorter.
        shorter: &'static str,
        /// Its value.
        shorter_value: Duration,
    },
    /// The lease could not be renewed in time, or another instance has taken it.
    #[error("leader election lost: {0}")]
    Lost(&'static str),
    /// The API server rejected a request of a leader for life.
    #[error("leader-for-life cannot {doing}")]
    Api {
        /// The operation that failed.
        doing: String,
        /// The error of the request.
        #[source]
        source: Box<kube::Error>,
    },
}

// === impl Leadership ===

impl Leadership {
    /// Returns true if this instance is the leader now.
    ///
    /// The result becomes false when the lease expires, even if the task that renews it is late. Check it before each
    /// step that only the leader may do.
    pub fn is_leader(&self) -> bool {
        match self {
            Self::Leader { until } => until.is_none_or(|until| clock::instant() < until),
            Self::Standby | Self::Lost => false,
        }
    }
}

/// Publishes a change. Renewals update the time without waking receivers.
fn publish(leadership: &watch::Sender<Leadership>, now: Leadership) {
    leadership.send_if_modified(|before| {
        let changed = std::mem::discriminant(before) != std::mem::discriminant(&now);
        *before = now;
        changed
    });
}

/// Returns `<hostname>_<uuid>`, which is unique among all candidates.
pub(crate) fn identity() -> String {
    let hostname = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let hostname = hostname.or_else(|| {
        Some(
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .ok()?
                .trim()
                .to_owned(),
        )
    });
    format!(
        "{}_{}",
        hostname.unwrap_or_else(|| "unknown".to_owned()),
        clock::uuid()
    )
}

/// Returns the namespace of the service account of this pod.
///
/// # Errors
/// Returns an error if the process does not run in a pod.
pub fn namespace() -> Result<String, ElectionError> {
    let namespace = std::fs::read_to_string(NAMESPACE_FILE);
    let path = || PathBuf::from(NAMESPACE_FILE);
    namespace
        .map(|namespace| namespace.trim().to_owned())
        .map_err(|source| ElectionError::NoNamespace { path: path(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_end_in_a_uuid() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let (_, uuid) = one.rsplit_once('_').unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn leadership_ends_at_its_time() {
        let until = Some(Instant::now());
        assert!(!Leadership::Leader { until }.is_leader());
        assert!(Leadership::Leader { until: None }.is_leader());
    }

    #[test]
    fn renewals_do_not_wake_receivers() {
        let (sender, mut receiver) = watch::channel(Leadership::Standby);
        let until = Some(Instant::now());
        publish(&sender, Leadership::Leader { until: None });
        assert!(receiver.has_changed().unwrap());
        receiver.mark_unchanged();
        publish(&sender, Leadership::Leader { until });
        assert!(!receiver.has_changed().unwrap());
        assert_eq!(*receiver.borrow(), Leadership::Leader { until });
    }
}
