//! An API server behind sockets that break: connections end in the middle of whatever they carry, and the server goes
//! away and comes back.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Parser;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use operator_apiserver::ApiServer;
use operator_runtime::manager::Args;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::Service;

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Whether a request, `METHOD path`, is to be told to come back later.
type Busy = Box<dyn FnMut(&str) -> bool + Send>;

/// Listens on a port of its own for as long as it lives.
pub(crate) struct Wire {
    port: u16,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

struct Shared {
    server: Mutex<Option<ApiServer>>,
    /// How many bytes the next connection may carry.
    budget: Mutex<Box<dyn FnMut() -> usize + Send>>,
    busy: Mutex<Busy>,
    /// Ends the connections that there are.
    up: Mutex<CancellationToken>,
}

/// The command line of an operator.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    manager: Args,
}

impl Wire {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shared = Arc::new(Shared {
            server: Mutex::new(None),
            budget: Mutex::new(Box::new(|| usize::MAX)),
            busy: Mutex::new(Box::new(|_| false)),
            up: Mutex::new(CancellationToken::new()),
        });
        let (port, stop) = (listener.local_addr().unwrap().port(), CancellationToken::new());
        let accept = accept(listener, shared.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept));
        Self { port, shared, stop }
    }

    /// A client that dials, with all that kube's client does of itself.
    pub(crate) fn client(&self) -> kube::Client {
        let url = self.url().parse().unwrap();
        kube::Client::try_from(kube::Config::new(url)).unwrap()
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The arguments of an operator that connects to it with a kubeconfig of its own, and has these flags.
    pub(crate) fn args(&self, directory: &Path, flags: &[&str]) -> Args {
        let path = directory.join("kubeconfig");
        let url = self.url();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a,\n clusters: [{{name: a, cluster: {{server: '{url}'}}}}],\n \
             users: [{{name: a, user: {{}}}}], contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let kubeconfig = ["operator", "--health-probe-bind-address=0", "--kubeconfig"];
        let arguments = kubeconfig.into_iter().chain([path.to_str().unwrap()]);
        Cli::parse_from(arguments.chain(flags.iter().copied())).manager
    }

    /// Answers with `server` from now on.
    pub(crate) fn up(&self, server: ApiServer) {
        *self.shared.server.lock() = Some(server);
        *self.shared.up.lock() = CancellationToken::new();
    }

    /// The server that answers.
    pub(crate) fn server(&self) -> ApiServer {
        self.shared.server.lock().clone().expect("no server is up")
    }

    /// Cuts all connections and answers none, as while the server restarts.
    pub(crate) fn down(&self) {
        let server = self.shared.server.lock().take();
        self.shared.up.lock().cancel();
        if let Some(server) = server {
            server.shutdown();
        }
    }

    /// Cuts each connection after as many bytes as `budget` says for it, from now on.
    pub(crate) fn cut_after(&self, budget: impl FnMut() -> usize + Send + 'static) {
        *self.shared.budget.lock() = Box::new(budget);
    }

    /// Answers 429 with `Retry-After` where `busy` says so.
    pub(crate) fn busy(&self, busy: impl FnMut(&str) -> bool + Send + 'static) {
        *self.shared.busy.lock() = Box::new(busy);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.down();
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // Without a server the connection is closed at once.
        let Some(server) = shared.server.lock().clone() else {
            continue;
        };
        let (up, left) = (shared.up.lock().clone(), (shared.budget.lock())());
        let talk = talk(Cut { stream, left }, server, shared.clone());
        tokio::spawn(up.run_until_cancelled_owned(talk));
    }
}

async fn talk(stream: Cut, server: ApiServer, shared: Arc<Shared>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut server = server.clone();
        let busy = (shared.busy.lock())(&format!("{} {}", request.method(), request.uri().path()));
        async move {
            if busy {
                return Ok(too_many());
            }
            let answer = server.call(request).await?;
            Ok::<_, Infallible>(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        }
    });
    let connection = auto::Builder::new(TokioExecutor::new());
    // It ends in an error each time it is cut.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// What priority and fairness answers: a text, and when to come back.
fn too_many() -> Response<Body> {
    let text = "Too many requests, please try again later.\n";
    let body = Full::from(text).map_err(|never| match never {}).boxed_unsync();
    let answer = Response::builder().status(429).header("Retry-After", "1");
    answer
        .header("Content-Type", "text/plain; charset=utf-8")
        .body(body)
        .unwrap()
}

/// A stream that breaks once it has carried so many bytes to the client.
struct Cut {
    stream: TcpStream,
    left: usize,
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
