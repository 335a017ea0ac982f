//! Tests of the public API with the client of kube.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use operator_apiserver::{ApiServer, ListenOptions};
use serde_json::json;

fn server() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.clone(), "default")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": name}}, "data": {"k": "v"},
    }))
    .unwrap()
}

fn widgets() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    }))
    .unwrap()
}

fn widget_api(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    Api::default_namespaced_with(client, &resource)
}

fn widget(name: &str, size: i64) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name}, "spec": {"size": size},
    }))
    .unwrap()
}

fn reason<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) => status.reason.clone(),
        other => panic!("no error of the server: {other:?}"),
    }
}

#[tokio::test]
async fn a_new_cluster_has_its_namespaces() {
    let api: Api<Namespace> = Api::all(client(&server()));
    let names: Vec<String> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server()));
    let created = api
        .create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    assert!(created.uid().is_some());
    assert_eq!(
        reason(api.create(&PostParams::default(), &config_map("a")).await),
        "AlreadyExists"
    );

    let mut changed = created.clone();
    changed.data = Some([("k".to_owned(), "w".to_owned())].into());
    let replaced = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    assert_eq!(
        reason(api.replace("a", &PostParams::default(), &changed).await),
        "Conflict"
    );

    let same = api.replace("a", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(
        same.resource_version(),
        replaced.resource_version(),
        "a write that changes nothing makes no revision"
    );

    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(reason(api.get("a").await), "NotFound");
}

#[tokio::test]
async fn finalizers_hold_an_object_back() {
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server()));
    let mut object = config_map("held");
    object.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    api.create(&PostParams::default(), &object).await.unwrap();
    let left = api.delete("held", &DeleteParams::default()).await.unwrap();
    let terminating = left.left().expect("the object is answered");
    assert!(terminating.metadata.deletion_timestamp.is_some());

    let release = json!({"metadata": {"finalizers": null}});
    api.patch("held", &PatchParams::default(), &Patch::Merge(release))
        .await
        .unwrap();
    assert_eq!(reason(api.get("held").await), "NotFound");
}

#[tokio::test]
async fn a_watch_reports_changes() {
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server()));
    let start = api.list(&ListParams::default()).await.unwrap();
    let version = start.metadata.resource_version.unwrap();
    let stream = api.watch(&WatchParams::default(), &version).await.unwrap();
    api.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let patch = json!({"data": {"k": "w"}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let events: Vec<WatchEvent<ConfigMap>> = stream.take(3).try_collect().await.unwrap();
    assert!(matches!(&events[0], WatchEvent::Added(a) if a.name_any() == "a"));
    assert!(matches!(&events[1], WatchEvent::Modified(a) if a.data.as_ref().unwrap()["k"] == "w"));
    assert!(matches!(&events[2], WatchEvent::Deleted(_)));
}

#[tokio::test]
async fn a_streaming_list_begins_with_existing_objects() {
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server()));
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    let config = watcher::Config::default().streaming_lists();
    let mut events = watcher(api.clone(), config).boxed();
    let mut names = Vec::new();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            watcher::Event::InitApply(object) => names.push(object.name_any()),
            watcher::Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(names, ["a", "b"]);
    api.create(&PostParams::default(), &config_map("c"))
        .await
        .unwrap();
    let next = events.try_next().await.unwrap().unwrap();
    assert!(matches!(next, watcher::Event::Apply(c) if c.name_any() == "c"));
}

#[tokio::test]
async fn a_custom_resource_is_served_when_its_definition_is_created() {
    let client = client(&server());
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &widgets())
        .await
        .unwrap();
    let established = definitions.get("widgets.example.com").await.unwrap();
    let conditions = established.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
    );

    let api = widget_api(client.clone());
    let created = api.create(&PostParams::default(), &widget("w", 1)).await.unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let status = json!({"status": {"ready": true}});
    let patched = api
        .patch_status("w", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["ready"], true);
    assert_eq!(patched.metadata.generation, Some(1));
    let spec = json!({"spec": {"size": 2}, "status": {"ready": false}});
    let patched = api
        .patch("w", &PatchParams::default(), &Patch::Merge(spec))
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["ready"], true);
    assert_eq!(patched.metadata.generation, Some(2));

    definitions
        .delete("widgets.example.com", &DeleteParams::default())
        .await
        .unwrap();
    assert!(api.get("w").await.is_err());
    assert_eq!(reason(definitions.get("widgets.example.com").await), "NotFound");
}

#[tokio::test]
async fn servers_are_isolated() {
    let (one, two) = (server(), server());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&one));
    api.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let other: Api<ConfigMap> = Api::default_namespaced(client(&two));
    assert_eq!(reason(other.get("a").await), "NotFound");
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_over_tls() {
    let server = server();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let config = kube::config::Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
        .await
        .unwrap();
    let remote = Client::try_from(config).unwrap();
    assert_eq!(remote.apiserver_version().await.unwrap().git_version, "v1.36.2");
    let api: Api<ConfigMap> = Api::default_namespaced(remote.clone());
    api.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let local: Api<ConfigMap> = Api::default_namespaced(client(&server));
    assert!(local.get("a").await.is_ok());

    let mut stream = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let first = stream.try_next().await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(_)));
    let drained = tokio::time::timeout(Duration::from_secs(5), listener.shutdown()).await;
    assert!(drained.is_ok(), "an open watch does not hold up a shutdown");
    while let Some(Ok(event)) = stream.next().await {
        assert!(matches!(event, WatchEvent::Bookmark(_)), "{event:?}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let server = server();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let address = listener.local_addr();
    let error = server.listen(ListenOptions::at(address)).await.unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    listener.shutdown().await;
}
