//! Tests of the authorizer `Webhook`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use operator_apiserver::{ApiServer, Authorization, AuthorizationWebhook};
use serde_json::{Value, json};

use crate::asking::post;
use crate::hook::{Hook, Reply};
use crate::{access, ask, get_as, kubeconfig};

/// Decides by the name of the user.
fn decide(review: &Value) -> Reply {
    let status = match review["spec"]["user"].as_str().unwrap_or_default() {
        "allow" => json!({"allowed": true, "reason": "because"}),
        "deny" => json!({"allowed": false, "denied": true, "reason": "no way"}),
        "both" => json!({"allowed": true, "denied": true}),
        "noop" => json!({"allowed": false, "reason": "dunno"}),
        "c403" => return Reply::Text(403, "failed"),
        "c404" => return Reply::Text(404, "failed"),
        "empty" => return Reply::Json(json!({})),
        "junk" => return Reply::Text(200, "junk"),
        "hang" => return Reply::Hang,
        "die" => return Reply::Die,
        _ => json!({"allowed": false}),
    };
    let mut answer = review.clone();
    answer["status"] = status;
    Reply::Json(answer)
}

async fn server(change: impl FnOnce(&mut AuthorizationWebhook)) -> (ApiServer, Hook) {
    let hook = Hook::start(decide).await;
    let mut webhook = AuthorizationWebhook::new(kubeconfig(&hook));
    webhook.timeout = Duration::from_secs(3);
    change(&mut webhook);
    let modes = [Authorization::Rbac, Authorization::Webhook(Box::new(webhook))];
    let server = ApiServer::builder().authorizers(modes).build().unwrap();
    (server, hook)
}

fn pods(user: &str) -> Value {
    json!({"user": user, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}})
}

fn calls(hook: &Hook) -> usize {
    hook.received.lock().unwrap().len()
}

#[tokio::test]
async fn the_webhook_decides() {
    let (server, _hook) = server(|_| {}).await;
    for (user, expected) in [
        ("allow", json!({"allowed": true, "reason": "because"})),
        (
            "deny",
            json!({"allowed": false, "denied": true, "reason": "no way"}),
        ),
        (
            "both",
            json!({
                "allowed": false, "denied": true,
                "evaluationError": "webhook subject access review returned both allow and deny response",
            }),
        ),
        ("noop", json!({"allowed": false, "reason": "dunno"})),
        (
            "c404",
            json!({"allowed": false, "evaluationError": "the server could not find the requested resource"}),
        ),
        ("empty", json!({"allowed": false})),
        (
            "junk",
            json!({
                "allowed": false,
                "evaluationError": "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
            }),
        ),
    ] {
        assert_eq!(access(&server, pods(user)).await, expected, "{user}");
    }
    let status = access(&server, pods("die")).await;
    let why = status["evaluationError"].as_str().unwrap();
    assert!(
        why.starts_with("Post \"https://localhost:") && why.ends_with("/hook?timeout=3s\": EOF"),
        "{why}"
    );
}

