//! The signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell gives as the exit code of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Makes a write beyond the limit of a file's size fail as other writes do, so that what was written is rolled back.
///
/// The default action of SIGXFSZ ends the process. A handler replaces it for the life of the process; programs that
/// this one starts have the default action again.
pub(crate) fn keep_on_file_size_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        let _entered = runtime.enter();
        // Without the handler everything but this limit works as well.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

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
