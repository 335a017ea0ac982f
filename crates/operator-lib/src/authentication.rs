//! Webhooks that authenticate bearer tokens: [`Authenticator`]. They are for API servers with
//! `--authentication-token-webhook-config-file`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use serde::Deserialize;
use serde_json::json;

const KIND: &str = "TokenReview";
const VERSION: &str = "authentication.k8s.io/v1";

/// Authenticates bearer tokens.
///
/// ```
/// use operator_lib::authentication::{self, Authenticator, TokenRequest, TokenResponse};
/// use operator_runtime::k8s_openapi::api::authentication::v1::UserInfo;
/// use operator_runtime::Manager;
///
/// struct Robots;
///
/// impl Authenticator for Robots {
///     async fn authenticate(&self, request: TokenRequest) -> TokenResponse {
///         match request.token.strip_prefix("robot:") {
///             Some(name) => TokenResponse::authenticated(UserInfo {
///                 username: Some(name.to_owned()),
///                 ..UserInfo::default()
///             }),
///             None => TokenResponse::unauthenticated("no robot"),
///         }
///     }
/// }
///
/// fn setup(manager: &Manager) -> Result<(), operator_runtime::manager::ManagerError> {
///     manager.add_webhook_handler("/authenticate", authentication::handler(Robots))
/// }
/// ```
pub trait Authenticator: Send + Sync + 'static {
    /// Authenticates a token, which is never empty.
    fn authenticate(&self, request: TokenRequest) -> impl Future<Output = TokenResponse> + Send;
}

/// The request of an API server.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TokenRequest {
    /// The bearer token.
    pub token: String,
    /// The audiences of the token. Empty means the API server.
    pub audiences: Vec<String>,
    /// The extensions of the HTTP request, from the connection and from layers.
    pub extensions: Extensions,
}

/// The `status` of a `TokenReview`. The default is unauthenticated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenResponse(TokenReviewStatus);

/// The relevant part of a `TokenReview`, of v1 or v1beta1.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    uid: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    token: Option<String>,
    audiences: Option<Vec<String>>,
}

// === impl TokenResponse ===

impl TokenResponse {
    /// Authenticates the token as this user.
    pub fn authenticated(user: UserInfo) -> Self {
        Self(TokenReviewStatus {
            authenticated: Some(true),
            user: Some(user),
            ..TokenReviewStatus::default()
        })
    }

    /// Rejects the token. `reason` is for the log of the API server, and may be empty.
    pub fn unauthenticated(reason: impl Into<String>) -> Self {
        Self(TokenReviewStatus {
            authenticated: Some(false),
            error: Some(reason.into()).filter(|reason| !reason.is_empty()),
            ..TokenReviewStatus::default()
        })
    }

    /// Rejects the token because of an error, which is for the log of the API server.
    pub fn errored(error: impl std::fmt::Display) -> Self {
        Self::unauthenticated(error.to_string())
    }

    /// Sets the audiences of the token, out of those in the request.
    #[must_use]
    pub fn audiences(mut self, audiences: impl IntoIterator<Item = String>) -> Self {
        self.0.audiences = Some(audiences.into_iter().collect());
        self
    }

    /// Returns the response to a review of this version as JSON.
    fn to_json(&self, api_version: &str, uid: Option<&str>) -> Vec<u8> {
        let api_version = if api_version.is_empty() {
            VERSION
        } else {
            api_version
        };
        let metadata = uid.map_or_else(|| json!({}), |uid| json!({"uid": uid}));
        let review = json!({
            "kind": KIND, "apiVersion": api_version, "metadata": metadata, "spec": {}, "status": self.0,
        });
        review.to_string().into_bytes()
    }
}

/// Returns a handler that answers token reviews, for [`Manager::add_webhook_handler`].
///
/// [`Manager::add_webhook_handler`]: operator_runtime::Manager::add_webhook_handler
pub fn handler<A: Authenticator>(
    authenticator: A,
) -> impl Fn(Request<Bytes>) -> BoxFuture<'static, Response<Full<Bytes>>> + Send + Sync + 'static {
    let authenticator = Arc::new(authenticator);
    move |request| {
        let authenticator = authenticator.clone();
        Box::pin(async move { answer(&*authenticator, request).await })
    }
}

