//! The writes of a client on the embedded API server. A write that would change nothing is not sent.

use crate::support::{
    Bench, Running, Widget, WidgetSpec, config_map, in_time, key, of_tier, reconciling, run,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, ValidationDirective};
use kube::core::PartialObjectMeta;
use operator_runtime::owner::{Owner, set_controller_reference};
use operator_runtime::{Client, Kind, prelude::*};
use serde_json::json;

/// Starts a manager that watches the kinds of the tests, and returns its client.
async fn start(bench: &Bench) -> (Client, Running) {
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<Widget>().await.unwrap();
    manager.client().list::<ConfigMap>().await.unwrap();
    bench.network.take_writes();
    (manager.client().clone(), running)
}

fn config(name: &str, value: &str) -> ConfigMap {
    let mut config = config_map(name, value);
    config.metadata.namespace = Some("default".to_owned());
    config
}

fn set(value: &str) -> impl FnMut(&mut ConfigMap) -> Result<()> {
    let value = value.to_owned();
    move |config| {
        config
            .data
            .get_or_insert_default()
            .insert("value".to_owned(), value.clone());
        Ok(())
    }
}

#[tokio::test]
async fn create_or_patch_reports_whether_it_wrote() {
    let bench = Bench::new().await;
    let owner = bench.create("owner", 1).await;
    let (client, running) = start(&bench).await;
    let mutate = |config: &mut ConfigMap| {
        set("1")(config)?;
        Ok(set_controller_reference(&owner, config)?)
    };
    let mut sent = Vec::new();
    for _ in 0..3 {
        let config = client.create_or_patch(config("a", ""), mutate).await.unwrap();
        assert_eq!(config.data.as_ref().unwrap()["value"], "1");
        sent.push(config.was_sent());
    }
    let config_map = client.create_or_patch(config("a", ""), set("2")).await.unwrap();
    sent.push(config_map.was_sent());
    assert_eq!(sent, [true, false, false, true]);
    assert_eq!(bench.network.take_writes().len(), 2);

    let renamed = client.create_or_patch(config("a", ""), |config: &mut ConfigMap| {
        config.metadata.name = Some("b".to_owned());
        Ok(())
    });
    let error = renamed.await.unwrap_err().to_string();
    assert!(
        error.contains("mutate changed the name or the namespace"),
        "{error}"
    );
    let error = client.create_or_patch(config("a", ""), |_: &mut ConfigMap| Err(Error::msg("no idea")));
    assert_eq!(error.await.unwrap_err().to_string(), "no idea");
    running.end().await.unwrap();
}

#[tokio::test]
async fn existing_object_that_the_cache_misses_is_patched() {
    let bench = Bench::new().await;
    // The cache lists, and its watch fails.
    bench
        .network
        .refuse(|request| request.contains("watch=true").then_some(500));
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    client.list::<ConfigMap>().await.unwrap();
    let mut foreign = config("a", "1");
    foreign
        .data
        .get_or_insert_default()
        .insert("foreign".to_owned(), "kept".to_owned());
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs.create(&Default::default(), &foreign).await.unwrap();
    let config = client.create_or_patch(config("a", ""), set("2")).await.unwrap();
    assert!(config.was_sent());
    let data = config.data.as_ref().unwrap();
    assert_eq!((data["foreign"].as_str(), data["value"].as_str()), ("kept", "2"));
    let metrics = manager.metrics().to_text();
    let one = r#"operator_runtime_conflicts_retried_total{kind="ConfigMap"} 1"#;
    assert!(metrics.contains(one), "{metrics}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn create_or_patch_sends_what_changed_of_object_and_status() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let widget = |size| {
        let mut widget = Widget::new("a", WidgetSpec { size });
        widget.metadata.namespace = Some("default".to_owned());
        widget
    };
    let change = async |size: i32, status: Option<i32>| {
        let mutate = |widget: &mut Widget| {
            widget.spec.size = size;
            if status.is_some() {
                widget.status.get_or_insert_default().size = status;
            }
            Ok(())
        };
        let widget = client.create_or_patch(widget(1), mutate).await.unwrap();
        assert_eq!(
            (
                widget.spec.size,
                widget.status.as_ref().and_then(|status| status.size)
            ),
            (size, status)
        );
        (widget.was_sent(), bench.network.take_writes().len())
    };
    assert_eq!(change(1, None).await, (true, 1));
    assert_eq!(change(1, None).await, (false, 0));
    assert_eq!(change(1, Some(1)).await, (true, 1));
    assert_eq!(change(2, Some(2)).await, (true, 2));
    assert_eq!(change(3, Some(2)).await, (true, 1));
    running.end().await.unwrap();
}

