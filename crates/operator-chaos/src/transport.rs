//! The connection of the operator under test: injects the faults of requests and watches.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::stream::{self, Stream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use tower::Service;

use crate::call::{Call, Signature};
use crate::plan::Action;
use crate::session::{Begun, Delivery, Fate, Session};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The connection of one life of the operator.
#[derive(Clone)]
struct Connection {
    session: Arc<Session>,
    life: u32,
}

/// The parts of a watch event that a trace shows.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: LineObject,
}

#[derive(Deserialize)]
struct LineObject {
    #[serde(default)]
    metadata: LineMetadata,
}

#[derive(Default, Deserialize)]
struct LineMetadata {
    #[serde(default)]
    name: String,
}

/// A watch that is read line by line.
struct Lines {
    body: operator_apiserver::Body,
    buffer: BytesMut,
    connection: Connection,
    signature: Signature,
    has_ended: bool,
}

/// Counts a watch as held back while it exists.
struct Held(Arc<Session>);

/// Returns the client of one life of the operator. Requests are those of the administrator.
pub(crate) fn client(session: &Arc<Session>, life: u32) -> Client {
    let connection = Connection {
        session: session.clone(),
        life,
    };
    let service = tower::service_fn(move |request: Request<Body>| {
        let connection = connection.clone();
        async move { connection.send(request).await }
    });
    Client::new(service, "default")
}

// === impl Connection ===

impl Connection {
    async fn send(self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let call = self
            .session
            .with_names(|names| Call::of(&parts.method, &parts.uri, &parts.headers, &body, names));
        let Some(call) = call else {
            self.wait_if_dead().await;
            return self.forward(Request::from_parts(parts, Body::from(body))).await;
        };
        let begun = self.session.begin(self.life, &call);
        if !begun.latency.is_zero() {
            tokio::time::sleep(begun.latency).await;
            self.wait_if_dead().await;
        }
        if let Some(revision) = self.session.stale_revision(self.life, &call) {
            parts.uri = at_revision(&parts.uri, revision)?;
        }
        let request = Request::from_parts(parts, Body::from(body));
        match begun.fate.clone() {
            Fate::Never => std::future::pending().await,
            Fate::Proceed => self.carry_out(&call, &begun, request).await,
            Fate::Fault(action) => self.fail(action, &call, &begun, request).await,
        }
    }

    /// Sends a request to the server and records the answer.
    async fn carry_out(
        &self,
        call: &Call,
        begun: &Begun,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let response = self.call(request).await?;
        self.session.finish(call, begun, response.status().as_u16());
        self.wait_if_dead().await;
        let is_watch = call.verb == "watch" && response.status() == StatusCode::OK;
        Ok(response.map(|body| match is_watch {
            true => self.watch(body, begun.signature.clone()),
            false => body.map_err(|never| match never {}).boxed_unsync(),
        }))
    }

    /// Carries out a fault.
    async fn fail(
        &self,
        action: Action,
        call: &Call,
        begun: &Begun,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        match action {
            Action::CrashBefore => {
                self.session.crash();
                std::future::pending().await
            }
            Action::CrashAfterCommit => {
                let _unread = self.carry_out(call, begun, request).await?;
                self.session.crash();
                std::future::pending().await
            }
            Action::CrashAfterResponse => {
                let response = self.carry_out(call, begun, request).await?;
                self.session.crash_soon();
                Ok(response)
            }
            Action::Fail(code) => {
                self.session.finish(call, begun, code);
                Ok(failure(code))
            }
            Action::FailAfterCommit(code) => {
                let _unread = self.carry_out(call, begun, request).await?;
                Ok(failure(code))
            }
            Action::Reset => {
                self.session.finish(call, begun, 0);
                Err(reset())
            }
            Action::ResetAfterCommit => {
                let _unread = self.carry_out(call, begun, request).await?;
                Err(reset())
            }
            Action::ThirdPartyWrite => {
                self.session.third_party_write(call).await;
                self.carry_out(call, begun, request).await
            }
            // Faults of watches and of steps have other positions.
            _ => self.carry_out(call, begun, request).await,
        }
    }

