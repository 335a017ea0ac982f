//! The HTTP [`Server`] of health checks, metrics, webhooks and added servers: plain or TLS, HTTP/1.1 and optionally
//! HTTP/2, with limits and a graceful shutdown.

use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::panic_text;

pub(crate) use patience::Limits;
use patience::{Patience, Patient};

mod patience;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 1 << 20;
/// Time after the stop for clients that have not sent a request yet.
const SILENCE: Duration = Duration::from_secs(1);
/// The interval of HTTP/2 pings.
const KEEP_ALIVE: Duration = Duration::from_secs(32);
/// The delay after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Handler<B = Full<Bytes>> =
    Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<B>> + Send + Sync>;

/// The handler of a server and its options.
pub(crate) struct Server<B = Full<Bytes>> {
    pub(crate) handler: Handler<B>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) http2: bool,
    /// Time after the stop for running requests. `None` means no limit.
    pub(crate) grace: Option<Duration>,
    pub(crate) limits: Limits,
}

/// The handler of a request panicked.
#[derive(Debug, thiserror::Error)]
#[error("the handler of a request failed: {0}")]
struct HandlerPanic(String);

// === impl Server ===

impl<B> Server<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    /// Serves until `stop`, and then until the last request is answered or the grace period is over.
    pub(crate) async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let (end, grace) = (CancellationToken::new(), self.grace);
        let server = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (server, stop, end) = (server.clone(), stop.clone(), end.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            () = server.connection(stream, stop) => {}
                            () = end.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        connections.close();
        match grace {
            None => connections.wait().await,
            Some(grace) => {
                let in_time = tokio::time::timeout(grace, connections.wait()).await;
                if in_time.is_err() {
                    tracing::warn!(?grace, "Requests did not finish in time");
                }
            }
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
            // A probe only opens a connection.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stop: CancellationToken,
    ) {
        let (begun, patience) = (AtomicBool::new(false), Patience::new(self.limits));
        let stream = Patient::new(stream, patience.clone());
        let service = service_fn(|request| {
            begun.store(true, Ordering::Relaxed);
            let busy = patience.busy();
            let handler = self.handler.clone();
            let answer = async move { handler(request).await };
            async move {
                let answer = AssertUnwindSafe(answer).catch_unwind().await;
                drop(busy);
                answer.map_err(|panic| {
                    let error = HandlerPanic(panic_text(&*panic));
                    tracing::error!(%error, "Request not answered");
                    error
                })
            }
        });
        let mut server = auto::Builder::new(TokioExecutor::new());
        if !self.http2 {
            server = server.http1_only();
        }
        server
            .http1()
            .timer(TokioTimer::new())
            // `Patient` has separate limits for headers and for the time between requests.
            .header_read_timeout(None)
            .max_buf_size(HEADERS_MAX);
        server
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEADERS_MAX).unwrap_or(u32::MAX))
            .keep_alive_interval(KEEP_ALIVE);
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

/// Returns a text response.
pub(crate) fn text(code: http::StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = code;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    answer
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const HEADERS: Duration = Duration::from_millis(300);
    const IDLE: Duration = Duration::from_millis(900);

    /// Returns a connection to a server with short time limits.
    async fn connection(http2: bool) -> (TcpStream, tokio_util::sync::DropGuard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            handler: Arc::new(|_| Box::pin(async { text(http::StatusCode::OK, "hello") })),
            tls: None,
            http2,
            grace: None,
            limits: Limits {
                headers: HEADERS,
                idle: IDLE,
            },
        };
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(listener, stop.clone()));
        (TcpStream::connect(address).await.unwrap(), stop.drop_guard())
    }

    /// Returns the time until the server closes the connection.
    async fn ends(stream: &mut TcpStream) -> Duration {
        let since = Instant::now();
        let mut rest = Vec::new();
        // The result is an end or an error.
        let _ = stream.read_to_end(&mut rest).await;
        since.elapsed()
    }

    async fn ask(stream: &mut TcpStream) {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
    }

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn panic_of_a_handler_is_logged_and_ends_its_connection() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        let _log = tracing::subscriber::set_default(subscriber);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_broken = Arc::new(AtomicBool::new(true));
        let server = Server {
            handler: Arc::new(move |_| {
                assert!(!is_broken.swap(false, Ordering::SeqCst), "no such table");
                Box::pin(async { text(http::StatusCode::OK, "hello") })
            }),
            tls: None,
            http2: false,
            grace: None,
            limits: Limits::default(),
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.serve(listener, stop.clone()));
        let mut broken = TcpStream::connect(address).await.unwrap();
        broken
            .write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            .await
            .unwrap();
        ends(&mut broken).await;
        let mut fine = TcpStream::connect(address).await.unwrap();
        ask(&mut fine).await;
        drop(fine);
        stop.cancel();
        serving.await.unwrap();
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        assert!(log.contains("panic: no such table"), "{log}");
    }

    #[test]
    fn limits_are_those_of_controller_runtime() {
        let seconds = |duration: Duration| duration.as_secs();
        let limits = Limits::default();
        assert_eq!((seconds(limits.headers), seconds(limits.idle)), (32, 90));
    }

    #[tokio::test]
    async fn client_with_incomplete_headers_is_disconnected() {
        for http2 in [false, true] {
            let (mut silent, _server) = connection(http2).await;
            let took = ends(&mut silent).await;
            assert!(HEADERS <= took && took < IDLE, "{took:?}");
            let (mut slow, _server) = connection(http2).await;
            ask(&mut slow).await;
            slow.write_all(b"GET / HTTP/1.1\r\nHos").await.unwrap();
            let took = ends(&mut slow).await;
            assert!(HEADERS <= took && took < IDLE, "{took:?}");
        }
    }

    #[tokio::test]
    async fn connection_is_kept_for_the_next_request() {
        let (mut client, _server) = connection(false).await;
        ask(&mut client).await;
        tokio::time::sleep(HEADERS * 2).await;
        ask(&mut client).await;
        let took = ends(&mut client).await;
        assert!(IDLE <= took + Duration::from_millis(50), "{took:?}");
    }

    #[tokio::test]
    async fn headers_have_a_limit() {
        let (mut client, _server) = connection(false).await;
        let line = format!("X-Long: {}\r\n", "x".repeat(HEADERS_MAX));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: test\r\n")
            .await
            .unwrap();
        // The server may close the connection before everything is written.
        let _ = client.write_all(line.as_bytes()).await;
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer).await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
}
