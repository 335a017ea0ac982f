//! Tests of work and memory that grow with requests: variables of policies, instances of a deleted definition, requests
//! in flight, events.
#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::needless_pass_by_value, reason = "the cases are written as literals")]

mod asking;
#[path = "asking/policy.rs"]
mod policy;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use asking::{delete, get, merge, post};
use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use operator_apiserver::ApiServer;
use operator_apiserver::clock::Clock;
use policy::bind;
use serde_json::{Value, json};
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates a policy whose validation compares the last variable with a string.
async fn policy_with(variables: Vec<Value>, expression: &str) -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "variables": variables,
        "validations": [{"expression": expression}],
    });
    policy::post(&server, spec).await.is_done();
    bind(&server, "b", json!({})).await;
    server
}

async fn create(server: &ApiServer) -> asking::Answer {
    post(server, CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await
}

fn variable(index: usize, expression: String) -> Value {
    json!({"name": format!("v{index}"), "expression": expression})
}

#[tokio::test]
async fn long_chains_of_variables_are_evaluated() {
    let next = |index: usize| match index {
        0 => variable(0, "0".to_owned()),
        _ => variable(index, format!("variables.v{} + 1", index - 1)),
    };
    let server = policy_with((0..5_000).map(next).collect(), "variables.v4999 == 0").await;
    create(&server)
        .await
        .is_refused(422, "failed expression: variables.v4999 == 0");
    let server = policy_with((0..5_000).map(next).collect(), "variables.v4999 == 4999").await;
    create(&server).await.is_done();
}

#[tokio::test]
async fn variables_of_high_expressions_are_evaluated() {
    let next = |index: usize| {
        let inner = match index {
            0 => "0".to_owned(),
            _ => format!("variables.v{}", index - 1),
        };
        variable(index, format!("{}{inner}{}", "[".repeat(100), "][0]".repeat(100)))
    };
    let server = policy_with((0..50).map(next).collect(), "variables.v49 == 0").await;
    create(&server).await.is_done();
}

#[tokio::test]
async fn the_cost_of_variables_is_limited_as_a_whole() {
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let costly = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c == 3)))");
    let mut variables: Vec<Value> = (0..200).map(|index| variable(index, costly.clone())).collect();
    let all: Vec<String> = (0..200).map(|index| format!("variables.v{index}")).collect();
    variables.push(variable(200, all.join(" && ")));
    // The chain is long enough that its variables are evaluated one after the other.
    for index in 201..500 {
        variables.push(variable(index, format!("variables.v{} && true", index - 1)));
    }
    let server = policy_with(variables, "variables.v499").await;
    let why = "validation failed due to running out of cost budget, no further validation rules will be run";
    create(&server).await.is_refused(422, why);
}

#[tokio::test]
async fn the_type_of_all_variables_is_not_copied_for_each_of_them() {
    let start = Instant::now();
    let next = |index| variable(index, "has(variables.v0) ? 1 : 2".to_owned());
    let first = variable(0, "1".to_owned());
    let variables = std::iter::once(first).chain((1..8_000).map(next)).collect();
    policy_with(variables, "true").await;
    // Copying 32 million fields would take minutes and gigabytes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

fn definition() -> Value {
    json!({"metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}]}})
}

#[tokio::test]
async fn instances_of_a_deleted_definition_are_removed_in_linear_time() {
    const COUNT: usize = 6_000;
    let server = ApiServer::builder().build().unwrap();
    post(&server, CRDS, definition()).await.is_done();
    for index in 0..COUNT {
        let metadata = json!({"name": format!("w{index}"), "finalizers": ["example.com/f"]});
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
        post(&server, WIDGETS, widget).await.is_done();
    }
    let path = format!("{CRDS}/widgets.example.com");
    delete(&server, &path).await.is_done();
    let start = Instant::now();
    for index in 0..COUNT {
        let free = json!({"metadata": {"finalizers": null}});
        merge(&server, &format!("{WIDGETS}/w{index}"), free)
            .await
            .is_done();
    }
    // With quadratic work, 18 million instances would be visited.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert_eq!(get(&server, &path).await.code, 404);
}

/// Returns a body that sends its parts and never ends.
fn endless(parts: Vec<Bytes>) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static {
    let parts = futures::stream::iter(parts).chain(futures::stream::pending());
    StreamBody::new(parts.map(|part| Ok(Frame::data(part))))
}

fn request<B>(method: &str, path: &str, user: Option<&str>, body: B) -> Request<B> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    request.body(body).unwrap()
}

async fn answer<B>(server: &ApiServer, request: Request<B>) -> (u16, String, String)
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let response = server.clone().oneshot(request).await.unwrap();
    let retry = response.headers().get("retry-after");
    let retry = retry.map_or("", |retry| retry.to_str().unwrap()).to_owned();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, retry, String::from_utf8(body.to_vec()).unwrap())
}