    async fn forward(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let response = self.call(request).await?;
        Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    /// Sends a request to the server.
    async fn call(&self, request: Request<Body>) -> Result<Response<operator_apiserver::Body>, BoxError> {
        Ok(self.session.server.clone().call(request).await?)
    }

    /// Never returns once the operator has crashed.
    async fn wait_if_dead(&self) {
        if !self.session.is_alive(self.life) {
            std::future::pending::<()>().await;
        }
    }

    fn watch(&self, body: operator_apiserver::Body, signature: Signature) -> ResponseBody {
        let lines = Lines {
            body,
            buffer: BytesMut::new(),
            connection: self.clone(),
            signature,
            has_ended: false,
        };
        StreamBody::new(lines.into_stream()).boxed_unsync()
    }
}

// === impl Lines ===

impl Lines {
    fn into_stream(self) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send {
        stream::unfold(self, |mut lines| async move {
            let frame = lines.next().await?;
            Some((Ok(Frame::data(frame)), lines))
        })
    }

    /// Returns the next event that the operator gets.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let line = self.read().await;
        self.connection.wait_if_dead().await;
        let line = line?;
        let Some(event) = describe(&line) else {
            return Some(line);
        };
        let (session, life) = (self.connection.session.clone(), self.connection.life);
        match session.deliver(life, &self.signature, event) {
            Delivery::Pass => Some(line),
            Delivery::Cut => {
                self.has_ended = true;
                Some(line)
            }
            Delivery::Expire => self.expire(),
            Delivery::Hold { delay, skip } => {
                let held = Held::new(session);
                tokio::time::sleep(delay).await;
                drop(held);
                self.connection.wait_if_dead().await;
                if skip { self.expire() } else { Some(line) }
            }
        }
    }

    fn expire(&mut self) -> Option<Bytes> {
        self.has_ended = true;
        let status = status(410, "Expired", "too old resource version");
        Some(Bytes::from(format!(
            "{}\n",
            json!({"type": "ERROR", "object": status})
        )))
    }

    /// Reads a line with its end.
    async fn read(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(self.buffer.split_to(end + 1).freeze());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(never)) => match never {},
                None if self.buffer.has_remaining() => return Some(self.buffer.split().freeze()),
                None => return None,
            }
        }
    }
}

/// Returns `added NAME` and so on; `None` for bookmarks and errors.
fn describe(line: &[u8]) -> Option<String> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let is_change = matches!(line.kind.as_str(), "ADDED" | "MODIFIED" | "DELETED");
    is_change.then(|| format!("{} {}", line.kind, line.object.metadata.name))
}

// === impl Held ===

impl Held {
    fn new(session: Arc<Session>) -> Self {
        session.hold(true);
        Self(session)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.hold(false);
        self.0.touch();
    }
}

/// Returns the URL of the same list at a past revision.
fn at_revision(uri: &Uri, revision: u64) -> Result<Uri, http::Error> {
    let query = uri.query().unwrap_or_default();
    let kept = query
        .split('&')
        .filter(|part| !part.starts_with("resourceVersion") && !part.is_empty());
    let mut query: Vec<String> = kept.map(str::to_owned).collect();
    query.push(format!("resourceVersion={revision}&resourceVersionMatch=Exact"));
    Ok(format!("{}?{}", uri.path(), query.join("&")).parse::<Uri>()?)
}

fn failure(code: u16) -> Response<ResponseBody> {
    let (reason, message) = match code {
        409 => (
            "Conflict",
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "apiserver is shutting down"),
        504 => ("Timeout", "request did not complete within the allotted timeout"),
        _ => ("InternalError", "etcdserver: leader changed"),
    };
    let body = Full::from(status(code, reason, message).to_string());
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}

fn status(code: u16, reason: &str, message: &str) -> serde_json::Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    if code == 429
        && let Some(fields) = status.as_object_mut()
    {
        fields.insert("details".to_owned(), json!({"retryAfterSeconds": 1}));
    }
    status
}

fn reset() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_moved_to_a_past_revision() {
        let uri: Uri = "/api/v1/pods?resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=5"
            .parse()
            .unwrap_or_default();
        let moved = at_revision(&uri, 7).unwrap_or_default().to_string();
        assert_eq!(
            moved,
            "/api/v1/pods?limit=5&resourceVersion=7&resourceVersionMatch=Exact"
        );
    }
}
