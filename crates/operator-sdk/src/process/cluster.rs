//! [`Cluster`], the embedded control plane in this process, with its kubeconfig on disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use operator_apiserver::client::Gvr;
use operator_apiserver::{ApiServer, AuditOptions, Builder, ListenOptions, Listener};
use operator_controlplane::olm::UNPACK_IMAGE;
use operator_controlplane::{
    ControlPlane, Controllers, Delays, Options, Processes, Program, created, register,
};
use serde_json::{Value, json};

use super::temporary::{TemporaryDirectory, TemporaryError};
use crate::failure::Hinted;

/// The name of the extension in the kubeconfig of a cluster, with the directory of its local programs.
///
/// The directory is private to the user, so that no client of the API server can register a program, whatever its
/// permissions.
pub(crate) const PROCESSES: &str = "operator-sdk.dev/processes";

/// The cluster name in the server's kubeconfigs. A file with this name may be replaced.
const CLUSTER_NAME: &str = "operator-sdk";

/// The time limit for the default service account. Its controller takes milliseconds; flags of the server may reject it.
const ACCOUNT_WITHIN: Duration = Duration::from_secs(5);

/// Options of an embedded cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterOptions {
    /// The port. 0 selects a free one; `None` selects the port stored in the data directory, or a free one.
    pub(crate) port: Option<u16>,
    /// The data directory. `None` keeps the data in memory.
    pub(crate) data_directory: Option<PathBuf>,
    /// True if each write is flushed to the disk.
    pub(crate) fsync: bool,
    pub(crate) controllers: bool,
    pub(crate) nodes: usize,
    /// True if Operator Lifecycle Manager runs.
    pub(crate) olm: bool,
    /// The file for the kubeconfig. `None` is the data directory, or a private temporary directory.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The audit log.
    pub(crate) audit: Option<AuditOptions>,
}

/// An embedded cluster. Its kubeconfig is removed when it ends, unless there is a data directory.
#[derive(Debug)]
pub(crate) struct Cluster {
    server: ApiServer,
    listener: Listener,
    control_plane: ControlPlane,
    kubeconfig: Kubeconfig,
    processes: ProcessDirectory,
}

/// An error of starting a cluster or creating its CRDs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error("{0}")]
    Listen(#[source] operator_apiserver::Error),
    #[error("{source}")]
    DataDirectory {
        directory: PathBuf,
        source: operator_apiserver::Error,
    },
    #[error("the data directory {} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("cannot store the port in {}: {source}", path.display())]
    Port { path: PathBuf, source: io::Error },
    #[error("cannot create the directory {} for local programs: {source}", path.display())]
    Processes { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Temporary(#[from] TemporaryError),
    #[error("cannot write the kubeconfig {}: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: io::Error },
    #[error("the file {} exists and is not a kubeconfig of an embedded control plane", .0.display())]
    Foreign(PathBuf),
    #[error("cannot read {}: {reason}", path.display())]
    Definition { path: PathBuf, reason: String },
    #[error("the API server rejected {name}: {reason}")]
    Refused { name: String, reason: String },
    #[error("cannot install signal handlers: {0}")]
    Signals(#[from] io::Error),
}

impl Hinted for ClusterError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Listen(_) => "choose another port, or `--port 0` for a free one".to_owned(),
            Self::DataDirectory { directory, .. } => format!(
                "stop the other program that uses {}, or use another directory with `--data-dir`",
                directory.display()
            ),
            Self::NotDirectory(_) => "use a directory with `--data-dir`".to_owned(),
            Self::Processes { .. } => {
                "free space in it, or use another directory with `--data-dir`".to_owned()
            }
            Self::Temporary(error) => return error.hint(),
            Self::Port { .. } => "use a writable directory with `--data-dir`".to_owned(),
            Self::Kubeconfig { .. } => "use another file with `--kubeconfig`".to_owned(),
            Self::Foreign(_) => {
                "use a new file with `--kubeconfig`: the existing one is not overwritten".to_owned()
            }
            Self::Definition { .. } | Self::Refused { .. } => {
                "generate the CRDs again with `operator-sdk generate manifests`".to_owned()
            }
            Self::Signals(_) => "check the limits of this machine".to_owned(),
        })
    }
}

/// Makes this program unpack the bundle images of catalogs, in place of `opm`.
fn unpack_bundles(directory: &Path) -> Result<(), ClusterError> {
    let failed = |source| ClusterError::Processes {
        path: directory.to_owned(),
        source,
    };
    let program = Program::new(std::env::current_exe().map_err(failed)?);
    let registered = register(directory, UNPACK_IMAGE, &program);
    registered.map_err(|error| failed(io::Error::other(error)))
}

