//! Nothing that was acknowledged is lost, and no key is forgotten, whatever happens to server, network and process.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{CustomResourceExt, ResourceExt};
use operator_apiserver::ApiServer;
use operator_runtime::cache::{CacheOptions, WatchBackoff};
use operator_runtime::controller::Backoff;
use operator_runtime::prelude::*;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::support::{Bench, Widget, WidgetSpec, config_map, in_time, key, plain_teller, run, teller};
use crate::wire::Wire;

/// Applies a ConfigMap with the size, and says in the status that it did.
struct Sizer;

impl Reconciler for Sizer {
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(widget) = ctx.get::<Widget>(&request).await? else {
            return Ok(Action::done());
        };
        let size = widget.spec.size;
        ctx.apply_owned(&*widget, config_map(request.name(), &size.to_string()))
            .await?;
        ctx.status(&*widget).set("size", size).patch().await?;
        Ok(Action::done())
    }
}

/// A manager whose watches come back quickly, with a [`Sizer`].
async fn sizer(client: kube::Client) -> Manager {
    let options = CacheOptions {
        watch_backoff: WatchBackoff {
            min: Duration::from_millis(5),
            max: Duration::from_millis(20),
        },
        ..CacheOptions::default()
    };
    let manager = Manager::builder("tester").client(client).cache_options(options);
    let manager = manager.build().await.unwrap();
    let controller = Controller::managed_by(&manager)
        .for_::<Widget>()
        .owns::<ConfigMap>();
    // Many failures in a row must not add up to minutes.
    let backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_millis(100),
    };
    let controller = controller.max_concurrent_reconciles(4).rate_limit(backoff);
    controller.complete(Sizer).unwrap();
    manager
}

fn server_with_widgets() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

