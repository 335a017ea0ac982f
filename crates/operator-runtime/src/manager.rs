//! The [`Manager`] owns the shared parts of controllers, and starts and stops everything in order.
//!
//! An [`Operator`](crate::Operator) builds and runs one. Use it directly to run controllers in your own program.
//!
//! The order of the start is: event recorder, health and metrics servers, webhooks, caches, runnables of every
//! instance, leader election, and on the leader the controllers. Parts that are added later start together with their
//! group, or immediately if the group already runs.
//!
//! On SIGINT or SIGTERM no new reconcile begins, and running reconciles have 30 s to finish. Runnables of every
//! instance are stopped first, then everything that runs on the leader, the caches, the webhooks, the other servers,
//! and the event recorder. Each group has ended before the next is stopped. Finally the lease is released.
//!
//! ```no_run
//! use k8s_openapi::api::apps::v1::Deployment;
//! use operator_runtime::manager::ManagerOptions;
//! use operator_runtime::prelude::*;
//!
//! # async fn reconcile(_: Request, _: KeyContext) -> Result<Action> { Ok(Action::done()) }
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let manager = Manager::new("example-operator", ManagerOptions::default()).await?;
//!     manager.add_controller(Controller::by_key(Watch::<Deployment>::new(), reconcile))?;
//!     manager.run().await
//! }
//! ```

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::cache::{Cache, CacheOptions};
use crate::client::Client;
use crate::cluster::{self, Cluster};
use crate::controller::{Controller, ControllerError, ControllerHandle, ControllerOptions, Host, Use};
use crate::election::{Election, Leadership};
use crate::error::Result;
use crate::event_recorder::{self, EventRecorder, Recorder};
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::metrics_server::MetricsServer;
use crate::object::{Kind, Object};
use crate::policy_rule::PolicyRule;
use crate::webhook::{AdmissionHandler, Webhook, WebhookError, WebhookServer};

mod args;
mod connection;
mod error;
mod lifecycle;
mod options;
mod runnable;
mod server;
mod servers;
mod signals;
mod user_agent;
mod webhooks;

pub use args::Args;
pub use connection::Connect;
use connection::Connection;
pub use error::ManagerError;
pub use options::ManagerOptions;
use options::Options;
use runnable::Member;
pub use runnable::Runnable;
pub use server::{Server, ServerOptions};
pub use webhooks::WebhookCertificates;
use webhooks::Webhooks;

/// The shared parts of the controllers of an operator: client, cache, event recorder, health checks. Clones share them.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    client: Client,
    recorder: EventRecorder,
    metrics: Metrics,
    checks: Checks,
    health_address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    webhooks: Mutex<Webhooks>,
    elected: watch::Sender<bool>,
    /// The connection for writes without leadership.
    of_every_instance: kube::Client,
    /// The leadership as the manager knows it, for elections that do not publish it.
    is_leader: watch::Sender<Leadership>,
    /// The leadership that clients check before they write. `None` without an election.
    leadership: Option<watch::Receiver<Leadership>>,
    /// True if an aborted task has not ended.
    is_blocked: AtomicBool,
    /// The running reconciles.
    reconciles: TaskTracker,
    /// The names of the controllers, which are labels of metrics.
    names: Mutex<HashSet<String>>,
    /// The kinds that the controllers use, and their additional rules.
    needs: Mutex<(Vec<Use>, Vec<PolicyRule>)>,
    /// The names of the other clusters.
    clusters: Mutex<HashSet<String>>,
    phase: Mutex<Phase>,
}

/// The phase of a manager. It only moves forward.
enum Phase {
    /// New parts wait for the start.
    Setup(Box<Setup>),
    /// New parts are started immediately.
    Running(mpsc::UnboundedSender<Member>),
    /// No part can be added any more.
    Stopping,
}

/// The parts that wait for the start.
struct Setup {
    members: Vec<Member>,
    metrics_server: Option<(MetricsServer, TcpListener)>,
    recorder: Recorder,
    election: Option<Box<dyn Election>>,
}

// === impl Manager ===

impl Manager {
    /// Connects to the cluster and binds the health and metrics servers. Nothing is watched or served before
    /// [`Manager::run`].
    ///
    /// `name` is the field manager of the operator's writes, the source of its events, the beginning of its
    /// `User-Agent`, and the default name of its Lease. The options are [`ManagerOptions`], a client, a configuration,
    /// or `&Args`.
    ///
    /// # Errors
    /// Returns an error if no cluster is found, an address is invalid or in use, certificates cannot be read, or the
    /// namespace of the election is unknown.
    pub async fn new(name: &str, options: impl Into<ManagerOptions>) -> Result<Self, ManagerError> {
        options.into().build(name).await
    }

