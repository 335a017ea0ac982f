//! Deletions by the operator: later reads, and writes to deleted objects.

use std::sync::Arc;

use crate::support::{Bench, Running, Widget, config_map_in, in_time, key, run, teller, until_watched};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PostParams};
use operator_runtime::prelude::*;
use operator_runtime::{Client, Kind, ObjectKey};
use serde_json::json;

async fn start(bench: &Bench) -> (Client, Running) {
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<Widget>().await.unwrap();
    manager.client().list::<ConfigMap>().await.unwrap();
    (manager.client().clone(), running)
}

fn held(name: &str) -> ConfigMap {
    let mut config = config_map_in("default", name, "1");
    config.metadata.finalizers = Some(vec!["example.com/work".to_owned()]);
    config
}

#[tokio::test]
async fn terminating_objects_are_still_read() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(async |ctx: KeyContext, request: Request| {
        if let Some(config) = ctx.get::<ConfigMap>(&request).await? {
            let work = async { Ok(()) };
            ctx.finalizers(&*config)
                .finalizer("example.com/work", work)
                .run()
                .await?;
        }
        Ok(Action::done())
    });
    manager
        .add_controller(Controller::by_key(Watch::<ConfigMap>::new(), reconciler))
        .unwrap();
    let running = run(&manager);
    let client = manager.client();
    client.create(config_map_in("default", "a", "1")).await.unwrap();
    told.until("a", None).await;
    client
        .list::<ConfigMap>()
        .namespace("default")
        .delete_all()
        .await
        .unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    in_time(async { while configs.get_opt("a").await.unwrap().is_some() {} }).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn answer_of_a_collection_deletion_hides_no_objects() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.create(held("a")).await.unwrap();
    client
        .list::<ConfigMap>()
        .namespace("default")
        .delete_all()
        .await
        .unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    running.end().await.unwrap();
}

#[tokio::test]
async fn objects_that_the_cache_has_not_seen_are_deleted_with_the_others() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    bench.network.hold_watches(true);
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let late = config_map_in("default", "late", "1");
    configs.create(&PostParams::default(), &late).await.unwrap();
    client
        .list::<ConfigMap>()
        .namespace("default")
        .delete_all()
        .await
        .unwrap();
    assert!(configs.get_opt("late").await.unwrap().is_none(), "it leaked");
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn terminating_namespace_is_read() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.list::<Namespace>().await.unwrap();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let namespace = client.create(namespace).await.unwrap();
    bench.network.hold_watches(true);
    client.delete(&*namespace).await.unwrap();
    let read = client.get::<Namespace>(ObjectKey::cluster("team")).await.unwrap();
    assert!(read.unwrap().metadata.deletion_timestamp.is_some());
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn dry_run_hides_nothing() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.create(config_map_in("default", "a", "1")).await.unwrap();
    let dry_run = client.with(|options| options.delete.dry_run = true);
    dry_run.delete::<ConfigMap>(&key("a")).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    running.end().await.unwrap();
}

#[tokio::test]
async fn deletion_is_seen_at_once_whatever_the_server_answers() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    client.list::<ServiceAccount>().await.unwrap();
    // The response is a Status for one and the object for the other.
    let config = client.create(config_map_in("default", "a", "1")).await.unwrap();
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "default"}})).unwrap();
    let account = client.create(account).await.unwrap();
    // Only its finalizer kept this object.
    let held = client.create(held("held")).await.unwrap();
    client.delete(&*held).await.unwrap();
    bench.network.hold_watches(true);
    client.delete(&*config).await.unwrap();
    client.delete(&*account).await.unwrap();
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client
        .patch::<ConfigMap, _>(&key("held"), &release)
        .await
        .unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_none());
    assert!(client.get::<ServiceAccount>(&key("a")).await.unwrap().is_none());
    assert!(client.get::<ConfigMap>(&key("held")).await.unwrap().is_none());
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn status_write_of_a_deleted_object_is_not_an_error() {
    let bench = Bench::new().await;
    let old = Arc::new(bench.create("a", 1).await);
    let (client, running) = start(&bench).await;
    bench.delete("a").await;
    let ready = || Condition::available(true, "Ready", "");
    let gone = client
        .update_status(&old, |status| {
            status.conditions.set(ready());
        })
        .await
        .unwrap();
    assert!(gone.is_gone());
    let gone = client
        .update_status(&old, |status| status.size = Some(1))
        .await
        .unwrap();
    assert!(gone.is_gone());

    // Another object now has this name.
    let new = bench.create("a", 2).await;
    let gone = client
        .update_status(&old, |status| {
            status.conditions.set(ready());
        })
        .await
        .unwrap();
    assert!(gone.is_gone());
    let gone = client
        .update_status(&old, |status| status.size = Some(1))
        .await
        .unwrap();
    assert!(gone.is_gone());
    let live = bench.widgets().get("a").await.unwrap();
    assert_eq!((live.uid(), live.status), (new.uid(), None));
    running.end().await.unwrap();
}

