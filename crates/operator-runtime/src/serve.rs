//! The HTTP server that the servers of an operator share: plain or TLS, HTTP/1.1 and on request HTTP/2, with limits, and
//! an end that lets requests finish. It never knows what it serves.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A client that does not finish its request headers in this time is let go, as is one that is silent between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 1 << 20;
/// How long a client that has asked nothing yet may take to do so once the server stops.
const SILENCE: Duration = Duration::from_secs(1);
/// The wait before the next attempt when no connection can be accepted, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// What to serve, and how.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) handler: Handler,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) http2: bool,
    /// How long requests may take to finish after the stop.
    pub(crate) grace: Duration,
}

// === impl Server ===

impl Server {
    /// Serves until `stop`, and then until the last request is answered or the grace is over.
    pub(crate) async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let end = CancellationToken::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (server, stop, end) = (self.clone(), stop.clone(), end.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            () = server.connection(stream, stop) => {}
                            () = end.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(self.grace, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(grace = ?self.grace, "Requests did not finish in time");
        }
        end.cancel();
    }

    async fn connection(&self, stream: TcpStream, stop: CancellationToken) {
        let Some(tls) = &self.tls else {
            return self.talk(stream, stop).await;
        };
        let handshake = TlsAcceptor::from(tls.clone()).accept(stream);
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(SILENCE).await;
        };
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => shaken,
            () = too_late => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.talk(stream, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stop: CancellationToken,
    ) {
        let begun = AtomicBool::new(false);
        let service = service_fn(|request| {
            begun.store(true, Ordering::Relaxed);
            let answer = (self.handler)(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let mut server = auto::Builder::new(TokioExecutor::new());
        if !self.http2 {
            server = server.http1_only();
        }
        server
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADERS_MAX);
        server
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HEADER_TIMEOUT);
        let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(SILENCE, connection.as_mut()).await {
                    Ok(ended) => ended,
                    Err(_) if begun.load(Ordering::Relaxed) => connection.await,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "Connection ended");
        }
    }
}

/// A text as answer.
pub(crate) fn text(code: http::StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    answer
}
