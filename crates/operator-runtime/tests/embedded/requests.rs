//! What the client asks of the server with options of its own, and how it finds kinds by name.

use std::pin::pin;

use crate::support::{Bench, Running, Widget, config_map, in_time, key, run};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use operator_runtime::{Client, Kind, prelude::*};
use serde_json::json;

async fn start(bench: &Bench) -> (Client, Running) {
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.cache().list::<ConfigMap>(None).await.unwrap();
    bench.network.take_writes();
    (manager.client().clone(), running)
}

fn config(name: &str, value: &str) -> ConfigMap {
    let mut config = config_map(name, value);
    config.metadata.namespace = Some("default".to_owned());
    config
}

fn with_value(config: &ConfigMap, key: &str, value: &str) -> ConfigMap {
    let mut changed = config.clone();
    changed
        .data
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
    changed
}

/// A change that the operator hears of late.
async fn change_behind_its_back(bench: &Bench) {
    bench.network.hold_watches(true);
    let api: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let patch = Patch::Merge(json!({"data": {"foreign": "kept"}}));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn difference_of_two_states_is_sent_and_may_be_locked() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let first = client.create(config("a", "1")).await.unwrap();
    change_behind_its_back(&bench).await;
    let second = with_value(&first, "value", "2");
    let error = client
        .patch_from_locked(first.as_ref(), &second)
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let patched = client.patch_from(first.as_ref(), &second).await.unwrap();
    let data = patched.data.as_ref().unwrap();
    assert_eq!((data["value"].as_str(), data["foreign"].as_str()), ("2", "kept"));
    let third = with_value(&patched, "value", "3");
    let locked = client.patch_from_locked(patched.as_ref(), &third).await.unwrap();
    assert_eq!(locked.data.as_ref().unwrap()["value"], "3");

    bench.network.take_writes();
    let newest = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    client.patch_from(newest.as_ref(), newest.as_ref()).await.unwrap();
    client
        .patch_from_locked(newest.as_ref(), newest.as_ref())
        .await
        .unwrap();
    assert_eq!(bench.network.take_writes(), [""; 0]);
    let error = client
        .patch_from(newest.as_ref(), &config("b", "1"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("changed the name"), "{error}");
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn apply_without_force_leaves_others_what_they_hold() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client
        .with_field_manager("other")
        .apply(config("a", "1"))
        .await
        .unwrap();
    let error = client.without_force().apply(config("a", "2")).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let message = &error.status().unwrap().message;
    assert!(message.contains("conflict with \"other\""), "{message}");
    let forced = client.apply(config("a", "2")).await.unwrap();
    assert_eq!(forced.data.as_ref().unwrap()["value"], "2");
    running.end().await.unwrap();
}

#[tokio::test]
async fn deletions_have_preconditions_and_a_propagation() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let object = client.create(config("a", "1")).await.unwrap();
    let only = |uid: Option<String>, version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    for wrong in [
        only(Some("another".to_owned()), None),
        only(None, Some("1".to_owned())),
    ] {
        let error = client
            .delete_with::<ConfigMap>(&key("a"), wrong)
            .await
            .unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }
    let right = only(object.uid(), object.resource_version());
    client.delete_with::<ConfigMap>(&key("a"), right).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_none());

    for name in ["b", "c"] {
        client.create(config(name, "1")).await.unwrap();
    }
    // In the foreground, which the garbage collector would end.
    let named = ListOptions::in_namespace("default").fields("metadata.name=b");
    let parameters = DeleteParams::foreground().grace_period(5);
    client
        .delete_all_of_with::<ConfigMap>(named, parameters)
        .await
        .unwrap();
    let going = client.live::<ConfigMap>().get(&key("b")).await.unwrap().unwrap();
    assert_eq!(going.finalizers(), ["foregroundDeletion"]);
    assert!(going.metadata.deletion_timestamp.is_some());
    let left = client.get::<ConfigMap>(&key("c")).await.unwrap().unwrap();
    assert!(left.metadata.deletion_timestamp.is_none());
    running.end().await.unwrap();
}

