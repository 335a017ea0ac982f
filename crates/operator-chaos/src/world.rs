//! The simulated cluster of one run: an API server, controllers and nodes on one thread with simulated time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use operator_apiserver::client::{Client, DeleteOptions, Gvr, Patch, ServedResource};
use operator_apiserver::clock::Clock;
use operator_apiserver::{ApiServer, Snapshot};
use operator_controlplane::{Checkpoint, Clock as ControllerClock, ControlPlane, Delays, Holds, Options};
use serde_json::Value;
use tokio::time::Instant;

use crate::clock::{Scope, SimulatedClock};
use crate::workload::{Change, Wait};

/// The seed of the cluster in which all runs begin. It differs from the seeds of plans, so that a UID is never
/// generated twice.
const BOOT_SEED: u64 = 0xb007_5eed;
/// The simulated time between the start of that cluster and the start of a run.
const BOOT_TIME: Duration = Duration::from_secs(10);
/// The interval at which an object is read while a user waits for its state.
const WAIT_POLL: Duration = Duration::from_millis(200);

/// The simulated cluster.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) holds: Holds,
    /// The seconds by which the clock was set.
    clock_offset: Arc<AtomicI64>,
    control_plane: ControlPlane,
    _clock: Scope,
    /// The served resources, as far as they were needed.
    resources: Mutex<Arc<Vec<ServedResource>>>,
}

/// The state of a cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct FrozenWorld {
    snapshot: Snapshot,
    controllers: Checkpoint,
    resources: Arc<Vec<ServedResource>>,
}

/// Options of the simulated cluster.
#[derive(Clone, Debug)]
pub(crate) struct WorldOptions {
    pub(crate) nodes: usize,
    pub(crate) delays: Delays,
    /// The simulated time at the start. `None` means the time of the machine.
    pub(crate) starts_at: Option<SystemTime>,
}

/// An error of making a change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("no resource is served for apiVersion {api_version}, kind {kind}")]
    UnknownKind { api_version: String, kind: String },
    #[error("{0}")]
    Goal(String),
    #[error("the state is not reached within {0} s")]
    NotReached(u64),
    #[error("{0}")]
    Refused(#[from] operator_apiserver::status::Status),
}

/// Returns the time at which runs begin, in whole seconds, because rounded times in objects must not depend on the
/// start of a run.
fn start_time(options: &WorldOptions) -> SystemTime {
    let now = options
        .starts_at
        .unwrap_or_else(SystemTime::now)
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs())
}

// === impl World ===

impl World {
    /// Starts a cluster with CustomResourceDefinitions and other objects, and waits until its controllers are idle. Each run
    /// begins in this state.
    pub(crate) async fn boot(
        options: &WorldOptions,
        objects: &[Value],
        settle: Duration,
    ) -> Result<Self, crate::error::Error> {
        let world = Self::begin(BOOT_SEED, options, None, start_time(options) - BOOT_TIME)?;
        for object in objects {
            world.install(object).await?;
        }
        // Time advances only when the controllers are idle.
        tokio::time::sleep(settle).await;
        Ok(world)
    }

    /// Starts a cluster in the state of another one, some time after the start of its run. The objects are shared. Must be
    /// called within a runtime.
    pub(crate) async fn start(
        seed: u64,
        options: &WorldOptions,
        frozen: &FrozenWorld,
        elapsed: Duration,
        settle: Duration,
    ) -> Result<Self, crate::error::Error> {
        let world = Self::begin(seed, options, Some(frozen), start_time(options) + elapsed)?;
        tokio::time::sleep(settle).await;
        Ok(world)
    }

    /// Returns the current state, in which other worlds can start.
    pub(crate) fn freeze(&self) -> FrozenWorld {
        FrozenWorld {
            snapshot: self.server.snapshot(),
            controllers: self.control_plane.checkpoint(),
            resources: Arc::new(self.client().resources()),
        }
    }

