//! Sets of owned objects, and waiting for other objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use operator_runtime::{Client, prelude::*};

use crate::support::{
    Bench, Widget, config_map, in_time, key, observe_widgets, parallel, plain_teller, reconciling, run,
    teller,
};

async fn names(bench: &Bench) -> BTreeSet<String> {
    let maps: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let maps = maps.list(&ListParams::default()).await.unwrap();
    maps.iter().map(ResourceExt::name_any).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Applies `spec.size` ConfigMaps.
async fn reconcile(widget: Arc<Widget>, ctx: Context<Widget>) -> Result<Action> {
    let desired = (0..widget.spec.size).map(|at| config_map(&format!("{}-{at}", ctx.key().name()), "1"));
    ctx.apply_owned_set(desired).await?;
    Ok(Action::done())
}

#[tokio::test]
async fn owned_objects_that_are_no_longer_desired_are_deleted() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    maps.create(&PostParams::default(), &config_map("a-9", "1"))
        .await
        .unwrap();
    manager
        .add_controller(
            Controller::new(reconcile)
                .owns::<ConfigMap>()
                .options(parallel(2)),
        )
        .unwrap();
    let running = run(&manager);
    bench.create("a", 3).await;
    bench.create("b", 1).await;
    let until = async |wanted: BTreeSet<String>| {
        in_time(async {
            while names(&bench).await != wanted {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    until(set(["a-0", "a-1", "a-2", "b-0", "a-9"])).await;
    bench.resize("a", 1).await;
    until(set(["a-0", "b-0", "a-9"])).await;
    bench.resize("a", 0).await;
    until(set(["b-0", "a-9"])).await;
    bench.resize("a", 1).await;
    until(set(["a-0", "b-0", "a-9"])).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn waiting_is_not_an_error_and_ends_with_an_event() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(|ctx: KeyContext, request: Request| async move {
        let widget = ctx
            .wait_for::<Widget>(&request, |widget| widget.spec.size > 1)
            .await?;
        assert_eq!(widget.spec.size, 2);
        Ok(Action::done())
    });
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler).named("waits"))
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    assert_eq!(told.next().await, (key("a"), Some(1)));
    bench.resize("a", 2).await;
    assert_eq!(told.next().await, (key("a"), Some(2)));
    bench.create("b", 1).await;
    told.until("b", Some(1)).await;
    let metrics = manager.metrics().to_text();
    let total = |result: &str| {
        let line = format!("controller_runtime_reconcile_total{{controller=\"waits\",result=\"{result}\"}} ");
        let mut lines = metrics.lines();
        lines.find_map(|text| text.strip_prefix(&line)?.parse::<u32>().ok())
    };
    assert!(total("requeue_after") >= Some(1), "{metrics}");
    assert_eq!(total("error"), Some(0), "{metrics}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn reason_names_the_object_that_is_waited_for() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let _told = observe_widgets(&manager);
    bench.create("a", 1).await;
    let running = run(&manager);
    let texts = reconciling(&manager, |ctx| async move {
        let missing = ctx
            .wait_for::<Widget>(("default", "none"), |_| true)
            .await
            .unwrap_err();
        let unready = ctx
            .wait_for::<Widget>(("default", "a"), |_| false)
            .await
            .unwrap_err();
        assert!(missing.is_waiting() && unready.is_waiting() && !unready.is_terminal());
        [missing.to_string(), unready.to_string()]
    })
    .await;
    assert_eq!(
        texts,
        [
            "Widget.example.com default/none does not exist",
            "Widget.example.com default/a is not ready"
        ]
    );
    running.end().await.unwrap();
}

/// Maps every ConfigMap to all widgets.
async fn all_widgets(client: Client, _: Arc<ConfigMap>) -> Result<Vec<ObjectKey>> {
    let widgets = client.list::<Widget>().await?;
    Ok(widgets.iter().map(|widget| ObjectKey::of(&**widget)).collect())
}

#[tokio::test]
async fn find_maps_to_referring_objects() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let controller = Controller::by_key(Watch::<Widget>::new(), reconciler);
    manager
        .add_controller(controller.watches(Watch::<ConfigMap>::new().find(all_widgets)))
        .unwrap();
    bench.create("a", 1).await;
    let running = run(&manager);
    assert_eq!(told.next().await, (key("a"), Some(1)));
    let maps: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    maps.create(&PostParams::default(), &config_map("x", "1"))
        .await
        .unwrap();
    assert_eq!(told.next().await, (key("a"), Some(1)));
    running.end().await.unwrap();
}

/// Creates a ConfigMap once, and writes the number of owned ones to the status.
async fn create_once(widget: Arc<Widget>, ctx: Context<Widget>) -> Result<Action> {
    if ctx.list_owned::<ConfigMap>().await?.is_empty() {
        let created = ctx.create_owned(config_map("once", "1")).await?;
        assert!(created.was_sent());
    }
    let owned = ctx.list_owned::<ConfigMap>().await?;
    ctx.update_status(|status| status.size = i32::try_from(owned.len()).ok())
        .await?;
    let again = ctx.create_owned(config_map("once", "2")).await.unwrap_err();
    assert!(again.is_already_exists(), "{again}: {}", widget.spec.size);
    Ok(Action::done())
}

#[tokio::test]
async fn owned_object_is_created_once_and_listed() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    manager
        .add_controller(Controller::new(create_once).owns::<ConfigMap>())
        .unwrap();
    let running = run(&manager);
    let widget = bench.create("a", 1).await;
    in_time(async {
        while bench
            .widgets()
            .get("a")
            .await
            .unwrap()
            .status
            .and_then(|status| status.size)
            != Some(1)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let maps: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let created = maps.get("once").await.unwrap();
    let owners = created.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners[0].uid, widget.metadata.uid.unwrap_or_default());
    assert_eq!(owners[0].controller, Some(true));
    running.end().await.unwrap();
}
