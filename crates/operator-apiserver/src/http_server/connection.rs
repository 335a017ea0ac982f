//! One connection, from the handshake to its end, with a bound on every wait for the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{Peer, Timeouts};
use crate::authn::User;
use crate::call::Body;
use crate::server::ApiServer;

/// How long the last answers of a connection that is idle may take to be written.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// What every connection of a listener needs.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) acceptor: TlsAcceptor,
    pub(super) server: ApiServer,
    pub(super) timeouts: Timeouts,
    pub(super) drain: CancellationToken,
}

pub(super) async fn serve(stream: TcpStream, shared: Shared) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket refused TCP_NODELAY");
    }
    let handshake = tokio::time::timeout(shared.timeouts.handshake, shared.acceptor.accept(stream));
    let stream = tokio::select! {
        result = handshake => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                return;
            }
            Err(_) => return,
        },
        () = shared.drain.cancelled() => return,
    };
    converse(stream, &shared).await;
}

/// Answers requests until the client leaves, is idle for too long, or the listener ends.
async fn converse(stream: TlsStream<TcpStream>, shared: &Shared) {
    let builder = builder(&stream, &shared.timeouts);
    let peer = Peer {
        user: user_of(&stream),
        body_timeout: shared.timeouts.body,
    };
    let activity = Arc::new(watch::Sender::new(0));
    let mut observed = activity.subscribe();
    let (server, token) = (shared.server.clone(), shared.drain.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(token.clone());
        let active = Active::begin(activity.clone());
        let answer = server.clone().call(request);
        async move {
            let response = answer.await?;
            Ok::<_, std::convert::Infallible>(counted(response, active))
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shared.drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = idle(&mut observed, shared.timeouts.idle) => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(CLOSE_MAX, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(error = %error, "a connection ended with an error");
    }
}

/// The protocol is what the handshake settled; guessing it from the first bytes would wait for them without a bound.
fn builder(stream: &TlsStream<TcpStream>, timeouts: &Timeouts) -> auto::Builder<TokioExecutor> {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.header);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.ping);
    if is_h2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}

fn user_of(stream: &TlsStream<TcpStream>) -> User {
    let chain = stream.get_ref().1.peer_certificates();
    chain
        .and_then(|chain| User::from_certificate(chain.first()?))
        .unwrap_or_else(User::anonymous)
}

/// Returns when no request was in flight for this long.
async fn idle(active: &mut watch::Receiver<usize>, limit: Duration) {
    loop {
        let is_quiet = *active.borrow_and_update() == 0;
        let changed = if is_quiet {
            tokio::time::timeout(limit, active.changed()).await
        } else {
            Ok(active.changed().await)
        };
        if !matches!(changed, Ok(Ok(()))) {
            return;
        }
    }
}

/// A request in flight, until the last byte of its answer is written or the client is gone.
struct Active(Arc<watch::Sender<usize>>);

impl Active {
    fn begin(count: Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A body that keeps its request in flight.
struct Counted {
    body: Body,
    _active: Active,
}

fn counted(response: Response<Body>, active: Active) -> Response<Body> {
    response.map(|body| {
        Counted {
            body,
            _active: active,
        }
        .boxed_unsync()
    })
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
