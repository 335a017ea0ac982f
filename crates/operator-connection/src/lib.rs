//! Connections to a Kubernetes API server, for [`kube::Client`].
//!
//! kube's own transport cannot probe idle connections, matches `NO_PROXY` against the address of the proxy, and ignores
//! the proxies of the environment in a pod. A [`Connection`] works like client-go: it uses the proxy of the kubeconfig
//! or the environment, detects a dead peer within 45 seconds, and reads a renewed token file again.
//!
//! ```no_run
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! use operator_connection::Connection;
//!
//! // From the kubeconfig of the environment, or the service account of a pod.
//! let connection = Connection::infer(None, "backup-operator/1.0".parse()?).await?;
//! let client = connection.client();
//! println!("{}", client.apiserver_version().await?.git_version);
//! # Ok(()) }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::util::{MapResponseLayer, option_layer};

use crate::proxy::{Environment, Proxy};

mod proxy;
mod silence;
mod token_file;
mod transport;
mod warnings;

pub use crate::silence::{Silence, SilenceBody, SilenceLayer};
pub use crate::token_file::{TokenFile, TokenFileLayer};
pub use crate::transport::Transport;
pub use crate::warnings::Warnings;

/// The default silence timeout. It is longer than the minute after which an API server ends a request or sends a
/// bookmark.
pub const SILENCE: Duration = Duration::from_secs(75);

/// A configured connection to an API server. Its clients share the sockets.
#[derive(Clone, Debug)]
pub struct Connection {
    transport: Transport,
    token: Option<TokenFileLayer>,
    namespace: String,
    host: String,
}

/// An error of creating a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No cluster is configured, or its certificates or credentials are invalid.
    #[error(
        "cannot connect to a cluster: set --kubeconfig or KUBECONFIG, or run in a pod with a service account"
    )]
    Connect(#[source] kube::Error),
    /// The given kubeconfig is invalid.
    #[error("cannot use the kubeconfig {path} (--kubeconfig)")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        #[source]
        source: KubeconfigError,
    },
    /// The token of the service account or of the kubeconfig cannot be read.
    #[error("cannot read the token file {path}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        #[source]
        source: std::io::Error,
    },
    /// The address of the proxy is invalid.
    #[error("cannot use the proxy {address:?} ({setting}): it must be an http, https, socks5 or socks5h URL")]
    Proxy {
        /// The setting of the proxy.
        setting: &'static str,
        /// Its address without credentials.
        address: String,
    },
}

// === impl Connection ===

impl Connection {
    /// Creates a connection from a kubeconfig file or, without one, from `KUBECONFIG`, `~/.kube/config` or the service
    /// account of the pod. Requests carry the `User-Agent`.
    ///
    /// # Errors
    /// Returns an error if no cluster is configured, or if its configuration, credentials or proxy are invalid.
    pub async fn infer(kubeconfig: Option<&Path>, user_agent: HeaderValue) -> Result<Self, ConnectionError> {
        let (config, proxy) = configuration(kubeconfig).await?;
        let proxy = match proxy {
            Some(address) => Some(Proxy::new("proxy-url", &address, &config.cluster_url)?),
            None => Environment::read().proxy(&config.cluster_url)?,
        };
        Self::over(config, proxy, user_agent)
    }

    /// Creates a connection from a configuration. Its `proxy_url` takes precedence over the proxy of the environment.
    /// Its `default_retry` is ignored: requests are not retried.
    ///
    /// # Errors
    /// Returns an error if the configuration, its credentials or its proxy are invalid.
    pub fn new(config: kube::Config, user_agent: HeaderValue) -> Result<Self, ConnectionError> {
        let environment = Environment::read();
        let set = config.proxy_url.as_ref().map(ToString::to_string);
        let proxy = match set.filter(|address| !environment.has(address)) {
            Some(address) => Some(Proxy::new("proxy_url", &address, &config.cluster_url)?),
            None => environment.proxy(&config.cluster_url)?,
        };
        Self::over(config, proxy, user_agent)
    }