    /// Returns the name of the operator.
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// Returns the client, for code outside the controllers; a reconciler has the same one in its
    /// [`Context`](crate::Context). It reads from the cache, which is filled while the manager runs, and writes to the
    /// API server.
    ///
    /// With leader election it writes only while this instance is the leader, as do the [`kube::Client`] in it and the
    /// clients of clusters. Other writes fail with [`ClientError::NotLeader`](crate::client::ClientError::NotLeader).
    /// Reads are always possible. [`Manager::client_for_every_instance`] returns a client for writes on every instance.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns a client that writes on every instance, whether it is the leader or not. Use it for [runnables of every
    /// instance](Runnable::on_every_instance), webhook handlers, and steps before the manager runs. Controllers with
    /// [`ControllerOptions::needs_leader_election`] set to `false` have it in their context.
    ///
    /// Several instances may write with it at the same time. Write only objects of this instance, or objects that all
    /// instances write identically. The manager itself writes without leadership only the lease, events, and the
    /// certificates of webhooks.
    pub fn client_for_every_instance(&self) -> Client {
        self.inner.client.over(self.inner.of_every_instance.clone())
    }

    /// Returns the cache, for example to add indexes.
    pub fn cache(&self) -> &Cache {
        self.inner.client.cache()
    }

    /// Returns the event recorder, for code outside the controllers. A [`Context`](crate::Context) has the same one.
    pub fn recorder(&self) -> &EventRecorder {
        &self.inner.recorder
    }

