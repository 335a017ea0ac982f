//! [`Screen`] shows the progress of an exploration: a bar on a terminal, otherwise a line at intervals.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use operator_chaos::{Phase, Progress};

/// Minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// The display of the progress on standard error.
pub(super) struct Screen {
    is_terminal: bool,
    printed: Option<Instant>,
    shown: Option<String>,
}

// === impl Screen ===

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            printed: None,
            shown: None,
        }
    }

    /// Shows the progress if it has changed.
    pub(super) fn show(&mut self, progress: &Progress) {
        let is_due = self.is_terminal || self.printed.is_none_or(|then| then.elapsed() >= INTERVAL);
        if progress.phase == Phase::Done || !is_due {
            return;
        }
        let text = match self.is_terminal {
            true => format!("\r\x1b[K{} {progress}", progress.bar()),
            false => format!("{progress}\n"),
        };
        if self.shown.as_ref() == Some(&text) {
            return;
        }
        self.printed = Some(Instant::now());
        self.write(&text);
        self.shown = Some(text);
    }

    /// Removes the bar.
    pub(super) fn clear(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            self.write("\r\x1b[K");
        }
    }

    /// Writes text. Errors are ignored, because the progress is only informative.
    fn write(&self, text: &str) {
        let mut error = std::io::stderr();
        let _ = error.write_all(text.as_bytes()).and_then(|()| error.flush());
    }
}
