//! The endpoints of the webhook server, which turn the body of a request into the body of a response.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Extensions, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use tracing::{Instrument as _, Span};

use super::admission::DynAdmissionHandler;
use super::body::{self, Malformed};
use super::conversion::{Converter, convert};
use super::review::{AdmissionRequest, AdmissionResponse, Review};
use crate::metrics::WebhookMetrics;
use crate::serve::{self, Answer};

/// Maximum size of an admission review: twice the largest object, for an old and a new one, and the rest of the review.
pub(super) const BODY_MAX: usize = 7 * 1024 * 1024;

/// Maximum size of a conversion review. The API server converts all objects of a list in one review, up to 10,000 when it
/// fills its watch cache. controller-runtime has no limit.
const CONVERSION_MAX: usize = 128 * 1024 * 1024;

pub(super) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct BodyError(pub(super) Box<dyn std::error::Error + Send + Sync>);

/// Copies values of an HTTP request for the handler.
pub(super) type ContextHook = Arc<dyn Fn(&Parts, &mut Extensions) + Send + Sync>;

/// Creates the span of a request.
pub(super) type SpanHook = Arc<dyn Fn(&AdmissionRequest) -> Span + Send + Sync>;

/// Answers the requests of one path.
pub(super) trait Endpoint: Send + Sync {
    fn answer<'a>(&'a self, request: Request<Body>, metrics: &'a WebhookMetrics) -> BoxFuture<'a, Answer>;
}

/// An endpoint that answers admission requests.
pub(super) struct AdmissionEndpoint {
    pub(super) handler: Box<dyn DynAdmissionHandler>,
    pub(super) recover_panics: bool,
    pub(super) context: Option<ContextHook>,
    pub(super) span: Option<SpanHook>,
}

/// An endpoint that converts the objects of all kinds with a conversion.
#[derive(Clone, Default)]
pub(super) struct ConversionEndpoint {
    pub(super) converters: Vec<Arc<dyn Converter>>,
}

/// An endpoint that answers requests with a function.
pub(super) struct RawEndpoint<F>(pub(super) F);

// === impl AdmissionEndpoint ===

impl AdmissionEndpoint {
    pub(super) fn new(handler: Box<dyn DynAdmissionHandler>) -> Self {
        Self {
            handler,
            recover_panics: true,
            context: None,
            span: None,
        }
    }

    async fn admit(&self, parts: &Parts, body: &Bytes, metrics: &WebhookMetrics) -> (StatusCode, Vec<u8>) {
        let Review {
            api_version,
            mut request,
        } = match serde_json::from_slice(body) {
            Ok(review) => review,
            Err(error) => return refused(Malformed(StatusCode::BAD_REQUEST, error.to_string())),
        };
        if let Some(context) = &self.context {
            context(parts, &mut request.extensions);
        }
        let uid = request.uid.clone();
        let span = self.span(&request);
        let judged = async {
            tracing::debug!("Received request");
            AssertUnwindSafe(async { self.handler.handle_boxed(request).await })
                .catch_unwind()
                .await
        };
        let response = judged.instrument(span).await.unwrap_or_else(|panic| {
            metrics.panicked();
            let text = recovered(&*panic);
            if !self.recover_panics {
                resume_unwind(panic);
            }
            AdmissionResponse::errored(StatusCode::INTERNAL_SERVER_ERROR, text)
        });
        (StatusCode::OK, response.to_json(&api_version, &uid))
    }

    /// Returns the span of a request with the fields of controller-runtime.
    fn span(&self, request: &AdmissionRequest) -> Span {
        if let Some(span) = &self.span {
            return span(request);
        }
        let (kind, resource) = (&request.kind, &request.resource.resource);
        tracing::info_span!(
            "admission",
            webhook_group = kind.group,
            webhook_kind = kind.kind,
            namespace = request.namespace,
            name = request.name,
            resource,
            user = request.user_info.username,
            request_id = request.uid,
        )
    }
}

impl Endpoint for AdmissionEndpoint {
    fn answer<'a>(&'a self, request: Request<Body>, metrics: &'a WebhookMetrics) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let (code, body) = match body::read_json(&parts, body, BODY_MAX).await {
                Ok(body) => self.admit(&parts, &body, metrics).await,
                Err(malformed) => refused(malformed),
            };
            json(code, body)
        })
    }
}

fn refused(Malformed(code, message): Malformed) -> (StatusCode, Vec<u8>) {
    tracing::warn!(message, "Invalid admission request");
    (code, AdmissionResponse::errored(code, message).to_json("", ""))
}

// === impl ConversionEndpoint ===

impl ConversionEndpoint {
    fn convert(&self, body: &Bytes, metrics: &WebhookMetrics) -> (StatusCode, Vec<u8>) {
        let request = match conversion_request(body) {
            Ok(request) => request,
            Err(malformed) => return unconverted(&malformed),
        };
        let unanswered = ConversionResponse::for_request(request.clone());
        let converted = catch_unwind(AssertUnwindSafe(|| convert(&self.converters, request)));
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

impl Endpoint for ConversionEndpoint {
    fn answer<'a>(&'a self, request: Request<Body>, metrics: &'a WebhookMetrics) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let (code, body) = match body::read_json(&parts, body, CONVERSION_MAX).await {
                Ok(body) => self.convert(&body, metrics),
                Err(malformed) => unconverted(&malformed),
            };
            json(code, body)
        })
    }
}

fn conversion_request(body: &Bytes) -> Result<ConversionRequest, Malformed> {
    let malformed = |message| Malformed(StatusCode::BAD_REQUEST, message);
    let review: ConversionReview =
        serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    ConversionRequest::from_review(review).map_err(|error| malformed(error.to_string()))
}

fn unconverted(Malformed(code, message): &Malformed) -> (StatusCode, Vec<u8>) {
    tracing::warn!(message, "Invalid conversion request");
    let status = Status::failure(message, "BadRequest").with_code(code.as_u16());
    (
        *code,
        serde_json::to_vec(&ConversionResponse::invalid(status).into_review()).unwrap_or_default(),
    )
}

// === impl RawEndpoint ===

impl<F, R> Endpoint for RawEndpoint<F>
where
    F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    fn answer<'a>(&'a self, request: Request<Body>, metrics: &'a WebhookMetrics) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = match body::read(body, BODY_MAX).await {
                Ok(body) => body,
                Err(Malformed(code, message)) => return serve::text(code, message + "\n"),
            };
            let answer = AssertUnwindSafe(async { (self.0)(Request::from_parts(parts, body)).await })
                .catch_unwind()
                .await;
            answer.unwrap_or_else(|panic| {
                metrics.panicked();
                serve::text(StatusCode::INTERNAL_SERVER_ERROR, recovered(&*panic) + "\n")
            })
        })
    }
}

/// Returns a JSON response.
pub(super) fn json(code: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = serve::text(code, body);
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// Logs a panic and returns its message for the response.
pub(super) fn recovered(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = format!("panic: {} [recovered]", text.unwrap_or("of unknown kind"));
    tracing::error!(text, "Observed a panic");
    text
}