async fn answer(authenticator: &impl Authenticator, request: Request<Bytes>) -> Response<Full<Bytes>> {
    let (code, review) = match review(authenticator, request).await {
        Ok(review) => (StatusCode::OK, review),
        Err((code, message)) => {
            tracing::warn!(message, "Malformed token review");
            (code, TokenResponse::errored(message).to_json("", None))
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(review)));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

async fn review(
    authenticator: &impl Authenticator,
    request: Request<Bytes>,
) -> Result<Vec<u8>, (StatusCode, String)> {
    let bad = |message: String| (StatusCode::BAD_REQUEST, message);
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let message = "webhook requests must use POST".to_owned();
        return Err((StatusCode::METHOD_NOT_ALLOWED, message));
    }
    if body.is_empty() {
        return Err(bad("request body is empty".to_owned()));
    }
    let review: Review = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
    let token = review.spec.token.unwrap_or_default();
    if token.is_empty() {
        return Err(bad("token is empty".to_owned()));
    }
    let request = TokenRequest {
        token,
        audiences: review.spec.audiences.unwrap_or_default(),
        extensions: parts.extensions,
    };
    let answer = AssertUnwindSafe(async { authenticator.authenticate(request).await })
        .catch_unwind()
        .await;
    let response = answer.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let error = format!("panic: {} [recovered]", text.unwrap_or("of unknown kind"));
        tracing::error!(error, "Observed a panic");
        TokenResponse::errored(error)
    });
    Ok(response.to_json(&review.api_version, review.metadata.uid.as_deref()))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use serde_json::Value;

    use super::*;

    /// Authenticates tokens that begin with `robot:`.
    struct Robots;

    impl Authenticator for Robots {
        async fn authenticate(&self, request: TokenRequest) -> TokenResponse {
            match request.token.strip_prefix("robot:") {
                Some("broken") => panic!("rust"),
                Some(name) => TokenResponse::authenticated(UserInfo {
                    username: Some(name.to_owned()),
                    ..UserInfo::default()
                })
                .audiences(request.audiences),
                None => TokenResponse::unauthenticated("no robot"),
            }
        }
    }

    async fn post(body: impl Into<Bytes>) -> (StatusCode, Value) {
        let request = Request::post("/authenticate").body(body.into()).unwrap();
        let response = handler(Robots)(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn tokens_are_reviewed() {
        let ask = async |version: &str, token: &str| {
            let review = json!({
                "apiVersion": version, "kind": "TokenReview", "metadata": {"uid": "u-5"},
                "spec": {"token": token, "audiences": ["api"]},
            });
            let (code, answer) = post(review.to_string()).await;
            assert_eq!(answer["kind"], "TokenReview");
            (code, answer)
        };
        let (code, answer) = ask("authentication.k8s.io/v1", "robot:r2").await;
        assert_eq!(
            (code, &answer["metadata"]["uid"]),
            (StatusCode::OK, &json!("u-5"))
        );
        let wanted = json!({"authenticated": true, "user": {"username": "r2"}, "audiences": ["api"]});
        assert_eq!(answer["status"], wanted);
        let (_, answer) = ask("authentication.k8s.io/v1beta1", "c3po").await;
        assert_eq!(answer["apiVersion"], "authentication.k8s.io/v1beta1");
        assert_eq!(
            answer["status"],
            json!({"authenticated": false, "error": "no robot"})
        );
        let (code, answer) = ask("authentication.k8s.io/v1", "robot:broken").await;
        let error = json!({"authenticated": false, "error": "panic: rust [recovered]"});
        assert_eq!((code, &answer["status"]), (StatusCode::OK, &error));

        let (code, answer) = ask("authentication.k8s.io/v1", "").await;
        assert_eq!(
            (code, &answer["status"]["error"]),
            (StatusCode::BAD_REQUEST, &json!("token is empty"))
        );
        let (_, answer) = post("").await;
        assert_eq!(answer["status"]["error"], "request body is empty");
    }
}
