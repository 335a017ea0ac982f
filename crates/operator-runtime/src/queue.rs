//! The work queue of a controller, which selects the next key and its time. [`Requests`] adds keys to it.
//!
//! The state of the queue is pure: time is an argument. A [`RateLimiter`](crate::controller::RateLimiter) computes the
//! backoff, and the driver waits.

use std::time::Duration;

pub(crate) mod driver;
pub(crate) mod limiter;
pub(crate) mod requests;
pub(crate) mod state;

pub use requests::{Add, Requests};
pub(crate) use state::Queue;

/// The priority of keys from the first list and from resyncs. Other events have 0.
pub(crate) const LOW_PRIORITY: i32 = -100;

/// The age from which ready keys get a share of the workers regardless of their priority.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
