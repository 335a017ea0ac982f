//! Tests of the paths and methods that exist, with the responses of a kube-apiserver.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::{ApiServer, RequestInfo};
use serde_json::{Value, json};
use tower::ServiceExt;

const PAGE: &str = "404 page not found\n";
const UNKNOWN: &str = "the server could not find the requested resource";
const METHOD: &str = "the server does not allow this method on the requested resource";
const NO_NAME: &str = "name must be provided";
const NO_NAMESPACE: &str = "Namespace parameter required.";
const EVERY: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Sends a request with an empty object; returns the code, and the message of the Status, the kind or the text.
async fn ask(server: &ApiServer, method: &str, path: &str) -> (u16, String) {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match method {
        "GET" | "DELETE" | "OPTIONS" | "HEAD" => "",
        _ => "{}",
    };
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("content-type", media)
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(object)) if object.get("kind") == Some(&json!("Status")) => {
            object["message"].as_str().unwrap_or_default().to_owned()
        }
        Ok(object) => object["kind"].as_str().unwrap_or_default().to_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    };
    (code, text)
}

async fn answers(server: &ApiServer, methods: &[&str], path: &str, expected: (u16, &str)) {
    for method in methods {
        let (code, text) = ask(server, method, path).await;
        assert_eq!((code, text.as_str()), expected, "{method} {path}");
    }
}

/// Returns a server with the custom resource `gadgets.example.com`.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let created = create(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &crd,
    )
    .await;
    assert_eq!(created, 201);
    server
}

async fn create(server: &ApiServer, path: &str, object: &Value) -> u16 {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(object.to_string())))
        .unwrap();
    server.clone().oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn documents_of_discovery_have_their_methods() {
    let server = server().await;
    let writes = &EVERY[1..];
    for (path, kind) in [
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/", "APIGroup"),
        ("/apis/example.com", "APIGroup"),
        ("/apis/example.com/v1", "APIResourceList"),
        ("/apis/example.com/v1/", "APIResourceList"),
    ] {
        answers(&server, &EVERY, path, (200, kind)).await;
    }
    for path in ["/api", "/api/v1", "/apis/apps/v1", "/apis/apps/v1/", "/version"] {
        answers(&server, writes, path, (405, METHOD)).await;
    }
    for path in ["/api/v2", "/apis/apps/v9", "/apis/apps/x", "/version/x"] {
        answers(&server, &EVERY, path, (404, UNKNOWN)).await;
    }
    for path in [
        "/apis/example.com/v9",
        "/apis/unknown.example.com",
        "/apis/unknown.example.com/v1",
        "/apis//v1",
        "/openapi/v2/",
        "/metrics/",
        "/index.html/",
    ] {
        answers(&server, &EVERY, path, (404, PAGE)).await;
    }
}

#[tokio::test]
async fn empty_segments_count() {
    let server = server().await;
    let apps = "/apis/apps/v1/namespaces";
    answers(
        &server,
        &["GET"],
        &format!("{apps}//deployments"),
        (200, "DeploymentList"),
    )
    .await;
    let item = format!("{apps}//deployments/x");
    answers(&server, &["GET", "PATCH", "DELETE"], &item, (400, NO_NAMESPACE)).await;
    answers(&server, &["POST"], &item, (405, METHOD)).await;
    let scale = format!("{apps}/default/deployments//scale");
    answers(&server, &["GET", "PUT", "PATCH"], &scale, (400, NO_NAME)).await;
    answers(&server, &["POST", "DELETE"], &scale, (405, METHOD)).await;
    answers(
        &server,
        &EVERY,
        &format!("{apps}/default/deployments//x"),
        (404, UNKNOWN),
    )
    .await;
    answers(
        &server,
        &["POST"],
        "/api/v1/namespaces/default/pods//eviction",
        (400, NO_NAME),
    )
    .await;
    answers(&server, &EVERY, "/api/v1//pods", (404, UNKNOWN)).await;
    answers(&server, &EVERY, "/apis/example.com/v1//gadgets", (404, PAGE)).await;
    let config_map = json!({"metadata": {"name": "x"}});
    let path = "/api/v1/namespaces//configmaps";
    assert_eq!(create(&server, path, &config_map).await, 422);
    assert_eq!(
        create(&server, "/api/v1/namespaces/default/configmaps", &config_map).await,
        201
    );
    answers(&server, &["DELETE"], path, (400, NO_NAMESPACE)).await;
    answers(
        &server,
        &["GET"],
        "/api/v1/namespaces/default/configmaps/x",
        (200, "ConfigMap"),
    )
    .await;
}

#[tokio::test]
async fn paths_of_watches_have_one_method() {
    let server = server().await;
    let config_map = json!({"metadata": {"name": "x"}});
    assert_eq!(
        create(&server, "/api/v1/namespaces/default/configmaps", &config_map).await,
        201
    );
    let path = "/api/v1/watch/namespaces/default/configmaps";
    answers(&server, &["POST", "PUT", "PATCH", "DELETE"], path, (405, METHOD)).await;
    answers(
        &server,
        &["GET"],
        "/api/v1/namespaces/default/configmaps/x",
        (200, "ConfigMap"),
    )
    .await;
    for path in [
        "/api/v1/watch/componentstatuses",
        "/api/v1/watch/namespaces/default/pods/x/status",
        "/api/v1/watch/namespaces/default/bindings",
        "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews",
        "/api/v1/proxy/namespaces/default/pods/x",
    ] {
        answers(&server, &EVERY, path, (404, UNKNOWN)).await;
    }
    for path in [
        "/api/v1/watch",
        "/apis/apps/v1/proxy/",
        "/apis/unknown.example.com/v1/watch",
    ] {
        let why = format!(
            "Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind and namespace from url, {path}\n"
        );
        answers(&server, &EVERY, path, (500, &why)).await;
    }
    let delete = RequestInfo::of(&Method::DELETE, &path.parse().unwrap());
    assert_eq!((delete.verb, delete.resource.as_str()), ("watch", "configmaps"));
}

