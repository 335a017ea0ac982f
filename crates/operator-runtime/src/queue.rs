//! The work queue of a controller: which key is reconciled next, and when.
//!
//! [`Queue`] decides and is pure: time comes in as an argument. A [`RateLimiter`](crate::controller::RateLimiter) says
//! how long failures wait. The driver, which is not public, waits. None of them knows what a key stands for.

pub(crate) mod driver;
pub(crate) mod limiter;
pub(crate) mod state;

pub use state::{Add, Popped, Queue};

/// The priority of keys from the initial list and from resyncs, so that fresh events are served first.
pub const LOW_PRIORITY: i32 = -100;
