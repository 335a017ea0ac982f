//! Tests of the webhook that authenticates bearer tokens.

use std::time::Duration;

use operator_apiserver::{ApiServer, TokenWebhook};
use serde_json::{Value, json};

use crate::hook::{Hook, Reply};
use crate::{kubeconfig, token};

fn review(review: &Value) -> Reply {
    let audiences = &review["spec"]["audiences"];
    let status = match review["spec"]["token"].as_str().unwrap_or_default() {
        "good" => json!({
            "authenticated": true, "audiences": audiences,
            "user": {"username": "wendy", "uid": "42", "groups": ["w"], "extra": {"a": ["b"]}},
        }),
        "no-audiences" => json!({"authenticated": true, "user": {"username": "wendy"}}),
        "other" => json!({"authenticated": true, "user": {"username": "wendy"}, "audiences": ["zzz"]}),
        "error" => json!({"authenticated": false, "error": "bad thing"}),
        "both" => json!({"authenticated": true, "error": "x", "user": {"username": "w"}}),
        "c401" => return Reply::Text(401, "failed"),
        _ => json!({"authenticated": false}),
    };
    let mut answer = review.clone();
    answer["status"] = status;
    Reply::Json(answer)
}

async fn server(change: impl FnOnce(&mut TokenWebhook)) -> (ApiServer, Hook) {
    let hook = Hook::start(review).await;
    let mut webhook = TokenWebhook::new(kubeconfig(&hook));
    change(&mut webhook);
    let builder = ApiServer::builder().api_audiences(["api", "other-api"]);
    (builder.token_webhook(webhook).build().unwrap(), hook)
}

#[tokio::test]
async fn the_webhook_authenticates_tokens() {
    let (server, hook) = server(|_| {}).await;
    let refused = |why: &str| json!({"user": {}, "error": why});
    let user = |name: &str| json!({"username": name, "groups": ["system:authenticated"]});
    for (text, audiences, expected) in [
        (
            "good",
            &[][..],
            json!({
                "authenticated": true, "audiences": ["api", "other-api"],
                "user": {
                    "username": "wendy", "uid": "42", "groups": ["w", "system:authenticated"], "extra": {"a": ["b"]},
                },
            }),
        ),
        (
            "no-audiences",
            &["zzz"],
            json!({"authenticated": true, "audiences": ["zzz"], "user": user("wendy")}),
        ),
        ("other", &[], refused("invalid bearer token")),
        (
            "other",
            &["zzz"],
            json!({"authenticated": true, "audiences": ["zzz"], "user": user("wendy")}),
        ),
        (
            "both",
            &[],
            json!({"authenticated": true, "audiences": ["api", "other-api"], "user": user("w")}),
        ),
        ("error", &[], refused("[invalid bearer token, bad thing]")),
        (
            "c401",
            &[],
            refused("[invalid bearer token, the server has asked for the client to provide credentials]"),
        ),
        ("nobody", &[], refused("invalid bearer token")),
    ] {
        assert_eq!(token(&server, text, audiences).await, expected, "{text}");
    }
    let received = hook.received.lock().unwrap();
    assert_eq!(
        received[0],
        (
            "/hook?timeout=30s".to_owned(),
            json!({
                "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                "spec": {"token": "good", "audiences": ["api", "other-api"]}, "status": {"user": {}},
            })
        )
    );
}

#[tokio::test]
async fn answers_are_cached_for_each_audience() {
    for (ttl, expected) in [(Duration::from_secs(60), 3), (Duration::ZERO, 6)] {
        let (server, hook) = server(|webhook| webhook.cache_ttl = ttl).await;
        for _ in 0..2 {
            token(&server, "good", &[]).await;
            token(&server, "good", &["b"]).await;
            token(&server, "nobody", &[]).await;
        }
        assert_eq!(hook.received.lock().unwrap().len(), expected);
    }
}

#[tokio::test]
async fn the_version_is_sent_and_checked() {
    let (server, hook) = server(|webhook| webhook.version = "v1beta1".to_owned()).await;
    assert_eq!(token(&server, "good", &[]).await["authenticated"], true);
    assert_eq!(
        hook.received.lock().unwrap()[0].1["apiVersion"],
        "authentication.k8s.io/v1beta1"
    );
    let mut webhook = TokenWebhook::new(kubeconfig(&hook));
    webhook.version = "v3".to_owned();
    let error = ApiServer::builder().token_webhook(webhook).build().unwrap_err();
    assert!(error.to_string().ends_with(
        "unsupported authentication webhook version \"v3\", supported versions are \"v1\", \"v1beta1\""
    ));
}
