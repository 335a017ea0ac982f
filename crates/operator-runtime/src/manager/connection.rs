//! The connection of a manager to an API server. Requests are counted, carry the name of the operator and have a time
//! limit, whether the manager made the client or was given one. Warnings in the answers are logged.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;
use tower::retry::RetryLayer;
use tower::util::{MapResponseLayer, option_layer};
use tower::{BoxError, Service};

use self::proxy::{Environment, Proxy};
use self::silence::SilenceLayer;
use self::token_file::TokenFileLayer;
use self::transport::Transport;
use super::builder::Options;
use super::{ManagerError, user_agent};
use crate::client::leadership::LeaderLayer;
use crate::client::warnings::Warnings;
use crate::election::Leadership;
use crate::metrics::{Metrics, RestClientLayer};

mod proxy;
mod silence;
mod token_file;
mod transport;

/// Default limit to silence. It is longer than the minute after which an API server gives up a request or sends a watch a
/// bookmark.
pub(super) const SILENCE: Duration = Duration::from_secs(75);

/// A connection to an API server, from which clients are made. They share the sockets and differ in whether they need
/// leadership to write.
pub(super) struct Connection {
    base: Base,
    namespace: String,
    token: Option<TokenFileLayer>,
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
    Own(Transport),
    /// A client of the author, which repeats requests by its own rules, and the `User-Agent` for it.
    Given(kube::Client, (HeaderName, HeaderValue)),
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
    pub(super) async fn new(options: &Options, metrics: &Metrics) -> Result<Self, ManagerError> {
        let (config, proxy) = configuration(options.kubeconfig.as_deref()).await?;
        let proxy = match proxy {
            Some(address) => Some(Proxy::new("proxy-url", &address, &config.cluster_url)?),
            None => Environment::read().proxy(&config.cluster_url)?,
        };
        let requests = metrics.rest_client_layer(host(&config));
        Self::own(config, proxy, options, requests)
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
    ) -> Result<Self, ManagerError> {
        let config = match connect.0 {
            Way::Client(client) => {
                let requests = metrics.rest_client_layer(host_label.unwrap_or_default());
                return Ok(Self::adopt(client, options, requests));
            }
            Way::Config(config) => *config,
        };
        let environment = Environment::read();
        let set = config.proxy_url.as_ref().map(ToString::to_string);
        let proxy = match set.filter(|address| !environment.has(address)) {
            Some(address) => Some(Proxy::new("proxy_url", &address, &config.cluster_url)?),
            None => environment.proxy(&config.cluster_url)?,
        };
        let requests = metrics.rest_client_layer(host_label.unwrap_or_else(|| host(&config)));
        Self::own(config, proxy, options, requests)
    }

    fn own(
        mut config: kube::Config,
        proxy: Option<Proxy>,
        options: &Options,
        requests: RestClientLayer,
    ) -> Result<Self, ManagerError> {
        config.headers.push(user_agent::header(&options.name));
        let token = TokenFileLayer::take(&mut config.auth_info)?;
        let transport = transport::transport(&config, proxy).map_err(ManagerError::Connect)?;
        Ok(Self {
            base: Base::Own(transport),
            namespace: config.default_namespace,
            token,
            silence: options.silence_timeout,
            warnings: Arc::default(),
            requests,
            retries: config.default_retry,
        })
    }

    /// Sends everything through a client of the author, with the name of the operator.
    pub(super) fn adopt(client: kube::Client, options: &Options, requests: RestClientLayer) -> Self {
        Self {
            namespace: client.default_namespace().to_owned(),
            base: Base::Given(client, user_agent::header(&options.name)),
            token: None,
            silence: options.silence_timeout,
            warnings: Arc::default(),
            requests,
            retries: false,
        }
    }

    /// A client. With a leadership, it writes only while this instance is the leader.
    pub(super) fn client(&self, leadership: Option<watch::Receiver<Leadership>>) -> kube::Client {
        match &self.base {
            Base::Own(transport) => self.over(transport.clone(), leadership),
            Base::Given(client, (key, value)) => {
                let (client, key, value) = (client.clone(), key.clone(), value.clone());
                let send = tower::service_fn(move |mut request: Request<Body>| {
                    let headers = request.headers_mut();
                    headers.entry(key.clone()).or_insert_with(|| value.clone());
                    let client = client.clone();
                    async move { client.send(request).await.map_err(BoxError::from) }
                });
                self.over(send, leadership)
            }
        }
    }

    fn over<S, B>(&self, service: S, leadership: Option<watch::Receiver<Leadership>>) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = bytes::Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let client = ClientBuilder::new(service, self.namespace.clone())
            .with_layer(&option_layer(leadership.map(LeaderLayer::new)))
            .with_layer(&SilenceLayer::new(self.silence))
            .with_layer(&option_layer(self.token.clone()))
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

/// The API server, for metrics.
fn host(config: &kube::Config) -> &str {
    let authority = config.cluster_url.authority();
    authority.map_or("", |authority| authority.as_str())
}

/// Logs the warnings of answers, each once.
fn logged<B>(warnings: Arc<Warnings>) -> MapResponseLayer<impl FnMut(Response<B>) -> Response<B> + Clone> {
    MapResponseLayer::new(move |answer: Response<B>| {
        warnings.log(answer.headers());
        answer
    })
}

/// The configuration, and the `proxy-url` of its kubeconfig.
async fn configuration(path: Option<&Path>) -> Result<(kube::Config, Option<String>), ManagerError> {
    if let Some(path) = path {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|source| unusable(path, source))?;
        let proxy = proxy::of_kubeconfig(&kubeconfig);
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        return Ok((config.map_err(|source| unusable(path, source))?, proxy));
    }
    let config = kube::Config::infer().await;
    let config = config.map_err(|error| ManagerError::Connect(kube::Error::InferConfig(error)))?;
    // kube takes it from the environment, too, but never in a pod.
    let has_proxy = config.proxy_url.is_some();
    let kubeconfig = has_proxy.then(|| Kubeconfig::read().ok()).flatten();
    Ok((config, kubeconfig.as_ref().and_then(proxy::of_kubeconfig)))
}

fn unusable(path: &Path, source: kube::config::KubeconfigError) -> ManagerError {
    ManagerError::Kubeconfig {
        path: path.to_owned(),
        source,
    }
}
