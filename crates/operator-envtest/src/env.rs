//! [`TestEnv`], the environment of a test: a control plane, clients, and the objects that are installed at the start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use operator_controlplane::{Controllers, Delays, Options, Program};
use serde_json::{Value, json};

use crate::backend::{self, Backend, ProgramOptions, Running};
use crate::crd::{self, CrdError};
use crate::error::Error;
use crate::impersonate;
use crate::record::{self, Recorder};
use crate::webhook;

/// Default time limit of assertions.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A control plane for a test: an API server with controllers and a simulated node. It stops when it is dropped.
///
/// ```
/// use operator_envtest::TestEnv;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::start().await?;
/// let version = env.client().apiserver_version().await?;
/// assert_eq!(version.major, "1");
/// # Ok(()) }
/// ```
///
/// The [crate's documentation](crate) has an example with a Deployment.
#[must_use = "the control plane stops when this is dropped"]
pub struct TestEnv {
    client: Client,
    timeout: Duration,
    namespaces: Mutex<Vec<String>>,
    /// The definitions to delete at the end.
    crds: Option<Mutex<Vec<String>>>,
    running: Running,
}

impl std::fmt::Debug for TestEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = &mut f.debug_struct("TestEnv");
        fields
            .field("running", &self.running)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Options of a [`TestEnv`]; see [`TestEnv::builder`].
///
/// ```
/// use std::time::Duration;
/// use operator_envtest::TestEnv;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::builder().nodes(3).timeout(Duration::from_secs(30)).start().await?;
/// # use k8s_openapi::api::core::v1::Node;
/// env.eventually_list(&kube::Api::<Node>::all(env.client()), &Default::default(), |nodes| nodes.len() == 3).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "call `start`"]
pub struct Builder {
    backend: Option<Backend>,
    options: Options,
    images: Vec<(String, Program)>,
    programs: ProgramOptions,
    crds: Vec<Value>,
    crd_paths: Vec<PathBuf>,
    clean_up_crds: bool,
    timeout: Duration,
    record: Option<PathBuf>,
}

impl TestEnv {
    /// Starts an environment with the defaults: the back end that the environment variables select, or the embedded
    /// one, with all controllers and one simulated node.
    ///
    /// # Errors
    /// Returns an error if the back end cannot be started.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Returns a builder of environments.
    pub fn builder() -> Builder {
        Builder {
            backend: None,
            options: Options::default(),
            images: Vec::new(),
            programs: ProgramOptions::from_env(),
            crds: Vec::new(),
            crd_paths: Vec::new(),
            clean_up_crds: false,
            timeout: TIMEOUT,
            record: record::directory(),
        }
    }

