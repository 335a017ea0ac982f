//! The simulated time, for operators that take their time from a clock of their own.

use std::cell::Cell;
use std::time::SystemTime;

use tokio::time::Instant;

thread_local! {
    /// The time at which the cluster of this thread started, in both clocks.
    static STARTED: Cell<Option<(SystemTime, Instant)>> = const { Cell::new(None) };
}

/// Makes a time that of this thread, until the value is dropped.
pub(crate) struct Scope;

/// Returns the time of the simulated cluster, for an operator with a clock that a test replaces. A run has one thread, so that
/// every task of the operator gets the same time. Elsewhere it is the time of the machine.
pub fn now() -> SystemTime {
    match STARTED.get() {
        Some((time, started)) => time + started.elapsed(),
        None => SystemTime::now(),
    }
}

// === impl Scope ===

impl Scope {
    pub(crate) fn enter(time: SystemTime, started: Instant) -> Self {
        STARTED.set(Some((time, started)));
        Self
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        STARTED.set(None);
    }
}
