//! The steps of a request, in order.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::go::url;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codec::{Form, Representations, negotiate, negotiate_error};
use crate::http::audit::{self, Origin, Waits};
use crate::http::call::{Answer, Body, Call, Content};
use crate::http::deadline::Deadline;
use crate::http::encoding;
use crate::http::handler::Handler;
use crate::http::in_flight::Received;
use crate::http::request_info::RequestInfo;
use crate::http::request_metrics;
use crate::http::router;
use crate::http::upgrade::Upgrade;
use crate::identity::authn::{self, User};
use crate::identity::authz::Attributes;
use crate::query::Query;
use crate::status::{self, Status};
use crate::write::Warnings;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// A request as it is received.
pub(crate) struct Incoming<B> {
    pub(crate) parts: Parts,
    /// Reads the body.
    pub(crate) body: B,
    pub(crate) user: User,
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    /// True if the client's certificate is not trusted.
    pub(crate) is_untrusted: bool,
    /// The common name of the client's certificate, if it is one of a front proxy.
    pub(crate) proxy: Option<String>,
    /// The expiry of the client's certificate; the connection may last longer.
    pub(crate) expiry: Option<Timestamp>,
    pub(crate) drain: CancellationToken,
    /// True if the connection can change its protocol.
    pub(crate) can_upgrade: bool,
    /// The time limit of the request.
    pub(crate) limit: Duration,
}

/// Handles a request.
pub(crate) async fn handle(
    handler: &Arc<Handler>,
    incoming: Incoming<impl Future<Output = Result<Received, Status>>>,
) -> Response<Body> {
    let waits = Waits::default();
    let response = answer(handler, incoming, &waits).await;
    waits.wait().await;
    response
}

async fn answer(
    handler: &Arc<Handler>,
    incoming: Incoming<impl Future<Output = Result<Received, Status>>>,
    waits: &Waits,
) -> Response<Body> {
    let parts = incoming.parts;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let Some(path) = url::unescape_path(parts.uri.path()) else {
        return Answer::text(StatusCode::BAD_REQUEST, "400 Bad Request").into_response();
    };
    let info = RequestInfo::parse(&parts.method, &path, &query);
    let mut call = Call {
        info,
        query,
        headers: parts.headers,
        body: Bytes::new(),
        memory: None,
        user: incoming.user,
        warnings: Warnings::default(),
        drain: incoming.drain,
        can_upgrade: incoming.can_upgrade,
        impersonated: None,
        origin: Origin {
            uri: parts
                .uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            address: incoming.address,
        },
        audit_id: String::new(),
        audit: None,
        audit_waits: waits.clone(),
        started: Instant::now(),
        deadline: None,
    };
    call.audit_id = match call.header(AUDIT_ID) {
        "" => handler.registry.random.uuid(),
        given => given.to_owned(),
    };
    if call.info.is_incomplete() {
        let escaped = call
            .origin
            .uri
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let uri = &escaped;
        let why = format!(
            "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and namespace from url, {uri}\n",
            apimachinery::go::quote(uri)
        );
        let answer = Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &why);
        return respond(handler, &call, Ok(answer));
    }
    let _in_flight = request_metrics::begin(&handler.metrics, &call);
    let is_expired = incoming.expiry.is_some_and(|expiry| expiry < Timestamp::now());
    let is_refused = is_expired || incoming.is_untrusted;
    if is_refused {
        call.user = User::anonymous();
    }
    let proxied = incoming.proxy.zip(handler.front_proxy.as_ref());
    let proxied = proxied.and_then(|(proxy, trust)| trust.user(&proxy, &mut call.headers));
    let authenticated = if let Some(user) = proxied {
        call.user = user;
        Ok(())
    } else if is_refused && authn::bearer_token(&call.headers).is_none() {
        Err(status::unauthorized())
    } else {
        authenticate(handler, &mut call).await
    };
    let identified = match authenticated {
        Ok(()) => {
            match audit::begin(handler, &call).await {
                Ok(record) => call.audit = record,
                Err(refused) => return respond(handler, &call, Ok(refused)),
            }
            act_as(handler, &mut call).await
        }
        Err(refusal) => {
            audit::unauthenticated(handler, &call, &refusal);
            Err(refusal)
        }
    };
    let _slot = match identified
        .is_ok()
        .then(|| handler.in_flight.enter(&call))
        .transpose()
    {
        Ok(slot) => slot,
        Err(too_many) => return respond(handler, &call, Ok(too_many.answer())),
    };
    let prepared = match identified {
        Ok(()) => prepare(handler, &parts.method, &mut call, incoming.body, incoming.limit).await,
        Err(refusal) => Err(Refusal::Status(refusal)),
    };
    let deadline = match prepared {
        Ok(deadline) => deadline,
        Err(refusal) => return respond(handler, &call, refusal.into_answer()),
    };
    if !is_long(handler, &call) {
        // Boxed because the future is large, and would be moved from frame to frame of a small stack.
        let mut answer = Box::pin(router::serve(handler, &parts.method, &call));
        let answer = deadline.answer(answer.as_mut()).await;
        return respond(handler, &call, answer);
    }
    let call = Arc::new(call);
    let work = {
        let (handler, call) = (handler.clone(), call.clone());
        async move {
            let answer = Box::pin(router::serve(&handler, &parts.method, &call)).await;
            respond(&handler, &call, answer)
        }
    };
    let offloaded = pin!(async {
        let response = handler.offload.run(work).await;
        response.ok_or_else(|| status::internal("the request could not be handled"))
    });
    match deadline.answer(offloaded).await {
        Ok(response) => response,
        Err(refusal) => respond(handler, &call, Err(refusal)),
    }
}

