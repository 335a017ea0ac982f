//! The connection of a manager to an API server. Requests are counted, carry the name of the operator and have a time
//! limit, whether the manager made the client or was given one. Warnings in the answers are logged.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kube::client::{Body, ClientBuilder};
use operator_connection::{ConnectionError, SilenceLayer, TokenFileLayer};
use tokio::sync::watch;
use tower::retry::RetryLayer;
use tower::util::{MapResponseLayer, option_layer};
use tower::{BoxError, Service};

use super::options::Options;
use super::user_agent;
use crate::client::leadership::LeaderLayer;
use crate::client::warnings::Warnings;
use crate::election::Leadership;
use crate::metrics::{Metrics, RestClientLayer};

/// A connection to an API server, from which clients are made. They share the sockets and differ in whether they need
/// leadership to write.
pub(super) struct Connection {
    base: Base,
    silence: Option<Duration>,
    warnings: Arc<Warnings>,
    pub(super) requests: RestClientLayer,
    retries: bool,
}

/// How to reach a cluster: with a [`kube::Config`] or a [`kube::Client`].
///
/// With a configuration the operator makes its own connections. They notice a peer that is gone, use proxies, and repeat
/// requests only where that is safe. A client of your own repeats requests by its own rules: those of kube repeat every
/// request after 429, 503 and 504, also a POST that may have been carried out, unless `Config::default_retry` is `false`.
pub struct Connect(Way);

enum Way {
    Config(Box<kube::Config>),
    Client(kube::Client),
}

/// The service that sends the requests.
enum Base {
    Own(operator_connection::Connection),
    /// A client of the author, which repeats requests by its own rules, and the `User-Agent` for it.
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
    /// Prepares connections with the kubeconfig or the service account.
    ///
    /// # Errors
    /// If the configuration or its proxy cannot be used.
    pub(super) async fn new(options: &Options, metrics: &Metrics) -> Result<Self, ConnectionError> {
        let name = user_agent::header(&options.name);
        let own = operator_connection::Connection::infer(options.kubeconfig.as_deref(), name).await?;
        let requests = metrics.rest_client_layer(own.host());
        Ok(Self::over(Base::Own(own), true, options, requests))
    }

    /// Prepares connections to a cluster that the author names. Without a `host`, metrics have the one of the cluster.
    ///
    /// # Errors
    /// If the configuration or its proxy cannot be used.
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

    /// Sends everything through a client of the author, with the name of the operator.
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

    /// A client. With a leadership, it writes only while this instance is the leader.
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

/// Logs the warnings of answers, each once.
fn logged<B>(warnings: Arc<Warnings>) -> MapResponseLayer<impl FnMut(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |answer: Response<B>| {
        warnings.log(answer.headers());
        answer
    })
}
