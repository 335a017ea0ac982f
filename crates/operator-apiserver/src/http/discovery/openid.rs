//! OpenID Connect discovery and the public keys for the verification of service account tokens.

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{Method, StatusCode};
use serde_json::Value;

use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::identity::token::{Issuer, SigningError};
use crate::status::{self, Status};

const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
const KEYS_PATH: &str = "/openid/v1/jwks";
const KEYS_TYPE: &str = "application/jwk-set+json";
/// The cache control of the documents: keys change only when the server restarts.
const CACHED: &str = "public, max-age=3600";

/// Serves the paths of OpenID Connect discovery; returns `None` for others.
pub(crate) async fn serve(handler: &Handler, method: &Method, call: &Call) -> Option<Result<Answer, Status>> {
    type Document = fn(&Issuer) -> Result<Value, SigningError>;
    let (media, document): (_, Document) = match call.info.path.trim_end_matches('/') {
        CONFIGURATION_PATH => ("application/json", Issuer::configuration),
        KEYS_PATH => (KEYS_TYPE, Issuer::key_set),
        _ => return None,
    };
    if method != Method::GET {
        return Some(Err(status::method_not_allowed()));
    }
    if !accepts(call.header(ACCEPT), media) {
        return Some(Err(status::no_representation(media)));
    }
    let issuer = handler.authenticator.issuer.clone();
    // The first request creates the key, which is slow.
    let made = tokio::task::spawn_blocking(move || document(&issuer)).await;
    let document = match made {
        Ok(Ok(document)) => document,
        Ok(Err(error)) => return Some(Err(status::internal(&error.to_string()))),
        Err(error) => return Some(Err(status::internal(&error.to_string()))),
    };
    let mut answer = Answer::new(StatusCode::OK, media, Bytes::from(document.to_string()));
    answer.set(CACHE_CONTROL, CACHED);
    Some(Ok(answer))
}

/// Returns true if an `Accept` header names a type, or accepts any type.
fn accepts(header: &str, media: &str) -> bool {
    let mut types = header
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    header.is_empty() || types.any(|accepted| accepted == "*/*" || accepted == media)
}
