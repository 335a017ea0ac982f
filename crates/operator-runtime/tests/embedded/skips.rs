//! Skipped writes: writes are skipped only while the watch would report that they are needed, and are then repaired.

use crate::support::{
    Bench, Running, Told, Widget, config_map_in, in_time, key, reconciling, run, teller, until_watched,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use operator_runtime::client::Written;
use operator_runtime::controller::{ControllerOptions, Watch};
use operator_runtime::predicate;
use operator_runtime::prelude::*;
use serde_json::json;

fn config() -> ConfigMap {
    config_map_in("default", "child", "1")
}

fn deployment(size: i32) -> Deployment {
    let fields = json!({
        "metadata": {"name": "child", "namespace": "default", "labels": {"own": "yes"}},
        "spec": {
            "replicas": size, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    serde_json::from_value(fields).unwrap()
}

/// Starts a manager whose only controller reconciles the widgets with this function, and waits for the first reconcile.
async fn started<F, R>(bench: &Bench, reconcile: F) -> (Manager, Running, Told)
where
    F: Fn(KeyContext, Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send + 'static,
{
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(reconcile);
    manager
        .add_controller(
            Controller::by_key(
                Watch::<Widget>::new().filter(predicate::generation_changed()),
                reconciler,
            )
            .watches(
                Watch::<Deployment>::new()
                    .filter(predicate::generation_changed())
                    .owned(),
            ),
        )
        .unwrap();
    let running = run(&manager);
    told.until("a", Some(1)).await;
    (manager, running, told)
}

/// Changes the widget and waits for its reconcile, which writes nothing.
async fn reconcile_at_rest(bench: &Bench, told: &mut Told, size: i32) {
    told.unheard();
    bench.resize("a", size).await;
    told.until("a", Some(size)).await;
}

async fn apply_config(ctx: KeyContext, _: Request) -> Result<Action> {
    // This read starts the watch of the kind. No controller gets its events.
    ctx.get::<ConfigMap>(&key("child")).await?;
    ctx.apply(config()).await?;
    Ok(Action::done())
}

async fn apply_deployment(ctx: KeyContext, request: Request) -> Result<Action> {
    if let Some(widget) = ctx.get::<Widget>(&request).await? {
        ctx.apply_owned(&*widget, deployment(1)).await?;
    }
    Ok(Action::done())
}

#[tokio::test]
async fn write_skipped_for_a_deleted_object_is_repaired() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = started(&bench, apply_config).await;
    until_watched::<ConfigMap>(manager.client(), "child", |_| true).await;
    bench.network.hold_watches_of("configmaps");
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs.delete("child", &DeleteParams::default()).await.unwrap();
    bench.network.take_writes();
    reconcile_at_rest(&bench, &mut told, 2).await;
    assert!(configs.get_opt("child").await.unwrap().is_none());
    bench.network.hold_watches(false);
    // No controller watches ConfigMaps, but the widget is reconciled.
    told.until("a", Some(2)).await;
    in_time(async { while configs.get_opt("child").await.unwrap().is_none() {} }).await;
    let metrics = manager.metrics().to_text();
    let line = r#"operator_runtime_skipped_writes_requeued_total{kind="ConfigMap"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn skipped_apply_is_repaired_past_predicates() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = started(&bench, apply_deployment).await;
    until_watched::<Deployment>(manager.client(), "child", |_| true).await;
    bench.network.hold_watches_of("deployments");
    let deployments: Api<Deployment> = Api::default_namespaced(bench.client.clone());
    let unlabel = Patch::Merge(json!({"metadata": {"labels": null}}));
    deployments
        .patch("child", &PatchParams::default(), &unlabel)
        .await
        .unwrap();
    reconcile_at_rest(&bench, &mut told, 2).await;
    let labels = async || deployments.get("child").await.unwrap().metadata.labels;
    assert_eq!(labels().await, None);
    bench.network.hold_watches(false);
    in_time(async { while labels().await.is_none() {} }).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn skipped_status_is_repaired_past_predicates() {
    let bench = Bench::new().await;
    let (manager, running, _told) = started(&bench, async |ctx: KeyContext, request: Request| {
        if let Some(widget) = ctx.get::<Widget>(&request).await? {
            ctx.update_status(&widget, |status| status.size = Some(7)).await?;
        }
        Ok(Action::done())
    })
    .await;
    let size = |widget: &Widget| widget.status.as_ref().and_then(|status| status.size);
    until_watched::<Widget>(manager.client(), "a", |widget| size(widget) == Some(7)).await;
    bench.network.hold_watches_of("widgets");
    let foreign = Patch::Merge(json!({"status": {"size": 8}}));
    bench
        .widgets()
        .patch_status("a", &PatchParams::default(), &foreign)
        .await
        .unwrap();
    // The watch does not deliver it, but the operator reconciles for another reason.
    let written = reconciling(&manager, async |ctx| {
        let widget = ctx.get::<Widget>(&key("a")).await.unwrap().unwrap();
        ctx.update_status(&widget, |status| status.size = Some(7))
            .await
            .unwrap()
    })
    .await;
    assert!(!written.was_sent());
    let live = async || size(&bench.widgets().get("a").await.unwrap());
    assert_eq!(live().await, Some(8));
    let requeued = manager.metrics().to_text();
    assert!(!requeued.contains("skipped_writes_requeued_total{"), "{requeued}");
    bench.network.hold_watches(false);
    in_time(async {
        while !manager
            .metrics()
            .to_text()
            .contains(r#"operator_runtime_skipped_writes_requeued_total{kind="Widget.example.com"}"#)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn unrelated_change_is_left_to_the_predicates() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = started(&bench, apply_deployment).await;
    until_watched::<Deployment>(manager.client(), "child", |_| true).await;
    reconcile_at_rest(&bench, &mut told, 2).await;
    let deployments: Api<Deployment> = Api::default_namespaced(bench.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"foreign": "yes"}}}));
    deployments
        .patch("child", &PatchParams::default(), &label)
        .await
        .unwrap();
    let status = Patch::Merge(json!({"status": {"replicas": 1}}));
    deployments
        .patch_status("child", &PatchParams::default(), &status)
        .await
        .unwrap();
    until_watched::<Deployment>(manager.client(), "child", |child| {
        child
            .status
            .as_ref()
            .is_some_and(|status| status.replicas == Some(1))
    })
    .await;
    assert_eq!(told.unheard(), []);
    // The record of the skip has moved to the newer state.
    let unlabel = Patch::Merge(json!({"metadata": {"labels": {"own": null}}}));
    deployments
        .patch("child", &PatchParams::default(), &unlabel)
        .await
        .unwrap();
    told.until("a", Some(2)).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn nothing_is_skipped_while_the_watch_fails() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = started(&bench, apply_config).await;
    until_watched::<ConfigMap>(manager.client(), "child", |_| true).await;
    let of_configs = |request: &str| request.contains("/configmaps?") && request.contains("watch=true");
    bench
        .network
        .refuse(move |request| of_configs(request).then_some(500));
    bench.network.cut_watches();
    in_time(async {
        while manager.cache().unhealthy().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs.delete("child", &DeleteParams::default()).await.unwrap();
    reconcile_at_rest(&bench, &mut told, 2).await;
    in_time(async { while configs.get_opt("child").await.unwrap().is_none() {} }).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn skipped_write_is_repaired_when_its_watch_does_not_return() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = started(&bench, apply_config).await;
    until_watched::<ConfigMap>(manager.client(), "child", |_| true).await;
    bench.network.hold_watches_of("configmaps");
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs.delete("child", &DeleteParams::default()).await.unwrap();
    reconcile_at_rest(&bench, &mut told, 2).await;
    // The permission is removed before the watch delivers the deletion, and is not granted again.
    let of_configs = |request: &str| request.starts_with("GET") && request.contains("/configmaps?");
    bench
        .network
        .refuse(move |request| of_configs(request).then_some(403));
    bench.network.cut_watches();
    told.until("a", Some(2)).await;
    in_time(async { while configs.get_opt("child").await.unwrap().is_none() {} }).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn every_write_is_sent_on_request() {
    let bench = Bench::new().await;
    let (manager, running, _told) = started(&bench, apply_config).await;
    until_watched::<ConfigMap>(manager.client(), "child", |_| true).await;
    let (by_default, on_request) = reconciling(&manager, async |ctx| {
        let by_default = ctx.apply(config()).await.unwrap().was_sent();
        (
            by_default,
            ctx.with(|options| options.always_send = true)
                .apply(config())
                .await
                .unwrap()
                .was_sent(),
        )
    })
    .await;
    assert_eq!((by_default, on_request), (false, true));
    // A write outside a reconcile has no request to repeat.
    assert!(manager.client().apply(config()).await.unwrap().was_sent());

    let (reconciler, mut told) = teller(async |ctx: KeyContext, _: Request| {
        assert!(ctx.apply(config()).await?.was_sent());
        ctx.get::<Widget>(&key("done")).await?;
        Ok(Action::done())
    });
    manager
        .add_controller(
            Controller::without_primary("careless", reconciler)
                .requests_from(futures::stream::iter([key("a"), key("b")]))
                .options(ControllerOptions {
                    always_send: Some(true),
                    ..ControllerOptions::default()
                }),
        )
        .unwrap();
    told.next().await;
    told.next().await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn object_that_the_cache_changes_is_always_written() {
    let bench = Bench::new().await;
    let strip = |config: &mut ConfigMap| config.metadata.annotations = None;
    let options = operator_runtime::cache::CacheOptions {
        transforms: operator_runtime::cache::Transforms::default().of(strip),
        ..Default::default()
    };
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let mut annotated = config();
    annotated.metadata.annotations = Some([("left".to_owned(), "over".to_owned())].into());
    configs.create(&Default::default(), &annotated).await.unwrap();
    let manager = bench.manager_with(options).await;
    let running = run(&manager);
    manager.client().list::<ConfigMap>().await.unwrap();
    reconciling(&manager, async |ctx| {
        let remove = Patch::Merge(json!({"metadata": {"annotations": {"left": null}}}));
        ctx.patch::<ConfigMap, _>(&key("child"), &remove).await.unwrap()
    })
    .await;
    assert_eq!(configs.get("child").await.unwrap().metadata.annotations, None);
    running.end().await.unwrap();
}

/// A type for widgets with a field that the server does not default.
#[derive(Clone, Debug, kube::CustomResource, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Gadget",
    plural = "gadgets",
    namespaced
)]
struct GadgetSpec {
    #[serde(default)]
    colour: String,
}

#[tokio::test]
async fn value_that_only_the_type_defaults_is_written() {
    let bench = Bench::new().await;
    let crds = Api::all(bench.client.clone());
    let mut crd = <Gadget as kube::CustomResourceExt>::crd();
    crd.spec.versions[0].schema = serde_json::from_value(json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }}))
    .unwrap();
    crds.create(&Default::default(), &crd).await.unwrap();
    let kind = kube::api::ApiResource::from(&operator_runtime::Kind::of::<Gadget>());
    let gadgets: Api<kube::api::DynamicObject> = Api::default_namespaced_with(bench.client.clone(), &kind);
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {}});
    gadgets
        .create(&Default::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<Gadget>().await.unwrap();
    let written: Written<Gadget> = reconciling(&manager, async |ctx| {
        let set = Patch::Merge(json!({"spec": {"colour": ""}}));
        ctx.patch::<Gadget, _>(&key("a"), &set).await.unwrap()
    })
    .await;
    assert!(written.was_sent());
    assert_eq!(
        gadgets.get("a").await.unwrap().data["spec"],
        json!({"colour": ""})
    );
    running.end().await.unwrap();
}
