//! The signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell gives as the exit code of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// SIGINT, SIGTERM and SIGHUP (the terminal is gone), caught from the moment that the value is made.
pub(crate) struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

// === impl Ends ===

impl Ends {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
