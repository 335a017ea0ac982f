//! How a manager is put together: what the code and the command line say, and what is made of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Response;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;
use tower::util::MapResponseLayer;

use super::servers::{self, address, listen};
use super::webhooks::{Source, WebhookOptions, Webhooks};
use super::{Args, BaseContext, Inner, Manager, ManagerError, Member, Phase, Setup, user_agent};
use crate::cache::{Cache, CacheOptions};
use crate::certificates::{Certificates, ManagedCertificates};
use crate::client::Client;
use crate::client::warnings::Warnings;
use crate::controller::ControllerOptions;
use crate::election::{Election, LeaderElection};
use crate::event_recorder;
use crate::health::Checks;
use crate::metrics::{Metrics, RestClientLayer};

/// Requests that may wait for the connection; kube's client has as many.
const CONCURRENT_REQUESTS: usize = 1024;

/// What the builder and the arguments say.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) cache: CacheOptions,
    pub(super) controllers: ControllerOptions,
    pub(super) group_kind_concurrency: BTreeMap<String, usize>,
    pub(super) base_context: BaseContext,
    health_probe_bind_address: String,
    metrics: MetricsOptions,
    webhook: WebhookOptions,
    kubeconfig: Option<PathBuf>,
    /// `None` is for ever.
    pub(super) graceful_shutdown_timeout: Option<Duration>,
    leader_election: bool,
    leader_election_id: String,
    leader_election_namespace: String,
}

/// How the metrics are served.
#[derive(Clone, Debug)]
pub(super) struct MetricsOptions {
    pub(super) bind_address: String,
    pub(super) secure: bool,
    /// Certificate and key, where they are not made.
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) http2: bool,
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

// === impl ManagerBuilder ===

impl ManagerBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            options: Options {
                name: name.to_owned(),
                cache: CacheOptions::default(),
                controllers: ControllerOptions::default(),
                group_kind_concurrency: BTreeMap::new(),
                base_context: BaseContext::new(),
                health_probe_bind_address: String::new(),
                metrics: MetricsOptions {
                    bind_address: String::new(),
                    secure: true,
                    certificate: None,
                    http2: false,
                },
                webhook: WebhookOptions::default(),
                kubeconfig: None,
                graceful_shutdown_timeout: Some(Duration::from_secs(30)),
                leader_election: false,
                leader_election_id: name.to_owned(),
                leader_election_namespace: String::new(),
            },
            client: None,
            election: None,
        }
    }

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

    /// Uses this client instead of one from the kubeconfig or the service account. Its requests carry the `User-Agent` of
    /// the operator, as they do in any case, which tells them from those of the test around it.
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

    /// How long reconciles and runnables may take to end when the manager stops; 30 s unless said otherwise. With
    /// `None` they may take for ever, as with controller-runtime's negative timeout; with zero nothing is waited for.
    pub fn graceful_shutdown_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.options.graceful_shutdown_timeout = timeout.into();
        self
    }

    /// What every controller does that does not say otherwise itself, with [`Controller::options`].
    ///
    /// [`Controller::options`]: crate::Controller::options
    pub fn controller_options(mut self, options: ControllerOptions) -> Self {
        self.options.controllers = options;
        self
    }

    /// How many keys a controller of this kind reconciles at the same time, unless it says so itself; goes before
    /// [`ManagerBuilder::controller_options`]. The kind is written as `Deployment.apps`, or `Pod` in the core group.
    pub fn group_kind_concurrency(mut self, kind: &str, count: usize) -> Self {
        self.options.group_kind_concurrency.insert(kind.to_owned(), count);
        self
    }

    /// What every reconcile and every runnable is given; nothing unless said otherwise.
    pub fn base_context(mut self, context: BaseContext) -> Self {
        self.options.base_context = context;
        self
    }

    /// Connects, and binds the servers, so that a mistake shows before anything runs.
    ///
    /// # Errors
    /// If there is no cluster, or an address is in use.
    pub async fn build(self) -> Result<Manager, ManagerError> {
        let options = self.options;
        let metrics = Metrics::new();
        let (kube, requests) = match self.client {
            Some(DebugClient(client)) => (
                user_agent::attributed(client, &options.name),
                metrics.rest_client_layer(""),
            ),
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
            (metrics.cache(), requests),
            recorder.clone(),
        );
        let checks = Checks::new(cache.clone());
        let (health_address, metrics_address) = (address(health.as_ref()), address(scrapes.as_ref()));
        let health = health.map(|listener| Member::Runnable(servers::health(listener, checks.clone())));
        let metrics_server = match scrapes {
            Some(listener) => Some((servers::metrics(&options.metrics, &metrics, &kube)?, listener)),
            None => None,
        };
        let setup = Setup {
            members: health.into_iter().collect(),
            metrics_server,
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
            names: Mutex::default(),
            uses: Mutex::default(),
            clusters: Mutex::default(),
            phase: Mutex::new(Phase::Setup(Box::new(setup))),
            options,
        };
        Ok(Manager {
            inner: Arc::new(inner),
        })
    }
}

/// A client from the kubeconfig or the service account, whose requests are counted, each attempt for itself.
async fn connect(
    options: &Options,
    metrics: &Metrics,
) -> Result<(kube::Client, RestClientLayer), ManagerError> {
    let mut config = match &options.kubeconfig {
        Some(path) => config_of(path).await?,
        None => kube::Config::infer()
            .await
            .map_err(|error| ManagerError::Connect(kube::Error::InferConfig(error)))?,
    };
    config.headers.push(user_agent::header(&options.name));
    let host = config
        .cluster_url
        .authority()
        .map_or("", |authority| authority.as_str());
    let requests = metrics.rest_client_layer(host);
    let retries = std::mem::take(&mut config.default_retry).then(|| requests.retries());
    let client = ClientBuilder::try_from(config).map_err(ManagerError::Connect)?;
    let warnings = Arc::new(Warnings::default());
    let client = client.with_layer(&requests);
    let client = client.with_layer(&MapResponseLayer::new(move |answer: Response<_>| {
        warnings.log(answer.headers());
        answer
    }));
    let client = match retries {
        Some(retries) => client
            .with_layer(&BufferLayer::new(CONCURRENT_REQUESTS))
            .with_layer(&RetryLayer::new(retries))
            .build(),
        None => client.build(),
    };
    Ok((client, requests))
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

/// What tells this process from others of the operator: the name of the pod, which is its host name, or the operator's.
pub(super) fn instance(name: &str) -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| name.to_owned())
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