async fn with_user() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let binding = json!({"metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    post(&server, path, binding).await.is_done();
    server
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_others_end() {
    let server = with_user().await;
    let mut sent = Vec::new();
    for _ in 0..200 {
        let request = request("POST", CONFIG_MAPS, Some("jane"), endless(Vec::new()));
        let mut future = Box::pin(server.clone().oneshot(request));
        assert!(futures::poll!(future.as_mut()).is_pending());
        sent.push(future);
    }
    let config_map = || json!({"metadata": {"generateName": "a-"}}).to_string();
    let create = |user| request("POST", CONFIG_MAPS, user, Full::new(Bytes::from(config_map())));
    let refused = answer(&server, create(Some("jane"))).await;
    let text = "Too many requests, please try again later.\n".to_owned();
    assert_eq!(refused, (429, "1".to_owned(), text));
    // Reads have a separate limit; administrators and health checks have none.
    let read = |path: &str| request("GET", path, Some("jane"), Full::new(Bytes::new()));
    for path in [CONFIG_MAPS, "/readyz", "/livez/ping", "/healthz"] {
        assert_eq!(answer(&server, read(path)).await.0, 200, "{path}");
    }
    assert_eq!(answer(&server, create(None)).await.0, 201);
    sent.pop();
    assert_eq!(answer(&server, create(Some("jane"))).await.0, 201);
}

#[tokio::test]
async fn slow_bodies_take_bounded_memory() {
    let server = with_user().await;
    let parts = [3 << 20, 500 << 10].map(|length| Bytes::from(vec![b' '; length]));
    let mut sent = Vec::new();
    // More than 3 GB in total, including requests of administrators.
    for index in 0..1_100 {
        let user = (index % 2 == 0).then_some("jane");
        let part = parts[usize::from(index >= 1_000)].clone();
        let request = request("POST", CONFIG_MAPS, user, endless(vec![part]));
        let mut future = Box::pin(server.clone().oneshot(request));
        if futures::poll!(future.as_mut()).is_pending() {
            sent.push(future);
        }
    }
    assert!((20..=60).contains(&sent.len()), "{}", sent.len());
    let create = |length: usize| {
        let object =
            json!({"metadata": {"generateName": "a-"}, "data": {"k": "v".repeat(length)}}).to_string();
        request("POST", CONFIG_MAPS, None, Full::new(Bytes::from(object)))
    };
    assert_eq!(answer(&server, create(10_000)).await.0, 201);
    let (code, retry, text) = answer(&server, create(900_000)).await;
    assert_eq!((code, retry.as_str()), (429, "1"), "{text}");
    sent.clear();
    assert_eq!(answer(&server, create(900_000)).await.0, 201);
}

#[derive(Clone, Debug)]
struct Seconds(Arc<AtomicU64>);

impl Clock for Seconds {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn events_expire_an_hour_after_their_last_write() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let clock = Seconds(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        ApiServer::builder()
            .clock(clock.clone())
            .data_directory(folder.path())
            .build()
            .unwrap()
    };
    let server = start();
    let event = |name: &str| {
        let involved = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        json!({"metadata": {"name": name, "finalizers": ["example.com/f"]}, "involvedObject": involved, "reason": "R"})
    };
    let names = async |server: &ApiServer| -> Vec<String> {
        let listed = get(server, "/apis/events.k8s.io/v1/namespaces/default/events")
            .await
            .body;
        let items = listed["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for name in ["a", "b", "c"] {
        post(&server, EVENTS, event(name)).await.is_done();
    }
    clock.0.store(3_000, Ordering::SeqCst);
    merge(&server, &format!("{EVENTS}/b"), json!({"count": 2}))
        .await
        .is_done();
    clock.0.store(3_599, Ordering::SeqCst);
    assert_eq!(names(&server).await, ["a", "b", "c"]);
    clock.0.store(3_600, Ordering::SeqCst);
    assert_eq!(names(&server).await, ["b"]);
    assert_eq!(get(&server, &format!("{EVENTS}/a")).await.code, 404);
    // The time to live of stored events restarts with the server.
    drop(server);
    let server = start();
    clock.0.store(7_199, Ordering::SeqCst);
    assert_eq!(names(&server).await, ["b"]);
    // One write deletes the other events.
    clock.0.store(7_200, Ordering::SeqCst);
    let before = server.client();
    let gvr = operator_apiserver::client::Gvr::new("", "v1", "events");
    before.create(&gvr, "default", event("d")).await.unwrap();
    assert!(before.get(&gvr, "default", "b").await.is_err());
    assert_eq!(names(&server).await, ["d"]);
}
