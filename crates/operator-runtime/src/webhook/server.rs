//! The HTTPS server: bytes to reviews and back, with limits, counts and a net under panics.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::admission::{AdmissionHandler, Endpoint};
use super::conversion::{Converter, convert};
use super::registration::{CONVERT, Webhook, crd};
use super::review::{AdmissionResponse, Review};
use crate::certificates::{CertificateError, Certificates};
use crate::metrics::{Metrics, WebhookMetrics};
use crate::object::Object;
use crate::serve::{self, Answer};

/// Twice the largest object, an old and a new one, and the rest of the review.
const BODY_MAX: usize = 7 * 1024 * 1024;
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
    endpoints: BTreeMap<String, Box<dyn Endpoint>>,
    converters: Vec<Box<dyn Converter>>,
    /// The names of the CRDs that are converted.
    converted: Vec<String>,
    metrics: Metrics,
    counts: BTreeMap<String, WebhookMetrics>,
    http2: bool,
}

/// Why webhooks cannot be served.
///
/// ```
/// use operator_runtime::webhook::{AdmissionHandler, WebhookError, WebhookServer};
///
/// fn is_refused(handler: impl AdmissionHandler) -> bool {
///     let refused = WebhookServer::new().handler("no slash", handler);
///     matches!(refused.err(), Some(WebhookError::InvalidPath(_)))
/// }
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

/// A request that gets no further than its envelope.
struct Malformed(StatusCode, String);

// === impl WebhookServer ===

impl WebhookServer {
    /// The port that scaffolded configurations use.
    ///
    /// ```
    /// assert_eq!(operator_runtime::webhook::WebhookServer::PORT, 9443);
    /// ```
    pub const PORT: u16 = 9443;

    /// No webhooks yet.
    ///
    /// ```
    /// use operator_runtime::webhook::WebhookServer;
    ///
    /// assert_eq!(WebhookServer::new().paths().count(), 0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the webhooks of a kind; call it once for each kind.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap as Memcached, Pod};
    /// use operator_runtime::webhook::{Webhook, WebhookError, WebhookServer};
    ///
    /// fn server(memcached: Webhook<Memcached>, pod: Webhook<Pod>) -> Result<WebhookServer, WebhookError> {
    ///     WebhookServer::new().webhook(memcached)?.webhook(pod)
    /// }
    /// ```
    ///
    /// # Errors
    /// If a path is none, or is served already.
    pub fn webhook<K: Object>(mut self, webhook: Webhook<K>) -> Result<Self, WebhookError> {
        self.add(webhook)?;
        Ok(self)
    }

    /// Answers admission requests at a path, that of a webhook configuration which somebody else writes.
    ///
    /// ```
    /// use operator_runtime::webhook::{AdmissionHandler, AdmissionRequest, AdmissionResponse, WebhookServer};
    ///
    /// struct Everything;
    ///
    /// impl AdmissionHandler for Everything {
    ///     async fn handle(&self, _: AdmissionRequest) -> AdmissionResponse {
    ///         AdmissionResponse::allowed()
    ///     }
    /// }
    /// let server = WebhookServer::new().handler("/validate", Everything)?;
    /// assert!(server.handler("/validate", Everything).is_err());
    /// # Ok::<(), operator_runtime::webhook::WebhookError>(())
    /// ```
    ///
    /// # Errors
    /// If the path is none, or is served already.
    pub fn handler(mut self, path: &str, handler: impl AdmissionHandler) -> Result<Self, WebhookError> {
        self.mount(path.to_owned(), Box::new(handler))?;
        Ok(self)
    }

    pub(crate) fn add<K: Object>(&mut self, webhook: Webhook<K>) -> Result<(), WebhookError> {
        let (admissions, converter) = webhook.into_parts();
        for admission in admissions {
            self.mount(admission.path, admission.endpoint)?;
        }
        if let Some(converter) = converter {
            self.converters.push(converter);
            self.converted.push(crd::<K>());
        }
        Ok(())
    }

    fn mount(&mut self, path: String, endpoint: Box<dyn Endpoint>) -> Result<(), WebhookError> {
        if path == CONVERT || self.endpoints.contains_key(&path) {
            return Err(WebhookError::DuplicatePath(path));
        }
        if !is_path(&path) {
            return Err(WebhookError::InvalidPath(path));
        }
        self.endpoints.insert(path, endpoint);
        Ok(())
    }

    /// Counts requests, and readings of certificates, in this registry; in one that nobody sees by default.
    ///
    /// ```
    /// use operator_runtime::metrics::Metrics;
    /// use operator_runtime::webhook::WebhookServer;
    ///
    /// let metrics = Metrics::new();
    /// let server = WebhookServer::new().metrics(metrics.clone());
    /// ```
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Offers HTTP/2 too; off by default, because of its history of ways to overload servers.
    ///
    /// ```
    /// use operator_runtime::webhook::WebhookServer;
    ///
    /// let server = WebhookServer::new().http2(true);
    /// ```
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// The names of the CRDs whose versions are converted here.
    pub(crate) fn converted(&self) -> &[String] {
        &self.converted
    }

