//! Tests of errors for invalid options, bodies, tokens and methods, with the texts of the real server.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Returns the status code and the body of a response.
async fn ask(server: &ApiServer, method: &str, path: &str, media: &str, body: &str) -> (u16, Value) {
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("content-type", media)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn is_refused(server: &ApiServer, (method, path, media, body): (&str, &str, &str, &str), said: &str) {
    let (code, answer) = ask(server, method, path, media, body).await;
    assert!(code >= 400, "{method} {path}: {answer}");
    assert_eq!(answer["message"], said, "{method} {path}");
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
        .to_string()
}

async fn server() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let (code, _) = ask(&server, "POST", CONFIG_MAPS, JSON, &config_map("c")).await;
    assert_eq!(code, 201);
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "gadgets", "kind": "Gadget"}}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) = ask(&server, "POST", crds, JSON, &crd.to_string()).await;
    assert_eq!(code, 201);
    server
}

#[tokio::test]
async fn all_errors_in_write_options_are_reported_together() {
    let server = server().await;
    let object = format!("{CONFIG_MAPS}/c?");
    let long = format!(
        "dryRun=x&fieldValidation=Nope&force=1&fieldManager={}",
        "y".repeat(129)
    );
    let too_long = "fieldManager: Too long: may not be more than 128 bytes";
    let dry_run = "dryRun: Unsupported value: [\"x\"]: supported values: \"All\"";
    let validation = "fieldValidation: Unsupported value: \"Nope\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    let rest = format!("{too_long}, {dry_run}, {validation}]");
    let force = "[force: Forbidden: may not be specified for non-apply patch";
    let required = "[fieldManager: Required value: is required for apply patch";
    let both = "dryRun=x&fieldValidation=Nope";
    let cases = [
        (
            "POST",
            format!("{CONFIG_MAPS}?{long}"),
            JSON,
            format!("CreateOptions.meta.k8s.io \"\" is invalid: [{rest}"),
        ),
        (
            "PUT",
            format!("{object}{long}"),
            JSON,
            format!("UpdateOptions.meta.k8s.io \"\" is invalid: [{rest}"),
        ),
        (
            "PATCH",
            format!("{object}{long}"),
            MERGE,
            format!("PatchOptions.meta.k8s.io \"\" is invalid: {force}, {rest}"),
        ),
        (
            "PATCH",
            format!("{object}{long}"),
            APPLY,
            format!("PatchOptions.meta.k8s.io \"\" is invalid: [{rest}"),
        ),
        (
            "PATCH",
            format!("{object}{both}"),
            APPLY,
            format!("PatchOptions.meta.k8s.io \"\" is invalid: {required}, {dry_run}, {validation}]"),
        ),
    ];
    for (method, path, media, said) in cases {
        is_refused(&server, (method, &path, media, &config_map("c")), &said).await;
    }
    // The format of a patch is checked first.
    let (code, _) = ask(&server, "PATCH", &format!("{object}{long}"), "text/plain", "{}").await;
    assert_eq!(code, 415);
}

#[tokio::test]
async fn a_delete_with_a_body_takes_no_options_of_the_query() {
    let server = server().await;
    let object = format!("{CONFIG_MAPS}/c");
    let there = async || ask(&server, "GET", &object, JSON, "").await.0 == 200;
    let (code, _) = ask(&server, "DELETE", &format!("{object}?dryRun=All"), JSON, "").await;
    assert!(code == 200 && there().await);
    let (code, _) = ask(&server, "DELETE", &object, JSON, "{\"dryRun\":[\"All\"]}").await;
    assert!(code == 200 && there().await);
    let (code, _) = ask(&server, "DELETE", &format!("{object}?dryRun=All"), JSON, "{}").await;
    assert!(code == 200 && !there().await);
    // A delete ignores the field manager.
    let path = format!("{object}?fieldManager={}", "x".repeat(200));
    is_refused(&server, ("DELETE", &path, JSON, ""), "configmaps \"c\" not found").await;
    let unsupported = "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    is_refused(
        &server,
        ("DELETE", &format!("{object}?dryRun=Some"), JSON, ""),
        unsupported,
    )
    .await;
}

