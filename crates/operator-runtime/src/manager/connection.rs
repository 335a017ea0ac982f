//! The connection of a manager to an API server, which [`Connect`] selects. Requests are counted, have a timeout and carry
//! the name of the operator. Warnings in responses are logged.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kube::client::{Body, ClientBuilder};
use operator_connection::{ConnectionError, SilenceLayer, TokenFileLayer, Warnings};
use tokio::sync::watch;
use tower::retry::RetryLayer;
use tower::util::{MapResponseLayer, option_layer};
use tower::{BoxError, Service};

use super::options::Options;
use super::user_agent;
use crate::client::leadership::LeaderLayer;
use crate::election::Leadership;
use crate::metrics::{Metrics, RestClientLayer};

/// A connection to an API server. Its clients share the sockets; their writes may or may not require leadership.
pub(super) struct Connection {
    base: Base,
    silence: Option<Duration>,
    warnings: Arc<Warnings>,
    pub(super) requests: RestClientLayer,
    retries: bool,
}

/// The access to a cluster: a [`kube::Config`] or a [`kube::Client`].
///
/// With a configuration, the operator creates its own connections. They detect dead peers, use proxies, and retry
/// requests only if that is safe. With a client, requests are retried by the rules of that client. kube's clients retry
/// every request after 429, 503 and 504, even a POST that may have been processed, unless `Config::default_retry` is
/// `false`.
pub struct Connect(Way);

enum Way {
    Config(Box<kube::Config>),
    Client(kube::Client),
}

/// The service that sends the requests.
enum Base {
    Own(operator_connection::Connection),
    /// A given client, which retries requests by its own rules, and its `User-Agent`.
    Given(kube::Client, HeaderValue),
}

// === impl Connect ===

impl From<kube::Config> for Connect {
    fn from(config: kube::Config) -> Self {
        Self(Way::Config(Box::new(config)))
    }
}

impl From<kube::Client> for Connect {
    fn from(client: kube::Client) -> Self {
        Self(Way::Client(client))
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Way::Config(_) => "kube::Config",
            Way::Client(_) => "kube::Client",
        })
    }
}

// === impl Connection ===

impl Connection {
    /// Creates connections with the kubeconfig or the service account.
    ///
    /// # Errors
    /// Returns an error if the configuration or its proxy is invalid.
    pub(super) async fn new(options: &Options, metrics: &Metrics) -> Result<Self, ConnectionError> {
        let name = user_agent::header(&options.name);
        let own = operator_connection::Connection::infer(options.kubeconfig.as_deref(), name).await?;
        let requests = metrics.rest_client_layer(own.host());
        Ok(Self::over(Base::Own(own), true, options, requests))
    }

    /// Creates connections to a given cluster. Without a `host`, metrics have the host of the cluster.
    ///
    /// # Errors
    /// Returns an error if the configuration or its proxy is invalid.
    pub(super) fn of(
        connect: Connect,
        options: &Options,
        metrics: &Metrics,
        host_label: Option<&str>,
    ) -> Result<Self, ConnectionError> {
        let config = match connect.0 {
            Way::Client(client) => {
                let requests = metrics.rest_client_layer(host_label.unwrap_or_default());
                return Ok(Self::adopt(client, options, requests));
            }
            Way::Config(config) => *config,
        };
        let retries = config.default_retry;
        let own = operator_connection::Connection::new(config, user_agent::header(&options.name))?;
        let requests = metrics.rest_client_layer(host_label.unwrap_or_else(|| own.host()));
        Ok(Self::over(Base::Own(own), retries, options, requests))
    }

    /// Returns a connection that uses a given client, with the name of the operator.
    pub(super) fn adopt(client: kube::Client, options: &Options, requests: RestClientLayer) -> Self {
        let base = Base::Given(client, user_agent::header(&options.name));
        Self::over(base, false, options, requests)
    }

    fn over(base: Base, retries: bool, options: &Options, requests: RestClientLayer) -> Self {
        Self {
            base,
            silence: options.silence_timeout,
            warnings: Arc::default(),
            requests,
            retries,
        }
    }

    /// Returns a client. If `leadership` is set, the client writes only while this instance is the leader.
    pub(super) fn client(&self, leadership: Option<watch::Receiver<Leadership>>) -> kube::Client {
        match &self.base {
            Base::Own(own) => self.layered(own.transport(), own.namespace(), own.token(), leadership),
            Base::Given(client, name) => {
                let (client, name) = (client.clone(), name.clone());
                let namespace = client.default_namespace().to_owned();
                let send = tower::service_fn(move |mut request: Request<Body>| {
                    let headers = request.headers_mut();
                    headers.entry(header::USER_AGENT).or_insert_with(|| name.clone());
                    let client = client.clone();
                    async move { client.send(request).await.map_err(BoxError::from) }
                });
                self.layered(send, &namespace, None, leadership)
            }
        }
    }

    fn layered<S, B>(
        &self,
        service: S,
        namespace: &str,
        token: Option<TokenFileLayer>,
        leadership: Option<watch::Receiver<Leadership>>,
    ) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = bytes::Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let client = ClientBuilder::new(service, namespace)
            .with_layer(&option_layer(leadership.map(LeaderLayer::new)))
            .with_layer(&SilenceLayer::new(self.silence))
            .with_layer(&option_layer(token))
            .with_layer(&self.requests)
            .with_layer(&logged(self.warnings.clone()));
        match self.retries {
            true => client
                .with_layer(&RetryLayer::new(self.requests.retries()))
                .build(),
            false => client.build(),
        }
    }
}

/// Returns a layer that logs the warnings of responses, each once.
fn logged<B>(warnings: Arc<Warnings>) -> MapResponseLayer<impl FnMut(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |answer: Response<B>| {
        for warning in warnings.unseen(answer.headers()) {
            tracing::warn!(%warning, "API server warning");
        }
        answer
    })
}
