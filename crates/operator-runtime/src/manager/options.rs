//! [`ManagerOptions`], and the creation of a manager from them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::connection::{Connect, Connection};
use super::servers::{self, address, listen};
use super::webhooks::{self, WebhookCertificates, WebhookOptions, Webhooks};
use super::{Inner, Manager, ManagerError, Member, Phase, Setup};
use crate::cache::{Cache, CacheOptions};
use crate::certificates::TlsVersion;
use crate::client::Client;
use crate::controller::ControllerOptions;
use crate::election::{Election, LeaderElection, LeaderElectionOptions, Leadership};
use crate::event_recorder;
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::webhook::WebhookServer;

/// Options of a manager. The defaults are those of controller-runtime, where it has the same option.
///
/// The default suits tests: no health checks, no metrics, no leader election, and webhooks on port 9443. A
/// [`kube::Client`] or [`kube::Config`] converts into the default with that connection. [`Args`](super::Args) convert
/// into the options of the command line.
///
/// ```no_run
/// use operator_runtime::manager::{Manager, ManagerOptions};
/// # async fn example(client: kube::Client) -> operator_runtime::Result<()> {
/// let options = ManagerOptions {
///     leader_election: true,
///     health_probe_bind_address: ":8081".to_owned(),
///     ..ManagerOptions::from(client)
/// };
/// let manager = Manager::new("example-operator", options).await?;
/// # Ok(())
/// # }
/// ```
pub struct ManagerOptions {
    /// The connection to the cluster, instead of `kubeconfig`; see [`Connect`] for the difference between a
    /// configuration and a client. Requests carry the `User-Agent` of the operator, warnings of the API server are
    /// logged, and the requests are counted in `rest_client_*`. The label `host` is empty for a client, which does not
    /// expose the address of its server.
    pub client: Option<Connect>,
    /// The kubeconfig. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The namespaces to watch. Empty means those of `cache_options`, or all. Options for these namespaces in
    /// `cache_options` apply.
    pub namespaces: Vec<String>,
    /// The options of the cache: selectors, transforms, resyncs, backoff, and the options of namespaces.
    pub cache_options: CacheOptions,
    /// The options of every controller, unless [`Controller::options`](crate::Controller::options) sets them.
    pub controller_options: ControllerOptions,
    /// Maximum number of keys that a controller of a kind reconciles concurrently, unless the controller sets it. It
    /// takes precedence over `controller_options`. The keys have the form of [`Kind`](crate::Kind)'s `Display`:
    /// `Deployment.apps`, or `Pod` in the core group.
    pub group_kind_concurrency: BTreeMap<String, usize>,
    /// Runs the controllers on one instance at a time, which is elected through a Lease. Default: false.
    pub leader_election: bool,
    /// The name of the Lease, unique to the operator in its namespace. Default: the name of the operator.
    pub leader_election_id: Option<String>,
    /// The namespace, identity, labels, durations and release of the Lease. Default namespace: that of the pod's
    /// service account. Outside a cluster it must be set.
    pub leader_election_options: LeaderElectionOptions,
    /// The client for the Lease, for example of another cluster. Default: the manager's own. Its requests are counted
    /// with the host `leader-election`.
    pub leader_election_client: Option<kube::Client>,
    /// An election that replaces the one through a Lease, regardless of `leader_election`.
    pub election: Option<Box<dyn Election>>,
    /// The address of `/healthz` and `/readyz`. `:8081` is port 8081 of every interface, and port 0 any free port.
    /// Empty and `0` disable them. Default: empty.
    pub health_probe_bind_address: String,
    /// The path of the liveness probe, and the prefix of its single checks. Default: `/healthz`.
    pub liveness_endpoint: String,
    /// The path of the readiness probe, and the prefix of its single checks. Default: `/readyz`.
    pub readiness_endpoint: String,
    /// The registry of metrics, for parts that need it before the manager exists, such as a custom election.
    pub metrics: Metrics,
    /// The address of `/metrics`, such as `:8443`. Empty and `0` disable it. Default: empty.
    pub metrics_bind_address: String,
    /// Serves `/metrics` over HTTPS to clients that the API server permits to `get` it. If false, it is served over
    /// plain HTTP to everyone. Default: true.
    pub metrics_secure: bool,
    /// The files of the certificate and the key for `/metrics`. Default: a self-signed certificate.
    pub metrics_certificate: Option<(PathBuf, PathBuf)>,
    /// The address of the webhooks. The server listens once a webhook is added. Empty and `0` disable it. Default:
    /// `:9443`.
    pub webhook_bind_address: String,
    /// The certificates of the webhooks.
    pub webhook_certificates: WebhookCertificates,
    /// A PEM file with a certificate authority: only clients with a certificate signed by it can call the webhooks, as
    /// with controller-runtime's `ClientCAName`. It is read when the manager starts. Default: no client certificates.
    pub webhook_client_authority: Option<PathBuf>,
    /// Also serves metrics and webhooks over HTTP/2. Default: false.
    pub http2: bool,
    /// The minimum TLS version of metrics and webhooks. Default: 1.2.
    pub min_tls_version: TlsVersion,
    /// Time for reconciles and runnables to end when the manager stops. The remaining ones are then aborted, and
    /// [`Manager::run`] fails with [`ManagerError::GracePeriod`]. `None` means no limit, like controller-runtime's
    /// negative timeout. Default: 30 s.
    pub graceful_shutdown_timeout: Option<Duration>,
    /// Maximum time without data from the API server while a response is awaited. Then a request fails, and a watch is
    /// reopened, so that dead connections are detected. A live server responds within a minute, and sends bookmarks to
    /// watches at least once a minute. `None` means no limit. Default: 75 s.
    ///
    /// Streams that may be silent, such as followed logs, have no limit.
    pub silence_timeout: Option<Duration>,
}

