//! HTTPS on a socket: HTTP/1.1 and HTTP/2 over TLS. Knows no Kubernetes beyond the kubeconfig.

mod kubeconfig;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use self::tls::Certificates;
use crate::authn::User;
use crate::server::{ApiServer, Error};

/// How long a client may take for the TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long requests in flight may take once the listener shuts down.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Where to listen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The address; port 0 takes a free one. The default is `127.0.0.1:0`.
    pub address: SocketAddr,
    /// Further names and addresses for which the server's certificate is good.
    pub host_names: Vec<String>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            host_names: Vec::new(),
        }
    }
}

impl ListenOptions {
    /// Listens on an address.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            ..Self::default()
        }
    }
}

/// The user at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) user: User,
}

/// A socket on which a server answers. Dropping it stops it at once; [`shutdown`](Self::shutdown) drains it.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    kubeconfig: String,
    drain: CancellationToken,
    tasks: TaskTracker,
}

/// Starts to listen.
pub(crate) async fn listen(server: ApiServer, options: ListenOptions) -> Result<Listener, Error> {
    let bind = |source| Error::Bind {
        address: options.address,
        source,
    };
    let socket = TcpListener::bind(options.address).await.map_err(bind)?;
    let address = socket.local_addr().map_err(bind)?;
    let certificates = Certificates::generate(address.ip(), &options.host_names)?;
    let acceptor = TlsAcceptor::from(Arc::new(certificates.server_config()?));
    let drain = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(accept(socket, acceptor, server, drain.clone(), tasks.clone()));
    Ok(Listener {
        address,
        kubeconfig: kubeconfig::render(address, &certificates),
        drain,
        tasks,
    })
}

impl Listener {
    /// The address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig for the administrator, as YAML, with all certificates in it.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.clone()
    }

    /// Takes no more connections, ends watches, and waits up to ten seconds for requests in flight.
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

async fn accept(
    socket: TcpListener,
    acceptor: TlsAcceptor,
    server: ApiServer,
    drain: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = drain.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = serve(stream, acceptor.clone(), server.clone(), drain.clone());
                tasks.spawn(connection);
            }
            Err(error) => {
                // Usually too many open files: a pause lets some of them close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, server: ApiServer, drain: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket refused TCP_NODELAY");
    }
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream));
    let stream = tokio::select! {
        result = handshake => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                return;
            }
            Err(_) => return,
        },
        () = drain.cancelled() => return,
    };
    let user = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| User::from_certificate(chain.first()?))
        .unwrap_or_else(User::anonymous);
    let peer = Peer { user };
    let token = drain.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(token.clone());
        let mut server = server.clone();
        server.call(request)
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(error = %error, "a connection ended with an error");
    }
}