    fn begin(
        seed: u64,
        options: &WorldOptions,
        frozen: Option<&FrozenWorld>,
        base: SystemTime,
    ) -> Result<Self, crate::error::Error> {
        let started = Instant::now();
        let clock_offset = Arc::<AtomicI64>::default();
        let clock = || SimulatedClock {
            base,
            started,
            offset: clock_offset.clone(),
        };
        let mut builder = ApiServer::builder().seed(seed).event_ttl(Duration::ZERO);
        if let Some(frozen) = frozen {
            builder = builder.snapshot(&frozen.snapshot);
        }
        let server = builder
            .clock(clock())
            .build()
            .map_err(|error| crate::error::Error::Server(error.to_string()))?;
        let controllers = clock();
        let controllers = ControllerClock::new(move || {
            jiff::Timestamp::try_from(controllers.now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        });
        let holds = Holds::default();
        let control_plane = ControlPlane::start(
            &server.client(),
            Options {
                nodes: options.nodes,
                delays: options.delays,
                holds: holds.clone(),
                clock: controllers,
                resume: frozen.map(|frozen| frozen.controllers.clone()),
                ..Options::default()
            },
        );
        let scope = Scope::enter(clock());
        Ok(Self {
            server,
            holds,
            clock_offset,
            control_plane,
            _clock: scope,
            resources: Mutex::new(frozen.map(|frozen| frozen.resources.clone()).unwrap_or_default()),
        })
    }

    fn client(&self) -> Client {
        self.server.client().with_manager("user")
    }

    /// Sets the clock of the API server and of the controllers.
    pub(crate) fn set_clock(&self, seconds: i32) {
        self.clock_offset.fetch_add(seconds.into(), Ordering::Relaxed);
    }

    /// Creates an object that must exist before the operator starts.
    async fn install(&self, object: &Value) -> Result<(), crate::error::Error> {
        let applied = self.change(&Change::Apply(object.clone())).await;
        applied.map_err(|error| crate::error::Error::Object {
            object: object
                .pointer("/metadata/name")
                .map(Value::to_string)
                .unwrap_or_default(),
            problem: error.to_string(),
        })
    }

    /// Returns the resource of an object and its namespace.
    fn resource_of(&self, object: &Value) -> Result<(Gvr, String), ChangeError> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_it = |resource: &&ServedResource| resource.gvr.group == group && resource.kind == kind;
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = resources.iter().find(is_it).cloned();
        if found.is_none() {
            *resources = Arc::new(self.client().resources());
            found = resources.iter().find(is_it).cloned();
        }
        let found = found.ok_or_else(|| ChangeError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })?;
        let namespace = match (found.namespaced, text("/metadata/namespace")) {
            (false, _) => "",
            (true, "") => "default",
            (true, namespace) => namespace,
        };
        Ok((
            Gvr::new(group, version, &found.gvr.resource),
            namespace.to_owned(),
        ))
    }

    /// Returns the current state of an object.
    pub(crate) async fn object(&self, object: &Value) -> Option<Arc<Value>> {
        let (gvr, namespace) = self.resource_of(object).ok()?;
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let found = self
            .client()
            .get(&gvr, &namespace, name.unwrap_or_default())
            .await;
        found.ok()
    }

    /// Waits until an object has a state.
    async fn wait(&self, wait: &Wait) -> Result<(), ChangeError> {
        let goal = wait.goal().map_err(ChangeError::Goal)?;
        let end = Instant::now() + Duration::from_secs(wait.limit);
        loop {
            let object = self.object(&wait.object).await;
            if goal.is_reached(object.as_deref()) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(ChangeError::NotReached(wait.limit));
            }
            tokio::time::sleep(WAIT_POLL.min(end - Instant::now())).await;
        }
    }

    /// Returns true if the server accepts an object that a user applies. Sends a dry run, so that nothing changes.
    pub(crate) async fn accepts(&self, object: &Value) -> bool {
        let Ok((gvr, namespace)) = self.resource_of(object) else {
            return false;
        };
        let prefix = match gvr.group.as_str() {
            "" => format!("/api/{}", gvr.version),
            group => format!("/apis/{group}/{}", gvr.version),
        };
        let namespace = match namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let request = http::Request::post(format!(
            "{prefix}{namespace}/{}?dryRun=All&fieldValidation=Strict",
            gvr.resource
        ));
        let body = http_body_util::Full::<bytes::Bytes>::from(object.to_string());
        let Ok(request) = request
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
        else {
            return false;
        };
        let answer = tower::Service::call(&mut self.server.clone(), request).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Makes a change of the user.
    pub(crate) async fn change(&self, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Sleep(seconds) => tokio::time::sleep(Duration::from_secs(*seconds)).await,
            Change::Wait(wait) => return self.wait(wait).await,
            _ => {}
        }
        let Some(object) = change.object() else {
            return Ok(());
        };
        let (gvr, namespace) = self.resource_of(object)?;
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let client = self.client();
        match change {
            Change::Delete(_) => {
                let options = DeleteOptions::default();
                client.delete(&gvr, &namespace, name, options).await?;
            }
            Change::Apply(config) => {
                let patch = Patch::Apply {
                    config: config.clone(),
                    manager: "user".to_owned(),
                    force: true,
                };
                client.patch(&gvr, &namespace, name, None, patch).await?;
            }
            change => {
                let patch = Patch::Merge(change.merge_patch().unwrap_or_default());
                client.patch(&gvr, &namespace, name, None, patch).await?;
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.shutdown();
    }
}

/// The type of the operator under test.
pub(crate) type OperatorFn =
    dyn Fn(kube::Client) -> futures::future::LocalBoxFuture<'static, Result<(), String>> + Send + Sync;

/// The operator under test.
pub(crate) type Operator = Arc<OperatorFn>;
