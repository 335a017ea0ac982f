//! HTTPS on a socket: HTTP/1.1 and HTTP/2 over TLS ([`Listener`]).

mod activity;
mod connection;
mod kubeconfig;
mod tls;
mod write_timeout;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::gvk::Gvr;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Shared;
use self::tls::Certificates;
use crate::client::Client;
use crate::error::Error;
use crate::http::deadline;
use crate::http::handler::Handler;
use crate::identity::authn::{FrontProxy, User};
use crate::identity::signing::CertificateSigner;

/// The time limit for requests in flight after the listener begins to shut down.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The address and the options of a listener.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The address; port 0 selects a free one. Default: `127.0.0.1:0`.
    pub address: SocketAddr,
    /// Additional host names and addresses for the server's certificate.
    pub host_names: Vec<String>,
    /// The server's certificate. Default: `None`, which creates one that is signed by the listener's own authority.
    pub identity: Option<ServerIdentity>,
    /// The time limits for clients.
    pub timeouts: Timeouts,
}

/// An existing certificate, as PEM.
#[derive(Clone)]
pub struct ServerIdentity {
    /// The server's certificate and its chain.
    pub certificate: Vec<u8>,
    /// The key of the certificate: PKCS#8, PKCS#1 or SEC1.
    pub key: Vec<u8>,
    /// The authorities of client certificates, in addition to the listener's own. The common name of a client is its
    /// user name; its organizations are its groups.
    pub client_authorities: Option<Vec<u8>>,
}

impl ServerIdentity {
    /// Creates a certificate for the usual names of an API server and for additional names and addresses. It is signed
    /// by its own authority, whose certificate follows it.
    ///
    /// # Errors
    /// Returns an error if a name is not allowed in a certificate.
    pub fn self_signed(names: &[String]) -> Result<Self, Error> {
        tls::self_signed(names)
    }
}

impl std::fmt::Debug for ServerIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServerIdentity").finish_non_exhaustive()
    }
}

/// Time limits for clients; a connection that exceeds one is closed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timeouts {
    /// For the TLS handshake. Default: 10 seconds.
    pub handshake: Duration,
    /// For the head of a request over HTTP/1.1, from its first byte or the start of the connection. Default: 32
    /// seconds, as in kube-apiserver.
    pub header: Duration,
    /// For a request, from its head to its response; the response is then 504. Default: 60 seconds. Clients can set a
    /// shorter `timeout`. Writes have at most 34 seconds. Watches have no limit.
    pub request: Duration,
    /// For the client to read a part of the response. Default: 60 seconds.
    pub write: Duration,
    /// For a connection without a request in flight. Default: 90 seconds.
    pub idle: Duration,
    /// For the response to an HTTP/2 ping, and between pings. Default: 30 seconds.
    pub ping: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(32),
            request: deadline::REQUEST_MAX,
            write: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            ping: Duration::from_secs(30),
        }
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            host_names: Vec::new(),
            identity: None,
            timeouts: Timeouts::default(),
        }
    }
}

impl ListenOptions {
    /// Returns options for a listener on an address, with the defaults.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            ..Self::default()
        }
    }
}

/// The client of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    pub(crate) user: User,
    /// True if the client has an untrusted certificate, and so needs a token.
    pub(crate) is_untrusted: bool,
    /// The expiry of the client's certificate, if it has one.
    pub(crate) expiry: Option<Timestamp>,
    /// The common name of its certificate, if an authority of front proxies signed it.
    pub(crate) proxy: Option<String>,
    /// The time limit of a request.
    pub(crate) request_timeout: Duration,
}

/// A socket on which a server listens. Dropping it stops it at once; [`shutdown`](Self::shutdown) drains it.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    kubeconfig: String,
    authority: Box<str>,
    signer: CertificateSigner,
    drain: CancellationToken,
    tasks: TaskTracker,
}

/// Starts listening.
pub(crate) async fn listen(handler: Arc<Handler>, options: ListenOptions) -> Result<Listener, Error> {
    let bind = |source| Error::Bind {
        address: options.address,
        source,
    };
    let socket = TcpListener::bind(options.address).await.map_err(bind)?;
    let address = socket.local_addr().map_err(bind)?;
    let mut names = options.host_names.clone();
    names.push(handler.registry.service_network.kubernetes().to_string());
    let certificates = Certificates::make(address.ip(), &names, &handler.keyring)?;
    let (config, clients) =
        certificates.server_config(options.identity.as_ref(), handler.front_proxy.as_ref())?;
    publish_authorities(&handler, &options, &certificates).await;
    let drain = CancellationToken::new();
    let tasks = TaskTracker::new();
    let shared = Shared {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        clients,
        handler,
        timeouts: options.timeouts,
        drain: drain.clone(),
    };
    tasks.spawn(accept(socket, shared, tasks.clone()));
    let given = options.identity.as_ref().map(|given| given.certificate.clone());
    let authority = given.map(|pem| String::from_utf8_lossy(&pem).into_owned());
    Ok(Listener {
        address,
        authority: authority.unwrap_or_else(|| certificates.authority.clone()).into(),
        kubeconfig: kubeconfig::render(address, &certificates, options.identity.as_ref()),
        signer: certificates.signer.clone(),
        drain,
        tasks,
    })
}

impl Listener {
    /// Returns the address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        // One of the tasks accepts connections.
        self.tasks.len().saturating_sub(1)
    }

    /// Returns the certificate of the authority that signed the server's certificate, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the signer of client certificates that this listener accepts.
    pub fn certificate_signer(&self) -> CertificateSigner {
        self.signer.clone()
    }

    /// Returns a kubeconfig for the administrator, as YAML, with embedded certificates.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.clone()
    }

    /// Stops accepting connections, ends watches, and waits up to ten seconds for requests in flight.
    pub async fn shutdown(self) {
        self.drain.cancel();
        self.tasks.close();
        if tokio::time::timeout(DRAIN_MAX, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections were still open when the listener ended");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.drain.cancel();
    }
}

/// Publishes the authorities of clients for extension API servers, as kube-apiserver does.
async fn publish_authorities(handler: &Arc<Handler>, options: &ListenOptions, certificates: &Certificates) {
    const NAMESPACE: &str = "kube-system";
    const NAME: &str = "extension-apiserver-authentication";
    let own = certificates.authority.as_bytes();
    let given = options.identity.as_ref();
    let authorities = given.map_or(Some(own), |given| given.client_authorities.as_deref());
    let mut data = handler
        .front_proxy
        .as_ref()
        .map(FrontProxy::config_map)
        .unwrap_or_default();
    if let Some(authorities) = authorities {
        let authorities = String::from_utf8_lossy(authorities);
        data.insert("client-ca-file".to_owned(), authorities.into());
    }
    let maps = Gvr::new("", "v1", "configmaps");
    let client = Client::new(handler.registry.clone()).with_manager("kube-apiserver");
    let published = match client.get(&maps, NAMESPACE, NAME).await {
        Ok(map) if map.get("data").and_then(Value::as_object) == Some(&data) => return,
        Ok(map) => {
            let mut map = Value::clone(&map);
            map["data"] = data.into();
            client.update(&maps, None, map).await
        }
        Err(_) => {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data,
            });
            client.create(&maps, NAMESPACE, map).await
        }
    };
    if let Err(error) = published {
        tracing::warn!(%error, "cannot publish the client authorities");
    }
}

async fn accept(socket: TcpListener, shared: Shared, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = shared.drain.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(connection::serve(stream, shared.clone()));
            }
            Err(error) => {
                // The usual cause is too many open files: a pause lets some of them close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
