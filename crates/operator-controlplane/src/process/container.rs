//! One container that runs as a local process ([`Container`]): it is started, probed, stopped, and restarted with a
//! backoff.

use std::collections::BTreeMap;
use std::future;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use operator_apiserver::client::LogWriter;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pod::Shared;
use super::probe::Probe;
use crate::object::{Object, time};
use crate::process_group::ProcessGroup;

const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// The run time after which the restart backoff is reset.
const BACKOFF_RESET: Duration = Duration::from_secs(600);
/// The maximum length of a log line; longer lines are split.
const LINE_MAX: u64 = 16 * 1024;
/// The time limit for reading the output of a container after it has ended.
const OUTPUT_MAX: Duration = Duration::from_secs(1);

/// Environment variables of this process that are passed to programs if they are set.
const INHERITED: [&str; 6] = [
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
];

/// The name of the probe whose failure ends a container.
const LIVENESS: &str = "Liveness";

/// The state of a container for its status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    now: Now,
    last: Option<Ended>,
    restarts: i64,
    ready: bool,
    started: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Now {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Ended(Ended),
}

impl Default for Now {
    fn default() -> Self {
        Self::Waiting {
            reason: "ContainerCreating",
            message: String::new(),
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    code: i64,
    reason: &'static str,
    message: String,
    started: Timestamp,
    finished: Timestamp,
}

impl Ended {
    fn to_json(&self) -> Value {
        let mut ended = json!({
            "exitCode": self.code,
            "reason": self.reason,
            "startedAt": time(self.started),
            "finishedAt": time(self.finished),
        });
        if !self.message.is_empty() {
            ended["message"] = self.message.clone().into();
        }
        ended
    }
}

// === impl State ===

impl State {
    /// Continues the restart count of a pod that ran before the control plane was started.
    pub(super) fn after(status: Option<&Value>) -> Self {
        let was_running = status.is_some_and(|status| status.pointer("/state/running").is_some());
        let restarts = status.and_then(|status| status.int("/restartCount")).unwrap_or(0);
        Self {
            restarts: restarts + i64::from(was_running),
            ..Self::default()
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(super) fn has_run(&self) -> bool {
        !matches!(self.now, Now::Waiting { .. }) || self.last.is_some()
    }

    /// Returns the exit code of a container that will not be restarted.
    pub(super) fn exit_code(&self) -> Option<i64> {
        match &self.now {
            Now::Ended(ended) => Some(ended.code),
            _ => None,
        }
    }

    /// Returns the status of a container.
    pub(super) fn status(&self, container: &Value) -> Value {
        let image = container.text("/image");
        let state = match &self.now {
            Now::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
            Now::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
            Now::Running { since } => json!({"running": {"startedAt": time(*since)}}),
            Now::Ended(ended) => json!({"terminated": ended.to_json()}),
        };
        let last = self
            .last
            .as_ref()
            .map(|ended| json!({"terminated": ended.to_json()}));
        let mut status = json!({
            "name": container.text("/name"),
            "image": image,
            "imageID": "",
            "state": state,
            "lastState": last.unwrap_or_else(|| json!({})),
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        });
        if self.has_run() {
            status["imageID"] = format!("process://{image}").into();
            status["containerID"] = format!("process://{}", container.text("/name")).into();
        }
        status
    }
}

/// The command of a process.
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) directory: PathBuf,
}

/// A container of a pod.
pub(super) struct Container {
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    pub(super) spec: Value,
    /// The address that is probed.
    pub(super) address: String,
    /// The grace period, once the container must stop.
    pub(super) stop: watch::Receiver<Option<Duration>>,
    /// The grace period in the pod's specification.
    pub(super) grace: Duration,
}

// === impl Container ===

impl Container {
    /// Runs the container until it has terminated and will not be restarted.
    pub(super) async fn run(mut self) {
        let mut backoff: Option<Duration> = None;
        loop {
            let start = match self.shared.prepare(&self.spec).await {
                Ok(start) => start,
                Err(message) => {
                    self.shared.warn("Failed", format!("Error: {message}")).await;
                    self.wait("CreateContainerConfigError", message);
                    if self.pause(BACKOFF_FIRST).await {
                        return self.never_started();
                    }
                    continue;
                }
            };
            let began = Instant::now();
            let ended = self.once(start).await;
            let code = ended.code;
            let policy = match self.shared.restart_policy() {
                "Never" => false,
                "OnFailure" => code != 0,
                _ => true,
            };
            let is_last = !policy || self.stop.borrow().is_some();
            self.shared.change(self.index, |state| {
                state.ready = false;
                state.started = false;
                if is_last {
                    state.now = Now::Ended(ended.clone());
                } else {
                    state.last = Some(ended.clone());
                }
            });
            if is_last {
                return;
            }
            // The first restart is immediate, as with kubelets.
            if began.elapsed() >= BACKOFF_RESET {
                backoff = None;
            }
            if let Some(delay) = backoff {
                let name = self.spec.text("/name");
                let message = format!(
                    "back-off {}s restarting failed container={name} {}",
                    delay.as_secs(),
                    self.shared.pod_name()
                );
                self.shared
                    .warn(
                        "BackOff",
                        format!(
                            "Back-off restarting failed container {name} in {}",
                            self.shared.pod_name()
                        ),
                    )
                    .await;
                self.wait("CrashLoopBackOff", message);
                if self.pause(delay).await {
                    return self.never_started();
                }
            }
            backoff = Some(backoff.map_or(BACKOFF_FIRST, |delay| (delay * 2).min(BACKOFF_MAX)));
            self.shared.change(self.index, |state| state.restarts += 1);
        }
    }

    fn wait(&self, reason: &'static str, message: String) {
        self.shared
            .change(self.index, |state| state.now = Now::Waiting { reason, message });
    }

    /// Ends a container that is stopped during its backoff; it keeps its last termination state.
    fn never_started(&self) {
        self.shared.change(self.index, |state| {
            if let Some(last) = state.last.take() {
                state.now = Now::Ended(last);
            }
        });
    }

    /// Waits for a delay; returns true if the container must stop.
    async fn pause(&mut self, delay: Duration) -> bool {
        let stopped = self.stop.wait_for(Option::is_some);
        tokio::time::timeout(delay, stopped).await.is_ok()
    }

    /// Runs the process once.
    async fn once(&mut self, start: Start) -> Ended {
        let started = self.shared.now();
        let log = Arc::new(self.shared.open_log(self.spec.text("/name")));
        let ended = |code, reason, message: String, finished| Ended {
            code,
            reason,
            message,
            started,
            finished,
        };
        let mut process = match Process::start(&start, &log) {
            Ok(process) => process,
            Err(error) => {
                let message = format!("cannot run {}: {error}", start.program.display());
                log.line(SystemTime::now(), message.as_bytes());
                self.shared.warn("Failed", format!("Error: {message}")).await;
                return ended(128, "StartError", message, self.shared.now());
            }
        };
        drop(log);
        let probe = |field| Probe::read(&self.spec, field, &self.address);
        let [startup, readiness, liveness] = ["startupProbe", "readinessProbe", "livenessProbe"].map(probe);
        let (has_startup, has_readiness) = (startup.is_some(), readiness.is_some());
        self.shared.change(self.index, |state| {
            state.now = Now::Running { since: started };
            state.started = !has_startup;
            state.ready = !has_startup && !has_readiness;
        });
        self.shared.started(&self.spec).await;
        let unhealthy = async {
            if let Some(probe) = &startup
                && !self.starts(probe).await
            {
                return "startup";
            }
            tokio::select! {
                () = self.watch_readiness(readiness.as_ref()) => {}
                () = self.dies(liveness.as_ref()) => {}
            }
            "liveness"
        };
        let mut stop = self.stop.clone();
        let end = tokio::select! {
            status = process.child.wait() => End::Exited(status.ok()),
            probe = unhealthy => End::Unhealthy(probe),
            stopped = stop.wait_for(Option::is_some) => {
                End::Stopped(stopped.ok().and_then(|grace| *grace).unwrap_or_default())
            }
        };
        let name = self.spec.text("/name");
        let grace = match end {
            End::Exited(status) => {
                process.finish().await;
                let (code, reason) = outcome(status);
                return ended(code, reason, String::new(), self.shared.now());
            }
            End::Unhealthy(probe) => {
                let message = format!("Container {name} failed {probe} probe, will be restarted");
                self.shared.note("Killing", message).await;
                self.grace
            }
            End::Stopped(grace) => {
                let message = format!("Stopping container {name}");
                self.shared.note("Killing", message).await;
                grace
            }
        };
        let status = process.stop(grace, &mut stop).await;
        let (code, reason) = outcome(status);
        process.finish().await;
        ended(code, reason, String::new(), self.shared.now())
    }

    /// Waits until the startup probe succeeds; returns false if it fails too often.
    async fn starts(&self, probe: &Probe) -> bool {
        let started = self.follow(probe, "Startup", |well| well).await;
        if started {
            let has_readiness = self.spec.get("readinessProbe").is_some();
            self.shared.change(self.index, |state| {
                state.started = true;
                state.ready = !has_readiness;
            });
        }
        started
    }

    /// Waits until the liveness probe fails too often.
    async fn dies(&self, probe: Option<&Probe>) {
        match probe {
            Some(probe) => drop(self.follow(probe, LIVENESS, |well| !well).await),
            None => future::pending().await,
        }
    }

    /// Updates the readiness with each result of the readiness probe.
    async fn watch_readiness(&self, probe: Option<&Probe>) {
        let Some(probe) = probe else {
            return future::pending().await;
        };
        self.follow(probe, "Readiness", |well| {
            self.shared.change(self.index, |state| state.ready = well);
            false
        })
        .await;
    }

    /// Probes repeatedly, and calls `reached` with each result that reaches its threshold, until `reached` returns
    /// true.
    async fn follow(&self, probe: &Probe, name: &str, reached: impl Fn(bool) -> bool) -> bool {
        if name == LIVENESS {
            tokio::time::sleep(probe.delay).await;
        } else {
            probe.first_success().await;
        }
        let mut ticks = tokio::time::interval(probe.period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut successes, mut failures) = (0, 0);
        loop {
            ticks.tick().await;
            match probe.check().await {
                Ok(()) => (successes, failures) = (successes + 1, 0),
                Err(why) => {
                    (successes, failures) = (0, failures + 1);
                    self.shared
                        .warn("Unhealthy", format!("{name} probe failed: {why}"))
                        .await;
                }
            }
            if successes >= probe.successes && reached(true) {
                return true;
            }
            if failures >= probe.failures && reached(false) {
                return false;
            }
        }
    }
}

/// The reason why a process ends.
enum End {
    Exited(Option<ExitStatus>),
    /// A probe failed too often.
    Unhealthy(&'static str),
    /// The pod terminates, within a grace period.
    Stopped(Duration),
}

/// Returns the exit code and the reason, as kubelets report them.
fn outcome(status: Option<ExitStatus>) -> (i64, &'static str) {
    let code = status.and_then(|status| status.code().or_else(|| Some(128 + status.signal()?)));
    match code.unwrap_or(137) {
        0 => (0, "Completed"),
        code => (code.into(), "Error"),
    }
}

/// A process in its own group, which is always killed when this process ends.
struct Process {
    child: Child,
    group: ProcessGroup,
    output: JoinSet<()>,
}

// === impl Process ===

impl Process {
    fn start(start: &Start, log: &Arc<LogWriter>) -> std::io::Result<Self> {
        let inherited = INHERITED
            .iter()
            .filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let group = ProcessGroup::start(Duration::ZERO)?;
        let mut command = Command::new(&start.program);
        command
            .args(&start.arguments)
            .env_clear()
            .envs(inherited)
            .env("HOME", &start.directory)
            .envs(&start.environment)
            .current_dir(&start.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = group.spawn(&mut command)?;
        let mut output = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            output.spawn(copy(stdout, log.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            output.spawn(copy(stderr, log.clone()));
        }
        Ok(Self { group, child, output })
    }

    /// Sends SIGTERM, and SIGKILL after the grace period, which `shorter` can reduce.
    async fn stop(
        &mut self,
        grace: Duration,
        shorter: &mut watch::Receiver<Option<Duration>>,
    ) -> Option<ExitStatus> {
        let mut deadline = Instant::now() + grace;
        self.group.terminate();
        while Instant::now() < deadline {
            tokio::select! {
                status = self.child.wait() => return status.ok(),
                () = tokio::time::sleep_until(deadline) => {}
                changed = shorter.changed() => {
                    let grace = shorter.borrow_and_update().filter(|_| changed.is_ok());
                    deadline = deadline.min(Instant::now() + grace.unwrap_or_default());
                }
            }
        }
        self.group.kill();
        self.child.wait().await.ok()
    }

    /// Kills the remaining processes, and reads the rest of the output.
    async fn finish(mut self) {
        self.group.finish().await;
        let rest = async { while self.output.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(OUTPUT_MAX, rest).await;
    }
}

/// Writes the lines of an output to the log.
async fn copy(output: impl AsyncRead + Send + Unpin + 'static, log: Arc<LogWriter>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut output).take(LINE_MAX);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let line = line.strip_suffix(b"\n").unwrap_or(&line);
                log.line(SystemTime::now(), line);
            }
        }
    }
}