#[tokio::test]
async fn updates_and_patches_that_change_nothing_are_not_sent() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<ConfigMap>().await.unwrap();
    let network = bench.network.clone();
    reconciling(&manager, async move |client| {
        let first = client.create(config("a", "1")).await.unwrap();
        network.take_writes();
        let same = client.update(ConfigMap::clone(&first)).await.unwrap();
        assert!(!same.was_sent());
        assert_eq!(same.resource_version(), first.resource_version());
        let replace = json!([{"op": "replace", "path": "/data/value", "value": "1"}]);
        for patch in [
            Patch::Merge(json!({"data": {"value": "1"}, "metadata": {"labels": {"gone": null}}})),
            Patch::Json(serde_json::from_value(replace).unwrap()),
        ] {
            let patched = client.patch::<ConfigMap, _>(&key("a"), &patch).await.unwrap();
            assert!(!patched.was_sent(), "{patch:?}");
        }
        assert_eq!(network.take_writes(), [""; 0]);
        let patch = Patch::Merge(json!({"data": {"value": "2"}}));
        let second = client.patch::<ConfigMap, _>(&key("a"), &patch).await.unwrap();
        assert_eq!(second.data.as_ref().unwrap()["value"], "2");
        // The older state has another resource version, which the server must check.
        let error = client.update(ConfigMap::clone(&first)).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert_eq!(network.take_writes().len(), 2);
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn dry_run_changes_nothing_anywhere() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.create(config("a", "1")).await.unwrap();
    let dry = client.with(|options| options.dry_run = true);
    let would_be = dry.apply(config("a", "2")).await.unwrap();
    assert_eq!(would_be.data.as_ref().unwrap()["value"], "2");
    dry.create(config("b", "1")).await.unwrap();
    dry.delete(&config("a", "1")).await.unwrap();
    dry.list::<ConfigMap>()
        .namespace("default")
        .delete_all()
        .await
        .unwrap();
    let read = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    assert_eq!(read.data.as_ref().unwrap()["value"], "1");
    assert!(client.live().get::<ConfigMap>(&key("b")).await.unwrap().is_none());
    let writes = bench.network.take_writes();
    assert!(
        writes[1..]
            .iter()
            .filter(|write| !write.starts_with("DELETE"))
            .all(|write| write.contains("dryRun=All")),
        "{writes:?}"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn client_is_limited_to_its_namespace() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let own = client.with(|options| options.namespace = Some("default".into()));
    own.apply(config_map("a", "1")).await.unwrap();
    let listed = own.list::<ConfigMap>().await.unwrap();
    assert!(
        listed
            .iter()
            .all(|config| config.namespace().as_deref() == Some("default"))
    );
    let error = own.get::<ConfigMap>(("elsewhere", "a")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot get ConfigMap elsewhere/a: this client is limited to namespace default"
    );
    assert!(own.list::<ConfigMap>().namespace("elsewhere").await.is_err());
    let mut foreign = config("a", "1");
    foreign.metadata.namespace = Some("elsewhere".to_owned());
    assert!(own.create(foreign).await.is_err());
    let kind = Kind::in_cluster("v1", "Namespace", "namespaces");
    let key = operator_runtime::ObjectKey::cluster("default");
    assert!(
        own.get::<DynamicObject>((&kind, &key)).await.unwrap().is_some(),
        "kinds without namespaces pass"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn field_owner_and_field_validation_reach_the_server() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let other = client
        .with(|options| options.field_manager = "somebody".into())
        .apply(config("a", "1"))
        .await
        .unwrap();
    let live: ConfigMap = Api::default_namespaced(bench.client.clone())
        .get("a")
        .await
        .unwrap();
    assert_eq!(other.uid(), live.uid());
    assert_eq!(live.managed_fields()[0].manager.as_deref(), Some("somebody"));

    let kind = Kind::of::<Widget>();
    let widget: DynamicObject = serde_json::from_value(
        json!({"metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 1, "colour": "red"}}),
    )
    .unwrap();
    let strict = client.with(|options| options.field_validation = Some(ValidationDirective::Strict));
    let error = strict.create((&kind, widget.clone())).await.unwrap_err();
    assert!(
        error
            .status()
            .unwrap()
            .message
            .contains("unknown field \"spec.colour\""),
        "{error:?}"
    );
    let ignoring = client.with(|options| options.field_validation = Some(ValidationDirective::Ignore));
    ignoring.create((&kind, widget)).await.unwrap();
    running.end().await.unwrap();
}

#[tokio::test]
async fn reads_without_own_writes_show_the_watch() {
    let bench = Bench::new().await;
    bench
        .network
        .refuse(|request| request.contains("watch=true").then_some(500));
    let (client, running) = start(&bench).await;
    let watched = client.with(|options| options.own_writes = false);
    client.create(config("a", "1")).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    assert!(watched.get::<ConfigMap>(&key("a")).await.unwrap().is_none());
    let has_it = async |client: &Client| {
        let listed = client.list::<ConfigMap>().await.unwrap();
        listed.iter().any(|config| config.name_any() == "a")
    };
    assert_eq!((has_it(&client).await, has_it(&watched).await), (true, false));
    running.end().await.unwrap();
}

#[tokio::test]
async fn collection_is_deleted_in_one_request() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    for (name, tier) in [("a", "front"), ("b", "front"), ("c", "back")] {
        let mut config = config(name, "1");
        config.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        client.create(config).await.unwrap();
    }
    bench.network.take_writes();
    let front = || of_tier("front");
    client
        .list::<ConfigMap>()
        .options(front())
        .delete_all()
        .await
        .unwrap();
    assert_eq!(bench.network.take_writes().len(), 1);
    in_time(async {
        while !client
            .list::<ConfigMap>()
            .options(front())
            .await
            .unwrap()
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let left: Vec<_> = client.list::<ConfigMap>().namespace("default").await.unwrap();
    assert!(left.iter().any(|config| config.name_any() == "c"));
    let error = client.list::<ConfigMap>().delete_all().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot delete all of ConfigMap: metadata.namespace is empty"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn subresources_are_read_and_written() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.list::<Deployment>().await.unwrap();
    let web: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
    .unwrap();
    let web = client.create(web).await.unwrap();
    let scale = client.subresource(web.as_ref(), "scale");
    let current: Scale = scale.get().await.unwrap();
    assert_eq!(current.spec.unwrap().replicas, Some(2));
    let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let changed: Scale = scale.patch(&three).await.unwrap();
    assert_eq!(changed.spec.unwrap().replicas, Some(3));
    let error = client
        .subresource(web.as_ref(), "nothing")
        .get::<Scale>()
        .await
        .unwrap_err();
    assert!(error.is_not_served() && !error.is_not_found(), "{error:?}");
    // The status is in the object itself, so the cache has it immediately.
    let status = Patch::Merge(json!({"status": {"replicas": 3}}));
    let _: Deployment = client
        .subresource(web.as_ref(), "status")
        .patch(&status)
        .await
        .unwrap();
    let read = client.get::<Deployment>(&key("web")).await.unwrap().unwrap();
    assert_eq!(read.status.as_ref().unwrap().replicas, Some(3));
    running.end().await.unwrap();
}

#[tokio::test]
async fn objects_without_a_rust_type_are_written_like_others() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let running = run(&manager);
    reconciling(&manager, async move |ctx| {
        dynamic_writes(&bench, ctx.client()).await;
    })
    .await;
    running.end().await.unwrap();
}

async fn dynamic_writes(bench: &Bench, client: &Client) {
    let kind = Kind::in_namespaces("example.com/v1", "Widget", "widgets");
    let key = &key("w");
    // A reader of the whole objects, so that the cache can compare them.
    assert!(client.list_kind::<DynamicObject>(&kind).await.unwrap().is_empty());
    let desired = |size: i32| -> DynamicObject {
        serde_json::from_value(
            json!({"metadata": {"name": "w", "namespace": "default"}, "spec": {"size": size}}),
        )
        .unwrap()
    };
    let widget = client.apply((&kind, desired(1))).await.unwrap();
    bench.network.take_writes();
    assert!(!client.apply((&kind, desired(1))).await.unwrap().was_sent());
    assert_eq!(client.get::<Widget>(key).await.unwrap().unwrap().spec.size, 1);
    assert_eq!(bench.network.take_writes(), [""; 0]);
    let status = Patch::Merge(json!({"status": {"size": 1}}));
    let written: Widget = client
        .subresource::<DynamicObject>((&kind, key), "status")
        .patch(&status)
        .await
        .unwrap();
    assert_eq!(written.status.unwrap().size, Some(1));

    let owner = Owner::of(&kind, widget.as_ref());
    let owned = client.apply_owned(owner, config_map("of-w", "1")).await.unwrap();
    assert_eq!(owned.owner_references()[0].name, "w");
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/done"]}}));
    let held = client
        .patch::<DynamicObject, _>((&kind, key), &held)
        .await
        .unwrap();
    client.delete((&kind, &*held)).await.unwrap();
    let deleting = client.get::<DynamicObject>((&kind, key)).await.unwrap().unwrap();
    assert!(deleting.metadata.deletion_timestamp.is_some());
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client
        .patch::<DynamicObject, _>((&kind, key), &released)
        .await
        .unwrap();
    assert!(client.get::<DynamicObject>((&kind, key)).await.unwrap().is_none());
}

#[tokio::test]
async fn metadata_is_patched_and_never_replaced() {
    let bench = Bench::new().await;
    bench.create("w", 1).await;
    let (client, running) = start(&bench).await;
    let kind = Kind::of::<Widget>();
    let labels = Patch::Merge(json!({"metadata": {"labels": {"tier": "front"}}}));
    let partial = client
        .patch::<PartialObjectMeta, _>((&kind, &key("w")), &labels)
        .await
        .unwrap();
    assert_eq!(partial.labels()["tier"], "front");
    assert_eq!(
        client.get::<Widget>(&key("w")).await.unwrap().unwrap().labels()["tier"],
        "front"
    );
    let error = client
        .update((&kind, PartialObjectMeta::clone(&partial)))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot create/update using only metadata"),
        "{error}"
    );
    running.end().await.unwrap();
}
