//! One connection, from the handshake to its end, with a limit on every wait for the client.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Observed};
use super::tls::ClientTrust;
use super::write_timeout::WriteTimeout;
use super::{Peer, Timeouts};
use crate::http::call::{Body, hold};
use crate::http::handler::Handler;
use crate::identity::authn::{self, User};

/// The time limit for writing the last responses of an idle connection.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The maximum number of concurrent requests of an HTTP/2 client.
const STREAMS_MAX: u32 = 100;
/// The maximum number of headers of an HTTP/1.1 request.
const HEADERS_MAX: usize = 500;
/// The maximum length of the head of an HTTP/2 request.
const HEADER_BYTES_MAX: u32 = 1 << 20;

/// The shared state of the connections of a listener.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) acceptor: TlsAcceptor,
    pub(super) clients: ClientTrust,
    pub(super) handler: Arc<Handler>,
    pub(super) timeouts: Timeouts,
    pub(super) drain: CancellationToken,
}

pub(super) async fn serve(stream: TcpStream, shared: Shared) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let address = stream.peer_addr().ok().map(|address| address.ip());
    let stream = WriteTimeout::new(stream, shared.timeouts.write);
    let handshake = tokio::time::timeout(shared.timeouts.handshake, shared.acceptor.accept(stream));
    let stream = tokio::select! {
        result = handshake => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                return;
            }
            Err(_) => return,
        },
        () = shared.drain.cancelled() => return,
    };
    // The handshake determines the protocol: a client that uses another one is rejected.
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let activity = Activity::new(http2);
    let service = Requests::new(&stream, address, activity.clone(), &shared);
    let stream = TokioIo::new(Observed::new(stream, activity.clone()));
    let result = if http2 {
        let connection = http2_builder(&shared.timeouts).serve_connection(stream, service);
        converse(connection, &activity, &shared).await
    } else {
        let connection = http1_builder().serve_connection(stream, service);
        converse(connection.with_upgrades(), &activity, &shared).await
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection failed");
    }
}

type TlsClient = TlsStream<WriteTimeout<TcpStream>>;
type ClientStream = Observed<TlsClient>;

/// Serves requests until the client disconnects, is idle for too long, or the listener ends.
async fn converse(connection: impl Connection, activity: &Activity, shared: &Shared) -> hyper::Result<()> {
    tokio::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => result,
        () = shared.drain.cancelled() => {
            connection.as_mut().shut_down();
            connection.await
        }
        () = activity.is_idle(&shared.timeouts) => {
            connection.as_mut().shut_down();
            tokio::time::timeout(CLOSE_MAX, connection).await.unwrap_or(Ok(()))
        }
    }
}

/// A connection of either protocol.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Stops accepting requests, and ends after those in flight.
    fn shut_down(self: Pin<&mut Self>);
}

impl Connection for http1::UpgradeableConnection<TokioIo<ClientStream>, Requests> {
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl Connection for http2::Connection<TokioIo<ClientStream>, Requests, TokioExecutor> {
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Returns a builder without a time limit for heads: hyper's limit would also end connections that wait for their next
/// request.
fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None::<Duration>)
        .max_headers(HEADERS_MAX);
    builder
}

/// Returns a builder with the limits of kube-apiserver.
fn http2_builder(timeouts: &Timeouts) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.ping);
    builder
}

/// Handles the requests of one connection.
struct Requests {
    handler: Arc<Handler>,
    peer: Peer,
    drain: CancellationToken,
    activity: Activity,
}

impl Requests {
    fn new(stream: &TlsClient, address: Option<IpAddr>, activity: Activity, shared: &Shared) -> Self {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = chain.first();
        let is_trusted = shared.clients.trusts(chain);
        let user = certificate
            .filter(|_| is_trusted)
            .and_then(|der| User::from_certificate(der));
        Self {
            handler: shared.handler.clone(),
            peer: Peer {
                address,
                user: user.unwrap_or_else(User::anonymous),
                is_untrusted: certificate.is_some() && !is_trusted,
                proxy: shared
                    .clients
                    .trusts_proxy(chain)
                    .then(|| certificate.and_then(|der| User::from_certificate(der)))
                    .flatten()
                    .map(|user| user.name),
                expiry: certificate.and_then(|der| authn::expiry(der)),
                request_timeout: shared.timeouts.request,
            },
            drain: shared.drain.clone(),
            activity,
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        request.extensions_mut().insert(self.drain.clone());
        let active = self.activity.begin();
        let answer = self.handler.clone().answer(request);
        Box::pin(async move { Ok(answer.await.map(|body| hold(body, active))) })
    }
}