    /// Returns the registry of `/metrics`, for the operator's own metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Returns the address of `/healthz` and `/readyz`, or `None` if they are not served. Its port is the actual one if
    /// port 0 was requested.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.inner.health_address
    }

    /// Returns the address of `/metrics`, or `None` if it is not served, which is the default.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.metrics_address
    }

    /// Returns the address of the webhooks, or `None` before the first one is added.
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.inner.webhooks.lock().address()
    }

    /// Serves the webhooks of a kind on every instance, immediately if the manager runs. They are served before the
    /// caches are filled, because the API server needs conversions for that. The first webhook adds the check `webhook`
    /// to `/readyz`.
    ///
    /// # Errors
    /// Returns an error if the port is in use, a path is already served, or the manager is stopping.
    pub fn add_webhook<K: Object>(&self, webhook: Webhook<K>) -> Result<(), ManagerError> {
        self.serve_webhooks(|server| server.add(webhook))
    }

    /// Serves admission requests at a path, for webhooks of several kinds or of subresources. The generated manifests
    /// do not contain it. See [`Manager::add_webhook`] for the rest.
    ///
    /// # Errors
    /// As for [`Manager::add_webhook`], and if the path is invalid.
    pub fn add_admission_handler(
        &self,
        path: &str,
        handler: impl AdmissionHandler,
    ) -> Result<(), ManagerError> {
        self.serve_webhooks(|server| server.add_admission(path, handler))
    }

    /// Serves all requests at a path of the webhook server, with any method and bodies of up to 7 MiB. A panic is
    /// answered with 500. See [`Manager::add_admission_handler`] for the rest.
    ///
    /// # Errors
    /// As for [`Manager::add_admission_handler`].
    pub fn add_webhook_handler<F, R>(&self, path: &str, handler: F) -> Result<(), ManagerError>
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        self.serve_webhooks(|server| server.add_raw(path, handler))
    }

    fn serve_webhooks(
        &self,
        add: impl FnOnce(&WebhookServer) -> Result<(), WebhookError>,
    ) -> Result<(), ManagerError> {
        let phase = self.inner.phase.lock();
        if matches!(*phase, Phase::Stopping) {
            return Err(ManagerError::Stopping);
        }
        let mut webhooks = self.inner.webhooks.lock();
        webhooks.add(add)?;
        match &*phase {
            Phase::Running(members) => match webhooks.start() {
                Some(server) => members
                    .send(Member::Webhooks(Box::new(server)))
                    .map_err(|_| ManagerError::Stopping),
                None => Ok(()),
            },
            Phase::Setup(_) | Phase::Stopping => Ok(()),
        }
    }

    /// Adds a check to `/healthz`, the liveness probe: the kubelet restarts the container if it fails. A check runs at
    /// each probe and should be fast. It replaces a check of the same name. The check `ping` always exists.
    ///
    /// The error is logged but not part of the response. `/healthz?verbose` lists the checks, and `/healthz/NAME` runs
    /// one of them. By default, the kubelet waits one second for the response.
    ///
    /// # Errors
    /// Returns an error if the manager already runs.
    pub fn add_health_check<F, R>(&self, name: &str, check: F) -> Result<(), ManagerError>
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.before_start("healthz")?;
        self.inner.checks.add_health(name, check);
        Ok(())
    }

    /// Adds a check to `/readyz`, the readiness probe. If it fails, Services do not send requests to the pod, and a
    /// rollout waits. See [`Manager::add_health_check`] for the rest.
    ///
    /// Readiness does not depend on the caches, because a pod that converts or admits objects must become ready before
    /// its caches can be filled; see [`Manager::add_cache_check`]. With webhooks, the check `webhook` waits for their
    /// server.
    ///
    /// # Errors
    /// As for [`Manager::add_health_check`].
    pub fn add_ready_check<F, R>(&self, name: &str, check: F) -> Result<(), ManagerError>
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.before_start("readyz")?;
        self.inner.checks.add_ready(name, check);
        Ok(())
    }

    /// Adds a check to `/readyz` that fails until a cache is filled, and while one of its watches fails.
    ///
    /// Do not add it to an operator that serves webhooks: the API server may need them for the lists that fill the
    /// cache, and does not call them before the pod is ready. The metric `operator_runtime_watch_live` exposes the
    /// state of each watch in any case.
    ///
    /// # Errors
    /// As for [`Manager::add_health_check`].
    pub fn add_cache_check(&self, name: &str, cache: &Cache) -> Result<(), ManagerError> {
        self.before_start("readyz")?;
        self.inner.checks.add_cache(name, cache.clone());
        Ok(())
    }

    fn before_start(&self, endpoint: &'static str) -> Result<(), ManagerError> {
        let mut phase = self.inner.phase.lock();
        phase.setup().map_err(|_| ManagerError::LateCheck(endpoint))?;
        Ok(())
    }

    /// Serves another path of the metrics server, with the same authentication, for example debugging pages. If metrics
    /// are not served, the path is not served either, and a warning is logged.
    ///
    /// # Errors
    /// Returns an error if the path is `/metrics` or already served, or if the manager runs.
    pub fn add_metrics_handler<F, R>(&self, path: &str, handler: F) -> Result<(), ManagerError>
    where
        F: Fn(Request<()>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let mut phase = self.inner.phase.lock();
        let setup = phase.setup().map_err(|_| ManagerError::MetricsStarted)?;
        match &mut setup.metrics_server {
            Some((server, _)) => {
                let added = server.clone().handler(path, handler);
                *server = added.map_err(|error| ManagerError::MetricsHandler(error.to_string()))?;
            }
            None => tracing::warn!(path, "Path not served: the metrics server is disabled"),
        }
        Ok(())
    }

    /// Adds a [`Runnable`] or a [`Server`]. If the manager runs, it is started immediately; a runnable of the leader
    /// waits for leadership.
    ///
    /// # Errors
    /// Returns an error if the manager is stopping.
    pub fn add(&self, runnable: impl Into<Runnable>) -> Result<(), ManagerError> {
        self.add_member(Member::Runnable(runnable.into()))
    }

    fn add_member(&self, member: Member) -> Result<(), ManagerError> {
        match &mut *self.inner.phase.lock() {
            Phase::Setup(setup) => {
                setup.members.push(member);
                Ok(())
            }
            Phase::Running(members) => members.send(member).map_err(|_| ManagerError::Stopping),
            Phase::Stopping => Err(ManagerError::Stopping),
        }
    }

    /// Adds another cluster with a configuration or a client ([`Connect`]). Its cache is started and stopped together
    /// with that of the manager. The field manager of writes to it is the name of the operator, and its requests are
    /// counted with the name of the cluster as `host`. [`Manager::add_cache_check`] adds the state of its cache to
    /// `/readyz`.
    ///
    /// Objects in it that cannot be decoded are logged and reported as Events in that cluster, but not in a metric.
    ///
    /// # Errors
    /// Returns an error if a cluster with this name exists, its configuration is invalid, or the manager is stopping.
    pub fn add_cluster(
        &self,
        name: &str,
        cluster: impl Into<Connect>,
        options: CacheOptions,
    ) -> Result<Cluster, ManagerError> {
        options.check()?;
        if !self.inner.clusters.lock().insert(name.to_owned()) {
            return Err(ManagerError::DuplicateCluster(name.to_owned()));
        }
        let operator = &self.inner.options.name;
        let instance = options::instance(operator);
        let connection = Connection::of(
            cluster.into(),
            &self.inner.options,
            &self.inner.metrics,
            Some(name),
        )?;
        let requests = connection.requests.clone();
        let kube = connection.client(None);
        let of_leader = match &self.inner.leadership {
            Some(leadership) => connection.client(Some(leadership.clone())),
            None => kube.clone(),
        };
        let (recorder, sender) = event_recorder::recorder(kube.clone(), operator, &instance);
        let metrics = (self.inner.metrics.cache().of_cluster(name), requests);
        let cache = Cache::new(kube.clone(), operator, options, metrics, recorder.clone());
        let running = cluster::Running {
            cache: cache.clone(),
            recorder: sender,
        };
        self.add_member(Member::Cluster(Box::new(running)))?;
        Ok(Cluster {
            name: name.into(),
            client: Client::new(of_leader, cache, self.inner.metrics.client()),
            of_every_instance: kube,
            recorder,
        })
    }

    /// Adds a controller. It runs while the manager runs, and only on the leader unless
    /// [`ControllerOptions::needs_leader_election`] is `false`.
    ///
    /// # Errors
    /// Returns an error if the controller has no sources, another controller has its name, or the manager is stopping.
    pub fn add_controller<K>(&self, controller: Controller<K>) -> Result<ControllerHandle, ControllerError> {
        let (host, needs) = (self.host(controller.primary()), controller.needs());
        let (worker, handle) = controller.build(host)?;
        let name = handle.name().to_owned();
        let is_new = self.inner.names.lock().insert(name.clone());
        if !is_new && !worker.shared.options.skip_name_validation {
            return Err(ControllerError::DuplicateName(name));
        }
        let added = self.add_member(Member::Controller(worker));
        added.map_err(|_| ControllerError::ManagerStopping(name))?;
        let mut all = self.inner.needs.lock();
        all.0.extend(needs.0);
        all.1.extend(needs.1);
        Ok(handle)
    }

    /// Returns the parts of the manager that a controller of this kind uses.
    fn host(&self, kind: Option<&Kind>) -> Host {
        let options = &self.inner.options;
        let count = kind.and_then(|kind| options.group_kind_concurrency.get(&kind.to_string()));
        let of_kind = ControllerOptions {
            max_concurrent_reconciles: count.copied(),
            ..ControllerOptions::default()
        };
        Host {
            clients: [self.inner.client.clone(), self.client_for_every_instance()],
            options: of_kind.or(&options.controllers),
            metrics: self.inner.metrics.clone(),
            reconciles: self.inner.reconciles.clone(),
            recorder: self.inner.recorder.clone(),
        }
    }

    /// Waits until this instance is the leader. Without leader election, every instance is the leader while the manager
    /// runs.
    pub async fn elected(&self) {
        let mut elected = self.inner.elected.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = elected.wait_for(|elected| *elected).await;
    }

    /// Runs until SIGINT or SIGTERM, or until a part fails, and then stops in order. A second signal ends the process
    /// immediately with exit code 1. Other handles stay usable, but the manager cannot run again.
    ///
    /// A reconcile or a runnable that blocks its thread cannot be aborted. If one remains when this returns, the
    /// process ends after one second with exit code 1.
    ///
    /// # Errors
    /// Returns the first error of a runnable or of a controller that could not start, the loss of leadership,
    /// [`ManagerError::GracePeriod`] if a part did not stop in time, or [`ManagerError::AlreadyStarted`].
    pub async fn run(self) -> Result<()> {
        let inner = self.inner.clone();
        let mut signals = signals::Listener::start();
        let ended = self.run_until(signals.shutdown()).await;
        if inner.is_blocked.load(Ordering::Relaxed) {
            signals::end_soon();
        }
        ended
    }

    /// Runs until `shutdown` completes or a part fails. It does not listen to signals. Use it in tests, and in programs
    /// in which the manager is one of several parts.
    ///
    /// # Errors
    /// As for [`Manager::run`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let (setup, added) = self.inner.phase.lock().begin()?;
        lifecycle::run(&self.inner, setup, added, shutdown).await
    }

    /// Returns the kinds that the controllers use, and their additional rules.
    pub(crate) fn needs(&self) -> (Vec<Use>, Vec<PolicyRule>) {
        self.inner.needs.lock().clone()
    }
}

// === impl Phase ===

impl Phase {
    /// Returns the parts that can be added only before the manager runs.
    fn setup(&mut self) -> Result<&mut Setup, ManagerError> {
        match self {
            Self::Setup(setup) => Ok(setup),
            Self::Running(_) | Self::Stopping => Err(ManagerError::AlreadyStarted),
        }
    }

    /// Starts the running phase. Returns the parts that were added, and the receiver of later ones.
    fn begin(&mut self) -> Result<(Setup, mpsc::UnboundedReceiver<Member>), ManagerError> {
        let (members, added) = mpsc::unbounded_channel();
        match std::mem::replace(self, Self::Stopping) {
            Self::Setup(setup) => {
                *self = Self::Running(members);
                Ok((*setup, added))
            }
            begun => {
                *self = begun;
                Err(ManagerError::AlreadyStarted)
            }
        }
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
