//! Forwards requests to the servers of extension APIs, with the user in the headers of front proxies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::http::call::{Answer, Call, Content};
use crate::http::handler::Handler;
use crate::http::upgrade::Upgrade;
use crate::http::websocket;
use crate::identity::authn::{self, User};
use crate::registry::aggregation::check::{Entry, Health};
use crate::status::{self, Status};
use crate::webhook_client::extension;

/// Returns true for headers that are not forwarded: hop-by-hop headers, and those that identify the client.
fn is_dropped(name: &HeaderName) -> bool {
    const DROPPED: [&str; 7] = [
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
    ];
    let text = name.as_str();
    [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, UPGRADE].contains(name)
        || DROPPED.contains(&text)
        || text.starts_with(authn::IMPERSONATION_PREFIX)
        || text.starts_with("x-remote-")
}

/// Forwards a request as `user` to the extension API server if it is available, and returns its response.
pub(crate) async fn serve(
    handler: &Handler,
    method: &Method,
    call: &Call,
    user: &User,
    entry: &Entry,
) -> Result<Answer, Status> {
    entry.start(&handler.registry);
    if !matches!(entry.health(), Health::Available(_)) {
        return Ok(Answer::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "service unavailable\n",
        ));
    }
    let failed = |why: String| status::unavailable(format!("error trying to reach service: {why}"));
    let endpoint = &entry.remote.endpoint;
    let identity = handler.registry.aggregation.identity();
    let mut sender = extension::connect(endpoint, identity).await.map_err(failed)?;
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = method.clone();
    *request.uri_mut() = call
        .origin
        .uri
        .parse()
        .map_err(|_| status::bad_request("invalid path: it cannot be forwarded"))?;
    *request.headers_mut() = headers(call, user, &endpoint.host);
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mut response = response;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS && upgrades(call) {
        let server = hyper::upgrade::on(&mut response);
        return Ok(Answer {
            code: response.status(),
            headers: std::mem::take(response.headers_mut()),
            content: Content::Stream(Full::new(Bytes::new()).boxed_unsync()),
            upgrade: Some(Upgrade::Tunnel(server)),
        });
    }
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    for name in [CONNECTION, HeaderName::from_static("transfer-encoding")] {
        headers.remove(name);
    }
    Ok(Answer {
        code: parts.status,
        headers,
        content: Content::Stream(Forwarded(body).boxed_unsync()),
        upgrade: None,
    })
}

/// Returns true if the client requests another protocol for its connection.
fn upgrades(call: &Call) -> bool {
    call.can_upgrade && websocket::is_upgrade(&call.headers)
}

/// Returns the headers of the client, with its user instead of its credentials.
fn headers(call: &Call, user: &User, host: &str) -> HeaderMap {
    let mut headers: HeaderMap = call
        .headers
        .iter()
        .filter(|(name, _)| !is_dropped(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if upgrades(call) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Some(protocol) = call.headers.get(UPGRADE) {
            headers.insert(UPGRADE, protocol.clone());
        }
    }
    let User {
        name,
        uid,
        groups,
        extra,
    } = user;
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    };
    add("host", host);
    add("x-remote-user", name);
    if !uid.is_empty() {
        add("x-remote-uid", uid);
    }
    for group in groups {
        add("x-remote-group", group);
    }
    for (key, values) in extra {
        let key = escape(key);
        for value in values {
            add(&format!("x-remote-extra-{key}"), value);
        }
    }
    if let Some(address) = call.origin.address {
        add("x-forwarded-for", &address.to_string());
    }
    headers
}

/// Percent-encodes the key of an extra field for use in a header name.
fn escape(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte).to_ascii_lowercase());
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    escaped
}

/// The body of a forwarded response; it ends early if the connection breaks.
struct Forwarded(Incoming);

impl http_body::Body for Forwarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.0)
            .poll_frame(context)
            .map(|frame| frame.and_then(|frame| frame.ok().map(Ok)))
    }
}