    /// Returns a client of the administrator, in the namespace `default`. The embedded back end uses no socket for it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client of another user, in the namespace `default`, with the permissions that roles grant to the user:
    /// for tests of permissions. The administrator impersonates the user, so it needs no credentials and need not
    /// exist.
    ///
    /// The user name of a service account, `system:serviceaccount:NAMESPACE:NAME`, implies its groups.
    /// `system:authenticated` is always added.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube::{Api, api::ListParams};
    /// # use operator_envtest::TestEnv;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let jane = env.client_as("jane", &["developers"])?;
    /// let refused = Api::<Pod>::default_namespaced(jane).list(&ListParams::default()).await;
    /// assert!(refused.is_err());
    /// # env.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if a header cannot contain the name or a group.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, Error> {
        impersonate::client_as(&self.client, user, groups)
    }

    /// Returns a kubeconfig of the administrator as YAML. The first call makes the embedded back end listen on a free
    /// port of 127.0.0.1.
    ///
    /// ```
    /// # use operator_envtest::TestEnv;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("kubeconfig");
    /// std::fs::write(&file, env.kubeconfig().await?)?;
    /// println!("kubectl --kubeconfig {} get nodes", file.display());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the embedded server cannot listen, or the existing cluster's kubeconfig cannot be read.
    pub async fn kubeconfig(&self) -> Result<String, Error> {
        self.running.kubeconfig().await
    }

    /// Returns a kubeconfig of another user as YAML, with the permissions that roles grant to the user: for `kubectl`
    /// and for programs that the test starts. As in [`client_as`](Self::client_as), the administrator impersonates the
    /// user.
    ///
    /// # Errors
    /// As for [`kubeconfig`](Self::kubeconfig).
    pub async fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> Result<String, Error> {
        impersonate::kubeconfig_as(&self.kubeconfig().await?, user, groups)
    }

    /// Creates or updates CustomResourceDefinitions, and waits until they are served. Prefer [`Builder::crds`] for
    /// definitions that a test needs from the start.
    ///
    /// ```
    /// # use operator_envtest::TestEnv;
    /// # use kube::CustomResourceExt;
    /// #[derive(kube::CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// #[kube(group = "cache.example.com", version = "v1", kind = "Memcached", namespaced)]
    /// struct MemcachedSpec {
    ///     size: i32,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let memcacheds = kube::Api::<Memcached>::all(env.client());
    /// assert!(memcacheds.list(&Default::default()).await.is_err());
    /// env.install_crds([Memcached::crd()]).await?;
    /// assert!(memcacheds.list(&Default::default()).await.is_ok());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if one of them is rejected, or is not served within the [timeout](Self::timeout).
    pub async fn install_crds<T: serde::Serialize>(
        &self,
        crds: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        for crd in crds {
            let crd = serde_json::to_value(crd).map_err(CrdError::Serialize)?;
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if let Some(mut all) = self.crds.as_ref().and_then(|all| all.lock().ok()) {
                all.push(name);
            }
            crd::install(&self.client, crd, self.timeout).await?;
        }
        Ok(())
    }

    /// Deletes CustomResourceDefinitions, such as `widgets.example.com`, and their objects. Missing definitions are not
    /// an error.
    ///
    /// # Errors
    /// Returns an error if the API server rejects a request.
    pub async fn uninstall_crds<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        for name in names {
            crd::uninstall(&self.client, name).await?;
        }
        Ok(())
    }

    /// Registers the webhooks of the operator under test: the webhook configurations in a YAML file or a directory
    /// tree, such as a scaffold's `config`, and the conversions in patches of definitions there. Other documents are
    /// ignored. They point to `address` instead of a Service, with `authority`, the PEM of the certificate that signed
    /// the server's certificate.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use operator_envtest::TestEnv;
    /// # let (address, authority) = ("127.0.0.1:9443".parse()?, String::new());
    /// let env = TestEnv::builder().crd_path("config/crd/bases").start().await?;
    /// // `Manager::webhook_address` and `Certificates::authority` of operator-runtime return the two.
    /// env.install_webhooks("config", address, &authority).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The embedded API server calls them from the next request on.
    ///
    /// # Errors
    /// Returns an error if the path contains no webhooks, the API server rejects one of them, or the definition of a
    /// conversion is not installed.
    pub async fn install_webhooks(
        &self,
        path: impl AsRef<Path>,
        address: SocketAddr,
        authority: &str,
    ) -> Result<(), Error> {
        let endpoint = webhook::Endpoint { address, authority };
        webhook::install(&self.client, path.as_ref(), &endpoint).await?;
        Ok(())
    }

    /// Creates a namespace with a unique name, for a test in a shared environment. [`stop`](Self::stop) deletes it.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// # use operator_envtest::TestEnv;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let env = TestEnv::start().await?;
    /// let (first, second) = (env.namespace().await?, env.namespace().await?);
    /// assert_ne!(first, second);
    /// let secrets = kube::Api::<Secret>::namespaced(env.client(), &first);
    /// env.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the API server rejects it.
    pub async fn namespace(&self) -> Result<String, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let namespace = serde_json::from_value(json!({"metadata": {"generateName": "test-"}}));
        let namespace: Namespace = namespace.map_err(CrdError::Serialize)?;
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        let name = created
            .map_err(request("create a namespace"))?
            .metadata
            .name
            .unwrap_or_default();
        if let Ok(mut all) = self.namespaces.lock() {
            all.push(name.clone());
        }
        Ok(name)
    }

    /// Returns the timeout of assertions: 10 seconds, or that of [`Builder::timeout`].
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the embedded API server, for example to listen on an address. `None` with other back ends.
    pub fn api_server(&self) -> Option<&operator_apiserver::ApiServer> {
        self.running.api_server()
    }

    /// Deletes the namespaces that [`namespace`](Self::namespace) created, and the definitions if
    /// [`Builder::clean_up_crds`] was called, and shuts down the back end. Dropping the environment stops it at once,
    /// and leaves the objects of an existing cluster.
    pub async fn stop(self) {
        let crds = self.crds.as_ref().and_then(|all| all.lock().ok());
        let crds = crds.map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        if let Err(error) = self.uninstall_crds(crds.iter().map(String::as_str)).await {
            tracing::warn!(%error, "failed to delete a definition of a test");
        }
        let made = self.namespaces.lock().map(|mut all| std::mem::take(&mut *all));
        if !self.running.is_embedded() {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            for name in made.unwrap_or_default() {
                if let Err(error) = namespaces.delete(&name, &DeleteParams::default()).await {
                    tracing::warn!(name, %error, "failed to delete the namespace of a test");
                }
            }
        }
        drop(self.client);
        self.running.stop().await;
    }
}

pub(crate) fn request(action: &str) -> impl FnOnce(kube::Error) -> Error {
    let action = action.to_owned();
    move |source| Error::Request {
        action,
        source: Box::new(source),
    }
}

