//! The manager: owns what controllers share, starts everything in order and stops it in the reverse one.
//!
//! Started in this order: event recorder, the servers of health and metrics, webhooks, caches, runnables that run on
//! every instance, leader election, and on the leader the controllers. On SIGINT or SIGTERM no new reconcile begins;
//! those under way have 30 s to finish; then the caches end, webhooks, the other servers, the event recorder, and last
//! of all the lease is given back.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CacheOptions};
use crate::certificates::{CertificateError, Certificates, ManagedCertificates};
use crate::client::Client;
use crate::controller::{ControllerError, Worker};
use crate::election::{Election, ElectionError, LeaderElection};
use crate::error::Result;
use crate::event_recorder::{self, EventRecorder, Recorder};
use crate::health::Checks;
use crate::metrics::{Metrics, MetricsServer};
use crate::object::Object;
use crate::webhook::{Webhook, WebhookError};

mod args;
mod lifecycle;
mod signals;
mod webhooks;

pub use args::Args;
use webhooks::{Source, WebhookOptions, Webhooks};

/// What the controllers of an operator share: client, cache, event recorder, health checks. Clones are handles to the
/// same manager.
///
/// ```no_run
/// use clap::Parser;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::prelude::*;
///
/// #[derive(Parser)]
/// struct Args {
///     #[command(flatten)]
///     manager: operator_runtime::manager::Args,
/// }
///
/// # struct Mine;
/// # impl Reconciler for Mine {
/// #     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> { Ok(Action::done()) }
/// # }
/// # async fn example() -> Result<()> {
/// let args = Args::parse();
/// args.manager.init_logging();
/// let manager = Manager::builder("example-operator").args(&args.manager).build().await?;
/// Controller::managed_by(&manager).for_::<Deployment>().complete(Mine)?;
/// manager.run().await
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    kube: kube::Client,
    client: Client,
    recorder: EventRecorder,
    metrics: Metrics,
    checks: Checks,
    health_address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    webhook_address: OnceLock<SocketAddr>,
    elected: watch::Sender<bool>,
    setup: Mutex<Option<Setup>>,
}

/// What the builder and the arguments say.
#[derive(Clone, Debug)]
struct Options {
    name: String,
    cache: CacheOptions,
    health_probe_bind_address: String,
    metrics: MetricsOptions,
    webhook: WebhookOptions,
    kubeconfig: Option<PathBuf>,
    graceful_shutdown_timeout: Duration,
    leader_election: bool,
    leader_election_id: String,
    leader_election_namespace: String,
}

/// How the metrics are served.
#[derive(Clone, Debug)]
struct MetricsOptions {
    bind_address: String,
    secure: bool,
    /// Certificate and key, where they are not made.
    certificate: Option<(PathBuf, PathBuf)>,
    http2: bool,
}

/// What waits for the manager to run.
struct Setup {
    workers: Vec<Worker>,
    names: HashSet<String>,
    runnables: Vec<Runnable>,
    webhooks: Webhooks,
    recorder: Recorder,
    election: Option<Box<dyn Election>>,
}

/// Something that runs beside the controllers for as long as the manager does: a server, a poller.
pub struct Runnable {
    name: String,
    place: Place,
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<()>> + Send>,
}

/// When a runnable is started, and in which order it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeCaches,
    OnEveryInstance,
    OnLeader,
}

/// Builds a [`Manager`].
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct ManagerBuilder {
    options: Options,
    client: Option<DebugClient>,
    election: Option<DebugElection>,
}

/// `kube::Client` does not implement `Debug`.
struct DebugClient(kube::Client);

/// Nor need elections.
struct DebugElection(Box<dyn Election>);