    /// The paths that are served, in order.
    ///
    /// ```
    /// use operator_runtime::webhook::{AdmissionHandler, WebhookServer};
    ///
    /// # fn example(handler: impl AdmissionHandler) -> operator_runtime::Result<()> {
    /// let server = WebhookServer::new().handler("/validate", handler)?;
    /// assert_eq!(server.paths().collect::<Vec<_>>(), ["/validate"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let convert = (!self.converters.is_empty()).then_some(CONVERT);
        convert
            .into_iter()
            .chain(self.endpoints.keys().map(String::as_str))
    }

    /// Serves until `stop`, and lets requests under way finish for up to a minute. Bodies larger than 7 MiB are
    /// answered with 413; certificates that change are served anew.
    ///
    /// ```
    /// use operator_runtime::certificates::Certificates;
    /// use operator_runtime::webhook::WebhookServer;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> operator_runtime::Result<()> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// let (certificates, stop) = (Certificates::self_signed(["127.0.0.1"])?, CancellationToken::new());
    /// let serving = tokio::spawn(WebhookServer::new().serve(listener, certificates, stop.clone()));
    /// stop.cancel();
    /// serving.await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        certificates: Certificates,
        stop: CancellationToken,
    ) -> Result<(), CertificateError> {
        let certificates = certificates.metrics(self.metrics.certificates());
        self.count();
        let (tls, http2) = (Some(certificates.server_config(self.http2)?), self.http2);
        let server = Arc::new(self);
        let server = serve::Server {
            handler: Arc::new(move |request| {
                let server = server.clone();
                Box::pin(async move { server.answer(request).await })
            }),
            tls,
            http2,
            grace: GRACE,
        };
        tokio::join!(server.serve(listener, stop.clone()), certificates.watch(stop));
        Ok(())
    }

    /// Makes every webhook show in the metrics.
    pub(super) fn count(&mut self) {
        let counts = self
            .paths()
            .map(|path| (path.to_owned(), self.metrics.webhook(path)))
            .collect();
        self.counts = counts;
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data: Buf + Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
    {
        let path = request.uri().path().to_owned();
        let Some(metrics) = self.counts.get(&path) else {
            return serve::text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let counted = metrics.request();
        let (code, body) = match (read(request).await, self.endpoints.get(&path)) {
            (Ok(body), Some(endpoint)) => admit(endpoint.as_ref(), &body, metrics).await,
            (Ok(body), None) => self.convert(&body, metrics),
            (Err(malformed), Some(_)) => refused(malformed),
            (Err(malformed), None) => unconverted(&malformed),
        };
        counted.answered(code);
        let mut answer = serve::text(code, body);
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(header::CONTENT_TYPE, json);
        answer
    }

    fn convert(&self, body: &Bytes, metrics: &WebhookMetrics) -> (StatusCode, Vec<u8>) {
        let request = match conversion_request(body) {
            Ok(request) => request,
            Err(malformed) => return unconverted(&malformed),
        };
        let unanswered = ConversionResponse::for_request(request.clone());
        let converted = std::panic::catch_unwind(AssertUnwindSafe(|| convert(&self.converters, request)));
        let response = converted.unwrap_or_else(|panic| {
            metrics.conversion_panicked();
            unanswered.failure(Status::failure(&recovered(&*panic), "InternalError").with_code(500))
        });
        (
            StatusCode::OK,
            serde_json::to_vec(&response.into_review()).unwrap_or_default(),
        )
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

fn conversion_request(body: &Bytes) -> Result<ConversionRequest, Malformed> {
    let malformed = |message| Malformed(StatusCode::BAD_REQUEST, message);
    let review: ConversionReview =
        serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    ConversionRequest::from_review(review).map_err(|error| malformed(error.to_string()))
}

async fn admit(endpoint: &dyn Endpoint, body: &Bytes, metrics: &WebhookMetrics) -> (StatusCode, Vec<u8>) {
    let review: Review = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return refused(Malformed(StatusCode::BAD_REQUEST, error.to_string())),
    };
    let (version, uid) = (review.api_version, review.request.uid.clone());
    tracing::debug!(
        uid,
        kind = review.request.kind.kind,
        name = review.request.name,
        "Received request"
    );
    let answer = AssertUnwindSafe(async { endpoint.answer(review.request).await })
        .catch_unwind()
        .await;
    let response = answer.unwrap_or_else(|panic| {
        metrics.panicked();
        AdmissionResponse::errored(StatusCode::INTERNAL_SERVER_ERROR, recovered(&*panic))
    });
    (StatusCode::OK, response.to_json(&version, &uid))
}

async fn read<B>(request: Request<B>) -> Result<Bytes, Malformed>
where
    B: Body<Data: Buf + Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
{
    let bad = |message: String| Malformed(StatusCode::BAD_REQUEST, message);
    if request.method() != Method::POST {
        return Err(Malformed(
            StatusCode::METHOD_NOT_ALLOWED,
            "webhooks are called with POST".to_owned(),
        ));
    }
    let kind = content_type(request.headers());
    if kind != "application/json" {
        return Err(bad(format!("contentType={kind}, expected application/json")));
    }
    match Limited::new(request.into_body(), BODY_MAX).collect().await {
        Ok(body) => match body.to_bytes() {
            body if body.is_empty() => Err(bad("request body is empty".to_owned())),
            body => Ok(body),
        },
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("request entity is too large: limit is {BODY_MAX}");
            Err(Malformed(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(error) => Err(bad(error.to_string())),
    }
}

/// Without parameters such as `charset`.
fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

fn refused(Malformed(code, message): Malformed) -> (StatusCode, Vec<u8>) {
    tracing::warn!(message, "Admission request that cannot be read");
    (code, AdmissionResponse::errored(code, message).to_json("", ""))
}

fn unconverted(Malformed(code, message): &Malformed) -> (StatusCode, Vec<u8>) {
    tracing::warn!(message, "Conversion request that cannot be read");
    let status = Status::failure(message, "BadRequest").with_code(code.as_u16());
    (
        *code,
        serde_json::to_vec(&ConversionResponse::invalid(status).into_review()).unwrap_or_default(),
    )
}

fn recovered(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("panic: {} [recovered]", text.unwrap_or("of unknown kind"));
    tracing::error!(text, "Observed a panic");
    text
}
