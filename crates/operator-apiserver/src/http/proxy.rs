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
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http::call::{Answer, Call, Content};
use crate::http::handler::Handler;
use crate::identity::authn::User;
use crate::registry::aggregation::Remote;
use crate::status::{self, Status};
use crate::webhook_client;

/// The client certificate and the key, in PEM, for the servers of extension APIs.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// Returns true for hop-by-hop headers, and for those that identify the client.
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
        || text.starts_with("impersonate-")
        || text.starts_with("x-remote-")
}

/// Answers a request with the answer of the extension API server.
pub(crate) async fn serve(
    handler: &Handler,
    method: &Method,
    call: &Call,
    remote: &Remote,
) -> Result<Answer, Status> {
    let Some(address) = remote.address else {
        return Ok(Answer::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "service unavailable\n",
        ));
    };
    let failed = |why: String| status::unavailable(format!("error trying to reach service: {why}"));
    let identity = handler.proxy_identity.as_ref();
    let identity = identity.map(|identity| (identity.certificate.as_slice(), identity.key.as_slice()));
    let tls = webhook_client::client_config(&remote.authorities, identity, remote.is_insecure);
    let tls = tls.map_err(failed)?;
    let host = format!("{}.{}.svc", remote.service, remote.namespace);
    let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.to_string()))?;
    tokio::spawn(connection);
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = method.clone();
    *request.uri_mut() = call
        .origin
        .uri
        .parse()
        .map_err(|_| status::bad_request("the path cannot be forwarded"))?;
    *request.headers_mut() = headers(call, &host);
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    for name in [CONNECTION, HeaderName::from_static("transfer-encoding")] {
        headers.remove(name);
    }
    Ok(Answer {
        code: parts.status,
        headers,
        content: Content::Stream(Forwarded(body).boxed_unsync()),
    })
}

/// Returns the headers of the client, with its user instead of its credentials.
fn headers(call: &Call, host: &str) -> HeaderMap {
    let mut headers: HeaderMap = call
        .headers
        .iter()
        .filter(|(name, _)| !is_dropped(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let User {
        name,
        uid,
        groups,
        extra,
    } = &call.user;
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

/// Returns the key of an extra field as a part of a header name: other bytes are percent-encoded.
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

/// The body of an answer; it ends early if the connection breaks.
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