/// Returns the response to a request, with the common headers.
fn respond(handler: &Handler, call: &Call, answer: Result<Answer, Status>) -> Response<Body> {
    let mut answer = answer.unwrap_or_else(|status| Answer::status(&status, error_form(call)));
    answer.warn(&call.warnings.take());
    audit::complete(call, &mut answer);
    if handler.gates.is_enabled("APIResponseCompression") {
        encoding::compress(&mut answer, &call.headers);
    }
    let code = answer.code.as_u16();
    answer.content = match answer.content {
        Content::Whole(bytes) => {
            request_metrics::answered(handler, call, code, bytes.len());
            Content::Whole(bytes)
        }
        Content::Stream(body) => Content::Stream(request_metrics::follow(handler, call, code, body)),
    };
    // A websocket has the headers of its handshake only.
    if !matches!(answer.upgrade, Some(Upgrade::Events { .. })) {
        answer.set(AUDIT_ID, &call.audit_id);
    }
    answer.into_response()
}

/// Authorizes the request, and reads its body; returns its deadline.
async fn prepare(
    handler: &Handler,
    method: &Method,
    call: &mut Call,
    body: impl Future<Output = Result<Received, Status>>,
    limit: Duration,
) -> Result<Deadline, Refusal> {
    let deadline = Deadline::of(call, limit)?;
    call.deadline = deadline.end();
    // Authorization precedes reading the body, which needs memory.
    authorize(handler, call, deadline).await?;
    if has_body(method) {
        let received = deadline.read(pin!(body)).await?;
        (call.body, call.memory) = (received.bytes, received.memory);
    }
    if call.info.verb == "patch"
        && let Some(record) = &call.audit
        && record.wants_request()
        && let Ok(patch) = serde_json::from_slice(&call.body)
    {
        record.request_object(&patch);
    }
    Ok(deadline)
}

/// The response to a request that is not handled: a Status, or another response.
enum Refusal {
    Status(Status),
    Answer(Box<Answer>),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Refusal {
    fn into_answer(self) -> Result<Answer, Status> {
        match self {
            Self::Status(status) => Err(status),
            Self::Answer(answer) => Ok(*answer),
        }
    }
}

/// Checks that the request is allowed.
async fn authorize(handler: &Handler, call: &Call, deadline: Deadline) -> Result<(), Refusal> {
    let asked = Attributes::of(&call.user, &call.info);
    let decision = pin!(async { Ok(handler.registry.authorizer.check_and_explain(&asked).await) });
    let decision = deadline.answer(decision).await?;
    let annotate = |word: &str, reason: &str| {
        if call.audit.is_some() {
            if !word.is_empty() {
                call.warnings.annotate("authorization.k8s.io/decision", word);
            }
            call.warnings.annotate("authorization.k8s.io/reason", reason);
        }
    };
    match decision {
        Ok(reason) => {
            annotate("allow", &reason);
            Ok(())
        }
        Err(refused) if refused.error.is_empty() => {
            annotate("forbid", &refused.reason);
            Err(refused.status.into())
        }
        Err(undecided) => {
            annotate("", "internal error");
            let text = format!(
                "Internal Server Error: {}: {}\n",
                apimachinery::go::quote(&call.origin.uri),
                undecided.error
            );
            let answer = Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &text);
            Err(Refusal::Answer(Box::new(answer)))
        }
    }
}

