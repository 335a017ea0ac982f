//! The logs of containers that run as local processes, in memory: [`PodLogs`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The maximum size of the log of one container, in bytes. The oldest lines are dropped.
const BYTES_MAX: usize = 10 << 20;

/// The logs of all containers, by the UID of the pod and the name of the container.
#[derive(Debug, Default)]
pub(crate) struct PodLogs(Mutex<BTreeMap<(String, String), Runs>>);

/// The logs of the current run and of the previous run of a container.
#[derive(Debug)]
struct Runs {
    current: Arc<PodLog>,
    previous: Option<Arc<PodLog>>,
}

/// One line, with its line feed.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) written: SystemTime,
    pub(crate) text: Bytes,
}

/// The output of one run of a container.
#[derive(Debug)]
pub(crate) struct PodLog {
    lines: Mutex<Lines>,
    /// The number of lines that were written, and true once the container has ended.
    changed: watch::Sender<(usize, bool)>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    bytes: usize,
    dropped: usize,
}

// === impl PodLogs ===

impl PodLogs {
    pub(crate) fn open(&self, pod_uid: &str, container: &str) -> LogWriter {
        let log = Arc::new(PodLog {
            lines: Mutex::default(),
            changed: watch::Sender::new((0, false)),
        });
        let mut all = self.0.lock();
        let key = (pod_uid.to_owned(), container.to_owned());
        let previous = all.remove(&key).map(|runs| runs.current);
        let current = log.clone();
        all.insert(key, Runs { current, previous });
        LogWriter(log)
    }

    /// Returns the log of a container, if it runs as a local process.
    pub(crate) fn get(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Arc<PodLog>> {
        let all = self.0.lock();
        let runs = all.get(&(pod_uid.to_owned(), container.to_owned()))?;
        if previous {
            return runs.previous.clone();
        }
        Some(runs.current.clone())
    }

    pub(crate) fn remove(&self, pod_uid: &str) {
        self.0.lock().retain(|(uid, _), _| uid != pod_uid);
    }
}

// === impl PodLog ===

impl PodLog {
    /// Returns the lines starting at a number, and the number of the next line.
    pub(crate) fn lines(&self, from: usize) -> (Vec<Line>, usize) {
        let lines = self.lines.lock();
        let skipped = from.saturating_sub(lines.dropped);
        let found = lines.kept.iter().skip(skipped).cloned().collect();
        (found, lines.dropped + lines.kept.len())
    }

    /// Returns a receiver of the number of lines, and of true once the container has ended.
    pub(crate) fn subscribe(&self) -> watch::Receiver<(usize, bool)> {
        self.changed.subscribe()
    }
}

/// Writes the log of a container. The log ends when the value is dropped.
#[derive(Debug)]
pub struct LogWriter(Arc<PodLog>);

// === impl LogWriter ===

impl LogWriter {
    /// Adds a line, which is passed without a line feed.
    pub fn line(&self, written: SystemTime, text: &[u8]) {
        let text: Bytes = [text, b"\n"].concat().into();
        let mut lines = self.0.lines.lock();
        lines.bytes += text.len();
        lines.kept.push_back(Line { written, text });
        while lines.bytes > BYTES_MAX
            && let Some(line) = lines.kept.pop_front()
        {
            lines.bytes -= line.text.len();
            lines.dropped += 1;
        }
        let count = lines.dropped + lines.kept.len();
        drop(lines);
        self.0.changed.send_modify(|state| state.0 = state.0.max(count));
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.0.changed.send_modify(|state| state.1 = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_keeps_the_log_of_the_first() {
        let logs = PodLogs::default();
        logs.open("u", "c").line(SystemTime::UNIX_EPOCH, b"one");
        assert!(logs.get("u", "c", true).is_none());
        logs.open("u", "c").line(SystemTime::UNIX_EPOCH, b"two");
        let text = |previous| {
            let log = logs.get("u", "c", previous).unwrap();
            log.lines(0).0[0].text.clone()
        };
        assert_eq!(text(true), "one\n");
        assert_eq!(text(false), "two\n");
        logs.remove("u");
        assert!(logs.get("u", "c", false).is_none());
    }

    #[test]
    fn old_lines_are_dropped_and_keep_their_numbers() {
        let logs = PodLogs::default();
        let writer = logs.open("u", "c");
        let half = vec![b'x'; BYTES_MAX / 2];
        for _ in 0..3 {
            writer.line(SystemTime::UNIX_EPOCH, &half);
        }
        let log = logs.get("u", "c", false).unwrap();
        let (lines, next) = log.lines(0);
        assert_eq!((lines.len(), next), (1, 3));
        assert!(log.lines(3).0.is_empty());
    }
}
