//! Discovery requests to extension API servers: they determine the availability of a server and the resources of its
//! group.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, HOST};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Remote, TABLE, set_condition};
use crate::clock::{self, Clock};
use crate::registry::Registry;
use crate::resource::builtin_catalog;
use crate::store::Store;
use crate::webhook_client::extension::{self, ClientIdentity};

/// The time limit of a check.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The period of the checks of an available server, as in kube-apiserver.
const PERIOD: Duration = Duration::from_secs(30);
/// The delay before the first retry of a failed check; it doubles up to the period.
const RETRY: Duration = Duration::from_millis(500);
/// The maximum size of a response.
const ANSWER_MAX: usize = 8 << 20;
/// The user name of the checks.
const USER: &str = "system:kube-aggregator";

/// The result of the last check.
#[derive(Clone, Debug, Default)]
pub(crate) enum Health {
    /// No check has completed yet.
    #[default]
    Unknown,
    Available(Arc<Found>),
    Unavailable,
}

/// The discovery data of a server about its group.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The APIResourceList.
    pub(crate) resources: Value,
    /// The URL of its OpenAPI document in version 3, with the hash.
    pub(crate) openapi: Option<String>,
    /// Its OpenAPI document in version 2.
    pub(crate) openapi_v2: Option<Bytes>,
}

/// The result of a discovery request.
enum Discovered {
    Unchanged,
    Changed(Found),
}

/// A server, its health, and the task that checks it. The task ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) remote: Arc<Remote>,
    health: Arc<watch::Sender<Health>>,
    task: parking_lot::Mutex<Option<DropGuard>>,
}

impl Entry {
    pub(super) fn new(remote: Remote) -> Self {
        Self {
            remote: Arc::new(remote),
            health: Arc::default(),
            task: parking_lot::Mutex::default(),
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Starts the checks, unless they run already. Without a runtime it does nothing: the first request starts them.
    pub(crate) fn start(&self, registry: &Registry) {
        let mut task = self.task.lock();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if task.is_some() || self.remote.endpoint.address.is_none() {
            return;
        }
        let end = CancellationToken::new();
        let checks = Checks {
            remote: self.remote.clone(),
            health: self.health.clone(),
            identity: registry.aggregation.identity.clone(),
            store: Arc::downgrade(&registry.store),
            clock: registry.clock.clone(),
        };
        let stop = registry.stop.clone();
        let ended = end.clone();
        runtime.spawn(async move {
            tokio::select! {
                () = checks.run() => {}
                () = ended.cancelled() => {}
                () = stop.cancelled() => {}
            }
        });
        *task = Some(end.drop_guard());
    }
}

/// The checks of one server.
struct Checks {
    remote: Arc<Remote>,
    health: Arc<watch::Sender<Health>>,
    identity: Option<ClientIdentity>,
    store: Weak<Store>,
    clock: Arc<dyn Clock>,
}

impl Checks {
    async fn run(self) {
        let mut retry = RETRY;
        let mut known: Option<Arc<Found>> = None;
        loop {
            let outcome = tokio::time::timeout(TIMEOUT, self.discover(known.as_deref())).await;
            let outcome = outcome.unwrap_or_else(|_| Err(format!("timed out waiting for {}", self.url())));
            let Some(store) = self.store.upgrade() else { return };
            let wait = match &outcome {
                Ok(_) => PERIOD,
                Err(_) => retry,
            };
            retry = if outcome.is_ok() {
                RETRY
            } else {
                (retry * 2).min(PERIOD)
            };
            let outcome = outcome.map(|found| match found {
                Discovered::Changed(found) => Arc::new(found),
                Discovered::Unchanged => known.clone().unwrap_or_default(),
            });
            known = outcome.as_ref().ok().cloned();
            self.record(&store, outcome);
            drop(store);
            tokio::time::sleep(wait).await;
        }
    }

    fn record(&self, store: &Store, outcome: Result<Arc<Found>, String>) {
        let condition = match &outcome {
            Ok(_) => super::condition(true, "Passed", "all checks passed"),
            Err(why) => {
                let message = format!("failing or missing response from {}: {why}", self.url());
                super::condition(false, "FailedDiscoveryCheck", &message)
            }
        };
        let health = match outcome {
            Ok(found) => Health::Available(found),
            Err(_) => Health::Unavailable,
        };
        self.health.send_replace(health);
        let name = format!("{}.{}", self.remote.version, self.remote.group);
        if let Some(stored) = store.get(TABLE, &name)
            && let Some(definition) = builtin_catalog().find(super::GROUP, "v1", "apiservices")
        {
            let now = clock::rfc3339(self.clock.now());
            set_condition(store, &now, &definition, &stored, condition);
        }
    }

    fn path(&self) -> String {
        format!("/apis/{}/{}", self.remote.group, self.remote.version)
    }

    fn url(&self) -> String {
        let address = self.remote.endpoint.address;
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        format!("https://{address}{}", self.path())
    }

    /// Asks the server for its resources and documents. `known` is the last answer.
    async fn discover(&self, known: Option<&Found>) -> Result<Discovered, String> {
        let path = self.path();
        let (code, body) = self.get(&path).await?;
        if !(200..300).contains(&code) {
            return Err(format!("bad status from {}: {code}", self.url()));
        }
        let resources: Value = serde_json::from_slice(&body).unwrap_or_default();
        let index: Value = match self.get("/openapi/v3").await {
            Ok((200, body)) => serde_json::from_slice(&body).unwrap_or_default(),
            _ => Value::Null,
        };
        let entry = index
            .get("paths")
            .and_then(|paths| paths.get(path.trim_start_matches('/')));
        let openapi = entry.and_then(|entry| entry.get("serverRelativeURL")?.as_str());
        // The URL must be relative to this server, which forwards the request.
        let own = format!("/openapi/v3{path}");
        let openapi = openapi.filter(|url| url.split('?').next() == Some(own.as_str()));
        let is_known =
            known.is_some_and(|known| known.resources == resources && known.openapi.as_deref() == openapi);
        if is_known {
            return Ok(Discovered::Unchanged);
        }
        let openapi_v2 = match self.get("/openapi/v2").await {
            Ok((200, body)) => Some(body),
            _ => None,
        };
        Ok(Discovered::Changed(Found {
            resources,
            openapi: openapi.map(str::to_owned),
            openapi_v2,
        }))
    }

    async fn get(&self, path: &str) -> Result<(u16, Bytes), String> {
        let mut sender = extension::connect(&self.remote.endpoint, self.identity.as_ref()).await?;
        let request = Request::get(path)
            .header(HOST, &self.remote.endpoint.host)
            .header(ACCEPT, "application/json")
            .header("x-remote-user", USER)
            .header("x-remote-group", "system:masters")
            .body(Full::default())
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await;
        let (parts, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((parts.status.as_u16(), body))
    }
}
