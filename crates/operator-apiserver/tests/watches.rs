//! Tests of the end of watches, and of the events that they skip.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::client::{Gvr, Patch};
use operator_apiserver::{ApiServer, Body};
use serde_json::{Value, json};
use tower::ServiceExt;

/// The time limit for an event.
const PATIENCE: Duration = Duration::from_secs(30);

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}]},
    })
}

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

async fn watch(server: &ApiServer, path: &str) -> Body {
    let request = Request::get(format!("{path}?watch=1"))
        .body(Full::<bytes::Bytes>::default())
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// Returns the next event: its type and the name of its object; `None` at the end.
async fn next(watch: &mut Body) -> Option<(String, String)> {
    let frame = tokio::time::timeout(PATIENCE, watch.frame()).await.unwrap()?;
    let event: Value = serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some((text(&event["type"]), text(&event["object"]["metadata"]["name"])))
}

fn event(kind: &str, name: &str) -> Option<(String, String)> {
    Some((kind.to_owned(), name.to_owned()))
}

#[tokio::test]
async fn a_watch_ends_with_its_definition_after_the_last_event() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    client.create(&definitions(), "", definition()).await.unwrap();
    let widgets = Gvr::new("example.com", "v1", "widgets");
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    client.create(&widgets, "default", widget).await.unwrap();
    let mut events = watch(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(next(&mut events).await, event("ADDED", "a"));

    let name = "widgets.example.com";
    client
        .delete(&definitions(), "", name, Default::default())
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, event("DELETED", "a"));
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test]
async fn a_watch_ends_when_its_definition_changes() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    client.create(&definitions(), "", definition()).await.unwrap();
    let mut events = watch(&server, "/apis/example.com/v1/widgets").await;
    let widget =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    let widgets = Gvr::new("example.com", "v1", "widgets");

    let name = "widgets.example.com";
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    client
        .patch(&definitions(), "", name, None, labelled)
        .await
        .unwrap();
    client.create(&widgets, "default", widget("a")).await.unwrap();
    assert_eq!(
        next(&mut events).await,
        event("ADDED", "a"),
        "a label changes nothing"
    );

    let renamed = Patch::Merge(json!({"spec": {"names": {"shortNames": ["w"]}}}));
    client
        .patch(&definitions(), "", name, None, renamed)
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, None);
    let mut events = watch(&server, "/apis/example.com/v1/widgets").await;
    assert_eq!(next(&mut events).await, event("ADDED", "a"));
}

#[tokio::test]
async fn many_events_of_other_namespaces_are_passed_over() {
    let server = ApiServer::builder().build().unwrap();
    let (client, config_maps) = (server.client(), Gvr::new("", "v1", "configmaps"));
    let mut events = watch(&server, "/api/v1/namespaces/default/configmaps").await;
    for index in 0..1_000 {
        let name = format!("other-{index}");
        client
            .create(&config_maps, "kube-public", config_map(&name))
            .await
            .unwrap();
    }
    client
        .create(&config_maps, "default", config_map("mine"))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, event("ADDED", "mine"));
}
