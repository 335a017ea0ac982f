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

use super::admission::{AdmissionHandler, Defaulter, Defaulting, Endpoint, Validating, Validator};
use super::conversion::{Conversion, Converter, convert};
use super::review::{AdmissionResponse, Review};
use super::{mutate_path, validate_path};
use crate::certificates::{CertificateError, Certificates};
use crate::metrics::{Metrics, WebhookMetrics};
use crate::object::Object;
use crate::serve::{self, Answer};

const CONVERT: &str = "/convert";
/// Twice the largest object, an old and a new one, and the rest of the review.
const BODY_MAX: usize = 7 * 1024 * 1024;
const GRACE: Duration = Duration::from_secs(60);

/// Serves webhooks over HTTPS; on port 9443, where scaffolded configurations look for it, if its author wants it so.
///
/// ```no_run
/// use operator_runtime::certificates::Certificates;
/// use operator_runtime::manager::{Manager, Runnable};
/// use operator_runtime::webhook::WebhookServer;
///
/// # async fn example(manager: Manager, server: WebhookServer) -> operator_runtime::Result<()> {
/// let certificates = Certificates::from_dir(&WebhookServer::default_certificate_dir())?;
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:9443").await?;
/// let webhooks = Runnable::new("webhooks", |stop| async { Ok(server.serve(listener, certificates, stop).await?) });
/// manager.add(webhooks.on_every_instance())?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "call `serve`"]
pub struct WebhookServer {
    endpoints: BTreeMap<String, Box<dyn Endpoint>>,
    converters: Vec<Box<dyn Converter>>,
    metrics: Metrics,
    counts: BTreeMap<String, WebhookMetrics>,
    http2: bool,
}

/// A request that gets no further than its envelope.
struct Malformed(StatusCode, String);

// === impl WebhookServer ===

impl WebhookServer {
    /// The port that scaffolded configurations use.
    pub const PORT: u16 = 9443;

    /// No webhooks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where controller-runtime looks for certificates: `k8s-webhook-server/serving-certs` in the temporary directory.
    pub fn default_certificate_dir() -> std::path::PathBuf {
        std::env::temp_dir().join("k8s-webhook-server/serving-certs")
    }

    /// Fills in defaults of `K`, at [`mutate_path`].
    pub fn defaulting<K: Object>(self, defaulter: impl Defaulter<K>) -> Self {
        self.handler(&mutate_path::<K>(), Defaulting::<K, _>::new(defaulter))
    }

    /// Fills in defaults of `K`, at another path.
    pub fn defaulting_at<K: Object>(self, path: &str, defaulter: impl Defaulter<K>) -> Self {
        self.handler(path, Defaulting::<K, _>::new(defaulter))
    }

    /// Checks `K`, at [`validate_path`].
    pub fn validating<K: Object>(self, validator: impl Validator<K>) -> Self {
        self.handler(&validate_path::<K>(), Validating::<K, _>::new(validator))
    }

    /// Checks `K`, at another path.
    pub fn validating_at<K: Object>(self, path: &str, validator: impl Validator<K>) -> Self {
        self.handler(path, Validating::<K, _>::new(validator))
    }

    /// Answers admission requests at a path. The last one to be given a path has it.
    pub fn handler(mut self, path: &str, handler: impl AdmissionHandler) -> Self {
        self.endpoints.insert(path.to_owned(), Box::new(handler));
        self
    }

    /// Converts between the versions of a custom resource, at `/convert`.
    pub fn converting<H: Object>(mut self, conversion: Conversion<H>) -> Self {
        self.converters.push(Box::new(conversion));
        self
    }

    /// Counts requests, and readings of certificates.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Offers HTTP/2 too; off unless said otherwise, because of its history of ways to overload servers.
    pub fn http2(mut self, http2: bool) -> Self {
        self.http2 = http2;
        self
    }

    /// The paths that are served, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let convert = (!self.converters.is_empty()).then_some(CONVERT);
        convert
            .into_iter()
            .chain(self.endpoints.keys().map(String::as_str))
    }

    /// Serves until `stop`, and lets requests under way finish for up to a minute.
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
