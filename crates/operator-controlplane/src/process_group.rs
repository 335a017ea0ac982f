//! Process groups that end with the process that started them: [`ProcessGroup`].

use std::fs::File;
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// The shell script of the group's leader. It reads the IDs of the programs until its input closes. It then ends the
/// group, at once or with SIGTERM first. If it read no ID, this process was killed while it started a program. A group
/// cannot be signalled after its leader has ended, so the leader ignores SIGTERM.
const GUARD: &str = r#"
trap '' TERM
pids=
while read -r pid; do pids="$pids $pid"; done
if [ "$1" -gt 0 ]; then
    kill -s TERM 0
    waited=0
    while [ "$waited" -lt "$1" ]; do
        is_alive=
        [ -n "$pids" ] || is_alive=unknown
        for pid in $pids; do kill -s 0 "$pid" 2>/dev/null && is_alive=1; done
        [ -n "$is_alive" ] || break
        sleep 1
        waited=$((waited + 1))
    done
fi
kill -s KILL 0
"#;

/// A process group that ends with this process, even if this process is killed.
///
/// A shell leads the group. It is started before the first program, because this process may be killed at any moment.
/// Dropping the value kills every process of the group at once. Must be used within a tokio runtime.
///
/// ```
/// use std::time::Duration;
///
/// use operator_controlplane::ProcessGroup;
/// use tokio::process::Command;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let group = ProcessGroup::start(Duration::ZERO)?;
/// let mut program = group.spawn(Command::new("sleep").arg("60"))?;
/// group.kill();
/// assert!(!program.wait().await?.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the processes end when this is dropped"]
pub struct ProcessGroup {
    guard: Child,
    id: Option<Pid>,
    /// Sends the IDs of the programs to the leader. When it closes, the leader ends the group.
    input: Mutex<File>,
}

// === impl ProcessGroup ===

impl ProcessGroup {
    /// Starts a group without programs. If this process ends without dropping the value, for example by SIGKILL, the
    /// programs get SIGTERM, and SIGKILL after the grace period, which is rounded down to whole seconds. With a zero grace
    /// period they get SIGKILL at once.
    ///
    /// # Errors
    /// Returns an error if the shell cannot be started.
    pub fn start(grace: Duration) -> io::Result<Self> {
        let mut guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "sh"])
            .arg(grace.as_secs().to_string())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()?;
        let input = guard.stdin.take();
        let input = input.ok_or_else(|| io::Error::other("the shell has no input"))?;
        let id = guard.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            guard,
            id: id.and_then(Pid::from_raw),
            input: Mutex::new(File::from(input.into_owned_fd()?)),
        })
    }

    /// Starts a program in the group. It is killed if the returned value is dropped. Signals of the terminal, such as
    /// Ctrl-C, do not reach it.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let group = self.id.map_or(0, Pid::as_raw_pid);
        let child = command.process_group(group).kill_on_drop(true).spawn()?;
        if let (Some(id), Ok(mut input)) = (child.id(), self.input.lock()) {
            // If the shell has ended, it cannot wait for the program, which is killed like all others.
            let _ = writeln!(input, "{id}");
        }
        Ok(child)
    }

    /// Sends SIGTERM to every program of the group.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills every process of the group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills every process of the group, and waits until its leader has ended.
    pub async fn finish(mut self) {
        self.kill();
        let _ = self.guard.wait().await;
        self.id = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // A group that has already ended needs no signal.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