#[tokio::test]
async fn requests_are_decided_and_failures_are_errors_of_the_server() {
    let (server, _hook) = server(|webhook| webhook.timeout = Duration::from_millis(300)).await;
    assert_eq!(get_as(&server, "allow", "/api/v1/pods").await.0, 200);
    let (code, text) = get_as(&server, "deny", "/api/v1/pods").await;
    let refused: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "pods is forbidden: User \"deny\" cannot list resource \"pods\" in API group \"\" at the cluster scope: no way"
    );
    let (code, text) = get_as(&server, "c404", "/api/v1/namespaces/a/pods/b?x=1").await;
    assert_eq!(code, 500);
    assert_eq!(
        text,
        "Internal Server Error: \"/api/v1/namespaces/a/pods/b?x=1\": the server could not find the requested resource\n"
    );
    let (code, text) = get_as(&server, "hang", "/version").await;
    assert_eq!(code, 200, "every user may: {text}");
    let (code, text) = get_as(&server, "hang", "/api/v1/pods").await;
    assert_eq!(code, 500);
    assert!(
        text.ends_with(": net/http: request canceled (Client.Timeout exceeded while awaiting headers)\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_up_no_other_request() {
    let (server, hook) = server(|webhook| webhook.timeout = Duration::from_secs(30)).await;
    let waiting: Vec<_> = (0..50)
        .map(|n| {
            let server = server.clone();
            tokio::spawn(async move { get_as(&server, "hang", &format!("/api/v1/nodes/n{n}")).await })
        })
        .collect();
    while calls(&hook) < 50 {
        tokio::task::yield_now().await;
    }
    let healthy = async {
        assert_eq!(get_as(&server, "allow", "/readyz").await.0, 200);
        assert_eq!(get_as(&server, "allow", "/api/v1/pods").await.0, 200);
    };
    tokio::time::timeout(Duration::from_secs(10), healthy)
        .await
        .unwrap();
    assert!(waiting.iter().all(|request| !request.is_finished()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_review_has_the_selectors_and_the_version_of_the_request() {
    let (server, hook) = server(|_| {}).await;
    let query =
        "fieldSelector=spec.nodeName%3Da,metadata.name!%3Dx&labelSelector=a+in+(b,c),!d,e!%3Df&limit=1";
    assert_eq!(
        get_as(&server, "allow", &format!("/api/v1/pods?{query}")).await.0,
        200
    );
    assert_eq!(get_as(&server, "allow", "/other").await.0, 404);
    assert!(access(&server, pods("allow")).await["allowed"].as_bool().unwrap());
    let received = hook.received.lock().unwrap().clone();
    let [(path, list), (_, other), (_, review)] = received.as_slice() else {
        panic!("three reviews: {received:?}");
    };
    assert_eq!(path, "/hook?timeout=3s");
    assert_eq!(
        *list,
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "resourceAttributes": {
                    "verb": "list", "version": "v1", "resource": "pods",
                    "fieldSelector": {"requirements": [
                        {"key": "metadata.name", "operator": "NotIn", "values": ["x"]},
                        {"key": "spec.nodeName", "operator": "In", "values": ["a"]},
                    ]},
                    "labelSelector": {"requirements": [
                        {"key": "a", "operator": "In", "values": ["b", "c"]},
                        {"key": "d", "operator": "DoesNotExist"},
                        {"key": "e", "operator": "NotIn", "values": ["f"]},
                    ]},
                },
                "user": "allow", "groups": ["system:authenticated"],
            },
            "status": {"allowed": false},
        })
    );
    assert_eq!(
        other["spec"]["nonResourceAttributes"],
        json!({"path": "/other", "verb": "get"})
    );
    assert_eq!(
        review["spec"],
        json!({
            "resourceAttributes": {"namespace": "n", "verb": "get", "version": "*", "resource": "pods"},
            "user": "allow",
        })
    );
}

#[tokio::test]
async fn groups_of_the_old_version_are_called_group() {
    let (server, hook) = server(|webhook| webhook.version = "v1beta1".to_owned()).await;
    assert_eq!(get_as(&server, "allow", "/api/v1/pods").await.0, 200);
    let received = hook.received.lock().unwrap();
    let (_, review) = &received[0];
    assert_eq!(review["apiVersion"], "authorization.k8s.io/v1beta1");
    assert_eq!(review["spec"]["group"], json!(["system:authenticated"]));
    assert_eq!(review["spec"]["groups"], Value::Null);
}

#[tokio::test]
async fn answers_are_cached_and_failures_are_not() {
    let (cached, hook) = server(|webhook| webhook.unauthorized_ttl = Duration::ZERO).await;
    for (user, expected) in [("allow", 1), ("noop", 2), ("c403", 2)] {
        let before = calls(&hook);
        access(&cached, pods(user)).await;
        access(&cached, pods(user)).await;
        assert_eq!(calls(&hook) - before, expected, "{user}");
    }
    // A long request is not cached.
    let mut long = pods("allow");
    long["resourceAttributes"]["name"] = "n".repeat(10_001).into();
    let before = calls(&hook);
    access(&cached, long.clone()).await;
    access(&cached, long).await;
    assert_eq!(calls(&hook) - before, 2);
}

#[tokio::test]
async fn the_failure_policy_decides_if_the_next_authorizer_is_asked() {
    for denies in [false, true] {
        let hook = Hook::start(decide).await;
        let mut webhook = AuthorizationWebhook::new(kubeconfig(&hook));
        webhook.denies_on_failure = denies;
        let modes = [
            Authorization::Webhook(Box::new(webhook)),
            Authorization::AlwaysAllow,
        ];
        let server = ApiServer::builder().authorizers(modes).build().unwrap();
        let (code, _) = get_as(&server, "c404", "/api/v1/pods").await;
        assert_eq!(code, if denies { 500 } else { 200 });
        assert_eq!(get_as(&server, "noop", "/api/v1/pods").await.0, 200);
        assert_eq!(get_as(&server, "deny", "/api/v1/pods").await.0, 403);
    }
}

#[tokio::test]
async fn errors_that_may_pass_are_retried() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let hook = Hook::start(|review| match CALLS.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Text(500, "once"),
        _ => decide(review),
    })
    .await;
    let webhook = AuthorizationWebhook::new(kubeconfig(&hook));
    let modes = [Authorization::Webhook(Box::new(webhook))];
    let server = ApiServer::builder().authorizers(modes).build().unwrap();
    assert_eq!(get_as(&server, "allow", "/api/v1/pods").await.0, 200);
    assert_eq!(CALLS.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn match_conditions_choose_the_requests() {
    let (server, hook) = server(|webhook| {
        webhook.match_conditions = vec![
            "request.user != 'skip'".to_owned(),
            "!has(request.resourceAttributes) || request.resourceAttributes.namespace == 'n'".to_owned(),
        ];
    })
    .await;
    assert_eq!(access(&server, pods("skip")).await, json!({"allowed": false}));
    assert_eq!(
        access(
            &server,
            json!({"user": "allow", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}})
        )
        .await["allowed"],
        false
    );
    assert_eq!(calls(&hook), 0);
    assert_eq!(access(&server, pods("allow")).await["allowed"], true);
    let path = json!({"user": "allow", "nonResourceAttributes": {"path": "/x", "verb": "get"}});
    assert_eq!(access(&server, path).await["allowed"], true);
}

