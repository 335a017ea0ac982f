//! Webhooks that say whose a bearer token is, for API servers that are started with
//! `--authentication-token-webhook-config-file`.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Extensions, Request, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use serde::Deserialize;
use serde_json::json;

use super::body::{self, Malformed};
use super::endpoint::{Body, Endpoint, json, recovered};
use crate::metrics::WebhookMetrics;
use crate::serve::Answer;

/// Reviews hold a token and little else.
const BODY_MAX: usize = 1024 * 1024;
const KIND: &str = "TokenReview";
const VERSION: &str = "authentication.k8s.io/v1";

/// Says whose a token is.
///
/// ```
/// use operator_runtime::k8s_openapi::api::authentication::v1::UserInfo;
/// use operator_runtime::Manager;
/// use operator_runtime::webhook::{Authenticator, TokenRequest, TokenResponse};
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
///     manager.add_authentication_webhook("/authenticate", Robots)
/// }
/// ```
pub trait Authenticator: Send + Sync + 'static {
    /// Judges a token, which is never empty.
    fn authenticate(&self, request: TokenRequest) -> impl Future<Output = TokenResponse> + Send;
}

/// What the API server asks about.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TokenRequest {
    /// The bearer token.
    pub token: String,
    /// For whom the token should be meant; the API server when empty.
    pub audiences: Vec<String>,
    /// What the connection and layers before know of the HTTP request.
    pub extensions: Extensions,
}

/// What an [`Authenticator`] answers: the `status` of a `TokenReview`. By default the token is nobody's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenResponse(TokenReviewStatus);

pub(super) struct AuthenticationEndpoint<A>(pub(super) A);

/// The part of a `TokenReview`, of v1 or v1beta1, that matters.
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
    /// The token is this user's.
    pub fn authenticated(user: UserInfo) -> Self {
        Self(TokenReviewStatus {
            authenticated: Some(true),
            user: Some(user),
            ..TokenReviewStatus::default()
        })
    }

    /// The token is nobody's; `reason` is for the log of the API server, and may be empty.
    pub fn unauthenticated(reason: impl Into<String>) -> Self {
        Self(TokenReviewStatus {
            authenticated: Some(false),
            error: Some(reason.into()).filter(|reason| !reason.is_empty()),
            ..TokenReviewStatus::default()
        })
    }

    /// The token could not be judged: it is nobody's for now, and the error is for the log of the API server.
    pub fn errored(error: impl std::fmt::Display) -> Self {
        Self::unauthenticated(error.to_string())
    }

    /// For whom the token is meant, of those that were asked about.
    #[must_use]
    pub fn audiences(mut self, audiences: impl IntoIterator<Item = String>) -> Self {
        self.0.audiences = Some(audiences.into_iter().collect());
        self
    }

    /// As JSON, in answer to a review of this version.
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

// === impl AuthenticationEndpoint ===

impl<A: Authenticator> AuthenticationEndpoint<A> {
    async fn review(
        &self,
        extensions: Extensions,
        body: &Bytes,
        metrics: &WebhookMetrics,
    ) -> Result<Vec<u8>, Malformed> {
        let bad = |message: String| Malformed(StatusCode::BAD_REQUEST, message);
        let review: Review = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        let token = review.spec.token.unwrap_or_default();
        if token.is_empty() {
            return Err(bad("token is empty".to_owned()));
        }
        let request = TokenRequest {
            token,
            audiences: review.spec.audiences.unwrap_or_default(),
            extensions,
        };
        let answer = AssertUnwindSafe(async { self.0.authenticate(request).await })
            .catch_unwind()
            .await;
        let response = answer.unwrap_or_else(|panic| {
            metrics.panicked();
            TokenResponse::errored(recovered(&*panic))
        });
        Ok(response.to_json(&review.api_version, review.metadata.uid.as_deref()))
    }
}

impl<A: Authenticator> Endpoint for AuthenticationEndpoint<A> {
    fn answer<'a>(&'a self, request: Request<Body>, metrics: &'a WebhookMetrics) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let reviewed = match body::read_json(&parts, body, BODY_MAX).await {
                Ok(body) => self.review(parts.extensions, &body, metrics).await,
                Err(malformed) => Err(malformed),
            };
            match reviewed {
                Ok(review) => json(StatusCode::OK, review),
                Err(Malformed(code, message)) => {
                    tracing::warn!(message, "Token review that cannot be read");
                    json(code, TokenResponse::errored(message).to_json("", None))
                }
            }
        })
    }
}