#[tokio::test]
async fn bodies_of_deletes_that_cannot_be_read_are_refused() {
    let server = server().await;
    let go_type = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let untyped = "couldn't get version/kind; json parse error: ";
    let cases = [
        (
            "xx",
            format!("{untyped}invalid character 'x' looking for beginning of value"),
        ),
        ("{\"kind\"", format!("{untyped}unexpected end of JSON input")),
        (
            "[]",
            format!("{untyped}json: cannot unmarshal array into Go value of type {go_type}"),
        ),
        (
            "1",
            format!("{untyped}json: cannot unmarshal number into Go value of type {go_type}"),
        ),
        (
            "{\"apiVersion\":1}",
            format!("{untyped}json: cannot unmarshal number into Go struct field .apiVersion of type string"),
        ),
        (
            "{\"kind\":[]}",
            format!("{untyped}json: cannot unmarshal array into Go struct field .kind of type string"),
        ),
        (
            "{\"apiVersion\":\"a/b/c\"}",
            "unexpected GroupVersion string: a/b/c".to_owned(),
        ),
    ];
    for (body, said) in cases {
        for path in [
            format!("{CONFIG_MAPS}/c"),
            CONFIG_MAPS.to_owned(),
            format!("{GADGETS}/g"),
        ] {
            is_refused(&server, ("DELETE", &path, JSON, body), &said).await;
        }
    }
    assert_eq!(
        ask(&server, "GET", &format!("{CONFIG_MAPS}/c"), JSON, "").await.0,
        200
    );
}

#[tokio::test]
async fn tokens_that_no_list_gave_are_refused() {
    let server = server().await;
    let current = 1 + ask(&server, "GET", CONFIG_MAPS, JSON, "").await.1["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap();
    let invalid = "invalid continue token: continue key is not valid";
    let cases = [
        ("x", format!("{invalid}: illegal base64 data at input byte 0")),
        ("e30=", format!("{invalid}: illegal base64 data at input byte 3")),
        ("e30!", format!("{invalid}: illegal base64 data at input byte 3")),
        (
            "e30",
            format!("{invalid}: server does not recognize this encoded version "),
        ),
        (
            "eyJ2IjoidjkifQ",
            format!("{invalid}: server does not recognize this encoded version v9"),
        ),
        ("eyJ2Ij", format!("{invalid}: unexpected end of JSON input")),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
            format!("{invalid}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0",
            format!("{invalid}: ../a"),
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5LCJzdGFydCI6ImEifQ",
            format!(
                "Timeout: Too large resource version: 999999999, current: {}",
                current - 1
            ),
        ),
    ];
    for (token, said) in cases {
        let path = format!("{CONFIG_MAPS}?limit=1&continue={token}");
        is_refused(&server, ("GET", &path, JSON, ""), &said).await;
    }
    let path = format!("{CONFIG_MAPS}?limit=1&resourceVersion=5&continue=x");
    let said = format!("{invalid}: illegal base64 data at input byte 0");
    is_refused(&server, ("GET", &path, JSON, ""), &said).await;
}

#[tokio::test]
async fn methods_without_a_verb_are_rejected() {
    let server = server().await;
    let general = "the server does not allow this method on the requested resource";
    let custom = " is not supported on resources of kind \"gadgets.example.com\"";
    for method in ["OPTIONS", "TRACE", "FOO"] {
        is_refused(&server, (method, CONFIG_MAPS, JSON, ""), general).await;
        is_refused(&server, (method, GADGETS, JSON, ""), custom).await;
    }
    assert_eq!(ask(&server, "HEAD", CONFIG_MAPS, JSON, "").await.0, 405);
    assert_eq!(ask(&server, "HEAD", GADGETS, JSON, "").await.0, 200);
}

#[tokio::test]
async fn numbers_in_patches_are_converted_to_the_type_of_the_field() {
    let server = server().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(
        ask(&server, "POST", deployments, JSON, &deployment.to_string())
            .await
            .0,
        201
    );
    let path = format!("{deployments}/d");
    for (given, replicas) in [("2.0", 2), ("1e1", 10), ("4294967299", 3)] {
        let patch = format!("{{\"spec\":{{\"replicas\":{given}}}}}");
        let (code, patched) = ask(&server, "PATCH", &path, STRATEGIC, &patch).await;
        assert_eq!(
            (code, &patched["spec"]["replicas"]),
            (200, &replicas.into()),
            "{given}: {patched}"
        );
        // A merge patch is parsed as text again.
        assert_eq!(
            ask(&server, "PATCH", &path, MERGE, &patch).await.0,
            422,
            "{given}"
        );
    }
    let order = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": ["c"], "containers": [{"name": "c", "image": "j"}]}}}});
    let said = "expected a map[string]interface {}, but received a string";
    is_refused(&server, ("PATCH", &path, STRATEGIC, &order.to_string()), said).await;
}

#[tokio::test]
async fn invalid_quantities_have_the_text_of_apply() {
    let server = server().await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "much"}}}});
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/p?fieldManager=m";
    let said = "failed to convert new object (/p; /v1, Kind=PersistentVolumeClaim) to proper version: unable to convert unstructured object to /v1, Kind=PersistentVolumeClaim: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    is_refused(&server, ("PATCH", path, APPLY, &claim.to_string()), said).await;
}

