//! [`client`], the connection of the operator under test, which injects the faults of requests and watches.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::stream::{self, Stream};
use http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use tower::Service;

use crate::call::{Call, Signature};
use crate::plan::{Action, Cause};
use crate::refusal::{self, Refusal};
use crate::session::{Begun, Delivery, Fate, Session};
use crate::trace::Actor;

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
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The content of a line of a watch.
enum Meaning {
    /// A change, such as `ADDED web`.
    Change(String),
    /// A bookmark, and true if it ends the initial events.
    Bookmark(bool),
    /// An error.
    Other,
}

/// A watch that is read line by line.
struct Lines {
    body: operator_apiserver::Body,
    /// True if the client gets `410 Expired` instead of all other events.
    is_expired: bool,
    buffer: BytesMut,
    connection: Connection,
    signature: Signature,
    has_ended: bool,
}

/// Counts a watch as delayed until it is dropped.
struct Held(Arc<Session>);

/// Returns the client of one life of the operator. Its requests have the identity of the administrator.
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
            // The changes of others in the meantime are not those of this call.
            self.session.drain(Actor::Cluster, None);
        }
        if let Some(revision) = self.session.stale_revision(self.life, &call) {
            if call.verb == "get" && begun.fate == Fate::Proceed {
                return self.read_stale(&call, &begun, revision).await;
            }
            parts.uri = at_revision(&parts.uri, revision)?;
        }
        let request = Request::from_parts(parts, Body::from(body));
        match begun.fate.clone() {
            Fate::Never => std::future::pending().await,
            Fate::Proceed => self.carry_out(&call, &begun, request).await,
            Fate::Fault(action) => self.fail(action, &call, &begun, request).await,
            Fate::Refused(cause) => self.refuse(cause, &call, &begun),
        }
    }

    /// Returns the response during an outage.
    fn refuse(&self, cause: Cause, call: &Call, begun: &Begun) -> Result<Response<ResponseBody>, BoxError> {
        let refusal = Refusal::during(cause, call);
        let code = refusal.as_ref().map_or(0, |refusal| refusal.code);
        self.session.finish(call, begun, code, true);
        refusal.map(answer).ok_or_else(reset)
    }

    /// Returns the state of an object at a past revision, from a list.
    async fn read_stale(
        &self,
        call: &Call,
        begun: &Begun,
        revision: u64,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let prefix = match call.group.as_str() {
            "" => format!("/api/{}", call.version),
            group => format!("/apis/{group}/{}", call.version),
        };
        let namespace = match call.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let uri = format!(
            "{prefix}{namespace}/{}?fieldSelector=metadata.name%3D{}",
            call.resource, call.name
        );
        let uri = at_revision(&uri.parse()?, revision)?;
        let response = self.call(Request::get(uri).body(Body::empty())?).await?;
        let bytes = response.into_body().collect().await?.to_bytes();
        let list: Value = serde_json::from_slice(&bytes)?;
        let item = list.pointer("/items/0").filter(|item| item.is_object());
        let answer = match item {
            Some(item) => {
                let mut object = item.clone();
                let kind = list.get("kind").and_then(Value::as_str).unwrap_or_default();
                object["kind"] = kind.trim_end_matches("List").into();
                object["apiVersion"] = list.get("apiVersion").cloned().unwrap_or_default();
                (200, object)
            }
            None => (404, refusal::not_found(call)),
        };
        self.session.finish(call, begun, answer.0, false);
        let response = Response::builder()
            .status(answer.0)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(answer.1.to_string())?;
        Ok(response.map(|text| Full::from(text).map_err(|never| match never {}).boxed_unsync()))
    }

    /// Sends a request to the server and records the response.
    async fn carry_out(
        &self,
        call: &Call,
        begun: &Begun,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let response = self.call(request).await?;
        self.session
            .finish(call, begun, response.status().as_u16(), false);
        self.wait_if_dead().await;
        let is_watch = call.verb == "watch" && response.status() == StatusCode::OK;
        let is_expired = is_watch
            && self
                .session
                .is_expired(self.life, &begun.signature, call.continues);
        Ok(response.map(|body| match is_watch {
            true => self.watch(body, begun.signature.clone(), is_expired),
            false => body.map_err(|never| match never {}).boxed_unsync(),
        }))
    }

    /// Injects a fault.
    async fn fail(
        &self,
        action: Action,
        call: &Call,
        begun: &Begun,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        match action {
            Action::CrashBefore => {
                self.session.crash_life(self.life);
                std::future::pending().await
            }
            Action::CrashAfterCommit => {
                let _unread = self.carry_out(call, begun, request).await?;
                self.session.crash_life(self.life);
                std::future::pending().await
            }
            Action::CrashAfterResponse => {
                let response = self.carry_out(call, begun, request).await?;
                self.session.crash_soon(self.life);
                Ok(response)
            }
            Action::Fail(code) => {
                self.session.finish(call, begun, code, true);
                Ok(answer(Refusal::of(code, call)))
            }
            Action::FailAfterCommit(code) => {
                let _unread = self.carry_out(call, begun, request).await?;
                Ok(answer(Refusal::of(code, call)))
            }
            Action::Reset => {
                self.session.finish(call, begun, 0, true);
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
            Action::ThirdPartyDelete => {
                self.session.third_party_delete(call).await;
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

    /// Waits forever if the operator has crashed.
    async fn wait_if_dead(&self) {
        if !self.session.is_alive(self.life) {
            std::future::pending::<()>().await;
        }
    }

    fn watch(&self, body: operator_apiserver::Body, signature: Signature, is_expired: bool) -> ResponseBody {
        let lines = Lines {
            body,
            is_expired,
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

    /// Returns the next event for the operator.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_expired && !self.has_ended {
            self.has_ended = true;
            return Some(Bytes::from(format!("{}\n", refusal::expired())));
        }
        loop {
            if self.has_ended {
                return None;
            }
            let line = self.read().await?;
            self.connection.wait_if_dead().await;
            let (session, life) = (self.connection.session.clone(), self.connection.life);
            let delivery = match Meaning::of(&line) {
                Meaning::Change(event) => session.deliver(life, &self.signature, event),
                Meaning::Bookmark(ends_initial) => session.deliver_bookmark(&self.signature, ends_initial),
                Meaning::Other => Delivery::Pass,
            };
            match delivery {
                Delivery::Pass => return Some(line),
                Delivery::Omit => {}
                Delivery::Cut => {
                    self.has_ended = true;
                    return Some(line);
                }
                Delivery::Expire => return self.expire(),
                Delivery::Hold { delay, skip } => {
                    let held = Held::new(session);
                    tokio::time::sleep(delay).await;
                    drop(held);
                    self.connection.wait_if_dead().await;
                    return if skip { self.expire() } else { Some(line) };
                }
            }
        }
    }

    /// Ends the watch. The client gets `410 Expired` when it continues from its version.
    fn expire(&mut self) -> Option<Bytes> {
        self.has_ended = true;
        self.connection
            .session
            .expire(self.connection.life, &self.signature);
        None
    }

    /// Reads a line, including its line break.
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

// === impl Meaning ===

impl Meaning {
    fn of(line: &[u8]) -> Self {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            return Self::Other;
        };
        let metadata = line.object.metadata;
        match line.kind.as_str() {
            "ADDED" | "MODIFIED" | "DELETED" => Self::Change(format!("{} {}", line.kind, metadata.name)),
            "BOOKMARK" => Self::Bookmark(metadata.annotations.contains_key("k8s.io/initial-events-end")),
            _ => Self::Other,
        }
    }
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

fn answer(refusal: Refusal) -> Response<ResponseBody> {
    let response = refusal.response();
    response.map(|text| Full::from(text).map_err(|never| match never {}).boxed_unsync())
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