/// Why a manager cannot be built, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// There is no cluster to talk to.
    #[error(
        "cannot connect to a cluster: set --kubeconfig or KUBECONFIG, or run in a pod with a service account"
    )]
    Connect(#[source] kube::Error),
    /// The kubeconfig that was named cannot be used.
    #[error("cannot use the kubeconfig {path} (--kubeconfig)")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The address of a server is none, or is in use.
    #[error("cannot listen on {address:?} (--{flag}); \"0\" switches it off")]
    Listen {
        /// The flag that names the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The certificate of the metrics server cannot be used.
    #[error("cannot serve metrics over HTTPS (--metrics-cert-path)")]
    Certificates(#[source] CertificateError),
    /// Webhooks cannot be served as they are.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// The election cannot be held.
    #[error("cannot elect a leader (--leader-elect)")]
    Election(#[source] ElectionError),
    /// A manager runs once.
    #[error("manager already started")]
    AlreadyStarted,
    /// Something did not end in time; it was aborted.
    #[error("failed waiting for all runnables to end within grace period of {0:?}")]
    GracePeriod(Duration),
}

// === impl Manager ===

impl Manager {
    /// Begins a manager; `name` is the operator's, used as field manager of its writes and source of its events.
    pub fn builder(name: &str) -> ManagerBuilder {
        ManagerBuilder {
            options: Options {
                name: name.to_owned(),
                cache: CacheOptions::default(),
                health_probe_bind_address: String::new(),
                metrics: MetricsOptions {
                    bind_address: String::new(),
                    secure: true,
                    certificate: None,
                    http2: false,
                },
                webhook: WebhookOptions::default(),
                kubeconfig: None,
                graceful_shutdown_timeout: Duration::from_secs(30),
                leader_election: false,
                leader_election_id: name.to_owned(),
                leader_election_namespace: String::new(),
            },
            client: None,
            election: None,
        }
    }

    /// The name of the operator.
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// The client: reads from the cache, writes to the API server.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        self.inner.client.cache()
    }

    /// The event recorder.
    pub fn recorder(&self) -> &EventRecorder {
        &self.inner.recorder
    }

    /// What the operator counts of itself.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Where `/healthz` and `/readyz` are served, if they are.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.inner.health_address
    }

    /// Where `/metrics` is served, if it is.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.metrics_address
    }

    /// Where webhooks are served, once there are any.
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.inner.webhook_address.get().copied()
    }

    /// Serves the webhooks of a kind, on every instance and from before the caches are filled: the API server calls a
    /// conversion while they are. `/readyz` has the check `webhook` from now on.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use operator_runtime::webhook::Webhook;
    /// # fn example(manager: operator_runtime::Manager, webhook: Webhook<ConfigMap>) -> operator_runtime::Result<()> {
    /// manager.add_webhook(webhook)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the port is in use, a path is served already, or the manager runs.
    pub fn add_webhook<K: Object>(&self, webhook: Webhook<K>) -> Result<(), ManagerError> {
        let mut setup = self.inner.setup.lock();
        let setup = setup.as_mut().ok_or(ManagerError::AlreadyStarted)?;
        let address = setup.webhooks.add(webhook, &self.inner.checks)?;
        // It is the same each time.
        let _ = self.inner.webhook_address.set(address);
        Ok(())
    }

    /// Adds a check to `/healthz`: alive or not. It must be quick; the kubelet restarts the pod where it fails.
    pub fn add_health_check(&self, name: &str, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        self.inner.checks.add_health(name, check);
    }

    /// Adds a check to `/readyz`: of use or not. The check `caches` is there already: it fails while a watch does.
    pub fn add_ready_check(&self, name: &str, check: impl Fn() -> Result<()> + Send + Sync + 'static) {
        self.inner.checks.add_ready(name, check);
    }

    /// Adds something to run beside the controllers.
    ///
    /// # Errors
    /// If the manager runs already.
    pub fn add(&self, runnable: Runnable) -> Result<(), ManagerError> {
        let mut setup = self.inner.setup.lock();
        setup
            .as_mut()
            .ok_or(ManagerError::AlreadyStarted)?
            .runnables
            .push(runnable);
        Ok(())
    }

    /// Waits until this instance leads, or at once where leader election is off and the manager runs.
    pub async fn elected(&self) {
        let mut elected = self.inner.elected.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = elected.wait_for(|elected| *elected).await;
    }

    /// Runs until SIGINT or SIGTERM, or until something fails; a second signal ends the process at once.
    ///
    /// # Errors
    /// The first error of a runnable, or that something did not end in time.
    pub async fn run(self) -> Result<()> {
        self.run_until(signals::shutdown()).await
    }

    /// Runs until `shutdown` is ready, or until something fails.
    ///
    /// # Errors
    /// As [`Manager::run`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let setup = self
            .inner
            .setup
            .lock()
            .take()
            .ok_or(ManagerError::AlreadyStarted)?;
        lifecycle::run(&self.inner, setup, shutdown).await
    }

    pub(crate) fn add_controller(&self, worker: Worker) -> Result<(), ControllerError> {
        let mut setup = self.inner.setup.lock();
        let setup = setup
            .as_mut()
            .ok_or_else(|| ControllerError::ManagerStarted(worker.shared.name.to_string()))?;
        if !setup.names.insert(worker.shared.name.to_string()) {
            return Err(ControllerError::DuplicateName(worker.shared.name.to_string()));
        }
        setup.workers.push(worker);
        Ok(())
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Manager")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

// === impl ManagerBuilder ===

impl ManagerBuilder {
    /// Takes what the command line and the environment say.
    pub fn args(mut self, args: &Args) -> Self {
        self.options.health_probe_bind_address = args.health_probe_bind_address.clone();
        self.options.metrics = args.metrics();
        self.options.webhook = args.webhook();
        self.options.kubeconfig = args.kubeconfig.clone();
        self.options.cache.namespaces = args.namespaces();
        self.options.graceful_shutdown_timeout = args.graceful_shutdown_timeout();
        self.options.leader_election = args.leader_elect;
        self.options.leader_election_namespace = args.leader_election_namespace.clone();
        self
    }

    /// Runs the controllers on one instance at a time, elected through a Lease; as `--leader-elect` does.
    pub fn leader_election(mut self, on: bool) -> Self {
        self.options.leader_election = on;
        self
    }

    /// The name of the Lease, unique to the operator in its namespace; the operator's name unless said otherwise.
    pub fn leader_election_id(mut self, id: &str) -> Self {
        self.options.leader_election_id = id.to_owned();
        self
    }

    /// The namespace of the Lease; that of the pod unless said otherwise, which is why it has to be said outside of a
    /// cluster.
    pub fn leader_election_namespace(mut self, namespace: &str) -> Self {
        self.options.leader_election_namespace = namespace.to_owned();
        self
    }

    /// Uses this client instead of one from the kubeconfig or the service account.
    pub fn client(mut self, client: kube::Client) -> Self {
        self.client = Some(DebugClient(client));
        self
    }

    /// Watches these namespaces only; all when empty.
    pub fn namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.options.cache.namespaces = namespaces.into_iter().map(str::to_owned).collect();
        self
    }

    /// How the cache watches.
    pub fn cache_options(mut self, options: CacheOptions) -> Self {
        self.options.cache = options;
        self
    }

    /// Where `/healthz` and `/readyz` are served, such as `:8081`; nowhere when empty or `0`.
    pub fn health_probe_bind_address(mut self, address: &str) -> Self {
        self.options.health_probe_bind_address = address.to_owned();
        self
    }

    /// Where `/metrics` is served, such as `:8443`; nowhere when empty or `0`.
    pub fn metrics_bind_address(mut self, address: &str) -> Self {
        self.options.metrics.bind_address = address.to_owned();
        self
    }

    /// Whether `/metrics` is served over HTTPS, to those whom the API server lets; yes unless said otherwise.
    pub fn metrics_secure(mut self, secure: bool) -> Self {
        self.options.metrics.secure = secure;
        self
    }

    /// Where webhooks are served, such as `:9443`, which is the default; nobody listens while there are none.
    pub fn webhook_bind_address(mut self, address: &str) -> Self {
        self.options.webhook.bind_address = address.to_owned();
        self
    }

    /// Serves webhooks with these certificates, for which somebody else makes the API server trust them.
    pub fn webhook_certificates(mut self, certificates: Certificates) -> Self {
        self.options.webhook.certificates = Source::Given(certificates);
        self
    }

    /// Serves webhooks with certificates that the operator makes; in its own namespace, which is the default in a
    /// cluster, or in another one.
    pub fn webhook_managed_certificates(mut self, certificates: ManagedCertificates) -> Self {
        self.options.webhook.certificates = Source::Managed(certificates);
        self
    }

    /// Runs the controllers only while this election is won, instead of one by Lease.
    pub fn election(mut self, election: impl Election) -> Self {
        self.election = Some(DebugElection(Box::new(election)));
        self
    }

    /// How long reconciles and runnables may take to end when the manager stops; 30 s unless said otherwise.
    pub fn graceful_shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.options.graceful_shutdown_timeout = timeout;
        self
    }

    /// Connects, and binds the servers, so that a mistake shows before anything runs.
    ///
    /// # Errors
    /// If there is no cluster, or an address is in use.
    pub async fn build(self) -> Result<Manager, ManagerError> {
        let options = self.options;
        let metrics = Metrics::new();
        let kube = match self.client {
            Some(DebugClient(client)) => client,
            None => connect(&options, &metrics).await?,
        };
        let health = listen("health-probe-bind-address", &options.health_probe_bind_address)?;
        let scrapes = listen("metrics-bind-address", &options.metrics.bind_address)?;
        let election = match self.election {
            Some(DebugElection(election)) => Some(election),
            None if options.leader_election => Some(election(&kube, &options, &metrics)?),
            None => None,
        };
        let instance = instance(&options.name);
        let (recorder, sender) = event_recorder::recorder(kube.clone(), &options.name, &instance);
        let cache = Cache::new(
            kube.clone(),
            &options.name,
            options.cache.clone(),
            metrics.cache(),
            recorder.clone(),
        );
        let checks = Checks::new(cache.clone());
        let (health_address, metrics_address) = (address(health.as_ref()), address(scrapes.as_ref()));
        let mut runnables = Vec::new();
        if let Some(listener) = health {
            runnables.push(health_server(listener, checks.clone()));
        }
        if let Some(listener) = scrapes {
            runnables.push(metrics_server(listener, &options.metrics, &metrics, &kube)?);
        }
        let setup = Setup {
            workers: Vec::new(),
            names: HashSet::new(),
            runnables,
            webhooks: Webhooks::new(options.webhook.clone()),
            recorder: sender,
            election,
        };
        let inner = Inner {
            client: Client::new(kube.clone(), cache, metrics.client()),
            kube,
            recorder,
            metrics,
            checks,
            health_address,
            metrics_address,
            webhook_address: OnceLock::new(),
            elected: watch::Sender::new(false),
            setup: Mutex::new(Some(setup)),
            options,
        };
        Ok(Manager {
            inner: Arc::new(inner),
        })
    }
}