impl Builder {
    /// Sets the back end. Default: the one that the environment variables select; see [`Backend`].
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Sets the controllers to run. Default: all. Embedded back end only: real binaries run none, and a cluster has its
    /// own.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.options.controllers = controllers;
        self
    }

    /// Sets the number of simulated nodes. Default: 1. Without nodes, pods stay pending until the test changes their status.
    /// Embedded back end only.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.options.nodes = nodes;
        self
    }

    /// Sets the times that simulated pods take to start, to finish and to stop. Default: zero. Embedded back end only.
    ///
    /// ```
    /// use std::time::Duration;
    /// use operator_envtest::{Delays, TestEnv};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Long enough to see the status while Pods are not ready.
    /// let delays = Delays { start: Duration::from_secs(2), ..Delays::default() };
    /// let env = TestEnv::builder().delays(delays).start().await?;
    /// # Ok(()) }
    /// ```
    pub fn delays(mut self, delays: Delays) -> Self {
        self.options.delays = delays;
        self
    }

    /// Runs a program of this machine in the pods with an image, with the arguments, the environment, the service
    /// account and the probes of the container. Every pod has its own address: 10.128.0.2 in the cluster is 127.128.0.2
    /// on this machine, where an argument such as `--health-probe-bind-address=:8081` listens too. Other pods stay
    /// simulated. Embedded back end on Linux only.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), operator_envtest::Error> {
    /// use operator_envtest::{Program, TestEnv};
    ///
    /// let operator = Program::operator("target/debug/memcached-operator");
    /// let env = TestEnv::builder().process("controller:latest", operator).start().await?;
    /// // A Deployment with the image `controller:latest` now runs the operator.
    /// # Ok(()) }
    /// ```
    pub fn process(mut self, image: impl Into<String>, program: impl Into<Program>) -> Self {
        self.images.push((image.into(), program.into()));
        self
    }

    /// Installs CustomResourceDefinitions at the start.
    pub fn crds<T: serde::Serialize>(mut self, crds: impl IntoIterator<Item = T>) -> Self {
        let values = crds
            .into_iter()
            .map(|crd| serde_json::to_value(crd).unwrap_or_default());
        self.crds.extend(values);
        self
    }

    /// Installs the CustomResourceDefinitions of a YAML file, or of all YAML files of a directory, at the start. Other
    /// documents are ignored.
    pub fn crd_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.crd_paths.push(path.into());
        self
    }

    /// Deletes the installed definitions and their objects when the environment is [stopped](TestEnv::stop), for
    /// clusters that outlive the test. Default: they stay.
    pub fn clean_up_crds(mut self) -> Self {
        self.clean_up_crds = true;
        self
    }

    /// Runs Operator Lifecycle Manager on the embedded control plane: Subscriptions, InstallPlans and
    /// ClusterServiceVersions work, with catalogs from ConfigMaps. Other back ends are not affected. Needs the feature
    /// `olm`.
    #[cfg(feature = "olm")]
    pub fn olm(mut self) -> Self {
        self.options.olm = true;
        self
    }

    /// Sets the time limit for real binaries to become ready. Default: `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT` (such
    /// as `90s` or `1m30s`), or 20 seconds.
    pub fn control_plane_start_timeout(mut self, timeout: Duration) -> Self {
        self.programs.start_timeout = timeout;
        self
    }

    /// Sets the time after which real binaries that do not exit are killed. Default:
    /// `KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT`, or 20 seconds.
    pub fn control_plane_stop_timeout(mut self, timeout: Duration) -> Self {
        self.programs.stop_timeout = timeout;
        self
    }

    /// Shows the output of real binaries in the output of the test. Default:
    /// `KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT`, or false.
    pub fn attach_control_plane_output(mut self, attach: bool) -> Self {
        self.programs.attach_output = attach;
        self
    }

    /// Sets the timeout of assertions. Default: 10 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Records the requests of managers that use clients of this environment, in a file of this directory with the name
    /// of the test. Requests of the test itself are not recorded.
    ///
    /// Default: `target/operator-sdk/rbac` in a project with a `PROJECT` file, which is the directory of `operator-sdk
    /// rbac check`, and otherwise no record. The variable `OPERATOR_SDK_RBAC_RECORD` sets another directory, or is
    /// `off`.
    pub fn record_requests(mut self, directory: impl Into<PathBuf>) -> Self {
        self.record = Some(directory.into());
        self
    }

    /// Records no requests, for tests in which the operator does more than its role allows.
    pub fn without_record(mut self) -> Self {
        self.record = None;
        self
    }

    /// Starts the environment. The definitions are served when this returns.
    ///
    /// # Errors
    /// Returns an error if the back end cannot be started, a file cannot be read, or a definition is rejected or not
    /// served in time.
    pub async fn start(self) -> Result<TestEnv, Error> {
        let mut crds = self.crds;
        for path in &self.crd_paths {
            crds.extend(crd::read(path)?);
        }
        let backend = self.backend.unwrap_or_else(Backend::from_env);
        #[cfg(feature = "olm")]
        let olm = self.options.olm && self.options.controllers == Controllers::All;
        let (running, client) = backend::start(backend, self.options, self.images, self.programs).await?;
        let client = match &self.record {
            Some(directory) => record::recorded(client, Recorder::new(directory)),
            None => client,
        };
        let env = TestEnv {
            client,
            timeout: self.timeout,
            namespaces: Mutex::default(),
            crds: self.clean_up_crds.then(Mutex::default),
            running,
        };
        #[cfg(feature = "olm")]
        if let Some(server) = env.api_server().filter(|_| olm) {
            operator_controlplane::olm::installed(&server.client()).await;
        }
        env.install_crds(crds).await?;
        Ok(env)
    }
}