    fn over(
        mut config: kube::Config,
        proxy: Option<Proxy>,
        user_agent: HeaderValue,
    ) -> Result<Self, ConnectionError> {
        config.headers.push((header::USER_AGENT, user_agent));
        let token = TokenFileLayer::take(&mut config.auth_info)?;
        let authority = config.cluster_url.authority();
        Ok(Self {
            transport: transport::transport(&config, proxy).map_err(ConnectionError::Connect)?,
            token,
            host: authority.map_or_else(String::new, ToString::to_string),
            namespace: config.default_namespace,
        })
    }

    /// Returns a client that fails after [`SILENCE`] and does not retry requests.
    pub fn client(&self) -> kube::Client {
        ClientBuilder::new(self.transport.clone(), self.namespace.clone())
            .with_layer(&SilenceLayer::new(Some(SILENCE)))
            .with_layer(&option_layer(self.token.clone()))
            .build()
    }

    /// Returns a client like [`client`](Self::client), which calls a function with each new warning of the server.
    pub fn client_with_warnings(&self, report: impl Fn(&str) + Send + Sync + 'static) -> kube::Client {
        let (warnings, report) = (Arc::new(Warnings::default()), Arc::new(report));
        let inspect = move |response: Response<_>| {
            for warning in warnings.unseen(response.headers()) {
                report(&warning);
            }
            response
        };
        ClientBuilder::new(self.transport.clone(), self.namespace.clone())
            .with_layer(&MapResponseLayer::new(inspect))
            .with_layer(&SilenceLayer::new(Some(SILENCE)))
            .with_layer(&option_layer(self.token.clone()))
            .build()
    }

    /// Returns the service that sends requests to the server. For token files, wrap it in the layer of
    /// [`token`](Self::token).
    pub fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Returns the layer that sends the token of a file, if the configuration authenticates with one.
    pub fn token(&self) -> Option<TokenFileLayer> {
        self.token.clone()
    }

    /// Returns the namespace of the configuration.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the host and the port of the server.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Returns the configuration, and the `proxy-url` of its kubeconfig.
async fn configuration(path: Option<&Path>) -> Result<(kube::Config, Option<String>), ConnectionError> {
    if let Some(path) = path {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|source| unusable(path, source))?;
        let proxy = proxy::of_kubeconfig(&kubeconfig);
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        return Ok((config.map_err(|source| unusable(path, source))?, proxy));
    }
    let merged = kubeconfig();
    if let Ok(kubeconfig) = &merged
        && listed().iter().any(|path| !path.exists())
    {
        // kube rejects a list with a missing file.
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
        if let Ok(config) = config {
            return Ok((config, proxy::of_kubeconfig(kubeconfig)));
        }
    }
    let config = kube::Config::infer().await;
    let config = config.map_err(|error| ConnectionError::Connect(kube::Error::InferConfig(error)))?;
    // kube also reads the proxy from the environment, but not in a pod.
    let has_proxy = config.proxy_url.is_some();
    let kubeconfig = merged.ok().filter(|_| has_proxy);
    Ok((config, kubeconfig.as_ref().and_then(proxy::of_kubeconfig)))
}

/// Reads the kubeconfigs of `KUBECONFIG`, or the file in the home directory.
///
/// As in kubectl, missing files of a list are ignored, and the first of several values is used.
///
/// # Errors
/// Returns an error if no file exists, or if one of them is invalid.
pub fn kubeconfig() -> Result<Kubeconfig, KubeconfigError> {
    let existing: Vec<PathBuf> = listed().into_iter().filter(|path| path.exists()).collect();
    let Some((first, rest)) = existing.split_first() else {
        return Kubeconfig::read();
    };
    let mut merged = Kubeconfig::read_from(first)?;
    for path in rest {
        merged = merged.merge(Kubeconfig::read_from(path)?)?;
    }
    Ok(merged)
}

/// Returns the files of `KUBECONFIG`.
fn listed() -> Vec<PathBuf> {
    let value = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
    listed.collect()
}

fn unusable(path: &Path, source: KubeconfigError) -> ConnectionError {
    ConnectionError::Kubeconfig {
        path: path.to_owned(),
        source,
    }
}

/// Returns true if the response to a request is a stream of watch events.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair == "watch=true")
}
