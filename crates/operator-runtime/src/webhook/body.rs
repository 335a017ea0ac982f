//! Reads the bodies of requests, with limits.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::endpoint::Body;

/// A request that cannot be decoded.
#[derive(Debug)]
pub(super) struct Malformed(pub(super) StatusCode, pub(super) String);

/// Returns the JSON body of a POST.
pub(super) async fn read_json(parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Malformed> {
    let bad = |message: String| Malformed(StatusCode::BAD_REQUEST, message);
    if parts.method != Method::POST {
        return Err(Malformed(
            StatusCode::METHOD_NOT_ALLOWED,
            "webhook requests must use POST".to_owned(),
        ));
    }
    let kind = content_type(&parts.headers);
    if kind != "application/json" {
        return Err(bad(format!("contentType={kind}, expected application/json")));
    }
    match read(body, limit).await? {
        body if body.is_empty() => Err(bad("request body is empty".to_owned())),
        body => Ok(body),
    }
}

/// Returns the whole body.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes, Malformed> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("request entity is too large; limit is {limit} bytes");
            Err(Malformed(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(error) => Err(Malformed(StatusCode::BAD_REQUEST, error.to_string())),
    }
}

/// Returns the content type without parameters such as `charset`.
fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}