/// The body size from which a request runs on a separate thread.
const LONG_BODY_BYTES: usize = 16 << 10;
/// The body size from which a JSON patch, whose copies can repeat parts of the object, runs on a separate thread.
const LONG_PATCH_BYTES: usize = 200;
/// The body size from which a request for a custom resource runs on a separate thread: its rules may be expensive.
const LONG_CUSTOM_BODY_BYTES: usize = 4 << 10;
/// The number of objects, and their memory, from which a list runs on a separate thread.
const LONG_LIST: usize = 500;
const LARGE_LIST_BYTES: usize = 1 << 20;
/// The memory of an object from which a read or a change of it runs on a separate thread.
const LARGE_OBJECT_BYTES: usize = 128 << 10;

/// Returns true if a request may take so long that health checks would be delayed.
fn is_long(handler: &Handler, call: &Call) -> bool {
    let info = &call.info;
    let media = call.header(CONTENT_TYPE);
    let longest = match media.starts_with("application/json-patch") {
        true => LONG_PATCH_BYTES,
        false => LONG_BODY_BYTES,
    };
    let has_aliases = || media.contains("yaml") && call.body.contains(&b'*');
    // The first request for an OpenAPI document after a change of the resources builds it.
    if call.body.len() >= longest || info.path.starts_with("/openapi/") || has_aliases() {
        return true;
    }
    let Some(definition) = handler.registry.find(&info.group, &info.version, &info.resource) else {
        return false;
    };
    let store = &handler.registry.store;
    let is_large = || {
        let key = definition.key(&info.namespace, &info.name);
        let live = store.get(&definition.table, &key);
        live.is_some_and(|live| live.memory >= LARGE_OBJECT_BYTES)
    };
    match info.verb {
        "list" | "deletecollection" => {
            store.count(&definition.table) >= LONG_LIST || store.memory(&definition.table) >= LARGE_LIST_BYTES
        }
        "get" => is_large(),
        "create" | "update" | "patch" | "delete" => {
            let is_schema = definition.is("apiextensions.k8s.io", "customresourcedefinitions");
            let grants = info.group == "rbac.authorization.k8s.io" && !call.user.is_master();
            let has_rules = definition.is_custom() && call.body.len() >= LONG_CUSTOM_BODY_BYTES;
            is_schema || grants || has_rules || is_large()
        }
        _ => false,
    }
}

/// Returns true if the server reads the bodies of requests with this method.
fn has_body(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Authenticates the request.
async fn authenticate(handler: &Handler, call: &mut Call) -> Result<(), Status> {
    if call.user.is_anonymous()
        && let Some(token) = authn::bearer_token(&call.headers)
    {
        let known = handler.authenticator.authenticate(&token, &[]).await;
        call.user = known.map_err(|_| status::unauthorized())?.user;
    }
    if call.user.is_anonymous() && !handler.authenticator.anonymous().allows(&call.info.path) {
        return Err(status::unauthorized());
    }
    Ok(())
}

/// Impersonates the user in the headers, if there are any.
async fn act_as(handler: &Handler, call: &mut Call) -> Result<(), Status> {
    let asked = Attributes::of(&call.user, &call.info);
    let authorizer = &handler.registry.authorizer;
    if let Some(user) = authn::impersonate(authorizer, &call.headers, &asked).await? {
        call.impersonated = Some(user.clone());
        call.user = user;
    }
    Ok(())
}

/// Returns the format of the response that the client requested.
pub(crate) fn negotiated(call: &Call, offered: Representations) -> Result<Form, Status> {
    negotiate(call.header(ACCEPT), call.header(USER_AGENT), &call.query, offered)
}

/// Returns the format of an error.
fn error_form(call: &Call) -> Form {
    negotiate_error(call.header(ACCEPT), call.header(USER_AGENT), &call.query)
}
