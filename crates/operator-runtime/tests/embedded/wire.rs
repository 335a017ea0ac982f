//! An API server behind a faulty connection: connections break or hang at any point, the server restarts, and responses
//! may be invalid.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use clap::Parser;
use futures::{Stream, StreamExt, TryStreamExt, future, stream};
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use operator_apiserver::ApiServer;
use operator_runtime::manager::{Args, ManagerOptions};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::support::in_time;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Selects the fault of a request, `METHOD path?query`.
type Faults = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// The response of a faulty request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// 429 with `Retry-After` of one second, as from priority and fairness.
    Busy,
    /// An internal error.
    Error,
    /// The revision is too old.
    Gone,
    /// No response.
    Silence,
    /// An HTML page with this number of lines.
    Page(usize),
    /// A redirect.
    Moved,
    /// This number of bytes of the response, and a regular end.
    Short(usize),
    /// This number of bytes of the response, and then nothing.
    Stuck(usize),
    /// The response with an invalid line at the beginning.
    Garbled,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    /// The operator: the first word of its `User-Agent`.
    pub(crate) by: String,
    /// The request line, `METHOD path?query`.
    pub(crate) what: String,
}

/// Listens on its own port while it exists.
pub(crate) struct Wire {
    port: u16,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

struct Shared {
    server: Mutex<Option<ApiServer>>,
    /// The number of bytes that the next connection may carry.
    budget: Mutex<Box<dyn FnMut() -> usize + Send>>,
    faults: Mutex<Faults>,
    token: Mutex<Option<String>>,
    log: Mutex<Vec<Received>>,
    /// Blocks the existing connections.
    ice: Mutex<Arc<AtomicBool>>,
    /// Ends the existing connections.
    up: Mutex<CancellationToken>,
}

/// The command line of an operator.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    manager: Args,
}

impl Wire {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shared = Arc::new(Shared {
            server: Mutex::new(None),
            budget: Mutex::new(Box::new(|| usize::MAX)),
            faults: Mutex::new(Box::new(|_| None)),
            token: Mutex::default(),
            log: Mutex::default(),
            ice: Mutex::default(),
            up: Mutex::new(CancellationToken::new()),
        });
        let (port, stop) = (listener.local_addr().unwrap().port(), CancellationToken::new());
        let accept = accept(listener, shared.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept));
        Self { port, shared, stop }
    }

    /// Returns a client of kube with its own connections.
    pub(crate) fn client(&self) -> kube::Client {
        let url = self.url().parse().unwrap();
        kube::Client::try_from(kube::Config::new(url)).unwrap()
    }

    /// Returns the options of an operator that connects with a kubeconfig in the directory. It sends the token in the
    /// file `token` of the directory, if that exists.
    pub(crate) fn operator(&self, directory: &Path) -> ManagerOptions {
        ManagerOptions::from(&self.args(directory, &["--metrics-bind-address=0"]))
    }

    /// Writes a kubeconfig to the directory.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> std::path::PathBuf {
        let (path, token) = (directory.join("kubeconfig"), directory.join("token"));
        let user = match token.exists() {
            true => json!({"tokenFile": token}),
            false => json!({}),
        };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "wire",
            "clusters": [{"name": "wire", "cluster": {"server": self.url()}}],
            "users": [{"name": "wire", "user": user}],
            "contexts": [{"name": "wire", "context": {"cluster": "wire", "user": "wire"}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the arguments of an operator that connects with its own kubeconfig, with these flags.
    pub(crate) fn args(&self, directory: &Path, flags: &[&str]) -> Args {
        let kubeconfig = self.kubeconfig(directory);
        let kubeconfig = [
            "operator",
            "--health-probe-bind-address=0",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
        ];
        Command::parse_from(kubeconfig.iter().chain(flags)).manager
    }

    /// Uses `server` to answer requests from now on.
    pub(crate) fn up(&self, server: ApiServer) {
        *self.shared.server.lock() = Some(server);
        *self.shared.up.lock() = CancellationToken::new();
    }

    /// Returns the server.
    pub(crate) fn server(&self) -> ApiServer {
        self.shared.server.lock().clone().expect("no server is up")
    }

    /// Ends all connections and accepts no new ones, like a server that restarts.
    pub(crate) fn down(&self) {
        let server = self.shared.server.lock().take();
        self.shared.up.lock().cancel();
        if let Some(server) = server {
            server.shutdown();
        }
    }

    /// Ends all connections. New ones are accepted.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.shared.up.lock()).cancel();
    }

    /// Blocks all existing connections without closing them, like a machine on the path that loses its power. New ones
    /// are accepted.
    pub(crate) fn freeze(&self) {
        let ice = std::mem::take(&mut *self.shared.ice.lock());
        ice.store(true, Ordering::SeqCst);
    }

    /// Ends each connection after the number of bytes that `budget` returns, from now on.
    pub(crate) fn cut_after(&self, budget: impl FnMut() -> usize + Send + 'static) {
        *self.shared.budget.lock() = Box::new(budget);
    }

    /// Applies the faults that `faults` returns to requests, from now on.
    pub(crate) fn fail(&self, faults: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        *self.shared.faults.lock() = Box::new(faults);
    }

    /// Accepts only requests with this token from now on.
    pub(crate) fn admit(&self, token: &str) {
        *self.shared.token.lock() = Some(token.to_owned());
    }

    /// Returns the number of requests for which `like` returns true.
    pub(crate) fn count(&self, like: impl Fn(&Received) -> bool) -> usize {
        self.shared
            .log
            .lock()
            .iter()
            .filter(|received| like(received))
            .count()
    }

    /// Returns the requests so far for which `like` returns true.
    pub(crate) fn received(&self, like: impl Fn(&Received) -> bool) -> Vec<Received> {
        let log = self.shared.log.lock();
        log.iter().filter(|received| like(received)).cloned().collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.down();
        self.stop.cancel();
    }
}