/// The options that are needed after the manager was built.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) controllers: ControllerOptions,
    pub(super) group_kind_concurrency: BTreeMap<String, usize>,
    pub(super) kubeconfig: Option<PathBuf>,
    /// `None` means no limit.
    pub(super) silence_timeout: Option<Duration>,
    /// `None` means no limit.
    pub(super) graceful_shutdown_timeout: Option<Duration>,
}

/// The options of the metrics server.
#[derive(Clone, Debug)]
pub(super) struct MetricsOptions {
    pub(super) secure: bool,
    /// The files of certificate and key. A self-signed certificate is used if `None`.
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) http2: bool,
    pub(super) min_tls_version: TlsVersion,
}

// === impl ManagerOptions ===

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            client: None,
            kubeconfig: None,
            namespaces: Vec::new(),
            cache_options: CacheOptions::default(),
            controller_options: ControllerOptions::default(),
            group_kind_concurrency: BTreeMap::new(),
            leader_election: false,
            leader_election_id: None,
            leader_election_options: LeaderElectionOptions::default(),
            leader_election_client: None,
            election: None,
            health_probe_bind_address: String::new(),
            liveness_endpoint: "/healthz".to_owned(),
            readiness_endpoint: "/readyz".to_owned(),
            metrics: Metrics::default(),
            metrics_bind_address: String::new(),
            metrics_secure: true,
            metrics_certificate: None,
            webhook_bind_address: format!(":{}", WebhookServer::PORT),
            webhook_certificates: WebhookCertificates::Own,
            webhook_client_authority: None,
            http2: false,
            min_tls_version: TlsVersion::default(),
            graceful_shutdown_timeout: Some(Duration::from_secs(30)),
            silence_timeout: Some(operator_connection::SILENCE),
        }
    }
}

impl From<Connect> for ManagerOptions {
    fn from(client: Connect) -> Self {
        Self {
            client: Some(client),
            ..Self::default()
        }
    }
}

impl From<kube::Client> for ManagerOptions {
    fn from(client: kube::Client) -> Self {
        Connect::from(client).into()
    }
}

impl From<kube::Config> for ManagerOptions {
    fn from(config: kube::Config) -> Self {
        Connect::from(config).into()
    }
}

