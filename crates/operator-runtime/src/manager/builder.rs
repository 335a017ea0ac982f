//! How a manager is put together: what the code and the command line say, and what is made of it.

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
use super::webhooks::{self, Source, WebhookOptions, Webhooks};
use super::{Args, Inner, Manager, ManagerError, Member, Phase, Setup};
use crate::cache::{Cache, CacheOptions};
use crate::certificates::{Certificates, ManagedCertificates, TlsVersion};
use crate::client::Client;
use crate::controller::ControllerOptions;
use crate::election::{Election, LeaderElection, LeaderElectionOptions, Leadership};
use crate::event_recorder;
use crate::health::Checks;
use crate::metrics::Metrics;

/// What the builder and the arguments say.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) cache: CacheOptions,
    /// The namespaces that are watched; those of `cache` where there are none.
    namespaces: Vec<String>,
    pub(super) controllers: ControllerOptions,
    pub(super) group_kind_concurrency: BTreeMap<String, usize>,
    health_probe_bind_address: String,
    metrics: MetricsOptions,
    webhook: WebhookOptions,
    webhook_client_authority: Option<PathBuf>,
    min_tls_version: TlsVersion,
    pub(super) kubeconfig: Option<PathBuf>,
    /// `None` is for ever.
    pub(super) silence_timeout: Option<Duration>,
    /// `None` is for ever.
    pub(super) graceful_shutdown_timeout: Option<Duration>,
    leader_election: bool,
    leader_election_id: String,
    election: LeaderElectionOptions,
    /// The paths of liveness and readiness.
    endpoints: [String; 2],
}

/// How the metrics are served.
#[derive(Clone, Debug)]
pub(super) struct MetricsOptions {
    pub(super) bind_address: String,
    pub(super) secure: bool,
    /// Certificate and key, where they are not made.
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) http2: bool,
    pub(super) min_tls_version: TlsVersion,
}

/// Builds a [`Manager`]: begun by [`Manager::builder`], ended by [`ManagerBuilder::build`].
///
/// By default no health checks and no metrics are served and there is no leader election, as suits tests;
/// [`ManagerBuilder::args`] brings what the command line says. What a method sets has precedence over the command line. The
/// order of the calls does not matter.
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct ManagerBuilder {
    options: Options,
    args: Option<Args>,
    /// What methods set that the command line sets too. It is applied after the command line.
    changes: Vec<Change>,
    client: Option<Connect>,
    metrics: Option<Metrics>,
    election: Option<DebugElection>,
    election_client: Option<DebugClient>,
}

/// A change of the options.
struct Change(Box<dyn FnOnce(&mut Options) + Send>);

/// `kube::Client` does not implement `Debug`.
struct DebugClient(kube::Client);

/// Nor need elections.
struct DebugElection(Box<dyn Election>);

// === impl Options ===

impl Options {
    /// Takes what the command line says.
    fn apply(&mut self, args: &Args) {
        self.health_probe_bind_address = args.health_probe_bind_address.clone();
        self.metrics = args.metrics();
        self.webhook = args.webhook();
        self.kubeconfig = args.kubeconfig.clone();
        self.set_namespaces(args.namespaces());
        self.graceful_shutdown_timeout = args.graceful_shutdown_timeout();
        self.leader_election = args.leader_elect;
        let namespace = &args.leader_election_namespace;
        self.election.namespace = Some(namespace.clone()).filter(|name| !name.is_empty());
    }

    /// Replaces the namespaces, unless there are none.
    fn set_namespaces(&mut self, names: Vec<String>) {
        if !names.is_empty() {
            self.namespaces = names;
        }
    }
}

// === impl ManagerBuilder ===

