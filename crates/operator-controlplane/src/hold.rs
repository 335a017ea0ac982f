//! Stages of pods and claims that a test holds back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which a stage that is held back is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Holds back stages in the life of pods and claims, as a node without the image or a storage without a provisioner does.
/// Clones share the state.
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
    /// Sets if simulated pods stay in the phase Pending. Pods that run already are not changed.
    pub fn hold_pods(&self, held: bool) {
        self.0.pods.store(held, Ordering::Relaxed);
    }

    /// Sets if claims of volumes stay in the phase Pending. Claims that are bound already are not changed.
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