#[tokio::test]
async fn finalizers_of_a_deleted_object_are_done() {
    let bench = Bench::new().await;
    let old = bench.create("a", 1).await;
    let (client, running) = start(&bench).await;
    bench.delete("a").await;
    let none = client
        .finalizers(&old)
        .finalizer("example.com/work", async { Ok(()) });
    assert!(none.run().await.unwrap().is_none());
    running.end().await.unwrap();
}

#[tokio::test]
async fn object_that_a_write_did_not_find_is_gone_at_once() {
    let bench = Bench::new().await;
    for name in ["status", "finalizer", "replaced"] {
        bench.create(name, 1).await;
    }
    let (client, running) = start(&bench).await;
    bench.network.hold_watches(true);
    for name in ["status", "finalizer", "replaced"] {
        bench.delete(name).await;
    }
    bench.create("replaced", 2).await;
    for name in ["status", "finalizer", "replaced"] {
        let stale = client.get::<Widget>(&key(name)).await.unwrap().unwrap();
        if name == "finalizer" {
            let work = async { Ok(()) };
            let done = client.finalizers(&*stale).finalizer("example.com/work", work);
            assert!(done.run().await.unwrap().is_none());
        } else {
            let written = client.update_status(&stale, |status| status.size = Some(1));
            assert!(written.await.unwrap().is_gone());
        }
        assert!(
            client.get::<Widget>(&key(name)).await.unwrap().is_none(),
            "{name}"
        );
    }
    bench.network.hold_watches(false);
    until_watched::<Widget>(&client, "replaced", |widget| widget.spec.size == 2).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn missing_kind_is_not_a_missing_object() {
    let bench = Bench::without_widgets();
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    let kind = Kind::of::<Widget>();
    let error = client.live().get::<Widget>((&kind, &key("a"))).await.unwrap_err();
    assert!(error.is_not_served() && !error.is_not_found(), "{error:?}");
    let error = client.delete::<Widget>(&key("a")).await.unwrap_err();
    assert!(error.is_not_served(), "{error:?}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn patches_take_over_fields_and_lock_with_a_version() {
    let bench = Bench::new().await;
    let (client, running) = start(&bench).await;
    let other = client.with(|options| options.field_manager = "other".into());
    other.apply(config_map_in("default", "a", "1")).await.unwrap();
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": "2"}});
    let patched = client
        .patch::<ConfigMap, _>(&key("a"), &Patch::Apply(&apply))
        .await
        .unwrap();
    assert_eq!(patched.data.as_ref().unwrap()["value"], "2");
    let conflict = other
        .with(|options| options.force = false)
        .patch::<ConfigMap, _>(
            &key("a"),
            &Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "3"}})),
        )
        .await
        .unwrap_err();
    assert!(conflict.is_conflict());

    let (old, mut new) = (
        config_map_in("default", "a", "2"),
        config_map_in("default", "a", "4"),
    );
    new.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let locked = client.with(|options| options.optimistic_lock = true);
    let error = locked.patch_from(&old, new).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot patch ConfigMap: metadata.resourceVersion is empty"
    );
    running.end().await.unwrap();
}