/// A client from the kubeconfig or the service account, whose requests are counted.
async fn connect(options: &Options, metrics: &Metrics) -> Result<kube::Client, ManagerError> {
    let config = match &options.kubeconfig {
        Some(path) => config_of(path).await?,
        None => kube::Config::infer()
            .await
            .map_err(|error| ManagerError::Connect(kube::Error::InferConfig(error)))?,
    };
    let host = config
        .cluster_url
        .authority()
        .map_or("", |authority| authority.as_str());
    let layer = metrics.rest_client_layer(host);
    let client = ClientBuilder::try_from(config).map_err(ManagerError::Connect)?;
    Ok(client.with_layer(&layer).build())
}

async fn config_of(path: &Path) -> Result<kube::Config, ManagerError> {
    let failed = |source| ManagerError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

fn election(
    kube: &kube::Client,
    options: &Options,
    metrics: &Metrics,
) -> Result<Box<dyn Election>, ManagerError> {
    let id = &options.leader_election_id;
    let mut election = LeaderElection::builder(kube.clone(), id).metrics(metrics.leader(id));
    if !options.leader_election_namespace.is_empty() {
        election = election.namespace(&options.leader_election_namespace);
    }
    Ok(Box::new(election.build().map_err(ManagerError::Election)?))
}

fn health_server(listener: TcpListener, checks: Checks) -> Runnable {
    let server = Runnable::new("health", move |stop| async move {
        crate::health::serve(listener, checks, stop).await;
        Ok(())
    });
    server.before_caches()
}

/// HTTPS with authentication and authorization, or plain HTTP for everybody.
fn metrics_server(
    listener: TcpListener,
    options: &MetricsOptions,
    metrics: &Metrics,
    kube: &kube::Client,
) -> Result<Runnable, ManagerError> {
    let mut server = MetricsServer::new(metrics.clone()).http2(options.http2);
    if options.secure {
        let certificates = match &options.certificate {
            Some((certificate, key)) => Certificates::from_files(certificate, key),
            None => Certificates::self_signed(["localhost"]),
        };
        let certificates = certificates.map_err(ManagerError::Certificates)?;
        server = server.secure(certificates).authorize(kube.clone());
    }
    let server = Runnable::new("metrics", move |stop| async move {
        Ok(server.serve(listener, stop).await?)
    });
    Ok(server.before_caches())
}

fn address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// What tells this process from others of the operator: the name of the pod, which is its host name, or the operator's.
fn instance(name: &str) -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| name.to_owned())
}