async fn install(client: &kube::Client) {
    let crds = Api::all(client.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
}

/// Waits until every widget is as it should be, and so is its ConfigMap.
async fn are_sized(client: &kube::Client, sizes: &BTreeMap<String, i32>) {
    let widgets: Api<Widget> = Api::default_namespaced(client.clone());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for (name, size) in sizes {
        let is_sized = |widget: Option<&Widget>| {
            let status = widget.and_then(|widget| widget.status.as_ref());
            status.and_then(|status| status.size) == Some(*size)
        };
        in_time(await_condition(widgets.clone(), name, is_sized))
            .await
            .unwrap();
        let has_value = |config_map: Option<&ConfigMap>| {
            let data = config_map.and_then(|config_map| config_map.data.as_ref());
            data.is_some_and(|data| data["value"] == size.to_string())
        };
        in_time(await_condition(config_maps.clone(), name, has_value))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn connections_cut_in_the_middle_of_a_frame_lose_nothing() {
    let (wire, server) = (Wire::new().await, server_with_widgets());
    let direct = kube::Client::new(server.clone(), "default");
    install(&direct).await;
    wire.up(server);
    // From in the middle of the head of an answer to after several objects; every fifth is long enough for a list.
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    wire.cut_after(move || match counted.fetch_add(1, Ordering::SeqCst) {
        number if number % 5 == 4 => 100_000,
        number => 100 + number * 7919 % 3000,
    });
    let running = run(&sizer(wire.client()).await);

    let widgets: Api<Widget> = Api::default_namespaced(direct.clone());
    let mut sizes = BTreeMap::new();
    for number in 0..25 {
        let widget = Widget::new(&format!("w-{number}"), WidgetSpec { size: 1 });
        widgets.create(&PostParams::default(), &widget).await.unwrap();
    }
    for number in 0..25 {
        let (name, size) = (format!("w-{number}"), 100 + number);
        let patch = Patch::Merge(json!({"spec": {"size": size}}));
        widgets
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        sizes.insert(name, size);
    }
    are_sized(&direct, &sizes).await;
    let connections = connections.load(Ordering::SeqCst);
    assert!(connections > 12, "{connections} connections: none was cut");
    in_time(running.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn server_that_restarts_under_load_finds_everything_done() {
    let (wire, directory) = (Wire::new().await, tempfile::tempdir().unwrap());
    let open = || ApiServer::builder().data_directory(directory.path()).build();
    let server = open().unwrap();
    install(&kube::Client::new(server.clone(), "default")).await;
    wire.up(server);
    let running = run(&sizer(wire.client()).await);

    // A user who tries again until the server has taken what she wants.
    let user = wire.client();
    let acknowledged = tokio::spawn(async move {
        let widgets: Api<Widget> = Api::default_namespaced(user);
        let mut sizes = BTreeMap::new();
        for number in 0..60 {
            let (name, size) = (format!("w-{number}"), number);
            let widget = Widget::new(&name, WidgetSpec { size });
            loop {
                match widgets.create(&PostParams::default(), &widget).await {
                    Ok(_) => break,
                    Err(kube::Error::Api(status)) if status.is_already_exists() => break,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
            sizes.insert(name, size);
        }
        sizes
    });
    for restart in 1..=3 {
        let direct = kube::Client::new(wire.server(), "default");
        let widgets: Api<Widget> = Api::default_namespaced(direct);
        in_time(await_condition(
            widgets,
            &format!("w-{}", restart * 12),
            |widget: Option<&Widget>| widget.is_some(),
        ))
        .await
        .unwrap();
        wire.down();
        // The journal is locked until the last request is over.
        let server = in_time(async {
            loop {
                match open() {
                    Ok(server) => return server,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        wire.up(server.await);
    }
    let sizes = in_time(acknowledged).await.unwrap();
    are_sized(&kube::Client::new(wire.server(), "default"), &sizes).await;
    in_time(running.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn server_that_is_busy_is_asked_again_when_it_says_so() {
    let (wire, server) = (Wire::new().await, server_with_widgets());
    let direct = kube::Client::new(server.clone(), "default");
    install(&direct).await;
    wire.up(server);
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let mut seen = HashSet::new();
    wire.busy(move |request| {
        // The first apply, and the first status.
        let first = request.starts_with("PATCH") && seen.insert(request.to_owned());
        first && count.fetch_add(1, Ordering::SeqCst) < 2
    });
    let manager = sizer(wire.client()).await;
    let running = run(&manager);
    let widgets: Api<Widget> = Api::default_namespaced(direct.clone());
    let widget = Widget::new("w", WidgetSpec { size: 3 });
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    are_sized(&direct, &[("w".to_owned(), 3)].into()).await;
    in_time(running.stop()).await.unwrap().unwrap();
    assert_eq!(refused.load(Ordering::SeqCst), 2);
    let metrics = manager.metrics().to_text();
    let no_error = r#"controller_runtime_reconcile_errors_total{controller="widget"} 0"#;
    assert!(metrics.contains(no_error), "{metrics}");
}

#[tokio::test]
async fn writes_that_fail_are_made_up_for() {
    let bench = Bench::new().await;
    let codes = [500, 503, 429, 409, 403, 500, 504];
    let count = AtomicUsize::new(0);
    bench.network.refuse(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let is_write = request.starts_with("PATCH");
        (is_write && !number.is_multiple_of(3)).then(|| codes[number % codes.len()])
    });
    let manager = sizer(bench.client.clone()).await;
    let running = run(&manager);
    let mut sizes = BTreeMap::new();
    for number in 0..20 {
        let name = format!("w-{number}");
        bench.create(&name, number).await;
        sizes.insert(name, number);
    }
    are_sized(&bench.client, &sizes).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn key_that_fails_for_ever_holds_nobody_up_and_recovers() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(|ctx: Context, request: Request| async move {
        match ctx.get::<Widget>(&request).await? {
            Some(widget) if widget.spec.size == 0 => Err(Error::msg("it is too small")),
            _ => Ok(Action::done()),
        }
    });
    Controller::managed_by(&manager)
        .for_::<Widget>()
        .complete(reconciler)
        .unwrap();
    let running = run(&manager);
    bench.create("bad", 0).await;
    for _ in 0..5 {
        told.until("bad", Some(0)).await;
    }
    for number in 1..=20 {
        bench.create(&format!("good-{number}"), number).await;
        told.until(&format!("good-{number}"), Some(number)).await;
    }
    bench.resize("bad", 1).await;
    told.until("bad", Some(1)).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn definition_that_comes_late_is_reconciled_without_a_restart() {
    let bench = Bench::without_widgets();
    let manager = sizer(bench.client.clone()).await;
    let running = run(&manager);
    let is_list = |request: &str| request.contains("/widgets?");
    in_time(async {
        while bench.network.count(is_list) < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    bench.install_widgets().await;
    bench.create("w", 4).await;
    are_sized(&bench.client, &[("w".to_owned(), 4)].into()).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn thousands_of_objects_that_came_and_went_leave_nothing_behind() {
    const ROUNDS: usize = 20;
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let controller = Controller::managed_by(&manager).for_::<Widget>();
    controller
        .max_concurrent_reconciles(4)
        .complete(reconciler)
        .unwrap();
    let running = run(&manager);
    bench.create("first", 0).await;
    told.until("first", Some(0)).await;
    let before = manager.metrics().to_text().lines().count();
    for round in 0..ROUNDS {
        for number in 0..50 {
            bench.create(&format!("w-{round}-{number}"), number).await;
        }
        let all = ListParams::default().fields("metadata.name!=first");
        bench
            .widgets()
            .delete_collection(&Default::default(), &all)
            .await
            .unwrap();
    }
    // The last event of all.
    bench.resize("first", 1).await;
    told.until("first", Some(1)).await;
    let is_idle = || {
        let metrics = manager.metrics().to_text();
        let mut busy = metrics.lines().filter(|line| {
            line.starts_with("workqueue_depth{") || line.starts_with("controller_runtime_active_workers{")
        });
        busy.all(|line| line.ends_with(" 0"))
    };
    in_time(async {
        while !is_idle() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let left = manager.client().list::<Widget>(None).await.unwrap();
    assert_eq!(
        left.iter().map(|widget| widget.name_any()).collect::<Vec<_>>(),
        ["first"]
    );
    let priorities = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("workqueue_depth{"))
            .count()
    };
    let metrics = manager.metrics().to_text();
    // Nothing counts by object; the queue has a line for each priority that it met.
    assert!(
        metrics.lines().count() <= before + priorities(&metrics),
        "{metrics}"
    );
    running.end().await.unwrap();
}

/// Ends the process in the same way as a kubelet, but only this test listens.
#[cfg(unix)]
#[tokio::test]
async fn termination_lets_the_reconcile_under_way_finish() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (entered, mut inside) = mpsc::unbounded_channel();
    let (open, finished) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (gate, done) = (open.clone(), finished.clone());
    let (reconciler, _told) = teller(move |_, _| {
        let (entered, gate, done) = (entered.clone(), gate.clone(), done.clone());
        async move {
            let _ = entered.send(());
            gate.notified().await;
            done.store(true, Ordering::SeqCst);
            Ok(Action::done())
        }
    });
    Controller::managed_by(&manager)
        .for_::<Widget>()
        .complete(reconciler)
        .unwrap();
    let mut running = tokio::spawn(manager.run());
    bench.create("w", 1).await;
    in_time(inside.recv()).await.unwrap();
    let own = std::process::id().to_string();
    let sent = tokio::process::Command::new("kill")
        .args(["-TERM", &own])
        .status()
        .await;
    assert!(sent.unwrap().success());
    // It waits for the reconcile.
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut running)
            .await
            .is_err()
    );
    open.notify_one();
    in_time(running).await.unwrap().unwrap();
    assert!(finished.load(Ordering::SeqCst), "{}", key("w"));
}
