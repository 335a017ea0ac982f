//! Tests of APIService objects, their conditions, and requests that are forwarded to extension API servers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod asking;
mod hook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asking::{Answer, delete, get, merge, post};
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
    let condition = service.pointer_mut("/status/conditions/0");
    let mut condition = condition.map(Value::take).unwrap_or_default();
    if let Some(condition) = condition.as_object_mut() {
        condition.remove("lastTransitionTime");
    }
    condition
}

/// Waits until the condition has a reason; returns the condition.
async fn becomes(server: &ApiServer, name: &str, reason: &str) -> Value {
    let reached = async {
        loop {
            let condition = condition(server, name).await;
            if condition["reason"] == reason {
                return condition;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(30), reached).await;
    reached.unwrap_or_else(|_| panic!("{name} does not become {reason}"))
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
    // The object is created again, because its group is still served.
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
    let refused = becomes(&server, name, "FailedDiscoveryCheck").await;
    assert_eq!(refused["status"], "False");
    let begin = "failing or missing response from https://192.0.2.1:443/apis/remote.example.com/v1: ";
    assert!(
        refused["message"].as_str().unwrap().starts_with(begin),
        "{refused}"
    );
}

#[tokio::test]
async fn a_server_is_available_once_it_answers_the_discovery_request() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let ready = is_ready.clone();
    let hook = Hook::start(move |_| match ready.load(Ordering::SeqCst) {
        true => Reply::Json(json!({"kind": "APIResourceList"})),
        false => Reply::Text(500, "starting"),
    })
    .await;
    let server = ApiServer::builder().build().unwrap();
    let service = json!({"namespace": "default", "name": "hook"});
    server.route_service("default", "hook", hook.address);
    register(&server, "remote.example.com", &service).await.is_done();
    let name = "v1.remote.example.com";
    let failed = becomes(&server, name, "FailedDiscoveryCheck").await;
    let url = format!("https://{}/apis/remote.example.com/v1", hook.address);
    let message = format!("failing or missing response from {url}: bad status from {url}: 500");
    assert_eq!(failed, unavailable("FailedDiscoveryCheck", &message));
    is_ready.store(true, Ordering::SeqCst);
    let passed =
        json!({"type": "Available", "status": "True", "reason": "Passed", "message": "all checks passed"});
    assert_eq!(becomes(&server, name, "Passed").await, passed);
}

#[tokio::test]
async fn the_groups_of_extensions_are_in_aggregated_discovery_and_openapi() {
    let hook = Hook::start_with_paths(|path, _| match path.split('@').next_back().unwrap() {
        "/apis/remote.example.com/v1" => Reply::Json(json!({
            "kind": "APIResourceList", "groupVersion": "remote.example.com/v1", "resources": [
                {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"], "shortNames": ["th"]},
                {"name": "things/status", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
                {"name": "things/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
            ],
        })),
        "/openapi/v3" => Reply::Json(json!({"paths": {
            "apis/remote.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/remote.example.com/v1?hash=AB"},
            "apis/other/v1": {"serverRelativeURL": "/openapi/v3/apis/other/v1?hash=CD"},
        }})),
        "/openapi/v3/apis/remote.example.com/v1?hash=AB" => Reply::Json(json!({"openapi": "3.0.0"})),
        "/openapi/v2" => Reply::Json(json!({
            "paths": {"/apis/remote.example.com/v1/things": {"get": {}}, "/apis/other/v1/x": {}, "/version": {}},
            "definitions": {"com.example.remote.v1.Thing": {"type": "object"}, "io.k8s.api.core.v1.Pod": {}},
        })),
        _ => Reply::Text(404, "none"),
    })
    .await;
    let server = ApiServer::builder().build().unwrap();
    let service = json!({"namespace": "default", "name": "hook"});
    let find = async |wanted: &str| {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let request = Request::get("/apis").header("accept", accept);
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = server.clone().oneshot(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(document["kind"], "APIGroupDiscoveryList");
        let items = document["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["metadata"]["name"] == wanted);
        found.cloned().unwrap_or_default()
    };
    register(&server, "remote.example.com", &service).await.is_done();
    assert_eq!(
        find("remote.example.com").await["versions"],
        json!([{"version": "v1", "freshness": "Stale"}])
    );
    server.route_service("default", "hook", hook.address);
    becomes(&server, "v1.remote.example.com", "Passed").await;
    let thing = json!({"group": "remote.example.com", "version": "v1", "kind": "Thing"});
    assert_eq!(
        find("remote.example.com").await["versions"],
        json!([{"version": "v1", "freshness": "Current", "resources": [{
            "resource": "things", "responseKind": thing, "scope": "Namespaced", "singularResource": "thing",
            "verbs": ["get"], "shortNames": ["th"], "subresources": [
                {"subresource": "status", "verbs": ["get"], "responseKind": thing},
                {"subresource": "scale", "verbs": ["get"], "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
            ],
        }]}])
    );
    assert_eq!(find("apps").await["versions"][0]["version"], "v1");
    let document = get(&server, "/openapi/v2").await.body;
    let paths = &document["paths"];
    assert!(paths["/apis/remote.example.com/v1/things"]["get"].is_object());
    assert!(paths["/apis/apps/v1/deployments"].is_object() && paths["/apis/other/v1/x"].is_null());
    let definitions = &document["definitions"];
    assert_eq!(definitions["com.example.remote.v1.Thing"]["type"], "object");
    assert!(definitions["io.k8s.api.core.v1.Pod"]["properties"].is_object());
    let paths = get(&server, "/openapi/v3").await.body["paths"].take();
    let url = "/openapi/v3/apis/remote.example.com/v1?hash=AB";
    assert_eq!(
        paths["apis/remote.example.com/v1"],
        json!({"serverRelativeURL": url})
    );
    assert!(paths["apis/apps/v1"].is_object() && paths["apis/other/v1"].is_null());
    assert_eq!(get(&server, url).await.body, json!({"openapi": "3.0.0"}));
    let received = hook.received.lock().unwrap();
    assert_eq!(received.last().unwrap().0, format!("system:aggregator@{url}"));
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
    becomes(&server, "v1.remote.example.com", "Passed").await;
    hook.received.lock().unwrap().clear();
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
    // The group is in discovery, and clients then request the documents of the group.
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
    // Requests without permission are not forwarded.
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
        let reason = if code == 200 {
            "Passed"
        } else {
            "FailedDiscoveryCheck"
        };
        becomes(&server, name, reason).await;
        let request = Request::get(things).body(Full::new(Bytes::new())).unwrap();
        assert_eq!(server.clone().oneshot(request).await.unwrap().status(), code);
        delete(&server, &format!("{SERVICES}/{name}")).await.is_done();
    }
}

#[tokio::test]
async fn a_server_in_simulated_pods_is_available_without_an_answer() {
    let server = ApiServer::builder().build().unwrap();
    let node = json!({"metadata": {"name": "node-1"}});
    post(&server, "/api/v1/nodes", node).await.is_done();
    let runtime = json!({"status": {"nodeInfo": {"containerRuntimeVersion": "simulated://1"}}});
    merge(&server, "/api/v1/nodes/node-1/status", runtime)
        .await
        .is_done();
    post(
        &server,
        "/api/v1/namespaces/default/serviceaccounts",
        json!({"metadata": {"name": "default"}}),
    )
    .await
    .is_done();
    for (name, node) in [("simulated", "node-1"), ("other", "theirs")] {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        });
        post(&server, "/api/v1/namespaces/default/pods", pod)
            .await
            .is_done();
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 443}]}});
        post(&server, "/api/v1/namespaces/default/services", service)
            .await
            .is_done();
        let slice = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"], "targetRef": {"kind": "Pod", "name": name}}],
            "ports": [{"name": "", "port": 443}],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        post(&server, slices, slice).await.is_done();
        let service = json!({"namespace": "default", "name": name});
        register(&server, &format!("{name}.example.com"), &service)
            .await
            .is_done();
    }
    let message =
        "the endpoints of service/simulated in \"default\" are simulated pods, which do not answer requests";
    assert_eq!(
        condition(&server, "v1.simulated.example.com").await,
        json!({"type": "Available", "status": "True", "reason": "Simulated", "message": message})
    );
    becomes(&server, "v1.other.example.com", "FailedDiscoveryCheck").await;
}