impl ManagerOptions {
    /// Connects to the cluster, and binds the health and metrics servers.
    pub(super) async fn build(mut self, name: &str) -> Result<Manager, ManagerError> {
        let kept = Options {
            name: name.to_owned(),
            controllers: self.controller_options,
            group_kind_concurrency: self.group_kind_concurrency,
            kubeconfig: self.kubeconfig,
            silence_timeout: self.silence_timeout,
            graceful_shutdown_timeout: self.graceful_shutdown_timeout,
        };
        let mut cache = self.cache_options;
        cache.namespaces = cache.namespaces.limited_to(&self.namespaces);
        cache.check()?;
        let metrics = self.metrics;
        let connection = match self.client {
            Some(connect) => Connection::of(connect, &kept, &metrics, None)?,
            None => Connection::new(&kept, &metrics).await?,
        };
        // For the requests of the manager itself, which any instance may send.
        let kube = connection.client(None);
        let health = listen("health-probe-bind-address", &self.health_probe_bind_address)?;
        let scrapes = listen("metrics-bind-address", &self.metrics_bind_address)?;
        let election = match self.election.take() {
            Some(election) => Some(election),
            None if self.leader_election => {
                let other = self.leader_election_client.take().map(|client| {
                    let requests = metrics.rest_client_layer("leader-election");
                    Connection::adopt(client, &kept, requests).client(None)
                });
                let id = self.leader_election_id.as_deref().unwrap_or(name);
                let of_lease = LeaderElectionOptions {
                    metrics: metrics.leader(id),
                    ..self.leader_election_options
                };
                let election = LeaderElection::new(other.unwrap_or_else(|| kube.clone()), id, of_lease);
                let election: Box<dyn Election> = Box::new(election.map_err(ManagerError::Election)?);
                Some(election)
            }
            None => None,
        };
        let is_leader = watch::Sender::new(Leadership::Standby);
        let leadership = election.as_ref();
        let leadership =
            leadership.map(|election| election.leadership().unwrap_or_else(|| is_leader.subscribe()));
        let (recorder, sender) = event_recorder::recorder(kube.clone(), name, &instance(name));
        let cache = Cache::new(
            kube.clone(),
            name,
            cache,
            (metrics.cache(), connection.requests.clone()),
            recorder.clone(),
        );
        let checks = Checks::new([self.liveness_endpoint, self.readiness_endpoint]);
        let (health_address, metrics_address) = (address(health.as_ref()), address(scrapes.as_ref()));
        let health = health.map(|listener| Member::Runnable(servers::health(listener, checks.clone())));
        let metrics_options = MetricsOptions {
            secure: self.metrics_secure,
            certificate: self.metrics_certificate,
            http2: self.http2,
            min_tls_version: self.min_tls_version,
        };
        let metrics_server = match scrapes {
            Some(listener) => Some((servers::metrics(&metrics_options, &metrics, &kube)?, listener)),
            None => None,
        };
        let shared = webhooks::Shared {
            name: name.to_owned(),
            kube: kube.clone(),
            metrics: metrics.clone(),
            checks: checks.clone(),
        };
        let webhook_options = WebhookOptions {
            bind_address: self.webhook_bind_address,
            certificates: self.webhook_certificates,
            http2: self.http2,
            min_tls_version: self.min_tls_version,
            client_authority: self.webhook_client_authority,
        };
        let setup = Setup {
            members: health.into_iter().collect(),
            metrics_server,
            recorder: sender,
            election,
        };
        let of_leader = match &leadership {
            Some(leadership) => connection.client(Some(leadership.clone())),
            None => kube.clone(),
        };
        let inner = Inner {
            client: Client::new(of_leader, cache, metrics.client()),
            of_every_instance: kube,
            recorder,
            metrics,
            checks,
            health_address,
            metrics_address,
            webhooks: Mutex::new(Webhooks::new(webhook_options, shared)),
            elected: watch::Sender::new(false),
            is_leader,
            leadership,
            is_blocked: AtomicBool::new(false),
            reconciles: TaskTracker::new(),
            names: Mutex::default(),
            needs: Mutex::default(),
            clusters: Mutex::default(),
            phase: Mutex::new(Phase::Setup(Box::new(setup))),
            options: kept,
        };
        Ok(Manager {
            inner: Arc::new(inner),
        })
    }
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ManagerOptions")
            .field("client", &self.client)
            .field("namespaces", &self.namespaces)
            .field("leader_election", &self.leader_election)
            .finish_non_exhaustive()
    }
}

/// Returns the identity of this process among the instances of the operator: the host name, which is the name of the
/// pod, or otherwise the name of the operator.
pub(super) fn instance(name: &str) -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| name.to_owned())
}
