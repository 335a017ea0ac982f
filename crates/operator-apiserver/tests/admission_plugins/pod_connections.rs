//! Tests of logs, exec, attach, port-forwarding, proxies and evictions.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::asking::{get, merge, post};
use crate::{HERE, pod, policy, server};

/// Returns a server with the pod `a`, which has the containers `c` and `d`, on a node with an address.
async fn running() -> ApiServer {
    let server = server().await;
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}}))
        .await
        .is_done();
    let addresses = json!([{"type": "InternalIP", "address": "10.1.1.1"}]);
    merge(
        &server,
        "/api/v1/nodes/n/status",
        json!({"status": {"addresses": addresses}}),
    )
    .await
    .is_done();
    let mut made = pod("a", &json!({}));
    made["metadata"]["annotations"] =
        json!({"operator-sdk.dev/logs": "one\ntwo\nthree", "logs.operator-sdk.dev/d": "other"});
    made["spec"]["nodeName"] = "n".into();
    made["spec"]["containers"] = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    post(&server, &format!("{HERE}/pods"), made).await.is_done();
    let started = json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}});
    let status = |name: &str, state: &Value| json!({"name": name, "image": "i", "imageID": "i", "ready": true, "restartCount": 0, "state": state});
    let statuses = json!([status("c", &started), status("d", &started)]);
    let status = json!({"status": {"phase": "Running", "containerStatuses": statuses}});
    merge(&server, &format!("{HERE}/pods/a/status"), status)
        .await
        .is_done();
    server
}

/// Returns the status code and the text of a response.
async fn text(server: &ApiServer, path: &str, upgrades: bool) -> (u16, String) {
    let mut request = Request::get(path);
    if upgrades {
        request = request
            .header("connection", "Upgrade")
            .header("upgrade", "websocket");
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn log(server: &ApiServer, query: &str) -> (u16, String) {
    text(server, &format!("{HERE}/pods/a/log?{query}"), false).await
}

#[tokio::test]
async fn a_simulated_pod_has_the_log_that_its_annotations_say() {
    let server = running().await;
    assert_eq!(
        log(&server, "container=c").await,
        (200, "one\ntwo\nthree\n".to_owned())
    );
    assert_eq!(log(&server, "container=d").await, (200, "other\n".to_owned()));
    assert_eq!(log(&server, "container=c&tailLines=1").await.1, "three\n");
    assert_eq!(log(&server, "container=c&limitBytes=5").await.1, "one\nt");
    assert_eq!(
        log(&server, "container=d&timestamps=true").await.1,
        "2026-01-02T03:04:05Z other\n"
    );
    assert_eq!(
        log(&server, "container=c&sinceTime=2026-01-02T03:04:06Z").await.1,
        ""
    );
}

#[tokio::test]
async fn a_log_is_followed_until_the_pod_ends() {
    let server = running().await;
    let request = Request::get(format!("{HERE}/pods/a/log?container=d&follow=true"));
    let response = server
        .clone()
        .oneshot(request.body(Full::new(Bytes::new())).unwrap())
        .await
        .unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "other\n");
    let more = json!({"metadata": {"annotations": {"logs.operator-sdk.dev/d": "other\nmore"}}});
    merge(&server, &format!("{HERE}/pods/a"), more).await.is_done();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "more\n"
    );
    merge(
        &server,
        &format!("{HERE}/pods/a/status"),
        json!({"status": {"phase": "Succeeded"}}),
    )
    .await
    .is_done();
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_log_that_cannot_be_is_refused_with_the_words_of_the_server_or_the_kubelet() {
    let server = running().await;
    let path = format!("{HERE}/pods/a/log");
    let refused = async |query: &str| get(&server, &format!("{path}?{query}")).await;
    refused("").await.is_refused(
        400,
        "a container name must be specified for pod a, choose one of: [c d]",
    );
    refused("container=x")
        .await
        .is_refused(400, "container x is not valid for pod a");
    refused("container=c&previous=true")
        .await
        .is_refused(400, "previous terminated container \"c\" in pod \"a\" not found");
    refused("tailLines=-1&limitBytes=0").await.is_refused(
        422,
        "PodLogOptions \"a\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]",
    );
    refused("sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z")
        .await
        .is_refused(
            422,
            "PodLogOptions \"a\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        );
    refused("sinceTime=2026-01-02&tailLines=x").await.is_refused(
        400,
        "parsing time \"2026-01-02\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\"",
    );
    refused("stream=All").await.is_refused(
        422,
        "PodLogOptions \"a\" is invalid: stream: Forbidden: may not be specified",
    );
    let missing = get(&server, &format!("{HERE}/pods/x/log")).await;
    missing.is_refused(404, "pods \"x\" not found");
    post(&server, &format!("{HERE}/pods"), pod("b", &json!({})))
        .await
        .is_done();
    assert_eq!(
        text(&server, &format!("{HERE}/pods/b/log"), false).await,
        (204, String::new())
    );
}

#[tokio::test]
async fn nothing_can_be_run_in_a_simulated_pod() {
    let server = running().await;
    post(&server, &format!("{HERE}/pods"), pod("b", &json!({})))
        .await
        .is_done();
    let refused = async |path: &str| get(&server, &format!("{HERE}/pods/{path}")).await;
    refused("b/exec?command=ls")
        .await
        .is_refused(400, "pod b does not have a host assigned");
    refused("b/portforward")
        .await
        .is_refused(400, "pod b does not have a host assigned");
    refused("a/exec?command=ls").await.is_refused(
        400,
        "a container name must be specified for pod a, choose one of: [c d]",
    );
    refused("a/attach?container=c")
        .await
        .is_refused(400, "Upgrade request required");
    let (code, body) = text(
        &server,
        &format!("{HERE}/pods/a/exec?container=c&command=ls"),
        true,
    )
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(code, 500);
    assert_eq!(
        body["message"],
        "Internal error occurred: error dialing backend: node \"n\" is simulated: there is nothing to exec in its pods"
    );
}

#[tokio::test]
async fn policies_apply_to_connections() {
    let server = running().await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.kind == 'PodExecOptions' && object.command[0] != 'sh'", "message": "no shells"}],
    });
    policy::post(&server, spec).await.is_done();
    policy::bind(&server, "p", json!({})).await;
    let exec = async |command: &str| {
        get(
            &server,
            &format!("{HERE}/pods/a/exec?container=c&command={command}"),
        )
        .await
    };
    exec("sh").await.is_refused(422, "denied request: no shells");
    exec("ls").await.is_refused(400, "Upgrade request required");
}

