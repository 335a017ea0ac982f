//! Tests of external authentication and authorization: webhooks, OpenID Connect issuers, and front proxies. The
//! expected texts are those of kube-apiserver 1.36 for the same requests.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may fail, and its helpers take literals"
)]

mod admission_configuration;
#[path = "../asking/mod.rs"]
mod asking;
mod authorization_configuration;
mod authorization_webhook;
mod front_proxy;
#[path = "../hook/mod.rs"]
mod hook;
mod issuer;
mod oidc;
mod oidc_configuration;
mod plugin_configuration;
mod token_webhook;

use bytes::Bytes;
use hook::Hook;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Returns the kubeconfig of a webhook.
fn kubeconfig(hook: &Hook) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://localhost:{}/hook", hook.address.port()),
            "certificate-authority-data": hook.authority,
        }}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    })
    .to_string()
}

/// Sends a request as a user; returns the status code and the body as text.
async fn ask(server: &ApiServer, user: &str, method: Method, path: &str, body: Value) -> (u16, String) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("impersonate-user", user)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn get_as(server: &ApiServer, user: &str, path: &str) -> (u16, String) {
    ask(server, user, Method::GET, path, Value::Null).await
}

/// Returns the status of a SubjectAccessReview.
async fn access(server: &ApiServer, spec: Value) -> Value {
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let answer = asking::post(
        server,
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        review,
    )
    .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body["status"].clone()
}

/// Returns the status of a TokenReview.
async fn token(server: &ApiServer, token: &str, audiences: &[&str]) -> Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    let answer = asking::post(server, "/apis/authentication.k8s.io/v1/tokenreviews", review).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body["status"].clone()
}
