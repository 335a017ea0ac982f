//! A running operator: start, stop, wait.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::failure::Hinted;

/// Options for starting an operator.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The namespaces to watch, separated by commas; empty means all.
    pub(crate) watch_namespace: Option<String>,
    pub(crate) arguments: Vec<OsString>,
    /// More environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// The log file; `None` is standard error of this process.
    pub(crate) log: Option<PathBuf>,
}

/// An operator as a child of this process; it is killed if the value is dropped.
#[derive(Debug)]
pub(crate) struct Operator {
    child: Child,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot run the operator {}: {source}", program.display())]
pub(crate) struct StartError {
    program: PathBuf,
    source: io::Error,
}

impl Hinted for StartError {
    fn hint(&self) -> Option<String> {
        Some("build it with `cargo build`, and check that the program is executable".to_owned())
    }
}

// === impl Operator ===

impl Operator {
    pub(crate) fn start(start: &Start) -> Result<Self, StartError> {
        let failed = |source| StartError {
            program: start.program.clone(),
            source,
        };
        let mut command = Command::new(&start.program);
        command
            .args(&start.arguments)
            .current_dir(&start.directory)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            // A separate process group: Ctrl-C reaches only this process, which sends one signal to the operator.
            .process_group(0);
        command.envs(start.environment.iter().cloned());
        if let Some(kubeconfig) = &start.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        if let Some(namespaces) = &start.watch_namespace {
            command.env("WATCH_NAMESPACE", namespaces);
        }
        if let Some(log) = &start.log {
            let file = std::fs::File::create(log).map_err(failed)?;
            command.stdout(file.try_clone().map_err(failed)?).stderr(file);
        }
        Ok(Self {
            child: command.spawn().map_err(failed)?,
        })
    }

    /// Requests a graceful stop (SIGTERM); a second call stops it immediately.
    pub(crate) fn stop(&self) {
        let pid = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process may already have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until the operator ends.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// Returns the exit code of a program as a shell does: 128 plus the signal number if a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns the kubeconfig of a client: the given file, or `KUBECONFIG`, or the file in the home directory. Returns
/// `None` if the operator finds it by itself.
pub(crate) fn find_kubeconfig(named: Option<&Path>) -> Result<Option<PathBuf>, NoKubeconfig> {
    // The operator reads the variable itself, and merges several files.
    let found = kubeconfig_file(named)?;
    Ok(named.is_some().then_some(found))
}

/// Returns the file that [`find_kubeconfig`] finds; the first one of several.
pub(crate) fn kubeconfig_file(named: Option<&Path>) -> Result<PathBuf, NoKubeconfig> {
    if let Some(path) = named {
        let whole = path.canonicalize().map_err(|_| NoKubeconfig(path.to_owned()))?;
        return if whole.is_file() {
            Ok(whole)
        } else {
            Err(NoKubeconfig(path.to_owned()))
        };
    }
    let listed: Vec<PathBuf> = std::env::var_os("KUBECONFIG")
        .filter(|value| !value.is_empty())
        .map(|value| std::env::split_paths(&value).collect())
        .unwrap_or_default();
    let candidates = if listed.is_empty() {
        let home = std::env::var_os("HOME").unwrap_or_default();
        vec![Path::new(&home).join(".kube/config")]
    } else {
        listed
    };
    let existing = candidates.iter().find(|path| path.is_file()).cloned();
    existing.ok_or_else(|| NoKubeconfig(candidates.into_iter().next().unwrap_or_default()))
}

#[derive(Debug, thiserror::Error)]
#[error("the kubeconfig {} does not exist", .0.display())]
pub(crate) struct NoKubeconfig(PathBuf);

impl Hinted for NoKubeconfig {
    fn hint(&self) -> Option<String> {
        Some("give one with `--kubeconfig`, or use `--embedded` to start a control plane".to_owned())
    }
}
