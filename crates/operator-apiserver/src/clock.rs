//! The source of time of a server: [`Clock`].

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The source of the server's time. Tests and simulations provide their own.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the time now.
    fn now(&self) -> SystemTime;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Returns the seconds since 1970; 0 for earlier times.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Formats a time as Kubernetes does: RFC 3339 with whole seconds, such as `2026-01-02T03:04:05Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let seconds = unix_seconds(time);
    jiff::Timestamp::from_second(seconds)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
