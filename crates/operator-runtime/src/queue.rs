//! The work queue of a controller: which key is reconciled next, and when.
//!
//! [`state`] decides and is pure, with [`limiter`] for the waits; [`driver`] waits. None of them knows what a key stands for.

pub(crate) mod driver;
pub(crate) mod limiter;
pub(crate) mod state;

/// The priority of keys from the initial list and from relists, so that fresh events are served first.
pub(crate) const LOW_PRIORITY: i32 = -100;
