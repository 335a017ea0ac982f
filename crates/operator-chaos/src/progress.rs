//! [`Progress`], the progress of a campaign, and its early end.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Minimum time between two progress reports, except for changes of the phase.
const INTERVAL: Duration = Duration::from_millis(100);
/// Minimum time between two lines on standard error that is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// The width of the bar.
const WIDTH: usize = 20;

/// A stage of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The workload runs without faults.
    #[default]
    Reference,
    /// Plans run.
    Plans,
    /// New findings are confirmed and shrunk.
    Shrinking,
    /// The campaign has ended.
    Done,
}

/// The progress of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The stage.
    pub phase: Phase,
    /// The number of plans that were run.
    pub plans: usize,
    /// The number of plans after which the campaign ends; 0 if only the budget limits it.
    pub plans_max: usize,
    /// The number of single faults that the run without faults has.
    pub single_faults: usize,
    /// The number of single faults that were run.
    pub single_faults_run: usize,
    /// The number of different sequences of writes that were seen.
    pub traces: usize,
    /// The number of different end states that were seen.
    pub end_states: usize,
    /// The number of findings.
    pub findings: usize,
    /// The real time since the start, in milliseconds.
    pub elapsed_ms: u64,
    /// The budget in milliseconds.
    pub budget_ms: u64,
}

/// A function that gets the progress.
pub(crate) type Sink = Box<dyn Fn(&Progress) + Send + Sync>;
/// A function that ends a campaign.
pub(crate) type Stop = Box<dyn Fn() -> bool + Send + Sync>;

/// The progress of a running campaign, and its listeners.
pub(crate) struct Monitor {
    started: Instant,
    sinks: Vec<Sink>,
    stops: Vec<Stop>,
    is_stopped: AtomicBool,
    state: Mutex<State>,
}

struct State {
    progress: Progress,
    reported: Option<Instant>,
}

// === impl Progress ===

impl Progress {
    /// Returns a bar with the used part of the budget, such as `[#####...............]`.
    pub fn bar(&self) -> String {
        let of = |part: u64, whole: u64| (part * WIDTH as u64).checked_div(whole).unwrap_or(0);
        let time = of(self.elapsed_ms, self.budget_ms);
        let plans = of(self.plans as u64, self.plans_max as u64);
        let full = usize::try_from(time.max(plans)).unwrap_or(WIDTH).min(WIDTH);
        format!("[{}{}]", "#".repeat(full), ".".repeat(WIDTH - full))
    }
}

/// Returns `1 finding`, or another number of findings.
pub(crate) fn counted_findings(count: usize) -> String {
    match count {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.phase == Phase::Reference {
            return formatter.write_str("running the workload without faults");
        }
        write!(
            formatter,
            "{} plans, {} of {} single faults, {} traces, {} end states, {}",
            self.plans,
            self.single_faults_run,
            self.single_faults,
            self.traces,
            self.end_states,
            counted_findings(self.findings),
        )?;
        match self.phase {
            Phase::Shrinking => formatter.write_str("; shrinking"),
            _ => Ok(()),
        }
    }
}

// === impl Monitor ===

impl Monitor {
    pub(crate) fn new(sinks: Vec<Sink>, stops: Vec<Stop>, budget: Duration, plans_max: usize) -> Self {
        let progress = Progress {
            plans_max: if plans_max == usize::MAX { 0 } else { plans_max },
            budget_ms: millis(budget),
            ..Progress::default()
        };
        let monitor = Self {
            started: Instant::now(),
            sinks,
            stops,
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                progress,
                reported: None,
            }),
        };
        monitor.update(|_| {});
        monitor
    }

    /// Changes the progress and reports it, unless it was reported less than [`INTERVAL`] ago.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Progress)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let phase = state.progress.phase;
        change(&mut state.progress);
        state.progress.elapsed_ms = millis(self.started.elapsed());
        let is_due = state.reported.is_none_or(|then| then.elapsed() >= INTERVAL);
        if is_due || phase != state.progress.phase {
            state.reported = Some(Instant::now());
            self.sinks.iter().for_each(|sink| sink(&state.progress));
        }
    }

    /// Returns true if the campaign must end. The result never changes back.
    pub(crate) fn is_stopped(&self) -> bool {
        if !self.is_stopped.load(Ordering::Relaxed) && self.stops.iter().any(|stop| stop()) {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// Returns a sink that prints the progress on standard error: a bar on a terminal, lines otherwise.
pub(crate) fn printer() -> Sink {
    let is_terminal = std::io::stderr().is_terminal();
    let printed: Mutex<Option<Instant>> = Mutex::new(None);
    Box::new(move |progress| {
        let is_done = progress.phase == Phase::Done;
        let mut error = std::io::stderr();
        // A failed write is ignored, because the progress is only informative.
        let _ = match is_terminal {
            true if is_done => writeln!(error, "\r\x1b[K{progress}"),
            true => write!(error, "\r\x1b[K{} {progress}", progress.bar()),
            false => {
                let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                if !is_done && printed.is_some_and(|then| then.elapsed() < LINE_INTERVAL) {
                    return;
                }
                *printed = Some(Instant::now());
                writeln!(error, "{progress}")
            }
        };
        let _ = error.flush();
    })
}

/// Returns a sink that replaces a file with the progress as JSON.
pub(crate) fn file(path: PathBuf) -> Sink {
    Box::new(move |progress| {
        // After an error, the reader keeps the previous progress.
        let _ = replace(&path, progress);
    })
}

fn replace(path: &Path, progress: &Progress) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, serde_json::to_vec(progress)?)?;
    std::fs::rename(&new, path)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_the_budget_that_is_used_first() {
        let progress = Progress {
            phase: Phase::Plans,
            plans: 50,
            plans_max: 100,
            elapsed_ms: 1000,
            budget_ms: 10_000,
            ..Progress::default()
        };
        assert_eq!(progress.bar(), "[##########..........]");
        let unlimited = Progress {
            plans_max: 0,
            ..progress
        };
        assert_eq!(unlimited.bar(), "[##..................]");
        let over = Progress {
            elapsed_ms: 99_000,
            ..unlimited
        };
        assert_eq!(over.bar(), "[####################]");
        assert_eq!(Progress::default().bar(), "[....................]");
    }
}
