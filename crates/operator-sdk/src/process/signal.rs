//! Signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code that a shell reports for a program that was ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Makes a write beyond the file size limit fail like other writes, so that completed writes are rolled back.
///
/// The default action of SIGXFSZ ends the process. A handler replaces it as long as the process runs. Child processes
/// get the default action.
pub(crate) fn keep_on_file_size_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        let _entered = runtime.enter();
        // If the handler cannot be installed, everything except this limit works.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// SIGINT, SIGTERM and SIGHUP (closed terminal), caught from the creation of the value.
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

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
