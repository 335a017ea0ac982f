//! The work queue of a controller: which key is reconciled next, and when.
//!
//! [`Queue`] decides and is pure: time comes in as an argument. A [`RateLimiter`](crate::controller::RateLimiter) says
//! how long failures wait. The driver, which is not public, waits. None of them knows what a key stands for.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use operator_runtime::ObjectKey;
//! use operator_runtime::controller::RateLimit;
//! use operator_runtime::queue::{Add, LOW_PRIORITY, Queue};
//!
//! let mut queue = Queue::new(RateLimit::default().limiter(), Duration::from_secs(60));
//! let now = Instant::now();
//! queue.add(ObjectKey::cluster("listed"), Add { priority: LOW_PRIORITY, ..Add::default() }, now);
//! queue.add(ObjectKey::cluster("changed"), Add::default(), now);
//! assert_eq!(queue.pop(now).map(|popped| popped.key), Some(ObjectKey::cluster("changed")));
//! ```

pub(crate) mod driver;
pub(crate) mod limiter;
pub(crate) mod requests;
pub(crate) mod state;

pub use requests::Requests;
pub use state::{Add, Counts, NewQueue, Popped, Queue, RateLimitingQueue};

/// The priority of keys from the first list and from resyncs; fresh events have 0, and so are served first.
pub const LOW_PRIORITY: i32 = -100;
