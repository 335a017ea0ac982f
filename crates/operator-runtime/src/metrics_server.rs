//! [`MetricsServer`] serves `/metrics` over HTTP or HTTPS, with or without authentication by the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

mod access;

use self::access::{Access, Refusal};
use crate::certificates::{CertificateError, Certificates, TlsOptions, TlsVersion};
use crate::metrics::Metrics;
use crate::serve::{self, Answer};

const METRICS: &str = "/metrics";
const GRACE: Duration = Duration::from_secs(60);
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Handler = Arc<dyn Fn(Request<()>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync>;

/// Serves the metrics of a manager.
#[derive(Clone)]
#[must_use = "call `serve`"]
pub(crate) struct MetricsServer {
    metrics: Metrics,
    certificates: Option<Certificates>,
    access: Option<Access>,
    tls: TlsOptions,
    handlers: BTreeMap<String, Handler>,
}

/// A path that is already served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DuplicatePath {
    /// The path of the metrics.
    #[error("overriding builtin {METRICS} endpoint is not allowed")]
    Builtin,
    /// The path of another handler.
    #[error("can't register extra handler by duplicate path {0:?} on metrics http server")]
    Taken(String),
}

// === impl MetricsServer ===

impl MetricsServer {
    /// Creates a server of `/metrics` over plain HTTP without authentication.
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            certificates: None,
            access: None,
            tls: TlsOptions::default(),
            handlers: BTreeMap::new(),
        }
    }

    /// Serves HTTPS. The certificate files are checked every ten seconds.
    pub(crate) fn secure(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(self.metrics.certificates().count(certificates));
        self
    }

    /// Requires a bearer token that the API server accepts (401 otherwise) and permission to `get` the path as a
    /// non-resource URL (403 otherwise).
    ///
    /// The operator needs permission to create `tokenreviews` and `subjectaccessreviews`. If these requests fail,
    /// scrapes get 500. Tokens are cached for a minute, permissions for five minutes, and rejections for 30 s.
    pub(crate) fn authorize(mut self, client: kube::Client) -> Self {
        self.access = Some(Access::new(client));
        self
    }

    /// Also offers HTTP/2. Default: false, because of its history of denial-of-service attacks.
    pub(crate) fn http2(mut self, http2: bool) -> Self {
        self.tls.http2 = http2;
        self
    }

    /// Sets the minimum TLS version. Default: 1.2.
    pub(crate) fn min_tls_version(mut self, version: TlsVersion) -> Self {
        self.tls.min_version = version;
        self
    }

    /// Serves another path with the same authentication.
    ///
    /// # Errors
    /// Returns an error if the path is `/metrics` or already served.
    pub(crate) fn handler<F, R>(mut self, path: &str, handler: F) -> Result<Self, DuplicatePath>
    where
        F: Fn(Request<()>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        if path == METRICS {
            return Err(DuplicatePath::Builtin);
        }
        if self.handlers.contains_key(path) {
            return Err(DuplicatePath::Taken(path.to_owned()));
        }
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        self.handlers.insert(path.to_owned(), handler);
        Ok(self)
    }

    /// Serves until `stop`. Running scrapes have a second to finish. Scrapers that accept OpenMetrics get
    /// [`Metrics::to_open_metrics`], others [`Metrics::to_text`].
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let http2 = self.tls.http2;
        let certificates = self.certificates.clone();
        let tls = certificates
            .as_ref()
            .map(|certificates| certificates.server_config(&self.tls))
            .transpose()?;
        let server = Arc::new(self);
        let server = serve::Server {
            handler: Arc::new(move |request| {
                let server = server.clone();
                Box::pin(async move { server.answer(request.map(drop)).await })
            }),
            tls,
            http2,
            grace: Some(GRACE),
            limits: serve::Limits::default(),
        };
        let watch = async {
            if let Some(certificates) = certificates {
                certificates.watch(stop.clone()).await;
            }
        };
        tokio::join!(server.serve(listener, stop.clone()), watch);
        Ok(())
    }

    async fn answer(&self, request: Request<()>) -> Answer {
        if let Some(access) = &self.access
            && let Err(refusal) = access.check(&request).await
        {
            return refused(&refusal);
        }
        let path = request.uri().path();
        if path == METRICS {
            return self.exposition(request.headers());
        }
        match self.handlers.get(path) {
            Some(handler) => handler(request).await,
            None => serve::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    fn exposition(&self, headers: &HeaderMap) -> Answer {
        let accepted = headers
            .get(header::ACCEPT)
            .and_then(|accept| accept.to_str().ok());
        let open = accepted.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        let (text, kind) = match open {
            true => (self.metrics.to_open_metrics(), OPEN_METRICS),
            false => (self.metrics.to_text(), TEXT),
        };
        let mut answer = serve::text(StatusCode::OK, text);
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        answer
    }
}

fn refused(refusal: &Refusal) -> Answer {
    let (code, text) = match refusal {
        Refusal::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned()),
        Refusal::Forbidden(user) => (
            StatusCode::FORBIDDEN,
            format!("Authorization denied for user {user}\n"),
        ),
        Refusal::Unauthenticable => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Authentication failed\n".to_owned(),
        ),
        Refusal::Unauthorizable(user) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Authorization for user {user} failed\n"),
        ),
    };
    serve::text(code, text)
}

#[cfg(test)]
mod tests;
