//! Blocks phases of pods and claims for tests: [`Holds`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which a blocked phase is retried.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Blocks phases of pods and claims, as a node without the image or a storage without a provisioner does. Clones share
/// the state.
///
/// ```
/// use operator_controlplane::{Holds, Options};
///
/// let holds = Holds::default();
/// let options = Options { holds: holds.clone(), ..Options::default() };
/// // From now on, no simulated pod becomes ready.
/// holds.hold_pods(true);
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Holds(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    pods: AtomicBool,
    claims: AtomicBool,
}

impl Holds {
    /// Sets whether simulated pods stay in the phase Pending. Running pods are not changed. Default: false.
    pub fn hold_pods(&self, held: bool) {
        self.0.pods.store(held, Ordering::Relaxed);
    }

    /// Sets whether volume claims stay in the phase Pending. Bound claims are not changed. Default: false.
    pub fn hold_claims(&self, held: bool) {
        self.0.claims.store(held, Ordering::Relaxed);
    }

    pub(crate) fn holds_pods(&self) -> bool {
        self.0.pods.load(Ordering::Relaxed)
    }

    pub(crate) fn holds_claims(&self) -> bool {
        self.0.claims.load(Ordering::Relaxed)
    }
}