// === impl Cluster ===

impl Cluster {
    pub(crate) async fn start(options: &ClusterOptions) -> Result<Self, ClusterError> {
        Self::start_with(options, described(ApiServer::builder())).await
    }

    /// Starts a cluster with a server that is configured already.
    pub(crate) async fn start_with(options: &ClusterOptions, builder: Builder) -> Result<Self, ClusterError> {
        let data = options.data_directory.as_deref();
        if let Some(data) = data.filter(|data| data.exists() && !data.is_dir()) {
            return Err(ClusterError::NotDirectory(data.to_owned()));
        }
        let kubeconfig = options.kubeconfig.clone();
        let kubeconfig = kubeconfig.or_else(|| Some(data?.join("kubeconfig")));
        if let Some(path) = &kubeconfig {
            check_replaceable(path)?;
        }
        let server = server(builder, data, options)?;
        let port = options
            .port
            .or_else(|| remembered_port(data?))
            .unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = server
            .listen(ListenOptions::at(address))
            .await
            .map_err(ClusterError::Listen)?;
        if let Some(data) = data {
            remember_port(data, listener.local_addr().port())?;
        }
        let directory = ProcessDirectory::make(data)?;
        let text = with_processes(&listener.kubeconfig(), directory.path());
        let control_plane = ControlPlane::start(
            &server.client(),
            Options {
                controllers: if options.controllers {
                    Controllers::All
                } else {
                    Controllers::None
                },
                nodes: options.nodes,
                // For interactive use, pods take a visible time to start.
                delays: Delays::lifelike(),
                container_events: true,
                root_ca: listener.authority().to_owned(),
                signer: Some(listener.certificate_signer()),
                olm: options.olm,
                processes: Some(Processes::new(&server, &listener, directory.path())),
                ..Options::default()
            },
        );
        if options.controllers {
            // The first pod of a user needs it.
            let accounts = Gvr::new("", "v1", "serviceaccounts");
            let client = server.client();
            let account = created(&client, &accounts, "default", "default");
            let _ = tokio::time::timeout(ACCOUNT_WITHIN, account).await;
        }
        if options.olm {
            operator_controlplane::olm::installed(&server.client()).await;
            unpack_bundles(directory.path())?;
        }
        Ok(Self {
            server,
            listener,
            control_plane,
            kubeconfig: Kubeconfig::write(kubeconfig, data.is_some(), &text)?,
            processes: directory,
        })
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.listener.local_addr())
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig.path
    }

    /// Returns the directory in which programs of pods are registered.
    pub(crate) fn programs(&self) -> &Path {
        self.processes.path()
    }

    /// Creates the CustomResourceDefinitions in the files of a directory, and returns their names.
    pub(crate) async fn install(&self, directory: &Path) -> Result<Vec<String>, ClusterError> {
        let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let mut names = Vec::new();
        for definition in read_definitions(directory)? {
            let name = definition["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let created = self.server.client().create(&definitions, "", definition).await;
            created.map_err(|status| ClusterError::Refused {
                name: name.clone(),
                reason: status.to_string(),
            })?;
            names.push(name);
        }
        Ok(names)
    }

    /// Creates an object and returns it as stored.
    pub(crate) async fn create(
        &self,
        gvr: &Gvr,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ClusterError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let created = self.server.client().create(gvr, namespace, object).await;
        let created = created.map_err(|status| ClusterError::Refused {
            name,
            reason: status.to_string(),
        })?;
        Ok(Value::clone(&created))
    }

    /// Deletes an object. Returns false if it did not exist.
    pub(crate) async fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> bool {
        let options = operator_apiserver::client::DeleteOptions::default();
        let deleted = self.server.client().delete(gvr, namespace, name, options).await;
        deleted.is_ok()
    }

    /// Stops the controllers, then the server. Requests in flight are completed.
    pub(crate) async fn shutdown(self) {
        self.control_plane.shutdown().await;
        self.server.shutdown();
        self.listener.shutdown().await;
    }
}

fn server(
    mut builder: Builder,
    data_directory: Option<&Path>,
    options: &ClusterOptions,
) -> Result<ApiServer, ClusterError> {
    if let Some(audit) = &options.audit {
        builder = builder.audit(audit.clone());
    }
    let Some(directory) = data_directory else {
        return builder.build().map_err(ClusterError::Listen);
    };
    let built = builder.data_directory(directory).fsync(options.fsync).build();
    built.map_err(|source| ClusterError::DataDirectory {
        directory: directory.to_owned(),
        source,
    })
}

