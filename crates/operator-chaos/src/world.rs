//! The simulated cluster of one run: an API server, controllers and nodes on one thread with simulated time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr, Patch, ServedResource};
use operator_apiserver::clock::Clock;
use operator_controlplane::{Clock as ControllerClock, ControlPlane, Delays, Options};
use serde_json::Value;
use tokio::time::Instant;

use crate::clock::Scope;
use crate::workload::Change;

/// The simulated cluster.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    _control_plane: ControlPlane,
    _clock: Scope,
    resources: Mutex<Vec<ServedResource>>,
}

/// Options of the simulated cluster.
#[derive(Clone, Debug)]
pub(crate) struct WorldOptions {
    pub(crate) nodes: usize,
    pub(crate) delays: Delays,
    /// The simulated time at the start; `None` is that of the machine.
    pub(crate) starts_at: Option<SystemTime>,
}

/// A change could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("no resource is served for apiVersion {api_version}, kind {kind}")]
    UnknownKind { api_version: String, kind: String },
    #[error("{0}")]
    Refused(#[from] operator_apiserver::status::Status),
}

/// Time of tokio: it starts with the world, and passes when everything waits.
#[derive(Debug)]
struct SimulatedClock {
    base: SystemTime,
    started: Instant,
}

impl Clock for SimulatedClock {
    fn now(&self) -> SystemTime {
        self.base + self.started.elapsed()
    }
}

// === impl World ===

impl World {
    /// Starts a cluster with CustomResourceDefinitions and other objects. Must be called within a paused runtime.
    pub(crate) async fn start(
        seed: u64,
        options: &WorldOptions,
        objects: &[Value],
        settle: Duration,
    ) -> Result<Self, crate::error::Error> {
        // Whole seconds: times that are rounded in objects must not depend on when the run began.
        let now = options
            .starts_at
            .unwrap_or_else(SystemTime::now)
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let base = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        let started = Instant::now();
        let builder = ApiServer::builder().seed(seed).event_ttl(Duration::ZERO);
        let server = builder
            .clock(SimulatedClock { base, started })
            .build()
            .map_err(|error| crate::error::Error::Server(error.to_string()))?;
        let clock = ControllerClock::new(move || {
            jiff::Timestamp::try_from(base + started.elapsed()).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        });
        let control_plane = ControlPlane::start(
            &server.client(),
            Options {
                nodes: options.nodes,
                delays: options.delays,
                clock,
                ..Options::default()
            },
        );
        let world = Self {
            server,
            _control_plane: control_plane,
            _clock: Scope::enter(base, started),
            resources: Mutex::default(),
        };
        for object in objects {
            let applied = world.change(&Change::Apply(object.clone())).await;
            applied.map_err(|error| crate::error::Error::Object {
                object: object
                    .pointer("/metadata/name")
                    .map(Value::to_string)
                    .unwrap_or_default(),
                problem: error.to_string(),
            })?;
        }
        // Time passes only when the controllers have nothing left to do.
        tokio::time::sleep(settle).await;
        Ok(world)
    }

    fn client(&self) -> Client {
        self.server.client().with_manager("user")
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
            *resources = self.client().resources();
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

    /// Returns true if the object of a change exists.
    pub(crate) async fn has_object(&self, change: &Change) -> bool {
        let Some(object) = change.object() else {
            return false;
        };
        let Ok((gvr, namespace)) = self.resource_of(object) else {
            return false;
        };
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let found = self
            .client()
            .get(&gvr, &namespace, name.unwrap_or_default())
            .await;
        found.is_ok()
    }

    /// Carries out a change of the user.
    pub(crate) async fn change(&self, change: &Change) -> Result<(), ChangeError> {
        if let Change::Sleep(seconds) = change {
            tokio::time::sleep(Duration::from_secs(*seconds)).await;
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
