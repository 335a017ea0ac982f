//! Lets other tasks run during long work on a thread that they share.

use std::time::{Duration, Instant};

/// Longest time that work goes on without a pause. Health probes and lease renewals wait on the same threads.
const STRETCH: Duration = Duration::from_millis(2);

/// Long work in small steps.
pub(crate) struct Breath {
    since: Instant,
}

// === impl Breath ===

impl Breath {
    pub(crate) fn new() -> Self {
        let since = Instant::now();
        Self { since }
    }

    /// Yields if the work has gone on for some time. No lock may be held.
    pub(crate) async fn pause(&mut self) {
        if self.since.elapsed() >= STRETCH {
            tokio::task::yield_now().await;
            self.since = Instant::now();
        }
    }
}
