//! APIService objects, their conditions, and the requests that servers of extension APIs answer.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;

use asking::{Answer, delete, get, post};
use bytes::Bytes;
use hook::{Hook, Reply};
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

async fn condition(server: &ApiServer, name: &str) -> Value {
    let mut service = get(server, &format!("{SERVICES}/{name}")).await.body;
    let mut condition = service["status"]["conditions"][0].take();
    if let Some(condition) = condition.as_object_mut() {
        condition.remove("lastTransitionTime");
    }
    condition
}

fn local() -> Value {
    json!({
        "type": "Available", "status": "True", "reason": "Local",
        "message": "Local APIServices are always available",
    })
}

fn unavailable(reason: &str, message: &str) -> Value {
    json!({"type": "Available", "status": "False", "reason": reason, "message": message})
}

async fn register(server: &ApiServer, group: &str, service: &Value) -> Answer {
    let mut spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 5});
    if !service.is_null() {
        spec["service"] = service.clone();
        spec["insecureSkipTLSVerify"] = true.into();
    }
    let name = format!("v1.{group}");
    post(
        server,
        SERVICES,
        json!({"metadata": {"name": name}, "spec": spec}),
    )
    .await
}

#[tokio::test]
async fn groups_of_the_server_have_their_objects() {
    let server = ApiServer::builder().build().unwrap();
    let list = get(&server, SERVICES).await.body;
    assert_eq!(list["items"].as_array().unwrap().len(), 21);
    let apps = get(&server, &format!("{SERVICES}/v1.apps")).await.body;
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(
        apps["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "onstart"
    );
    assert_eq!(condition(&server, "v1.apps").await, local());
    // It comes back, since its group is still served.
    delete(&server, &format!("{SERVICES}/v1.apps")).await.is_done();
    assert_eq!(condition(&server, "v1.apps").await, local());
}

#[tokio::test]
async fn groups_of_definitions_have_objects_as_long_as_they_are_served() {
    let server = ApiServer::builder().build().unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "crons", "kind": "Cron"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    post(&server, definitions, definition).await.is_done();
    let made = get(&server, &format!("{SERVICES}/v1.example.com")).await.body;
    assert_eq!(
        made["spec"],
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    assert_eq!(
        made["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "true"
    );
    assert_eq!(condition(&server, "v1.example.com").await, local());
    delete(&server, &format!("{definitions}/crons.example.com"))
        .await
        .is_done();
    assert_eq!(
        get(&server, &format!("{SERVICES}/v1.example.com")).await.code,
        404
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_not_available() {
    let server = ApiServer::builder().build().unwrap();
    let service = json!({"namespace": "default", "name": "s"});
    register(&server, "remote.example.com", &service).await.is_done();
    let name = "v1.remote.example.com";
    let missing = unavailable("ServiceNotFound", "service/s in \"default\" is not present");
    assert_eq!(condition(&server, name).await, missing);
    let services = "/api/v1/namespaces/default/services";
    let ports =
        |port: u64| json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "https", "port": port}]}});
    post(&server, services, ports(80)).await.is_done();
    let wrong = unavailable(
        "ServicePortError",
        "service/s in \"default\" is not listening on port 443",
    );
    assert_eq!(condition(&server, name).await, wrong);
    delete(&server, &format!("{services}/s")).await.is_done();
    post(&server, services, ports(443)).await.is_done();
    let empty = unavailable(
        "MissingEndpoints",
        "endpoints for service/s in \"default\" have no addresses with port name \"https\"",
    );
    assert_eq!(condition(&server, name).await, empty);
    let request = Request::get("/apis/remote.example.com/v1/things");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 503);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "service unavailable\n");
    let slice = json!({
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"name": "https", "port": 443}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    post(&server, slices, slice).await.is_done();
    assert_eq!(condition(&server, name).await["reason"], "Passed");
}

#[tokio::test]
async fn a_server_of_an_extension_api_answers_for_its_group() {
    let hook = Hook::start(|body| {
        Reply::Json(json!({"kind": "Thing", "apiVersion": "remote.example.com/v1", "got": body}))
    })
    .await;
    let server = ApiServer::builder().build().unwrap();
    let service = json!({"namespace": "default", "name": "hook"});
    register(&server, "remote.example.com", &service).await.is_done();
    server.route_service("default", "hook", hook.address);
    assert_eq!(
        condition(&server, "v1.remote.example.com").await["reason"],
        "Passed"
    );
    let things = "/apis/remote.example.com/v1/namespaces/default/things";
    let answer = get(&server, &format!("{things}/a?x=y")).await;
    assert_eq!((answer.code, &answer.body["kind"]), (200, &json!("Thing")));
    let made = post(&server, things, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(made.body["got"], json!({"metadata": {"name": "b"}}));
    let asked: Vec<String> = hook
        .received
        .lock()
        .unwrap()
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(
        asked,
        [format!("admin@{things}/a?x=y"), format!("admin@{things}")]
    );
    // Its group is in discovery, which clients then ask for group by group.
    let groups = get(&server, "/apis").await.body;
    let groups = groups["groups"].as_array().unwrap();
    let found = groups
        .iter()
        .find(|group| group["name"] == "remote.example.com")
        .unwrap();
    assert_eq!(found["preferredVersion"]["groupVersion"], "remote.example.com/v1");
    let group = get(&server, "/apis/remote.example.com").await.body;
    assert_eq!(
        (&group["kind"], &group["versions"]),
        (&json!("APIGroup"), &found["versions"])
    );
    assert_eq!(
        get(&server, "/apis/remote.example.com/v1").await.body["kind"],
        "Thing"
    );
    // Nobody gets there without the right.
    let request = Request::get(things).header("impersonate-user", "jane");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    assert_eq!(server.clone().oneshot(request).await.unwrap().status(), 403);
    delete(&server, &format!("{SERVICES}/v1.remote.example.com"))
        .await
        .is_done();
    assert_eq!(hook.received.lock().unwrap().len(), 3);
    let request = Request::get(things).body(Full::new(Bytes::new())).unwrap();
    assert_eq!(server.clone().oneshot(request).await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_server_needs_a_certificate_that_is_trusted() {
    let hook = Hook::start(|_| Reply::Json(json!({}))).await;
    let server = ApiServer::builder().build().unwrap();
    server.route_service("default", "hook", hook.address);
    let things = "/apis/remote.example.com/v1/things";
    let other = Hook::start(|_| Reply::Json(json!({}))).await;
    for (bundle, code) in [(&other.authority, 503), (&hook.authority, 200)] {
        let spec = json!({
            "group": "remote.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 5,
            "service": {"namespace": "default", "name": "hook"}, "caBundle": bundle,
        });
        let name = "v1.remote.example.com";
        post(
            &server,
            SERVICES,
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await
        .is_done();
        assert_eq!(get(&server, things).await.code, code);
        delete(&server, &format!("{SERVICES}/{name}")).await.is_done();
    }
}
