//! [`Breath`], cooperative yielding during long work.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum duration of work without a yield, because health probes and lease renewals run on the same threads.
const STRETCH: Duration = Duration::from_millis(2);

/// The yield points of long work that runs in small steps. There are none while a simulation pauses the clock, because the
/// order of its tasks must not depend on the speed of the machine.
pub(crate) struct Breath {
    since: Instant,
}

// === impl Breath ===

impl Breath {
    pub(crate) fn new() -> Self {
        let since = Instant::now();
        Self { since }
    }

    /// Yields if enough time has passed. No lock may be held.
    pub(crate) async fn pause(&mut self) {
        if self.since.elapsed() >= STRETCH {
            tokio::task::yield_now().await;
            self.since = Instant::now();
        }
    }
}
