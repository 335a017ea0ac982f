//! The rooms that a request walks through, in order, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderName, USER_AGENT};
use http::request::Parts;
use http::{Method, Response};
use tokio_util::sync::CancellationToken;

use crate::authn::{self, User};
use crate::authz::{self, Attributes};
use crate::call::{Answer, Body, Call};
use crate::deadline::Deadline;
use crate::discovery;
use crate::negotiate::{Asked, Form, encoding, negotiate, negotiate_error};
use crate::query::{self, Query};
use crate::registry::{Backing, Definition, Registry, Warnings, builtin_catalog};
use crate::request_info::RequestInfo;
use crate::status::{self, Status};
use crate::verb;

/// A request as it comes in.
pub(crate) struct Incoming<B> {
    pub(crate) parts: Parts,
    /// Reads the body.
    pub(crate) body: B,
    pub(crate) user: User,
    pub(crate) drain: CancellationToken,
    /// How long the request may take.
    pub(crate) limit: Duration,
}

/// Answers a request.
pub(crate) async fn handle(
    registry: &Arc<Registry>,
    incoming: Incoming<impl Future<Output = Result<Bytes, Status>>>,
) -> Response<Body> {
    let parts = incoming.parts;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let path = query::decode(&parts.uri.path().replace('+', "%2B"));
    let info = RequestInfo::parse(&parts.method, &path, &query);
    let mut call = Call {
        info,
        query,
        headers: parts.headers,
        body: Bytes::new(),
        user: incoming.user,
        warnings: Warnings::default(),
        drain: incoming.drain,
    };
    let answer = match identify(registry, &mut call) {
        Ok(()) => in_time(registry, &parts.method, &mut call, incoming.body, incoming.limit).await,
        Err(refusal) => Err(refusal),
    };
    let mut answer = answer.unwrap_or_else(|status| Answer::status(&status, error_form(&call)));
    answer.warn(&call.warnings.take());
    encoding::compress(&mut answer, &call.headers);
    answer.set(HeaderName::from_static("audit-id"), &registry.random.uuid());
    answer.into_response()
}

/// Reads the body and answers, as long as there is time.
async fn in_time(
    registry: &Arc<Registry>,
    method: &Method,
    call: &mut Call,
    body: impl Future<Output = Result<Bytes, Status>>,
    limit: Duration,
) -> Result<Answer, Status> {
    let deadline = Deadline::of(call, limit)?;
    // Before the body: it costs memory.
    authz::check(registry, &Attributes::of(&call.user, &call.info))?;
    if has_body(method) {
        call.body = deadline.read(body).await?;
    }
    deadline.answer(route(registry, method, call)).await
}

/// Whether requests with a method have a body that is looked at.
fn has_body(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whose the request is: that of its user, or of the one that the user acts as.
fn identify(registry: &Registry, call: &mut Call) -> Result<(), Status> {
    if call.user.is_anonymous()
        && let Some(token) = authn::bearer_token(&call.headers)
    {
        let known = authn::authenticate(registry, token, &[]);
        call.user = known.map_err(|_| status::unauthorized())?.user;
    }
    if call.user.is_anonymous() && !registry.anonymous {
        return Err(status::unauthorized());
    }
    let asked = Attributes::of(&call.user, &call.info);
    if let Some(user) = authn::impersonate(registry, &call.headers, &asked)? {
        call.user = user;
    }
    Ok(())
}

async fn route(registry: &Arc<Registry>, method: &Method, call: &Call) -> Result<Answer, Status> {
    let info = &call.info;
    if !info.is_resource {
        return match discovery::openid::serve(registry, method, call).await {
            Some(answer) => answer,
            None => discovery::serve(registry, method, call),
        };
    }
    let Some(definition) = registry.find(&info.group, &info.version, &info.resource) else {
        return unknown(registry, info);
    };
    if !scope_fits(&definition, info) {
        return if definition.is_custom() {
            Ok(Answer::not_found())
        } else {
            Err(status::unknown_resource())
        };
    }
    let asked = if definition.is_custom() {
        Asked::Custom
    } else {
        let collection = matches!(info.verb, "list" | "watch");
        Asked::Builtin {
            watchable: collection && definition.allows("watch"),
        }
    };
    let form = negotiated(call, asked)?;
    if let Backing::Custom(version) = &definition.backing
        && let Some(warning) = &version.deprecation
    {
        call.warnings.add(warning.as_str());
    }
    verb::serve(registry, method, call, &definition, form).await
}

/// The form of the answer that the client asked for.
pub(crate) fn negotiated(call: &Call, asked: Asked) -> Result<Form, Status> {
    negotiate(call.header(ACCEPT), call.header(USER_AGENT), &call.query, asked)
}

/// The form of an error.
fn error_form(call: &Call) -> Form {
    negotiate_error(call.header(ACCEPT), call.header(USER_AGENT), &call.query)
}

/// A namespaced path of a cluster-scoped resource leads nowhere; so does one object of all namespaces.
fn scope_fits(definition: &Definition, info: &RequestInfo) -> bool {
    if definition.is("", "namespaces") {
        return true;
    }
    if definition.namespaced {
        let all_namespaces =
            info.name.is_empty() && (!definition.is_custom() || matches!(info.verb, "list" | "watch"));
        !info.namespace.is_empty() || all_namespaces
    } else {
        info.namespace.is_empty()
    }
}

fn unknown(registry: &Registry, info: &RequestInfo) -> Result<Answer, Status> {
    if builtin_catalog().has_group(&info.group) {
        return Err(status::unknown_resource());
    }
    let _ = registry;
    Ok(Answer::not_found())
}
