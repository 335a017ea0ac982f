//! The clock of controllers.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Returns the current time. The default is the system clock; a simulation uses its own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that calls `now`.
    ///
    /// ```
    /// use jiff::Timestamp;
    /// use operator_controlplane::Clock;
    /// let clock = Clock::new(|| Timestamp::UNIX_EPOCH);
    /// assert_eq!(clock.now().as_second(), 0);
    /// ```
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the time now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Timestamp::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
