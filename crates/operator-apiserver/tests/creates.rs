//! Creates and reads that differ in small things between kinds, as kube-apiserver answers them.

mod asking;

use asking::{get, merge, post};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server() -> ApiServer {
    let builder = ApiServer::builder().disable_admission_plugins(["ServiceAccount"]);
    let server = builder.build().expect("the server starts");
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = json!({"metadata": {"name": "gadgets.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "versions": [version], "names": {"plural": "gadgets", "kind": "Gadget"}}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, crds, crd).await.is_done();
    server
}

#[tokio::test]
async fn a_resource_version_of_a_new_object_is_refused_when_it_is_stored() {
    let server = server().await;
    let object = |version: &str| json!({"metadata": {"name": "a", "resourceVersion": version}});
    let refused = post(&server, CONFIG_MAPS, object("5")).await;
    refused.is_refused(500, "resourceVersion should not be set on objects to be created");
    // Admission and validation come first.
    let invalid = json!({"metadata": {"name": "A", "resourceVersion": "5"}});
    assert_eq!(post(&server, CONFIG_MAPS, invalid).await.code, 422);
    let dry = post(&server, &format!("{CONFIG_MAPS}?dryRun=All"), object("5")).await;
    dry.is_done();
    assert_eq!(dry.body["metadata"]["resourceVersion"], "5");
    let created = post(&server, CONFIG_MAPS, object("x")).await;
    created.is_done();
    assert_ne!(created.body["metadata"]["resourceVersion"], "x");
}

#[tokio::test]
async fn finalizers_of_custom_resources_need_no_prefix() {
    let server = server().await;
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    let object = |finalizer: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "a", "finalizers": [finalizer]}})
    };
    assert_eq!(post(&server, gadgets, object("a b")).await.code, 422);
    post(&server, gadgets, object("test-finalizer")).await.is_done();
    let change = json!({"metadata": {"finalizers": ["x", "test-finalizer"]}});
    merge(&server, &format!("{gadgets}/a"), change).await.is_done();
    let config_map = json!({"metadata": {"name": "a", "finalizers": ["x"]}});
    let refused = post(&server, CONFIG_MAPS, config_map).await;
    refused.is_refused(
        422,
        "name is neither a standard finalizer name nor is it fully qualified",
    );
}

#[tokio::test]
async fn events_are_found_by_the_names_of_both_groups() {
    let server = server().await;
    let subject = json!({"kind": "Pod", "name": "p", "namespace": "default", "uid": "u"});
    let event = json!({"metadata": {"name": "e"}, "involvedObject": subject, "reason": "R", "reportingComponent": "rc"});
    post(&server, "/api/v1/namespaces/default/events", event)
        .await
        .is_done();
    let count = async |path: &str| {
        let list = get(&server, path).await;
        list.body["items"].as_array().map(Vec::len)
    };
    for (label, found) in [
        ("regarding.name=p", 1),
        ("regarding.uid=u", 1),
        ("regarding.name=q", 0),
        ("reportingController=rc", 1),
        ("reason=R", 1),
    ] {
        let path = format!("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector={label}");
        assert_eq!(count(&path).await, Some(found), "{label}");
    }
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p";
    assert_eq!(count(path).await, Some(1));
}

#[tokio::test]
async fn the_size_of_a_config_map_has_the_path_of_an_empty_name() {
    let server = server().await;
    let large = "x".repeat(1_100_000);
    let refused = post(
        &server,
        CONFIG_MAPS,
        json!({"metadata": {"name": "a"}, "data": {"k": large}}),
    )
    .await;
    let message: Value =
        "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes".into();
    assert_eq!(refused.body["message"], message);
}
