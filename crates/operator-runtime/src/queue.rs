//! The work queue of a controller: which key is reconciled next, and when.
//!
//! The queue itself decides and is pure: time comes in as an argument. A [`RateLimiter`](crate::controller::RateLimiter) says
//! how long failures wait. The driver waits. None of them knows what a key stands for.

use std::time::Duration;

pub(crate) mod driver;
pub(crate) mod limiter;
pub(crate) mod requests;
pub(crate) mod state;

pub use requests::{Add, Requests};
pub(crate) use state::Queue;

/// The priority of keys from the first list and from resyncs; fresh events have 0, and so are served first.
pub(crate) const LOW_PRIORITY: i32 = -100;

/// The time after which ready keys get a share of the workers whatever their priority.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
