//! The HTTPS server: which path leads to whom, with counts and an end that lets requests finish.

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
use super::authentication::{AuthenticationEndpoint, Authenticator};
use super::endpoint::{AdmissionEndpoint, BodyError, ConversionEndpoint, Endpoint, RawEndpoint};
use super::registration::{CONVERT, Webhook, crd};
use crate::certificates::{CertificateError, Certificates, Served, TlsOptions, TlsVersion};
use crate::metrics::{Metrics, WebhookMetrics};
use crate::object::Object;
use crate::serve::{self, Answer};

const GRACE: Duration = Duration::from_secs(60);

/// Serves webhooks over HTTPS. A manager has one, to which [`Manager::add_webhook`](crate::Manager::add_webhook) adds;
/// a program without a manager serves its own:
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use operator_runtime::certificates::Certificates;
/// use operator_runtime::webhook::{Webhook, WebhookServer};
///
/// # async fn example(webhook: Webhook<ConfigMap>) -> operator_runtime::Result<()> {
/// let certificates = Certificates::from_dir("/certs".as_ref())?;
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:9443").await?;
/// let server = WebhookServer::new().webhook(webhook)?;
/// server.serve(listener, certificates, tokio_util::sync::CancellationToken::new()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "call `serve`"]
pub struct WebhookServer {
    routes: Arc<RwLock<Arc<Routes>>>,
    served: watch::Sender<Served>,
    metrics: Metrics,
    tls: TlsOptions,
}

/// Who answers what. A server that runs takes a new table for an old one when webhooks are added.
#[derive(Clone, Default)]
struct Routes {
    endpoints: BTreeMap<String, Arc<dyn Endpoint>>,
    conversions: ConversionEndpoint,
    /// The names of the CRDs that are converted.
    converted: Vec<String>,
    counts: BTreeMap<String, WebhookMetrics>,
}

/// Why webhooks cannot be served.
///
/// ```
/// use http::Response;
/// use operator_runtime::webhook::{WebhookError, WebhookServer};
///
/// let refused = WebhookServer::new().raw("no slash", |_| async { Response::new("".into()) });
/// assert!(matches!(refused.err(), Some(WebhookError::InvalidPath(path)) if path == "no slash"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Two webhooks have one path.
    #[error("the path {0:?} of a webhook is taken: give one of the two another path in its options")]
    DuplicatePath(String),
    /// The API server would not call it.
    #[error(
        "the path {0:?} of a webhook is none: it begins with a slash and has letters, digits, '-' and '_' between slashes"
    )]
    InvalidPath(String),
}

// === impl WebhookServer ===

impl WebhookServer {
    /// The port that scaffolded configurations use.
    pub const PORT: u16 = 9443;

    /// No webhooks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the webhooks of a kind; call it once for each kind.
    ///
    /// # Errors
    /// If a path is none, or is served already.
    pub fn webhook<K: Object>(self, webhook: Webhook<K>) -> Result<Self, WebhookError> {
        self.add(webhook)?;
        Ok(self)
    }

    /// Answers admission requests at a path, that of a webhook configuration which somebody else writes.
    ///
    /// # Errors
    /// If the path is none, or is served already.
    pub fn handler(self, path: &str, handler: impl AdmissionHandler) -> Result<Self, WebhookError> {
        self.add_admission(path, handler)?;
        Ok(self)
    }

    /// Answers token reviews at a path; see [`Authenticator`] for an example.
    ///
    /// # Errors
    /// If the path is none, or is served already.
    pub fn authentication(self, path: &str, authenticator: impl Authenticator) -> Result<Self, WebhookError> {
        self.add_authentication(path, authenticator)?;
        Ok(self)
    }

    /// Answers all requests at a path in any way: whatever their method, and with a body of up to 7 MiB. A panic is
    /// answered with 500.
    ///
    /// # Errors
    /// If the path is none, or is served already.
    pub fn raw<F, R>(self, path: &str, handler: F) -> Result<Self, WebhookError>
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        self.add_raw(path, handler)?;
        Ok(self)
    }

    /// Adds the webhooks of a kind, all or none; while the server runs they are served at once.
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

    pub(crate) fn add_authentication(
        &self,
        path: &str,
        authenticator: impl Authenticator,
    ) -> Result<(), WebhookError> {
        self.mount(path, Arc::new(AuthenticationEndpoint(authenticator)))
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

    /// A handle to the same webhooks, with metrics and TLS of its own.
    pub(crate) fn share(&self) -> Self {
        Self {
            routes: self.routes.clone(),
            served: self.served.clone(),
            metrics: self.metrics.clone(),
            tls: self.tls.clone(),
        }
    }

    /// Counts requests, and readings of certificates, in this registry; in one that nobody sees by default.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Offers HTTP/2 too; off by default, because of its history of ways to overload servers.
    pub fn http2(mut self, http2: bool) -> Self {
        self.tls.http2 = http2;
        self
    }

    /// The oldest version of TLS that is spoken; 1.2 unless said otherwise.
    pub fn min_tls_version(mut self, version: TlsVersion) -> Self {
        self.tls.min_version = version;
        self
    }

    /// Lets in only those who have a certificate of an authority in this PEM, such as an API server that is told to
    /// show one by `--admission-control-config-file`; everybody unless said otherwise.
    ///
    /// # Errors
    /// If there is no certificate in it.
    pub fn client_authority(mut self, pem: &str) -> Result<Self, CertificateError> {
        self.tls.require_clients_of(pem)?;
        Ok(self)
    }

    pub(crate) fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// The paths that are served and the CRDs that are converted, now and later.
    pub(crate) fn served(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// The paths that are served, in order.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        self.served.borrow().paths.clone().into_iter()
    }

    /// Serves until `stop`, and lets requests under way finish for up to a minute. Bodies larger than 7 MiB, or
    /// 128 MiB for conversions, which are of whole lists, are answered with 413; certificates that change are served anew.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub async fn serve(
        self,
        listener: TcpListener,
        certificates: Certificates,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let certificates = certificates.metrics(self.metrics.certificates());
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

    /// Makes every webhook show in the metrics.
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

/// Letters, digits, `-` and `_` between slashes, none of which is the last.
fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        !segment.is_empty() && segment.chars().all(allowed)
    };
    let segments = path.strip_prefix('/').map(|segments| segments.split('/'));
    path == "/" || segments.is_some_and(|mut segments| segments.all(is_segment))
}
