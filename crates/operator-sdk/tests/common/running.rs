//! [`Running`], a program that runs during a test, and ends with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::sdk;

/// Starts a cluster, and waits until it is ready. Also returns the line that reports this.
pub fn cluster(kubeconfig: &Path) -> (Running, String) {
    let mut cluster = Running::start(sdk().args(["cluster", "up", "--kubeconfig"]).arg(kubeconfig));
    let line = cluster.line_with("ready");
    (cluster, line)
}

/// The time limit of every step.
pub const PATIENCE: Duration = Duration::from_secs(180);

pub struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts a program, and reads its standard output.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // The thread ends with the last process that has this output.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for the first line with this text, and returns it.
    #[track_caller]
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            assert!(line.is_ok(), "the program did not print {text:?}: {line:?}");
            let line = line.unwrap_or_default();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGKILL, and waits until all processes with its standard output have ended.
    #[track_caller]
    pub fn kill_and_read_to_end(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut line = Ok(String::new());
        while line.is_ok() {
            line = self.lines.recv_timeout(PATIENCE);
        }
        let end = line.unwrap_err();
        assert_eq!(
            end,
            RecvTimeoutError::Disconnected,
            "a process that it started still runs"
        );
    }

    fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> ExitStatus {
        self.terminate();
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM first, because a program that is killed leaves its children behind.
        self.terminate();
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
