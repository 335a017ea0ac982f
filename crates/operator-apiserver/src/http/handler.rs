//! The request handler of a server: the state of the HTTP layer, around the registry.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::upgrade::OnUpgrade;
use tokio_util::sync::CancellationToken;

use crate::features::FeatureGates;
use crate::http::audit::Audit;
use crate::http::call::{self, Body};
use crate::http::deadline::REQUEST_MAX;
use crate::http::discovery::DocumentCache;
use crate::http::in_flight::InFlight;
use crate::http::listener::Peer;
use crate::http::offload::Offload;
use crate::http::openapi::Descriptions;
use crate::http::pipeline::{self, Incoming};
use crate::http::upgrade::{self, Upgrade};
use crate::identity::authn::{Authenticator, FrontProxy, User};
use crate::identity::keyring::Keyring;
use crate::metrics::Metrics;
use crate::registry::Registry;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Handles the requests of one server.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) registry: Arc<Registry>,
    pub(crate) authenticator: Authenticator,
    /// The headers of front proxies.
    pub(crate) front_proxy: Option<FrontProxy>,
    /// Records requests, if an audit policy is set.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Counts requests and admission.
    pub(crate) metrics: Arc<Metrics>,
    /// Limits requests and the memory of their bodies.
    pub(crate) in_flight: InFlight,
    /// Runs the work of large requests.
    pub(crate) offload: Offload,
    /// The documents of discovery.
    pub(crate) documents: DocumentCache,
    /// The descriptions of built-in types in OpenAPI documents.
    pub(crate) descriptions: Descriptions,
    /// The feature gates.
    pub(crate) gates: FeatureGates,
    /// The storage of keys and certificates.
    pub(crate) keyring: Keyring,
    /// The time at which the server was built.
    pub(crate) started: SystemTime,
    /// The flags that the server was started with, for `/flagz`.
    pub(crate) flags: BTreeMap<String, String>,
    /// The minimum time of a watch without a timeout; zero means no end.
    pub(crate) min_request_timeout: Duration,
}

impl Handler {
    /// Handles one request.
    pub(crate) async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.remove::<Peer>();
        let limit = peer.as_ref().map_or(REQUEST_MAX, |peer| peer.request_timeout);
        let address = peer.as_ref().and_then(|peer| peer.address);
        let is_untrusted = peer.as_ref().is_some_and(|peer| peer.is_untrusted);
        let proxy = peer.as_ref().and_then(|peer| peer.proxy.clone());
        let expiry = peer.as_ref().and_then(|peer| peer.expiry);
        let user = peer.map_or_else(User::admin, |peer| peer.user);
        let drain = parts.extensions.remove::<CancellationToken>().unwrap_or_default();
        let connection = parts.extensions.remove::<OnUpgrade>();
        let is_head = parts.method == Method::HEAD;
        let incoming = Incoming {
            parts,
            body: pin!(self.in_flight.read(body)),
            user,
            address,
            is_untrusted,
            proxy,
            expiry,
            can_upgrade: connection.is_some(),
            drain: drain.clone(),
            limit,
        };
        let mut response = pipeline::handle(&self, incoming).await;
        if let Some(upgrade) = response.extensions_mut().remove::<Upgrade>()
            && let Some(connection) = connection
        {
            return upgrade::start(response, upgrade, connection, drain);
        }
        if is_head {
            return response.map(|_| call::full(Bytes::new()));
        }
        response
    }
}
