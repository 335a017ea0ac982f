//! One instance of an operator acts, the others stand by.
//!
//! * [`LeaderElection`], leader with lease: the leader renews a `Lease` every two seconds and stops acting when it
//!   cannot; another takes over when the lease was not renewed for 15 s, or at once when it was released.
//! * `LeaderForLife` of the crate `operator-lib`: a `ConfigMap` that belongs to the leader's pod is the lock. The leader
//!   leads until its pod is gone and the garbage collector has deleted the lock.
//!
//! Both are an [`Election`], which [`ManagerOptions::election`](crate::manager::ManagerOptions::election) takes.
//!
//! # Guarantee
//! Of the instances that campaign for one lease, no two lead at the same time, provided that
//! * the API server refuses a write whose `resourceVersion` is outdated, as every conforming one does;
//! * no clock runs faster than another by more than `lease_duration / renew_deadline` (1.5 unless said otherwise);
//!   what the clocks show does not matter, and they may be set while the operator runs;
//! * no clock stands still: a machine that is suspended with its clock, and goes on where it was, does not know how late
//!   it is (a process that is merely stopped does);
//! * nobody else writes or deletes the lease.
//!
//! "Leads" is what [`Leadership::is_leader`] says. Work that began while it was true and goes on when it no longer is
//! breaks the promise: end it, or end the process. A manager aborts its controllers and the runnables of the leader, and
//! their clients refuse to write from that moment on.

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

/// The right to act, which one of several instances holds at a time; what a manager needs of an election.
///
/// The manager calls `acquire`, starts the controllers, calls `keep`, and at the end, when nothing runs any more,
/// `release`. It may drop the future of `acquire` or `keep` at any `await` and call the method again.
///
/// ```
/// use futures::future::BoxFuture;
/// use operator_runtime::election::Election;
/// use operator_runtime::{Error, Result};
///
/// /// Somebody else sees to it that there is one instance: this one leads, from the beginning and for ever.
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
    /// Waits until this instance leads, however long that takes.
    ///
    /// # Errors
    /// If this instance cannot take part any more; the manager ends with it.
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Keeps leading; ends with the reason when leadership is lost. Everything that needs it is aborted then.
    fn keep(&mut self) -> BoxFuture<'_, Error>;

    /// Returns the leadership of this instance, now and from now on. Clients of the leader check it for each attempt of a
    /// write, so that even a reconcile that slept through the end of its leadership writes nothing after it. Without it,
    /// they check what the manager knows: this instance leads from the end of `acquire` to the end of `keep`.
    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        None
    }

    /// Gives leadership back, so that the next instance need not wait for it to expire. The manager calls it when
    /// nothing that needs leadership runs any more.
    fn release(&mut self) -> BoxFuture<'_, ()>;
}

/// Where a pod finds the namespace of its service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Whether this instance leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Another instance leads, or nobody does yet.
    Standby,
    /// This instance leads.
    Leader {
        /// Until when, if it is not renewed before; never for a leader for life.
        until: Option<Instant>,
    },
    /// This instance led and must not act any more.
    Lost,
}

/// Why an election cannot be held, or is over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The lock has no name.
    #[error(
        "LeaderElectionID must be configured: a name for the lock, unique to the operator, such as `memcached-operator-lock`"
    )]
    NoName,
    /// The namespace is not given and cannot be found out.
    #[error(
        "unable to find leader election namespace: not running in-cluster, please specify LeaderElectionNamespace \
         (--leader-election-namespace; {path} cannot be read)"
    )]
    NoNamespace {
        /// The file that names the namespace in a pod.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
    /// The pod is not known.
    #[error(
        "leader-for-life needs the name of its pod: set POD_NAME from the field `metadata.name` in the Deployment"
    )]
    NoPodName,
    /// The times do not fit together.
    #[error("{longer} must be greater than {shorter} ({longer_value:?}, {shorter_value:?})")]
    Timing {
        /// The time that must be the longer one.
        longer: &'static str,
        /// Its value.
        longer_value: Duration,
        /// The time that must be the shorter one.
        shorter: &'static str,
        /// Its value.
        shorter_value: Duration,
    },
    /// The lease could not be renewed in time, or somebody else has taken it.
    #[error("leader election lost: {0}")]
    Lost(&'static str),
    /// The API server refused what a leader for life cannot do without.
    #[error("leader-for-life cannot {doing}")]
    Api {
        /// What was tried.
        doing: String,
        /// The answer.
        #[source]
        source: Box<kube::Error>,
    },
}

// === impl Leadership ===

impl Leadership {
    /// Returns true if this instance leads at this moment.
    ///
    /// It turns false by itself when the lease was not renewed in time, even while the task that should have said so
    /// is late. So ask before each step that only the leader may do, and not once.
    pub fn is_leader(&self) -> bool {
        match self {
            Self::Leader { until } => until.is_none_or(|until| Instant::now() < until),
            Self::Standby | Self::Lost => false,
        }
    }
}

/// Tells what changed. The time until which a leader leads is brought up to date without waking anybody.
fn publish(leadership: &watch::Sender<Leadership>, now: Leadership) {
    leadership.send_if_modified(|before| {
        let changed = std::mem::discriminant(before) != std::mem::discriminant(&now);
        *before = now;
        changed
    });
}

/// `<hostname>_<uuid>`: unique among all processes that ever campaigned.
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
/// If the process does not run in a pod.
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
    fn leader_stops_leading_when_its_time_is_over() {
        let until = Some(Instant::now());
        assert!(!Leadership::Leader { until }.is_leader());
        assert!(Leadership::Leader { until: None }.is_leader());
    }

    #[test]
    fn renewals_wake_nobody() {
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