#[tokio::test]
async fn watch_past_the_cache_shows_changes_as_they_come() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let version = bench.create("a", 1).await.metadata.resource_version.unwrap();
    let parameters = WatchParams::default().fields("metadata.name=a");
    let live = client.live::<Widget>();
    let changes = live.watch(Some("default"), &parameters, &version).await.unwrap();
    bench.create("b", 1).await;
    bench.resize("a", 2).await;
    bench.delete("a").await;
    let seen: Vec<_> = in_time(async {
        let (mut changes, mut seen) = (pin!(changes), Vec::new());
        while seen.len() < 2 {
            seen.push(changes.try_next().await.unwrap().unwrap());
        }
        seen
    })
    .await;
    assert!(
        matches!(&seen[0], WatchEvent::Modified(widget) if widget.spec.size == 2),
        "{seen:?}"
    );
    assert!(
        matches!(&seen[1], WatchEvent::Deleted(widget) if widget.name_any() == "a"),
        "{seen:?}"
    );
    let kind = Kind::of::<Widget>();
    let all = WatchParams::default();
    let started = client.dynamic(&kind).live().watch(None, &all, "").await;
    let mut whole = pin!(started.unwrap());
    let event = in_time(whole.try_next()).await.unwrap().unwrap();
    assert!(
        matches!(&event, WatchEvent::Added(widget) if widget.data["spec"]["size"] == 1),
        "{event:?}"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn kinds_are_found_by_name_with_two_requests() {
    let bench = Bench::without_widgets();
    let (client, running) = start(&bench).await;
    let mapper = client.rest_mapper();
    let deployment = Kind::of::<k8s_openapi::api::apps::v1::Deployment>();
    assert_eq!(mapper.kind("apps", "Deployment").await.unwrap(), deployment);
    for name in [
        "deployments",
        "deployment",
        "deploy",
        "deployments.apps",
        "deployments.v1.apps",
    ] {
        assert_eq!(mapper.resource(name).await.unwrap(), deployment, "{name}");
    }
    assert_eq!(
        mapper.kind_in("v1", "ConfigMap").await.unwrap(),
        Kind::of::<ConfigMap>()
    );
    assert!(!mapper.resource("ns").await.unwrap().namespaced);
    let discoveries = || bench.network.requests(|request| request.starts_with("GET /api"));
    let of_discovery = || {
        discoveries()
            .iter()
            .filter(|request| !request.contains('?'))
            .count()
    };
    assert_eq!(of_discovery(), 2, "{:?}", discoveries());

    let error = mapper.kind("example.com", "Widget").await.unwrap_err();
    let told = r#"no matches for kind "Widget" in group "example.com""#;
    assert!(error.to_string().starts_with(told), "{error}");
    let error = mapper.kind_in("apps/v2", "Deployment").await.unwrap_err();
    let told = r#"no matches for kind "Deployment" in version "apps/v2""#;
    assert!(error.to_string().starts_with(told), "{error}");
    // What is not found is looked for again: its definition may have come.
    bench.install_widgets().await;
    let widgets = mapper.kind("example.com", "Widget").await.unwrap();
    assert_eq!(widgets, Kind::of::<Widget>());
    assert_eq!(of_discovery(), 8);
    bench.create("a", 3).await;
    let widget = client.dynamic(&widgets).get(&key("a")).await.unwrap().unwrap();
    assert_eq!(widget.data["spec"]["size"], 3);
    running.end().await.unwrap();
}

#[tokio::test]
async fn kinds_are_found_on_a_server_that_tells_them_group_by_group() {
    let bench = Bench::new().await;
    let inner = bench.client.clone();
    let plain = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        request.headers_mut().remove(http::header::ACCEPT);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    let manager = Manager::builder("tester").client(kube::Client::new(plain, "default"));
    let manager = manager.build().await.unwrap();
    let mapper = manager.client().rest_mapper();
    assert_eq!(
        mapper.kind("example.com", "Widget").await.unwrap(),
        Kind::of::<Widget>()
    );
    assert_eq!(
        mapper.resource("configmaps").await.unwrap(),
        Kind::of::<ConfigMap>()
    );
}

#[tokio::test]
async fn metadata_is_not_created_either() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let metadata = json!({"metadata": {"name": "a", "namespace": "default"}});
    let partial: PartialObjectMeta = serde_json::from_value(metadata).unwrap();
    let error = client
        .metadata(&Kind::of::<Widget>())
        .create(partial)
        .await
        .unwrap_err();
    let told = "cannot create/update using only metadata";
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(bench.network.take_writes(), [""; 0]);
    running.end().await.unwrap();
}