#[tokio::test]
async fn a_custom_resource_serves_its_verbs_at_every_path() {
    let server = server().await;
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    // A create ignores the name in the path.
    assert_eq!(create(&server, &format!("{gadgets}/b"), &gadget).await, 201);
    answers(&server, &["GET"], &format!("{gadgets}/a"), (200, "Gadget")).await;
    answers(&server, &["PUT", "PATCH"], gadgets, (400, NO_NAME)).await;
    answers(
        &server,
        &["PUT", "PATCH"],
        &format!("{gadgets}//status"),
        (400, NO_NAME),
    )
    .await;
    let unsupported = "list is not supported on resources of kind \"gadgets.example.com\"";
    answers(
        &server,
        &["GET"],
        &format!("{gadgets}//status"),
        (405, unsupported),
    )
    .await;
    // Segments after a subresource are ignored.
    answers(
        &server,
        &["GET"],
        &format!("{gadgets}/a/status/more"),
        (200, "Gadget"),
    )
    .await;
    let missing = "gadgets.example.com \"a\" not found";
    answers(
        &server,
        &EVERY,
        &format!("{gadgets}/a/unknown/more"),
        (404, missing),
    )
    .await;
    answers(&server, &EVERY[1..], "/apis/example.com/v1/gadgets", (404, PAGE)).await;
}

#[tokio::test]
async fn connections_have_no_dry_run() {
    let server = server().await;
    let why = (400, "dryRun is not supported");
    answers(&server, &EVERY, "/api/v1/nodes/x/proxy?dryRun=", why).await;
    answers(
        &server,
        &["GET", "POST"],
        "/api/v1/namespaces/default/pods/x/exec?dryRun=All",
        why,
    )
    .await;
    answers(
        &server,
        &EVERY,
        "/api/v1/nodes/x/proxy/a//b",
        (404, "nodes \"x\" not found"),
    )
    .await;
}

#[tokio::test]
async fn the_body_of_a_scale_is_checked_before_the_object() {
    let server = server().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/x/scale";
    let why = "the name of the object (x based on URL) was undeterminable: name must be provided";
    answers(&server, &["PUT"], path, (400, why)).await;
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "..", "namespace": "default"},
    });
    let request = Request::put("/apis/apps/v1/namespaces/default/deployments/../scale")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(scale.to_string())))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 400, "the name cannot be a part of a key");
}

#[tokio::test]
async fn a_delete_resets_the_metrics() {
    let server = server().await;
    answers(&server, &["GET"], "/api/v1/nodes", (200, "NodeList")).await;
    let (_, before) = ask(&server, "POST", "/metrics").await;
    assert!(
        before.contains("resource=\"nodes\",scope=\"cluster\""),
        "{before}"
    );
    answers(&server, &["DELETE"], "/metrics", (200, "metrics reset\n")).await;
    let (_, after) = ask(&server, "GET", "/metrics").await;
    assert!(!after.contains("resource=\"nodes\",scope=\"cluster\""), "{after}");
}

#[tokio::test]
async fn escapes_and_names_are_checked() {
    let server = server().await;
    let bad = (400, "400 Bad Request");
    answers(&server, &EVERY, "/api/v1/nodes/%zz", bad).await;
    let reads = ["GET", "PATCH", "DELETE"];
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    for path in ["/api/v1/nodes", "/api/v1/namespaces/default/pods", gadgets] {
        let why = (400, "Name parameter invalid: \"..\": may not be '..'");
        answers(&server, &reads, &format!("{path}/%2e."), why).await;
        let why = (400, "Name parameter invalid: \"a%b\": may not contain '%'");
        answers(&server, &reads, &format!("{path}/a%25b"), why).await;
    }
    // Parameters with an invalid escape or a semicolon are dropped, and an empty number is not one.
    for query in ["limit=%zz", "limit=1;b", "labelSelector=%zz&a"] {
        answers(
            &server,
            &["GET"],
            &format!("/api/v1/nodes?{query}"),
            (200, "NodeList"),
        )
        .await;
    }
    let why = (400, "strconv.ParseInt: parsing \"\": invalid syntax");
    for query in ["limit=", "limit", "limit=&limit=1", "timeoutSeconds="] {
        answers(&server, &["GET"], &format!("/api/v1/nodes?{query}"), why).await;
    }
    answers(&server, &["DELETE"], "/api/v1/nodes/x?gracePeriodSeconds=", why).await;
}

#[tokio::test]
async fn media_types_ignore_case() {
    let server = server().await;
    for (media, code) in [
        ("APPLICATION/JSON", 201),
        ("application/json;", 201),
        (";", 415),
        ("", 201),
    ] {
        let request = Request::post("/api/v1/namespaces/default/configmaps?dryRun=All")
            .header("content-type", media)
            .body(Full::new(Bytes::from_static(
                b"{\"metadata\": {\"name\": \"x\"}}",
            )))
            .unwrap();
        let response = server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), code, "{media:?}");
    }
}
