//! One request in the server, and its response ([`Call`]).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::codec::{Form, body};
use crate::http::audit::{Origin, Record, Waits};
use crate::http::request_info::RequestInfo;
use crate::http::upgrade::Upgrade;
use crate::identity::authn::User;
use crate::query::Query;
use crate::status::Status;
use crate::write::Warnings;

/// The body of a response: complete, or a stream of watch events.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) info: RequestInfo,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// This body's share of the memory of all bodies.
    pub(crate) memory: Option<OwnedSemaphorePermit>,
    pub(crate) user: User,
    /// Warnings that are sent with the response.
    pub(crate) warnings: Warnings,
    /// True if the connection can change its protocol.
    pub(crate) can_upgrade: bool,
    /// Ends long responses when the listener of the request shuts down.
    pub(crate) drain: CancellationToken,
    /// The impersonated user, if any.
    pub(crate) impersonated: Option<User>,
    /// The origin of the request.
    pub(crate) origin: Origin,
    /// The id of the request in the audit log.
    pub(crate) audit_id: String,
    /// The record of the request in the audit log, if there is one.
    pub(crate) audit: Option<Arc<Record>>,
    /// The audit events that the request waits for.
    pub(crate) audit_waits: Waits,
    /// The time at which the request arrived.
    pub(crate) started: tokio::time::Instant,
    /// The deadline of the request; `None` for requests without a limit, and before it is known.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

impl Call {
    /// Returns a header as text; empty if it is missing.
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// A response, before it is written.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
    /// The protocol after this response.
    pub(crate) upgrade: Option<Upgrade>,
}

/// The content of a response.
#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    /// Parts that are sent as they are produced.
    Stream(Body),
}

impl Answer {
    pub(crate) fn new(code: StatusCode, content_type: &'static str, body: Bytes) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self {
            code,
            headers,
            content: Content::Whole(body),
            upgrade: None,
        }
    }

    /// Returns an object in the negotiated format.
    pub(crate) fn object(code: StatusCode, value: &Value, form: Form) -> Self {
        Self::new(code, form.content_type(), body::encode(value, form))
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::object(StatusCode::OK, value, Form::default())
    }

    pub(crate) fn text(code: StatusCode, text: &str) -> Self {
        let mut answer = Self::new(code, "text/plain; charset=utf-8", Bytes::from(text.to_owned()));
        answer.headers.insert(
            HeaderName::from_static("x-content-type-options"),
            HeaderValue::from_static("nosniff"),
        );
        answer
    }

    /// Returns the response of the real server's router for an unknown path.
    pub(crate) fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    pub(crate) fn status(status: &Status, form: Form) -> Self {
        let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = Self::object(code, &status.body, form);
        if let Some(seconds) = status.retry_after() {
            answer.set(RETRY_AFTER, &seconds.to_string());
        }
        answer
    }

    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// Adds one `Warning` header for each text.
    pub(crate) fn warn(&mut self, texts: &[String]) {
        for text in texts {
            let quoted = format!("299 - {}", apimachinery::go::quote(text));
            if let Ok(value) = HeaderValue::from_str(&quoted) {
                self.headers.append(WARNING, value);
            }
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(match self.content {
            Content::Whole(bytes) => full(bytes),
            Content::Stream(body) => body,
        });
        *response.status_mut() = self.code;
        *response.headers_mut() = self.headers;
        if let Some(upgrade) = self.upgrade {
            response.extensions_mut().insert(upgrade);
            return response;
        }
        response
            .headers_mut()
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-cache, private"));
        response
    }
}

pub(crate) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

/// Returns `body` with a guard that is dropped together with it: after its last byte is written, or when the client
/// disconnects.
pub(crate) fn hold(body: Body, guard: impl Send + Unpin + 'static) -> Body {
    Held { body, _guard: guard }.boxed_unsync()
}

struct Held<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin> http_body::Body for Held<G> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
