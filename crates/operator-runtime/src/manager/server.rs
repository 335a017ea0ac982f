//! HTTP servers of the operator's own.

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

/// An HTTP server of the operator's own, as controller-runtime's `manager.Server`; for [`Manager::add`].
///
/// It runs on every instance, from before the caches are filled until after the last reconcile. A client has 32 s for the
/// headers of a request, of at most 1 MiB, and 90 s from one request to the next, as with the servers of health, metrics
/// and webhooks.
///
/// ```no_run
/// use bytes::Bytes;
/// use http::Response;
/// use http_body_util::Full;
/// use operator_runtime::manager::Server;
/// use operator_runtime::prelude::*;
///
/// # async fn example(manager: &Manager) -> Result<()> {
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:8090").await?;
/// let server = Server::new("report", listener, |request| async move {
///     Response::new(Full::new(Bytes::from(format!("nothing to report of {}", request.uri()))))
/// });
/// manager.add(server.only_when_leader())?;
/// # Ok(())
/// # }
/// ```
///
/// What is a `tower::Service`, such as a router of axum, is called in the handler with `oneshot`.
///
/// [`Manager::add`]: super::Manager::add
#[must_use = "add it to a manager"]
pub struct Server<B> {
    name: String,
    listener: TcpListener,
    handler: serve::Handler<B>,
    only_when_leader: bool,
    shutdown_timeout: Option<Duration>,
    certificates: Option<Certificates>,
    tls: TlsOptions,
}

// === impl Server ===

impl<B> Server<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    /// Serves what `handler` answers to those who connect to `listener`, over plain HTTP/1.1; `name` is for the log.
    pub fn new<F, R>(name: &str, listener: TcpListener, handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<B>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            listener,
            handler: Arc::new(move |request| Box::pin(handler(request))),
            only_when_leader: false,
            shutdown_timeout: None,
            certificates: None,
            tls: TlsOptions::default(),
        }
    }

    /// Serves only while this instance leads. Until then clients can connect, and wait.
    pub fn only_when_leader(mut self) -> Self {
        self.only_when_leader = true;
        self
    }

    /// How long requests may take to finish when the manager stops; as long as everything else unless said otherwise
    /// ([`graceful_shutdown_timeout`](super::ManagerBuilder::graceful_shutdown_timeout)).
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// Serves HTTPS. The certificates are looked at every ten seconds and served anew when they changed.
    pub fn secure(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Offers HTTP/2 too; off unless said otherwise, because of its history of ways to overload servers.
    pub fn http2(mut self, http2: bool) -> Self {
        self.tls.http2 = http2;
        self
    }

    /// The oldest version of TLS that is spoken; 1.2 unless said otherwise.
    pub fn min_tls_version(mut self, version: TlsVersion) -> Self {
        self.tls.min_version = version;
        self
    }

    async fn run(self, stop: CancellationToken) -> Result<()> {
        tracing::info!(server = self.name, address = ?self.listener.local_addr().ok(), "Starting server");
        let certificates = self.certificates;
        let tls = certificates
            .as_ref()
            .map(|certificates| certificates.server_config(&self.tls))
            .transpose()?;
        let server = serve::Server {
            handler: self.handler,
            tls,
            http2: self.tls.http2,
            grace: self.shutdown_timeout,
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
        let (name, only_when_leader) = (server.name.clone(), server.only_when_leader);
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
            .field("only_when_leader", &self.only_when_leader)
            .finish_non_exhaustive()
    }
}
