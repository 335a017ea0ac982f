//! The source of time for controllers: [`Clock`].

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// A source of the current time. The default is the system clock; a simulation provides its own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Creates a clock that calls `now`.
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

    /// Returns the current time.
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
