//! [`WebhookServer`], the HTTPS server of webhooks: routes, metrics and a graceful shutdown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admission::AdmissionHandler;
use super::endpoint::{AdmissionEndpoint, BodyError, ConversionEndpoint, Endpoint, RawEndpoint};
use super::registration::{CONVERT, Webhook, crd};
use crate::certificates::{CertificateError, Certificates, Served, TlsOptions};
use crate::metrics::{Metrics, WebhookMetrics};
use crate::object::Object;
use crate::serve::{self, Answer};

const GRACE: Duration = Duration::from_secs(60);

/// Serves the webhooks of a manager over HTTPS.
#[derive(Default)]
#[must_use = "call `serve`"]
pub(crate) struct WebhookServer {
    routes: Arc<RwLock<Arc<Routes>>>,
    served: watch::Sender<Served>,
    metrics: Metrics,
    tls: TlsOptions,
}

/// The endpoints by path. A running server replaces its table when webhooks are added.
#[derive(Clone, Default)]
struct Routes {
    endpoints: BTreeMap<String, Arc<dyn Endpoint>>,
    conversions: ConversionEndpoint,
    /// The names of the CRDs with a conversion.
    converted: Vec<String>,
    counts: BTreeMap<String, WebhookMetrics>,
}

/// An invalid webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Two webhooks have the same path.
    #[error("webhook path {0:?} is already in use: set another path in WebhookOptions")]
    DuplicatePath(String),
    /// The API server does not accept the path.
    #[error(
        "invalid webhook path {0:?}: it must start with \"/\" and contain only letters, digits, '-' and '_' between slashes"
    )]
    InvalidPath(String),
}

// === impl WebhookServer ===

impl WebhookServer {
    /// The port in scaffolded configurations.
    pub(crate) const PORT: u16 = 9443;

    /// Creates a server without webhooks.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds all webhooks of a kind, or none after an error. A running server serves them immediately.
    pub(crate) fn add<K: Object>(&self, webhook: Webhook<K>) -> Result<(), WebhookError> {
        let (admissions, converter) = webhook.into_parts();
        self.change(|routes| {
            for admission in admissions {
                routes.mount(&admission.path, Arc::new(admission.endpoint))?;
            }
            if let Some(converter) = converter {
                routes.conversions.converters.push(converter.into());
                routes.converted.push(crd::<K>());
            }
            Ok(())
        })
    }

    pub(crate) fn add_admission(
        &self,
        path: &str,
        handler: impl AdmissionHandler,
    ) -> Result<(), WebhookError> {
        self.mount(path, Arc::new(AdmissionEndpoint::new(Box::new(handler))))
    }

    pub(crate) fn add_raw<F, R>(&self, path: &str, handler: F) -> Result<(), WebhookError>
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        self.mount(path, Arc::new(RawEndpoint(handler)))
    }

    fn mount(&self, path: &str, endpoint: Arc<dyn Endpoint>) -> Result<(), WebhookError> {
        self.change(|routes| routes.mount(path, endpoint))
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Routes) -> Result<(), WebhookError>,
    ) -> Result<(), WebhookError> {
        let mut current = self.routes.write();
        let mut routes = current.as_ref().clone();
        change(&mut routes)?;
        self.served.send_replace(Served {
            paths: routes.paths().map(str::to_owned).collect(),
            crds: routes.converted.clone(),
        });
        *current = Arc::new(routes);
        Ok(())
    }

    /// Returns a handle to the same webhooks with its own metrics and TLS options.
    pub(crate) fn share(&self) -> Self {
        Self {
            routes: self.routes.clone(),
            served: self.served.clone(),
            metrics: self.metrics.clone(),
            tls: self.tls.clone(),
        }
    }

    /// Sets the registry of the metrics of requests and certificates.
    pub(crate) fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    pub(crate) fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the served paths and converted CRDs as they change.
    pub(crate) fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// Returns the served paths in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        self.served.borrow().paths.clone().into_iter()
    }

    /// Serves until `stop`, and then waits up to a minute for running requests. Bodies of more than 7 MiB, or 128 MiB
    /// for conversions of whole lists, are answered with 413. Changed certificates are read again.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        certificates: Certificates,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let certificates = self.metrics.certificates().count(certificates);
        self.count();
        let (tls, http2) = (Some(certificates.server_config(&self.tls)?), self.tls.http2);
        let server = Arc::new(self);
        let server = serve::Server {
            handler: Arc::new(move |request| {
                let server = server.clone();
                Box::pin(async move { server.answer(request).await })
            }),
            tls,
            http2,
            grace: Some(GRACE),
            limits: serve::Limits::default(),
        };
        tokio::join!(server.serve(listener, stop.clone()), certificates.watch(stop));
        Ok(())
    }

    /// Initializes the metrics of every webhook.
    pub(crate) fn count(&self) {
        let mut current = self.routes.write();
        let mut routes = current.as_ref().clone();
        let counts = routes
            .paths()
            .map(|path| (path.to_owned(), self.metrics.webhook(path)));
        routes.counts = counts.collect();
        *current = Arc::new(routes);
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let routes = self.routes.read().clone();
        let path = request.uri().path();
        let Some(metrics) = routes.counts.get(path) else {
            return serve::text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let endpoint: &dyn Endpoint = match routes.endpoints.get(path) {
            Some(endpoint) => endpoint.as_ref(),
            None => &routes.conversions,
        };
        let counted = metrics.request();
        let request = request.map(|body| body.map_err(|error| BodyError(error.into())).boxed_unsync());
        let answer = endpoint.answer(request, metrics).await;
        counted.answered(answer.status());
        answer
    }
}

// === impl Routes ===

impl Routes {
    fn mount(&mut self, path: &str, endpoint: Arc<dyn Endpoint>) -> Result<(), WebhookError> {
        let path = path.to_owned();
        if path == CONVERT || self.endpoints.contains_key(&path) {
            return Err(WebhookError::DuplicatePath(path));
        }
        if !is_path(&path) {
            return Err(WebhookError::InvalidPath(path));
        }
        self.endpoints.insert(path, endpoint);
        Ok(())
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        let convert = (!self.converted.is_empty()).then_some(CONVERT);
        convert
            .into_iter()
            .chain(self.endpoints.keys().map(String::as_str))
    }
}

/// Returns true for letters, digits, `-` and `_` between slashes, without a slash at the end.
fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        !segment.is_empty() && segment.chars().all(allowed)
    };
    let segments = path.strip_prefix('/').map(|segments| segments.split('/'));
    path == "/" || segments.is_some_and(|mut segments| segments.all(is_segment))
}
