//! Pods that run as local processes: [`Processes`], [`Program`].
//!
//! A registry maps image names to local programs. A pod with such an image on a simulated node runs the program with
//! the arguments, the environment, the service account and the probes of its container. Containers with other images
//! stay simulated. Nothing runs while the registry is empty, and no request to the API server can add an entry.

mod agent;
mod container;
mod environment;
mod pod;
mod probe;
mod sandbox;
mod volume;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use operator_apiserver::{ApiServer, Listener};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

pub(crate) use agent::Agent;

use crate::object::Object;

/// The name of the registry file in its directory.
const FILE: &str = "programs.json";

/// The time limit for processes to end after SIGTERM when the control plane stops.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A local program that runs instead of an image.
///
/// ```
/// use operator_controlplane::Program;
///
/// let program = Program::new("target/debug/web").argument("--listen=$(POD_IP):8080").in_namespace("shop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    namespace: Option<String>,
}

// === impl Program ===

impl Program {
    /// Creates a program without additional arguments.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
            namespace: None,
        }
    }

    /// Creates a program that uses operator-runtime: its servers listen on the address of the pod, and its leader
    /// election lease is in the pod's namespace.
    pub fn operator(path: impl Into<PathBuf>) -> Self {
        Self::new(path)
            .argument("--health-probe-bind-address=$(POD_IP):8081")
            .argument("--webhook-host=$(POD_IP)")
            .argument("--leader-election-namespace=$(POD_NAMESPACE)")
    }

    /// Adds a flag `--NAME=VALUE`, unless the container sets it. `$(POD_IP)`, `$(POD_NAME)` and `$(POD_NAMESPACE)` are
    /// replaced; `POD_IP` is the local address on which the process can listen.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Restricts the program to pods of a namespace. Default: all namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    fn to_json(&self) -> Value {
        json!({"path": self.path, "arguments": self.arguments, "namespace": self.namespace})
    }

    fn from_json(value: &Value) -> Option<Self> {
        let arguments = value.items("/arguments").iter();
        let namespace = value.text("/namespace");
        Some(Self {
            path: PathBuf::from(value.get("path")?.as_str()?),
            arguments: arguments.filter_map(Value::as_str).map(str::to_owned).collect(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        })
    }
}

impl<P: Into<PathBuf>> From<P> for Program {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// An error of reading or writing a registry of programs.
#[derive(Debug, thiserror::Error)]
#[error("cannot register programs in {}: {source}", path.display())]
pub struct ProcessesError {
    path: PathBuf,
    source: io::Error,
}

/// The registry of local programs, and the address at which their processes reach the API server.
///
/// Clones share the registry. If the registry has a directory, other processes of the same user can change it with
/// [`register`].
#[derive(Clone, Debug)]
pub struct Processes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: ApiServer,
    url: String,
    authority: String,
    directory: PathBuf,
    programs: RwLock<BTreeMap<String, Program>>,
    /// True while the control plane stops.
    stopping: watch::Sender<bool>,
    /// The number of running pods.
    running: watch::Sender<usize>,
}

// === impl Processes ===

impl Processes {
    /// Creates a registry. Processes reach the API server at the address of a listener. `directory` is private to the
    /// user; it contains the registry file, and the credentials of running pods.
    pub fn new(server: &ApiServer, listener: &Listener, directory: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Inner {
            server: server.clone(),
            url: format!("https://{}", listener.local_addr()),
            authority: listener.authority().to_owned(),
            directory: directory.into(),
            programs: RwLock::default(),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(0),
        }))
    }

    /// Adds a program. It replaces an existing program for the same image.
    pub fn add(&self, image: impl Into<String>, program: impl Into<Program>) {
        self.0.programs.write().insert(image.into(), program.into());
    }

    /// Returns the program for an image in pods of a namespace.
    fn find(&self, image: &str, namespace: &str) -> Option<Program> {
        let own = self.0.programs.read().get(image).cloned();
        let found = own.or_else(|| read(&self.0.directory).remove(image))?;
        let is_meant = found.namespace.as_ref().is_none_or(|only| only == namespace);
        is_meant.then_some(found)
    }

    /// Returns true if a container of the pod runs as a local process.
    pub(crate) fn claims(&self, pod: &Value) -> bool {
        let containers = pod.items("/spec/containers").iter();
        let mut images = containers.map(|container| container.text("/image"));
        images.any(|image| self.find(image, pod.namespace()).is_some())
    }

    /// Ends all processes with SIGTERM, and after ten seconds with SIGKILL.
    pub(crate) async fn stop(&self) {
        self.0.stopping.send_replace(true);
        let mut running = self.0.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        let _ = tokio::time::timeout(STOP_MAX + Duration::from_secs(1), ended).await;
    }
}

/// Registers a program with the control plane of another process of this user, whose registry is in `directory`.
///
/// # Errors
/// Returns an error if the directory cannot be written.
pub fn register(directory: &Path, image: &str, program: &Program) -> Result<(), ProcessesError> {
    let mut programs = read(directory);
    programs.insert(image.to_owned(), program.clone());
    let programs: Map<String, Value> = programs
        .iter()
        .map(|(image, program)| (image.clone(), program.to_json()))
        .collect();
    let path = directory.join(FILE);
    let part = directory.join(format!(".{FILE}.{}", std::process::id()));
    let text = Value::Object(programs).to_string();
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
    written.map_err(|source| {
        let _ = std::fs::remove_file(&part);
        ProcessesError { path, source }
    })
}

/// Reads the registry of a directory. A missing file is an empty registry.
fn read(directory: &Path) -> BTreeMap<String, Program> {
    let text = std::fs::read_to_string(directory.join(FILE)).unwrap_or_default();
    let programs: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let programs = programs.into_iter();
    programs
        .filter_map(|(image, program)| Some((image, Program::from_json(&program)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use operator_apiserver::ListenOptions;

    use super::*;

    #[tokio::test]
    async fn a_program_of_another_process_is_found_in_its_namespace_only() {
        let directory = tempfile::tempdir().unwrap();
        let server = ApiServer::builder().build().unwrap();
        let listener = server.listen(ListenOptions::default()).await.unwrap();
        let processes = Processes::new(&server, &listener, directory.path());
        assert!(processes.find("web:1", "shop").is_none());
        let program = Program::operator("/bin/web").in_namespace("shop");
        register(directory.path(), "web:1", &program).unwrap();
        assert_eq!(processes.find("web:1", "shop"), Some(program));
        assert!(processes.find("web:1", "other").is_none());
        assert!(processes.find("web:2", "shop").is_none());
    }
}
