//! Requests of clients with options, and discovery of kinds by name.

use crate::support::{Bench, Running, Widget, config_map, key, run};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::PartialObjectMeta;
use operator_runtime::{Client, Kind, prelude::*};
use serde_json::json;

async fn start(bench: &Bench) -> (Client, Running) {
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<ConfigMap>().await.unwrap();
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

/// Changes an object and delays the event of the change.
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
    let locking = client.with(|options| options.optimistic_lock = true);
    let error = locking
        .patch_from(first.as_ref(), second.clone())
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let patched = client.patch_from(first.as_ref(), second).await.unwrap();
    let data = patched.data.as_ref().unwrap();
    assert_eq!((data["value"].as_str(), data["foreign"].as_str()), ("2", "kept"));
    let third = with_value(&patched, "value", "3");
    let locked = locking.patch_from(patched.as_ref(), third).await.unwrap();
    assert_eq!(locked.data.as_ref().unwrap()["value"], "3");

    bench.network.take_writes();
    let newest = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    let same = ConfigMap::clone(&newest);
    client.patch_from(newest.as_ref(), same.clone()).await.unwrap();
    locking.patch_from(newest.as_ref(), same).await.unwrap();
    assert_eq!(bench.network.take_writes(), [""; 0]);
    let error = client
        .patch_from(newest.as_ref(), config("b", "1"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("changed the name"), "{error}");
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn apply_without_force_keeps_fields_of_others() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client
        .with(|options| options.field_manager = "other".into())
        .apply(config("a", "1"))
        .await
        .unwrap();
    let error = client
        .with(|options| options.force = false)
        .apply(config("a", "2"))
        .await
        .unwrap_err();
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
        let client = client.with(|options| options.delete = wrong);
        let error = client.delete::<ConfigMap>(&key("a")).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }
    let right = only(object.uid(), object.resource_version());
    let exact = client.with(|options| options.delete = right);
    exact.delete::<ConfigMap>(&key("a")).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_none());

    for name in ["b", "c"] {
        client.create(config(name, "1")).await.unwrap();
    }
    // Deletes in the foreground, which the garbage collector would complete.
    let named = ListOptions {
        fields: "metadata.name=b".into(),
        ..ListOptions::from(Some("default"))
    };
    let slow = client.with(|options| options.delete = DeleteParams::foreground().grace_period(5));
    let named = slow.list::<ConfigMap>().options(named);
    named.delete_all().await.unwrap();
    let going = client.live().get::<ConfigMap>(&key("b")).await.unwrap().unwrap();
    assert_eq!(going.finalizers(), ["foregroundDeletion"]);
    assert!(going.metadata.deletion_timestamp.is_some());
    let left = client.get::<ConfigMap>(&key("c")).await.unwrap().unwrap();
    assert!(left.metadata.deletion_timestamp.is_none());
    running.end().await.unwrap();
}

#[tokio::test]
async fn live_list_is_selected_by_the_server_and_starts_no_watch() {
    let bench = Bench::new().await;
    for name in ["a", "b"] {
        bench.create(name, 1).await;
    }
    let (client, running) = start(&bench).await;
    let live = client.live();
    let one = ListOptions {
        fields: "metadata.name=b".into(),
        ..ListOptions::from(Some("default"))
    };
    let listed = live.list::<Widget>().options(one).await.unwrap();
    let names: Vec<_> = listed.iter().map(|widget| widget.name_any()).collect();
    assert_eq!(names, ["b"]);
    let kind = Kind::of::<Widget>();
    assert_eq!(live.list_kind::<PartialObjectMeta>(&kind).await.unwrap().len(), 2);
    let is_watch = |request: &str| request.contains("/widgets?") && request.contains("watch=true");
    assert_eq!(bench.network.count(is_watch), 0);
    let error = live.list::<Widget>().index("size", "1").await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("an index cannot be used in a live list"),
        "{error}"
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
    // An unknown kind is discovered again, because its definition may have been installed.
    bench.install_widgets().await;
    let widgets = mapper.kind("example.com", "Widget").await.unwrap();
    assert_eq!(widgets, Kind::of::<Widget>());
    assert_eq!(of_discovery(), 8);
    bench.create("a", 3).await;
    let widget = client
        .get::<DynamicObject>((&widgets, &key("a")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(widget.data["spec"]["size"], 3);
    running.end().await.unwrap();
}

#[tokio::test]
async fn kinds_are_found_without_aggregated_discovery() {
    let bench = Bench::new().await;
    let inner = bench.client.clone();
    let plain = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        request.headers_mut().remove(http::header::ACCEPT);
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    let manager = Manager::new("tester", kube::Client::new(plain, "default"));
    let manager = manager.await.unwrap();
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
    let error = client.create((&Kind::of::<Widget>(), partial)).await.unwrap_err();
    let told = "cannot create/update using only metadata";
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(bench.network.take_writes(), [""; 0]);
    running.end().await.unwrap();
}