impl ManagerBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            options: Options {
                name: name.to_owned(),
                cache: CacheOptions::default(),
                namespaces: Vec::new(),
                controllers: ControllerOptions::default(),
                group_kind_concurrency: BTreeMap::new(),
                health_probe_bind_address: String::new(),
                metrics: MetricsOptions::default(),
                webhook: WebhookOptions::default(),
                webhook_client_authority: None,
                min_tls_version: TlsVersion::default(),
                kubeconfig: None,
                silence_timeout: Some(operator_connection::SILENCE),
                graceful_shutdown_timeout: Some(Duration::from_secs(30)),
                leader_election: false,
                leader_election_id: name.to_owned(),
                election: LeaderElectionOptions::default(),
                endpoints: ["/healthz", "/readyz"].map(str::to_owned),
            },
            args: None,
            changes: Vec::new(),
            client: None,
            metrics: None,
            election: None,
            election_client: None,
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Options) + Send + 'static) -> Self {
        self.changes.push(Change(Box::new(change)));
        self
    }

    /// Takes what the command line and the environment say: addresses, certificates, kubeconfig, namespaces, leader
    /// election and grace period. What another method sets has precedence, whether it is called before or after.
    pub fn args(mut self, args: &Args) -> Self {
        self.args = Some(args.clone());
        self
    }

    /// Runs the controllers on one instance at a time, elected through a Lease; as `--leader-elect` does. Off by
    /// default.
    pub fn leader_election(self, on: bool) -> Self {
        self.change(move |options| options.leader_election = on)
    }

    /// The name of the Lease, unique to the operator in its namespace; the operator's name unless said otherwise.
    pub fn leader_election_id(mut self, id: &str) -> Self {
        self.options.leader_election_id = id.to_owned();
        self
    }

    /// Sets how the leader is elected: namespace, identity, labels, times and release of the Lease. Without a namespace here it
    /// is that of `--leader-election-namespace`, or else that of the pod's service account; outside of a cluster one must
    /// be given.
    pub fn leader_election_options(self, options: LeaderElectionOptions) -> Self {
        self.change(move |all| {
            let namespace = options.namespace.clone().or(all.election.namespace.take());
            all.election = LeaderElectionOptions { namespace, ..options };
        })
    }

    /// The client that the election is held with, such as one of another cluster; the manager's own unless said
    /// otherwise. Its requests are counted as those of host `leader-election`.
    pub fn leader_election_client(mut self, client: kube::Client) -> Self {
        self.election_client = Some(DebugClient(client));
        self
    }

    /// Uses this configuration or client instead of the kubeconfig or the service account; [`Connect`] says how they differ.
    /// As otherwise, requests carry the `User-Agent` of the operator, the warnings of the API server are logged, and the
    /// requests are in the metrics `rest_client_*`, with an empty `host` for a client, which does not tell its server.
    pub fn client(mut self, cluster: impl Into<Connect>) -> Self {
        self.client = Some(cluster.into());
        self
    }

    /// Counts in this registry instead of one of the manager's own: for what has to count before the manager is there,
    /// such as an election of one's own.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Watches these namespaces only. By default, and if this is empty, they are those of `WATCH_NAMESPACE`, or else of
    /// [`CacheOptions::namespaces`](crate::cache::CacheOptions::namespaces), or else all. Where the cache options have
    /// options for a namespace, they apply to it.
    pub fn namespaces<'a>(self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<_> = namespaces.into_iter().map(str::to_owned).collect();
        self.change(|options| options.set_namespaces(names))
    }

    /// Sets how the cache watches: selectors, transforms, resyncs, backoff, and the options of namespaces.
    /// [`ManagerBuilder::namespaces`] and `WATCH_NAMESPACE` limit which namespaces are watched.
    pub fn cache_options(mut self, options: CacheOptions) -> Self {
        self.options.cache = options;
        self
    }

    /// Where `/healthz` and `/readyz` are served: `:8081` is port 8081 of every interface, port 0 any that is free.
    /// Nowhere when empty, which is the default here, or `0`.
    pub fn health_probe_bind_address(self, address: &str) -> Self {
        let address = address.to_owned();
        self.change(|options| options.health_probe_bind_address = address)
    }

    /// Sets the paths of liveness and readiness, below which each check has a path of its own. Default: `/healthz` and
    /// `/readyz`.
    pub fn health_endpoints(mut self, liveness: &str, readiness: &str) -> Self {
        self.options.endpoints = [liveness, readiness].map(str::to_owned);
        self
    }

    /// Where `/metrics` is served, such as `:8443`; nowhere when empty, which is the default, or `0`. Who may read it
    /// says [`ManagerBuilder::metrics_secure`].
    pub fn metrics_bind_address(self, address: &str) -> Self {
        let address = address.to_owned();
        self.change(|options| options.metrics.bind_address = address)
    }

    /// Whether `/metrics` is served over HTTPS, to those whom the API server lets `get` it; the default. Otherwise
    /// over plain HTTP, to everybody.
    pub fn metrics_secure(self, secure: bool) -> Self {
        self.change(move |options| options.metrics.secure = secure)
    }

    /// The oldest version of TLS in which metrics and webhooks are served; 1.2 unless said otherwise.
    pub fn min_tls_version(mut self, version: TlsVersion) -> Self {
        self.options.min_tls_version = version;
        self
    }

    /// Where webhooks are served; `:9443` by default. Nobody listens while there are none, nor ever when
    /// it is empty or `0`.
    pub fn webhook_bind_address(self, address: &str) -> Self {
        let address = address.to_owned();
        self.change(|options| options.webhook.bind_address = address)
    }

    /// Serves webhooks with these certificates. Somebody else, such as cert-manager or a test, has to make the API server
    /// trust them. By default the operator makes its own, see [`crate::webhook`]. This and
    /// [`ManagerBuilder::webhook_managed_certificates`] are two values of one setting.
    pub fn webhook_certificates(self, certificates: Certificates) -> Self {
        self.change(|options| options.webhook.certificates = Source::Given(certificates))
    }

    /// Serves webhooks with certificates that the operator makes and has the API server trust. In a cluster that is the
    /// default, in the operator's own namespace with the Secret `NAME-webhook-ca`; this names another one.
    pub fn webhook_managed_certificates(self, certificates: ManagedCertificates) -> Self {
        self.change(|options| options.webhook.certificates = Source::Managed(certificates))
    }

    /// Serves webhooks to those alone who show a certificate of an authority in this PEM file, as controller-runtime's
    /// `ClientCAName` does; to everybody unless said otherwise. It is read when the manager starts.
    pub fn webhook_client_authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.options.webhook_client_authority = Some(file.into());
        self
    }

    /// Runs the controllers only while this election is won. It goes before [`ManagerBuilder::leader_election`], and
    /// needs neither that nor `--leader-elect`.
    pub fn election(mut self, election: impl Election) -> Self {
        self.election = Some(DebugElection(Box::new(election)));
        self
    }

    /// How long reconciles and runnables may take to end when the manager stops; 30 s by default. What has not ended
    /// by then is aborted, and [`Manager::run`] fails with [`ManagerError::GracePeriod`]. With `None` they may take
    /// for ever, as with controller-runtime's negative timeout; with zero nothing is waited for.
    pub fn graceful_shutdown_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.change(move |options| options.graceful_shutdown_timeout = timeout)
    }

    /// How long the API server may say nothing while an answer is awaited; 75 s unless said otherwise, for ever with
    /// `None`. Then a request fails, and a watch is opened again: a connection that is dead without having been closed
    /// holds nobody up for longer. A server that lives answers within a minute, and sends a watch a bookmark as often.
    ///
    /// Streams that may be silent, such as logs that are followed, have no limit.
    pub fn silence_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.options.silence_timeout = timeout.into();
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
    /// [`ManagerBuilder::controller_options`]. The kind is written as `Deployment.apps`, or `Pod` in the core group,
    /// which is how a [`Kind`](crate::Kind) prints.
    pub fn group_kind_concurrency(mut self, kind: &str, count: usize) -> Self {
        self.options.group_kind_concurrency.insert(kind.to_owned(), count);
        self
    }

    /// Connects, and binds the servers of health and metrics, so that a mistake shows before anything runs. Nothing is
    /// watched or served yet: that is for [`Manager::run`].
    ///
    /// Without [`ManagerBuilder::client`] the cluster is that of `--kubeconfig`, else of `KUBECONFIG` or
    /// `~/.kube/config`, else of the pod's service account.
    ///
    /// # Errors
    /// If there is no cluster, an address is none or in use, certificates cannot be read, or there is to be an
    /// election and nobody says in which namespace.
    pub async fn build(self) -> Result<Manager, ManagerError> {
        let mut options = self.options;
        if let Some(args) = &self.args {
            options.apply(args);
        }
        for Change(change) in self.changes {
            change(&mut options);
        }
        options.cache.namespaces = options.cache.namespaces.limited_to(&options.namespaces);
        options.metrics.min_tls_version = options.min_tls_version;
        options.webhook.min_tls_version = options.min_tls_version;
        options.webhook.client_authority = options.webhook_client_authority.clone();
        options.cache.check()?;
        let metrics = self.metrics.unwrap_or_default();
        let connection = match self.client {
            Some(connect) => Connection::of(connect, &options, &metrics, None)?,
            None => Connection::new(&options, &metrics).await?,
        };
        // Everything that the manager itself sends: it reads, or writes what every instance may write.
        let kube = connection.client(None);
        let health = listen("health-probe-bind-address", &options.health_probe_bind_address)?;
        let scrapes = listen("metrics-bind-address", &options.metrics.bind_address)?;
        let election = match self.election {
            Some(DebugElection(election)) => Some(election),
            None if options.leader_election => {
                let other = self.election_client.map(|DebugClient(client)| {
                    let requests = metrics.rest_client_layer("leader-election");
                    Connection::adopt(client, &options, requests).client(None)
                });
                let client = other.unwrap_or_else(|| kube.clone());
                Some(election(client, &options, &metrics)?)
            }
            None => None,
        };
        let is_leader = watch::Sender::new(Leadership::Standby);
        let leadership = election.as_ref();
        let leadership =
            leadership.map(|election| election.leadership().unwrap_or_else(|| is_leader.subscribe()));
        let instance = instance(&options.name);
        let (recorder, sender) = event_recorder::recorder(kube.clone(), &options.name, &instance);
        let cache = Cache::new(
            kube.clone(),
            &options.name,
            options.cache.clone(),
            (metrics.cache(), connection.requests.clone()),
            recorder.clone(),
        );
        let checks = Checks::new(options.endpoints.clone());
        let (health_address, metrics_address) = (address(health.as_ref()), address(scrapes.as_ref()));
        let health = health.map(|listener| Member::Runnable(servers::health(listener, checks.clone())));
        let metrics_server = match scrapes {
            Some(listener) => Some((servers::metrics(&options.metrics, &metrics, &kube)?, listener)),
            None => None,
        };
        let webhooks = webhooks::Shared {
            name: options.name.clone(),
            kube: kube.clone(),
            metrics: metrics.clone(),
            checks: checks.clone(),
        };
        let webhooks = Webhooks::new(options.webhook.clone(), webhooks);
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
            webhooks: Mutex::new(webhooks),
            elected: watch::Sender::new(false),
            is_leader,
            leadership,
            is_blocked: AtomicBool::new(false),
            reconciles: TaskTracker::new(),
            names: Mutex::default(),
            needs: Mutex::default(),
            clusters: Mutex::default(),
            phase: Mutex::new(Phase::Setup(Box::new(setup))),
            options,
        };
        Ok(Manager {
            inner: Arc::new(inner),
        })
    }
}

fn election(
    client: kube::Client,
    options: &Options,
    metrics: &Metrics,
) -> Result<Box<dyn Election>, ManagerError> {
    let name = &options.leader_election_id;
    let of_lease = LeaderElectionOptions {
        metrics: metrics.leader(name),
        ..options.election.clone()
    };
    let election = LeaderElection::new(client, name, of_lease).map_err(ManagerError::Election)?;
    Ok(Box::new(election))
}

/// What tells this process from others of the operator: the name of the pod, which is its host name, or the operator's.
pub(super) fn instance(name: &str) -> String {
    std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| name.to_owned())
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            bind_address: String::new(),
            secure: true,
            certificate: None,
            http2: false,
            min_tls_version: TlsVersion::default(),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Change")
    }
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