#[tokio::test]
async fn proxies_report_missing_objects() {
    let server = running().await;
    let refused = async |path: &str| get(&server, path).await;
    let path = |rest: &str| format!("{HERE}/{rest}");
    refused(&path("pods/a:80/proxy/x/y"))
        .await
        .is_refused(400, "address not allowed");
    refused(&path("pods/ftp:a:80/proxy"))
        .await
        .is_refused(400, "invalid pod request \"ftp:a:80\"");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    post(&server, &path("services"), service).await.is_done();
    refused(&path("services/s:81/proxy"))
        .await
        .is_refused(503, "no service port 81 found for service \"s\"");
    // The controller has not created the Endpoints yet.
    refused(&path("services/s:80/proxy/"))
        .await
        .is_refused(404, "services \"s\" not found");
    let endpoints = json!({"metadata": {"name": "s"}, "subsets": [{"addresses": [{"ip": "10.1.2.3"}],
        "ports": [{"name": "other", "port": 80}]}]});
    post(&server, &path("endpoints"), endpoints).await.is_done();
    refused(&path("services/s:80/proxy/"))
        .await
        .is_refused(503, "no endpoints available for service \"s\"");
    refused(&path("services/s:other/proxy/")).await.is_refused(
        503,
        "error trying to reach service: nothing listens in the pods of simulated nodes",
    );
    refused("/api/v1/nodes/none/proxy/metrics")
        .await
        .is_refused(404, "nodes \"none\" not found");
    refused("/api/v1/nodes/n/proxy/metrics").await.is_refused(
        503,
        "error trying to reach service: a simulated node has no kubelet",
    );
}

#[tokio::test]
async fn a_pod_that_does_not_run_is_evicted_regardless_of_its_budgets() {
    let server = server().await;
    let mut made = pod("a", &json!({}));
    made["metadata"]["labels"] = json!({"app": "a"});
    post(&server, &format!("{HERE}/pods"), made).await.is_done();
    for name in ["p", "q"] {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
        let budget = json!({"metadata": {"name": name}, "spec": spec});
        post(
            &server,
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            budget,
        )
        .await
        .is_done();
    }
    let evict = async || {
        let eviction = json!({"metadata": {"name": "a"}});
        post(&server, &format!("{HERE}/pods/a/eviction"), eviction).await
    };
    let running = json!({"status": {"phase": "Running"}});
    merge(&server, &format!("{HERE}/pods/a/status"), running)
        .await
        .is_done();
    evict().await.is_refused(
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    );
    let pending = json!({"status": {"phase": "Pending"}});
    merge(&server, &format!("{HERE}/pods/a/status"), pending)
        .await
        .is_done();
    evict().await.is_done();
}

#[tokio::test]
async fn a_get_that_connects_needs_the_right_to_create_too() {
    let server = running().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let connections = json!(["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"]);
    let rules = json!([{"apiGroups": [""], "resources": connections, "verbs": ["get"]}]);
    post(
        &server,
        roles,
        json!({"metadata": {"name": "connect"}, "rules": rules}),
    )
    .await
    .is_done();
    let binding = json!({
        "metadata": {"name": "connect"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "connect"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    post(&server, bindings, binding).await.is_done();
    let as_jane = async |path: &str| {
        let request = Request::get(format!("{HERE}/pods/{path}")).header("impersonate-user", "jane");
        let response = server
            .clone()
            .oneshot(request.body(Full::new(Bytes::new())).unwrap());
        let bytes = response
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        status["message"].as_str().unwrap().to_owned()
    };
    for path in ["a/exec?command=x", "a/attach", "a/portforward"] {
        assert_eq!(as_jane(path).await, "pods \"a\" is forbidden: ", "{path}");
        // The existence of the pod is not checked first.
        let missing = path.replacen('a', "missing", 1);
        assert_eq!(
            as_jane(&missing).await,
            "pods \"missing\" is forbidden: ",
            "{path}"
        );
    }
    assert_eq!(as_jane("a/proxy").await, "address not allowed");
}
