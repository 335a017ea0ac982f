//! [`now`], the simulated time, also for operators with a clock of their own.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use operator_apiserver::clock::Clock;
use tokio::time::Instant;

thread_local! {
    /// The clock of the cluster of this thread.
    static CLOCK: RefCell<Option<SimulatedClock>> = const { RefCell::new(None) };
}

/// The simulated time, on tokio's clock: it starts with the world, and advances when all tasks wait.
#[derive(Debug)]
pub(crate) struct SimulatedClock {
    pub(crate) base: SystemTime,
    pub(crate) started: Instant,
    /// The seconds by which the clock was set.
    pub(crate) offset: Arc<AtomicI64>,
}

/// Sets the clock of this thread until the value is dropped.
pub(crate) struct Scope;

/// Returns the time of the simulated cluster, for operators whose clock a test can replace. A run has one thread, so
/// that all tasks of the operator get the same time. Outside a run, it is the time of the machine.
pub fn now() -> SystemTime {
    CLOCK.with_borrow(|clock| match clock {
        Some(clock) => clock.now(),
        None => SystemTime::now(),
    })
}

// === impl SimulatedClock ===

impl Clock for SimulatedClock {
    fn now(&self) -> SystemTime {
        let now = self.base + self.started.elapsed();
        let offset = self.offset.load(Ordering::Relaxed);
        let distance = Duration::from_secs(offset.unsigned_abs());
        match offset < 0 {
            true => now - distance,
            false => now + distance,
        }
    }
}

// === impl Scope ===

impl Scope {
    pub(crate) fn enter(clock: SimulatedClock) -> Self {
        CLOCK.set(Some(clock));
        Self
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        CLOCK.set(None);
    }
}