impl Received {
    pub(crate) fn is_write(&self) -> bool {
        !self.what.starts_with("GET ")
    }
}

/// Opens the server of a directory. Its journal is locked until the last request of the previous server has ended.
pub(crate) async fn open(directory: &Path) -> ApiServer {
    in_time(async {
        loop {
            match ApiServer::builder().data_directory(directory).build() {
                Ok(server) => return server,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // Without a server the connection is closed immediately.
        let Some(server) = shared.server.lock().clone() else {
            continue;
        };
        let (up, left) = (shared.up.lock().clone(), (shared.budget.lock())());
        let ice = shared.ice.lock().clone();
        let talk = talk(Cut { stream, left, ice }, server, shared.clone());
        tokio::spawn(up.run_until_cancelled_owned(talk));
    }
}

async fn talk(stream: Cut, server: ApiServer, shared: Arc<Shared>) {
    let service =
        service_fn(move |request: Request<Incoming>| answer(server.clone(), shared.clone(), request));
    let connection = auto::Builder::new(TokioExecutor::new());
    // It ends with an error each time it is cut.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    mut server: ApiServer,
    shared: Arc<Shared>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let header = |name| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let what = format!("{} {}", request.method(), request.uri());
    let by = header(header::USER_AGENT).split(' ').next().unwrap_or_default();
    let received = Received {
        at: Instant::now(),
        by: by.to_owned(),
        what: what.clone(),
    };
    shared.log.lock().push(received);
    let wanted = shared
        .token
        .lock()
        .as_ref()
        .map(|token| format!("Bearer {token}"));
    if wanted.is_some_and(|wanted| wanted != header(header::AUTHORIZATION)) {
        return Ok(text(401, "text/plain", "Unauthorized"));
    }
    request.headers_mut().remove(header::AUTHORIZATION);
    let fault = (shared.faults.lock())(&what);
    Ok(match fault {
        Some(Fault::Silence) => future::pending().await,
        Some(Fault::Busy) => busy(),
        Some(Fault::Error) => text(500, "text/plain", "something is wrong inside"),
        Some(Fault::Gone) => {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
                "message": "too old resource version",
            });
            text(410, "application/json", &status.to_string())
        }
        Some(Fault::Page(lines)) => text(200, "text/html", &"<p>Please log in</p>\n".repeat(lines)),
        Some(Fault::Moved) => {
            let mut moved = text(302, "text/html", "<a href=\"/elsewhere\">Found</a>");
            let elsewhere = header::HeaderValue::from_static("/elsewhere");
            moved.headers_mut().insert(header::LOCATION, elsewhere);
            moved
        }
        fault => spoiled(server.call(request).await?, fault),
    })
}

/// Returns the response after the fault.
fn spoiled<B>(answer: Response<B>, fault: Option<Fault>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = answer.into_parts();
    let Some(fault) = fault else {
        return Response::from_parts(head, body.map_err(Into::into).boxed_unsync());
    };
    head.headers.remove(header::CONTENT_LENGTH);
    let data = body.into_data_stream().map_err(Into::<BoxError>::into);
    let frames = match fault {
        Fault::Short(bytes) => first(data, bytes).boxed(),
        Fault::Stuck(bytes) => first(data, bytes).chain(stream::pending()).boxed(),
        _ => data.enumerate().map(garbled).boxed(),
    };
    Response::from_parts(head, StreamBody::new(frames.map_ok(Frame::data)).boxed_unsync())
}

/// Limits a response to its first bytes.
fn first(
    data: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    bytes: usize,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    stream::unfold((data.boxed(), bytes), |(mut data, left)| async move {
        if left == 0 {
            return None;
        }
        let next = data.next().await?;
        let cut = next.map(|next| next.slice(..next.len().min(left)));
        let taken = cut.as_ref().map_or(0, Bytes::len);
        Some((cut, (data, left - taken)))
    })
}

fn garbled((number, data): (usize, Result<Bytes, BoxError>)) -> Result<Bytes, BoxError> {
    match number {
        0 => Ok(Bytes::from_static(b"]not an event[\n")),
        _ => data,
    }
}

fn text(code: u16, content_type: &str, text: &str) -> Response<Body> {
    let body = Full::from(text.to_owned())
        .map_err(|never| match never {})
        .boxed_unsync();
    let answer = Response::builder().status(code);
    answer
        .header(header::CONTENT_TYPE, content_type)
        .body(body)
        .unwrap()
}

/// Returns the response of priority and fairness: a text with `Retry-After`.
fn busy() -> Response<Body> {
    let mut busy = text(
        429,
        "text/plain; charset=utf-8",
        "Too many requests, please try again later.\n",
    );
    let second = header::HeaderValue::from_static("1");
    busy.headers_mut().insert(header::RETRY_AFTER, second);
    busy
}

/// A stream that breaks after a number of bytes to the client, and hangs when it is blocked.
struct Cut {
    stream: TcpStream,
    left: usize,
    ice: Arc<AtomicBool>,
}

impl Cut {
    fn is_frozen(&self) -> bool {
        self.ice.load(Ordering::SeqCst)
    }
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_frozen() {
            return Poll::Pending;
        }
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let now = &bytes[..bytes.len().min(self.left)];
        let written = Pin::new(&mut self.stream).poll_write(context, now);
        if let Poll::Ready(Ok(count)) = &written {
            self.left -= count;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