/// Adds the descriptions of built-in types to a server.
#[cfg(feature = "openapi-descriptions")]
pub(crate) fn described(builder: Builder) -> Builder {
    builder.openapi_descriptions(kubernetes_descriptions::TABLE)
}

#[cfg(not(feature = "openapi-descriptions"))]
pub(crate) fn described(builder: Builder) -> Builder {
    builder
}

/// Returns the file with the port. Kubeconfigs contain the port, so the cluster keeps it.
fn port_file(data_directory: &Path) -> PathBuf {
    data_directory.join("port")
}

fn remembered_port(data_directory: &Path) -> Option<u16> {
    let text = fs::read_to_string(port_file(data_directory)).ok()?;
    text.trim().parse().ok()
}

fn remember_port(data_directory: &Path, port: u16) -> Result<(), ClusterError> {
    let path = port_file(data_directory);
    write_private(&path, &format!("{port}\n")).map_err(|source| ClusterError::Port { path, source })
}

/// Returns the manifests in a directory, in the order of file names. Returns none if the directory does not exist.
fn read_definitions(directory: &Path) -> Result<Vec<Value>, ClusterError> {
    let failed = |path: &Path, reason: String| ClusterError::Definition {
        path: path.to_owned(),
        reason,
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(directory, error.to_string()))?,
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    });
    paths.sort();
    let mut definitions = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, error.to_string()))?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .map_err(|error| failed(&path, apimachinery::yaml::summary(&error)))?;
        definitions.extend(documents.into_iter().filter(|document| !document.is_null()));
    }
    Ok(definitions)
}

// === local programs ===

/// The directory in which programs of pods are registered. It contains their credentials while they run.
#[derive(Debug)]
enum ProcessDirectory {
    Temporary(TemporaryDirectory),
    InData(PathBuf),
}

impl ProcessDirectory {
    fn make(data: Option<&Path>) -> Result<Self, ClusterError> {
        let Some(data) = data else {
            return Ok(Self::Temporary(TemporaryDirectory::create()?));
        };
        let failed = |source| ClusterError::Processes {
            path: data.join("processes"),
            source,
        };
        // Made absolute, because another command may run in another directory.
        let path = std::path::absolute(data.join("processes")).map_err(failed)?;
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&path);
        made.map_err(failed)?;
        Ok(Self::InData(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::InData(path) => path,
        }
    }
}

/// Adds the directory of local programs to a kubeconfig of the server. The text is not parsed and serialized again,
/// because that would fold the certificates.
fn with_processes(kubeconfig: &str, directory: &Path) -> String {
    let extension = json!([{"name": PROCESSES, "extension": {"directory": directory}}]);
    kubeconfig.replacen(
        "  cluster:\n",
        &format!("  cluster:\n    extensions: {extension}\n"),
        1,
    )
}

// === the kubeconfig ===

/// A file that only this user can read. It is removed on drop unless it must be kept.
#[derive(Debug)]
struct Kubeconfig {
    path: PathBuf,
    keep: bool,
    /// The temporary directory that was created for the file.
    _directory: Option<TemporaryDirectory>,
}

fn check_replaceable(path: &Path) -> Result<(), ClusterError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(text) if text.trim().is_empty() || is_ours(&text) => Ok(()),
        _ => Err(ClusterError::Foreign(path.to_owned())),
    }
}

fn is_ours(kubeconfig: &str) -> bool {
    let tree: Value = serde_saphyr::from_str(kubeconfig).unwrap_or_default();
    let clusters = tree.get("clusters").and_then(Value::as_array);
    clusters.is_some_and(|clusters| {
        clusters.len() == 1 && clusters.iter().all(|cluster| cluster["name"] == CLUSTER_NAME)
    })
}

impl Kubeconfig {
    fn write(path: Option<PathBuf>, keep: bool, text: &str) -> Result<Self, ClusterError> {
        let (path, directory) = match path {
            Some(path) => (path, None),
            None => {
                let directory = TemporaryDirectory::create()?;
                (directory.path().join("kubeconfig"), Some(directory))
            }
        };
        let kubeconfig = Self {
            path,
            keep,
            _directory: directory,
        };
        write_private(&kubeconfig.path, text).map_err(|source| ClusterError::Kubeconfig {
            path: kubeconfig.path.clone(),
            source,
        })?;
        Ok(kubeconfig)
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file through a rename, so that readers see either the complete file or none.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