#[tokio::test]
async fn bookmarks_are_empty_objects_of_their_kind() {
    let server = server().await;
    let empty_pod = json!({"metadata": {}, "spec": {"containers": null}});
    let cases = [
        (
            "/apis/apps/v1/replicasets",
            json!({"spec": {"replicas": 0, "selector": null, "template": empty_pod}, "status": {"replicas": 0}}),
        ),
        (
            "/api/v1/services",
            json!({"spec": {}, "status": {"loadBalancer": {}}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            json!({"roleRef": {"apiGroup": "", "kind": "", "name": ""}}),
        ),
        (CONFIG_MAPS, json!({})),
        (GADGETS, json!({})),
    ];
    let check = async |path: &str, rest: Value| {
        let path = format!(
            "{path}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&labelSelector=no%3Done"
        );
        // The object exists, so that the whole response is JSON: a watch this short gets no bookmark before its end.
        let (code, event) = ask(&server, "GET", &path, JSON, "").await;
        assert_eq!((code, &event["type"]), (200, &"BOOKMARK".into()), "{path}");
        let mut object = event["object"].as_object().unwrap().clone();
        for field in ["apiVersion", "kind", "metadata"] {
            assert!(object.remove(field).is_some(), "{event}");
        }
        assert_eq!(Value::Object(object), rest, "{path}");
    };
    futures::future::join_all(cases.map(|(path, rest)| check(path, rest))).await;
}

#[tokio::test]
async fn a_scale_is_that_of_the_object_in_the_path() {
    let server = server().await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(ask(&server, "POST", sets, JSON, &set.to_string()).await.0, 201);
    let path = format!("{sets}/r/scale");
    let scale = |metadata: Value| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": 2}})
            .to_string()
    };
    let nameless = "the name of the object (r based on URL) was undeterminable: name must be provided";
    is_refused(&server, ("PUT", &path, JSON, &scale(json!({}))), nameless).await;
    let other = "the name of the object (s) does not match the name on the URL (r)";
    is_refused(&server, ("PUT", &path, JSON, &scale(json!({"name": "s"}))), other).await;
    let foreign = scale(json!({"name": "r", "namespace": "default", "uid": "1"}));
    let (code, answer) = ask(&server, "PUT", &path, JSON, &foreign).await;
    let said = answer["message"].as_str().unwrap();
    assert!(
        code == 409 && said.contains("Precondition failed: UID in precondition: 1, UID in object meta: "),
        "{said}"
    );
    let (_, live) = ask(&server, "GET", &path, JSON, "").await;
    assert_eq!(live["spec"]["replicas"], 1);
    let own = scale(json!({"name": "r", "namespace": "default", "uid": live["metadata"]["uid"]}));
    let (code, answer) = ask(&server, "PUT", &path, JSON, &own).await;
    assert_eq!((code, &answer["spec"]["replicas"]), (200, &2.into()), "{answer}");
}