/// Binds the address of a server that can be switched off, with `0` or nothing.
fn listen(flag: &'static str, address: &str) -> Result<Option<TcpListener>, ManagerError> {
    if address.is_empty() || address == "0" {
        return Ok(None);
    }
    let listener = TcpListener::from_std(bind(flag, address)?);
    listener.map(Some).map_err(|source| ManagerError::Listen {
        flag,
        address: address.to_owned(),
        source,
    })
}

/// Binds an address as the Go tools write it: `:8081` is every interface, of IPv6 and IPv4.
fn bind(flag: &'static str, address: &str) -> Result<std::net::TcpListener, ManagerError> {
    let listener = match address.strip_prefix(':') {
        Some(port) => std::net::TcpListener::bind(format!("[::]:{port}"))
            .or_else(|_| std::net::TcpListener::bind(format!("0.0.0.0:{port}"))),
        None => std::net::TcpListener::bind(address),
    };
    let listener = listener.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| ManagerError::Listen {
        flag,
        address: address.to_owned(),
        source,
    })
}

impl fmt::Debug for DebugClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("kube::Client")
    }
}

impl fmt::Debug for DebugElection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Election")
    }
}

// === impl Runnable ===

impl Runnable {
    /// Runs `run` on the leader, until the token that it is given is cancelled. An error ends the manager; returning
    /// early without one is fine.
    pub fn new<F, R>(name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            place: Place::OnLeader,
            run: Box::new(|stop| Box::pin(run(stop))),
        }
    }

    /// Runs it on every instance, leading or not.
    #[must_use]
    pub fn on_every_instance(mut self) -> Self {
        self.place = Place::OnEveryInstance;
        self
    }

    /// Runs it on every instance, from before the caches are filled until after the last reconcile: for servers that
    /// the API server itself may call, such as webhooks.
    #[must_use]
    pub fn before_caches(mut self) -> Self {
        self.place = Place::BeforeCaches;
        self
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Runnable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