#[tokio::test]
async fn the_rules_of_a_user_are_incomplete() {
    let (server, _hook) = server(|_| {}).await;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "x"},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = post(&server, path, review).await;
    assert_eq!(answer.body["status"]["incomplete"], true);
    assert_eq!(
        answer.body["status"]["evaluationError"],
        "webhook authorizer does not support user rule resolution"
    );
}

#[tokio::test]
async fn policies_can_ask_the_webhook() {
    let (server, hook) = server(|_| {}).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let check = |resource: &str| {
        format!("authorizer.group('').resource('{resource}').namespace('n').check('get').allowed()")
    };
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
            ]},
            // The second check is made only after the response to the first one.
            "validations": [{"expression": format!("{} && !{}", check("pods"), check("secrets"))}],
        },
    });
    post(&server, &format!("{group}/validatingadmissionpolicies"), policy)
        .await
        .is_done();
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    post(
        &server,
        &format!("{group}/validatingadmissionpolicybindings"),
        binding,
    )
    .await
    .is_done();
    let map = json!({"metadata": {"name": "a"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, text) = ask(&server, "allow", http::Method::POST, maps, map).await;
    assert_eq!(code, 422, "{text}");
    let received = hook.received.lock().unwrap();
    let resources: Vec<&Value> = received
        .iter()
        .map(|(_, review)| &review["spec"]["resourceAttributes"]["resource"])
        .collect();
    assert_eq!(resources, ["configmaps", "pods", "secrets"]);
}

#[tokio::test]
async fn authorizers_can_be_replaced() {
    let server = ApiServer::builder()
        .authorization(Authorization::AlwaysDeny)
        .build()
        .unwrap();
    assert_eq!(get_as(&server, "jane", "/api/v1/pods").await.0, 403);
    server.set_authorizers(vec![Authorization::AlwaysAllow]).unwrap();
    assert_eq!(get_as(&server, "jane", "/api/v1/pods").await.0, 200);
    let broken = AuthorizationWebhook::new("{}");
    let set = server.set_authorizers(vec![Authorization::Webhook(Box::new(broken))]);
    assert!(set.is_err());
    assert_eq!(get_as(&server, "jane", "/api/v1/pods").await.0, 200);
}
