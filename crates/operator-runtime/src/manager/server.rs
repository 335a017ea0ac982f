//! [`Server`], an additional HTTP server of an operator.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Runnable;
use crate::certificates::{Certificates, TlsOptions, TlsVersion};
use crate::error::Result;
use crate::serve;

/// An additional HTTP server, as controller-runtime's `manager.Server`; for [`Manager::add`].
///
/// It runs on every instance, from before the caches are filled until after the last reconcile. Like the other servers,
/// it waits at most 32 s for the headers of a request, of at most 1 MiB, and 90 s between two requests.
///
/// ```no_run
/// use bytes::Bytes;
/// use http::Response;
/// use http_body_util::Full;
/// use operator_runtime::manager::{Server, ServerOptions};
/// use operator_runtime::prelude::*;
///
/// # async fn example(manager: &Manager) -> Result<()> {
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:8090").await?;
/// let options = ServerOptions { only_when_leader: true, ..ServerOptions::default() };
/// let server = Server::new("report", listener, options, |request| async move {
///     Response::new(Full::new(Bytes::from(format!("nothing to report of {}", request.uri()))))
/// });
/// manager.add(server)?;
/// # Ok(())
/// # }
/// ```
///
/// In the handler, call a `tower::Service`, such as a router of axum, with `oneshot`.
///
/// [`Manager::add`]: super::Manager::add
#[must_use = "add it to a manager"]
pub struct Server<B> {
    name: String,
    listener: TcpListener,
    handler: serve::Handler<B>,
    options: ServerOptions,
}

/// Options of a [`Server`].
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Serves only while this instance is the leader. Until then clients can connect and wait. Default: false.
    pub only_when_leader: bool,
    /// Time for requests to finish when the manager stops. Default: the
    /// [`graceful_shutdown_timeout`](super::ManagerOptions::graceful_shutdown_timeout) of the manager.
    pub shutdown_timeout: Option<Duration>,
    /// The certificates of HTTPS. They are checked for changes every ten seconds. Default: plain HTTP.
    pub certificates: Option<Certificates>,
    /// Also serves HTTP/2. Default: false, because of its history of denial-of-service attacks.
    pub http2: bool,
    /// The minimum TLS version. Default: 1.2.
    pub min_tls_version: TlsVersion,
}

// === impl Server ===

impl<B> Server<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    /// Creates a server that answers requests to `listener` with `handler`, by default over plain HTTP/1.1. `name` is
    /// used in the log.
    pub fn new<F, R>(name: &str, listener: TcpListener, options: ServerOptions, handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<B>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            listener,
            handler: Arc::new(move |request| Box::pin(handler(request))),
            options,
        }
    }

    async fn run(self, stop: CancellationToken) -> Result<()> {
        tracing::info!(server = self.name, address = %self.listener.local_addr()?, "Starting server");
        let certificates = self.options.certificates;
        let mut tls = TlsOptions::with_http2(self.options.http2);
        tls.min_version = self.options.min_tls_version;
        let tls = certificates
            .as_ref()
            .map(|certificates| certificates.server_config(&tls))
            .transpose()?;
        let server = serve::Server {
            handler: self.handler,
            tls,
            http2: self.options.http2,
            grace: self.options.shutdown_timeout,
            limits: serve::Limits::default(),
        };
        let watch = async {
            if let Some(certificates) = certificates {
                certificates.watch(stop.clone()).await;
            }
        };
        tokio::join!(server.serve(self.listener, stop.clone()), watch);
        Ok(())
    }
}

impl<B> From<Server<B>> for Runnable
where
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    fn from(server: Server<B>) -> Self {
        let (name, only_when_leader) = (server.name.clone(), server.options.only_when_leader);
        let runnable = Self::new(&name, move |stop| server.run(stop));
        if only_when_leader {
            runnable
        } else {
            runnable.before_caches()
        }
    }
}

impl<B> fmt::Debug for Server<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
