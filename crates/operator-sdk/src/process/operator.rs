//! [`Operator`], a running operator: start, stop, wait.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use operator_controlplane::ProcessGroup;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::failure::Hinted;

/// The time that an operator has to end after this process was killed.
const GRACE: Duration = Duration::from_secs(30);

/// Options for starting an operator.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    pub(crate) directory: PathBuf,
    /// The value of `KUBECONFIG`. `None` inherits it.
    pub(crate) kubeconfig: Option<OsString>,
    /// The namespaces to watch, separated by commas. Empty means all.
    pub(crate) watch_namespace: Option<String>,
    pub(crate) arguments: Vec<OsString>,
    /// Additional environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// The log file. `None` is standard error of this process.
    pub(crate) log: Option<PathBuf>,
}

/// An operator as a child of this process. It is killed if the value is dropped.
#[derive(Debug)]
pub(crate) struct Operator {
    child: Child,
    /// Ends the operator with this process. Ctrl-C reaches only this process, which sends one signal to the operator.
    _group: ProcessGroup,
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
        let group = ProcessGroup::start(GRACE).map_err(failed)?;
        let mut command = Command::new(&start.program);
        command
            .args(&start.arguments)
            .current_dir(&start.directory)
            .stdin(Stdio::null());
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
            child: group.spawn(&mut command).map_err(failed)?,
            _group: group,
        })
    }

    /// Requests a graceful stop (SIGTERM). A second call stops the operator immediately.
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

/// Returns the exit code of a program like a shell: 128 plus the signal number if a signal ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns the value of `KUBECONFIG` for the operator: the given kubeconfig, preceded by a file in `directory` that
/// selects the context, if one is given. Returns `None` if the operator finds its kubeconfig itself.
pub(crate) fn kubeconfig(
    named: Option<&Path>,
    context: Option<(&str, &Path)>,
) -> Result<Option<OsString>, KubeconfigError> {
    let files = kubeconfig_files(named)?;
    let Some((name, directory)) = context else {
        // The operator finds the file in the home directory itself.
        let is_chosen = named.is_some() || !listed_kubeconfigs().is_empty();
        return Ok(is_chosen.then(|| std::env::join_paths(files)).transpose()?);
    };
    // The first file in the list that sets the current context takes precedence.
    let selection = directory.join("context");
    let text = format!("current-context: {}\n", serde_json::Value::from(name));
    std::fs::write(&selection, text).map_err(|source| KubeconfigError::Selection {
        path: selection.clone(),
        source,
    })?;
    let all = std::iter::once(selection).chain(files);
    Ok(Some(std::env::join_paths(all)?))
}

/// Returns the existing kubeconfigs: the given file, or those of `KUBECONFIG`, or the file in the home directory.
fn kubeconfig_files(named: Option<&Path>) -> Result<Vec<PathBuf>, KubeconfigError> {
    let listed: Vec<PathBuf> = match named {
        Some(path) => vec![path.to_owned()],
        None => listed_kubeconfigs(),
    };
    let candidates = if listed.is_empty() {
        let home = std::env::var_os("HOME").unwrap_or_default();
        vec![Path::new(&home).join(".kube/config")]
    } else {
        listed
    };
    let existing = candidates.iter().filter(|path| path.is_file());
    // Made absolute, because the operator may run in another directory.
    let existing: Vec<PathBuf> = existing.filter_map(|path| path.canonicalize().ok()).collect();
    if existing.is_empty() {
        let first = candidates.into_iter().next().unwrap_or_default();
        return Err(KubeconfigError::Missing(first));
    }
    Ok(existing)
}

/// Returns the files of `KUBECONFIG`.
fn listed_kubeconfigs() -> Vec<PathBuf> {
    let value = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
    listed.collect()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    #[error("the kubeconfig {} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Selection { path: PathBuf, source: io::Error },
    #[error("the kubeconfig cannot be in a list: {0}")]
    Path(#[from] std::env::JoinPathsError),
}

impl Hinted for KubeconfigError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing(_) => "give one with `--kubeconfig`, or use `--embedded` to start a control plane",
            Self::Selection { .. } => "free space in its directory, or choose another one with TMPDIR",
            Self::Path(_) => "use a path without a colon with `--kubeconfig`",
        };
        Some(hint.to_owned())
    }
}
