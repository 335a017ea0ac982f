//! Controllers on the embedded API server: requests and failures of reconcilers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Bench, Widget, config_map, in_time, key, observe_widgets, parallel, plain_teller, probe,
    reconcile_widgets, run, teller,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use operator_runtime::controller::ControllerOptions;
use operator_runtime::election::LeaderElectionOptions;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::{predicate, prelude::*};
use serde_json::json;
use tokio::sync::Semaphore;

#[tokio::test]
async fn creation_change_and_deletion_reach_the_reconciler() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    bench.create("early", 1).await;
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let running = run(&manager);

    assert_eq!(told.next().await, (key("early"), Some(1)));
    bench.create("late", 2).await;
    assert_eq!(told.next().await, (key("late"), Some(2)));
    bench.resize("late", 3).await;
    assert_eq!(told.next().await, (key("late"), Some(3)));
    bench.delete("late").await;
    assert_eq!(told.next().await, (key("late"), None));
    running.end().await.unwrap();
    assert_eq!(told.unheard(), []);
}

#[tokio::test]
async fn change_of_an_owned_object_reconciles_its_owner() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(|ctx: KeyContext, request: Request| async move {
        if let Some(widget) = ctx.get::<Widget>(&request).await? {
            ctx.apply_owned(
                &*widget,
                config_map(request.name(), &widget.spec.size.to_string()),
            )
            .await?;
        }
        Ok(Action::done())
    });
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler).owns::<ConfigMap>())
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;

    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let has_value = |object: Option<&ConfigMap>| {
        object.is_some_and(|config| {
            config
                .data
                .as_ref()
                .is_some_and(|data| data.get("value").is_some_and(|value| value == "1"))
        })
    };
    let applied = kube::runtime::wait::await_condition(configs.clone(), "a", has_value);
    let first = in_time(applied).await.unwrap().unwrap();
    let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Widget", Some(true)));

    let patch = Patch::Merge(json!({"data": {"value": "tampered"}}));
    configs.patch("a", &PatchParams::default(), &patch).await.unwrap();
    in_time(kube::runtime::wait::await_condition(
        configs.clone(),
        "a",
        has_value,
    ))
    .await
    .unwrap();
    configs.delete("a", &DeleteParams::default()).await.unwrap();
    in_time(kube::runtime::wait::await_condition(configs, "a", has_value))
        .await
        .unwrap();
    running.end().await.unwrap();
}

#[tokio::test]
async fn panic_is_an_error_of_its_key_alone() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = panics.clone();
    let mut told = reconcile_widgets(&manager, move |_, request: Request| {
        let counted = counted.clone();
        async move {
            if request.name() == "bad" && counted.fetch_add(1, Ordering::SeqCst) < 3 {
                panic!("this is part of the test");
            }
            Ok(Action::done())
        }
    });
    let running = run(&manager);
    bench.create("bad", 1).await;
    told.until("bad", Some(1)).await;
    bench.create("good", 2).await;

    let mut bad = 1;
    let mut good = 0;
    while bad < 4 || good < 1 {
        match told.next().await.0.name() {
            "bad" => bad += 1,
            _ => good += 1,
        }
    }
    running.end().await.unwrap();
    assert_eq!(panics.load(Ordering::SeqCst), 4);
    let metrics = manager.metrics().to_text();
    for line in [
        r#"controller_runtime_reconcile_panics_total{controller="widget"} 3"#,
        r#"controller_runtime_reconcile_total{controller="widget",result="error"} 3"#,
        r#"controller_runtime_active_workers{controller="widget"} 0"#,
        r#"workqueue_retries_total{name="widget",controller="widget"} 3"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn terminal_error_is_not_retried() {
    let bench = Bench::new().await;
    let (_, running, mut told) = bench
        .operator(|_, request: Request| async move {
            match request.name() {
                "terminal" => Err(Error::terminal("no use")),
                _ => Err(Error::msg("try again")),
            }
        })
        .await;
    bench.create("terminal", 1).await;
    told.until("terminal", Some(1)).await;
    bench.create("transient", 1).await;
    for _ in 0..4 {
        assert_eq!(told.next().await, (key("transient"), Some(1)));
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn requeue_reconciles_without_an_event() {
    let bench = Bench::new().await;
    let (_, running, mut told) = bench
        .operator(|_, _| async { Ok(Action::requeue_after(Duration::from_millis(5))) })
        .await;
    bench.create("a", 1).await;
    for _ in 0..3 {
        assert_eq!(told.next().await, (key("a"), Some(1)));
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn slow_reconcile_is_cancelled_and_retried() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = teller(|_, _| std::future::pending());
    let options = ControllerOptions {
        reconciliation_timeout: Some(Duration::from_millis(10)),
        ..ControllerOptions::default()
    };
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler).options(options))
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    for _ in 0..3 {
        assert_eq!(told.next().await, (key("a"), Some(1)));
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn key_never_runs_twice_at_once() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let running_keys = Arc::new(parking_lot::Mutex::new(HashSet::new()));
    let overlapped = Arc::new(AtomicBool::new(false));
    let (keys, overlap) = (running_keys.clone(), overlapped.clone());
    let (reconciler, mut told) = teller(move |_, request: Request| {
        let (keys, overlap) = (keys.clone(), overlap.clone());
        async move {
            if !keys.lock().insert(request.clone()) {
                overlap.store(true, Ordering::SeqCst);
            }
            tokio::task::yield_now().await;
            keys.lock().remove(&request);
            Ok(Action::done())
        }
    });
    let controller = Controller::by_key(Watch::<Widget>::new(), reconciler).options(parallel(4));
    manager.add_controller(controller).unwrap();
    let running = run(&manager);
    bench.create("a", 0).await;
    for size in 1..=30 {
        bench.resize("a", size).await;
    }
    told.until("a", Some(30)).await;
    running.end().await.unwrap();
    assert!(!overlapped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn predicate_rejects_events() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let watch = Watch::<Widget>::new().filter(predicate::generation_changed());
    manager
        .add_controller(Controller::by_key(watch, reconciler))
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    let labels = Patch::Merge(json!({"metadata": {"labels": {"new": "label"}}}));
    bench
        .widgets()
        .patch("a", &PatchParams::default(), &labels)
        .await
        .unwrap();
    bench.resize("a", 2).await;
    assert_eq!(told.next().await, (key("a"), Some(2)));
    running.end().await.unwrap();
    assert_eq!(told.unheard(), []);
}

#[tokio::test]
async fn map_function_returns_the_requests() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let all = Watch::new().map(|config: &ConfigMap| {
        let names = config.data.iter().flat_map(|data| data.values());
        names.map(|name| key(name)).collect::<Vec<_>>()
    });
    manager
        .add_controller(Controller::without_primary("mapper", reconciler).watches(all))
        .unwrap();
    let running = run(&manager);
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs
        .create(&kube::api::PostParams::default(), &config_map("config", "named"))
        .await
        .unwrap();
    told.until("named", None).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn missing_kind_delays_only_its_controller() {
    let bench = Bench::without_widgets();
    let manager = bench.manager().await;
    let (widgets, mut of_widgets) = plain_teller();
    let (configs, mut of_configs) = teller(|_, _| async { Ok(Action::done()) });
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), widgets))
        .unwrap();
    manager.add_cache_check("caches", manager.cache()).unwrap();
    // Its reads of widgets fail, but it is called.
    manager
        .add_controller(Controller::by_key(
            Watch::<ConfigMap>::new(),
            ConfigTeller(configs),
        ))
        .unwrap();
    let running = run(&manager);

    let api: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    api.create(&kube::api::PostParams::default(), &config_map("config", "x"))
        .await
        .unwrap();
    of_configs.until("config", Some(0)).await;
    let (code, text) = probe(&manager, "/readyz").await;
    assert_eq!(code, 500, "{text}");
    assert!(text.contains("[-]caches failed"), "{text}");
    let live = |value| {
        format!(
            "operator_runtime_watch_live{{kind=\"Widget.example.com\",namespace=\"\",cluster=\"\"}} {value}\n"
        )
    };
    let metrics = manager.metrics().to_text();
    assert!(metrics.contains(&live(0)), "{metrics}");
    assert_eq!(probe(&manager, "/healthz").await, (200, "ok".to_owned()));
    assert!(
        manager.cache().unhealthy()[0].contains("widgets.example.com"),
        "{:?}",
        manager.cache().unhealthy()
    );

    bench.install_widgets().await;
    bench.create("a", 1).await;
    of_widgets.until("a", Some(1)).await;
    assert_eq!(probe(&manager, "/readyz").await, (200, "ok".to_owned()));
    let metrics = manager.metrics().to_text();
    assert!(metrics.contains(&live(1)), "{metrics}");
    running.end().await.unwrap();
}

/// Reports ConfigMaps as widgets of size 0.
struct ConfigTeller<F>(crate::support::Teller<F>);

impl<F: Send + Sync + 'static> KeyReconciler for ConfigTeller<F> {
    async fn reconcile(&self, request: Request, _: KeyContext) -> Result<Action> {
        self.0.tell(request, Some(0));
        Ok(Action::done())
    }
}

#[tokio::test]
async fn forbidden_kind_fails_alone_and_recovers() {
    let bench = Bench::new().await;
    bench
        .network
        .refuse(|request| request.contains("/widgets").then_some(403));
    let manager = bench.manager().await;
    let mut told = observe_widgets(&manager);
    let (configs, mut of_configs) = teller(|_, _| async { Ok(Action::done()) });
    manager
        .add_controller(Controller::by_key(
            Watch::<ConfigMap>::new(),
            ConfigTeller(configs),
        ))
        .unwrap();
    let running = run(&manager);
    let api: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    api.create(&kube::api::PostParams::default(), &config_map("config", "x"))
        .await
        .unwrap();
    of_configs.until("config", Some(0)).await;
    let unhealthy = manager.cache().unhealthy();
    assert!(
        unhealthy[0].contains("get, list and watch on widgets"),
        "{unhealthy:?}"
    );

    bench.network.heal();
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    assert_eq!(manager.cache().unhealthy(), [""; 0]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn changes_during_a_broken_watch_are_found() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    for (name, size) in [("kept", 1), ("changed", 2), ("deleted", 3)] {
        bench.create(name, size).await;
    }
    bench
        .network
        .refuse(|request| is_watch_of_widgets(request).then_some(500));
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let running = run(&manager);
    for _ in 0..3 {
        told.next().await;
    }
    bench.delete("deleted").await;
    bench.resize("changed", 5).await;
    // The server responds with 410 to the revision of the watch until everything is listed again.
    let is_listed = AtomicBool::new(false);
    bench.network.refuse(move |request| {
        let is_list = request.contains("/widgets?") && !is_watch_of_widgets(request);
        is_listed.fetch_or(is_list, Ordering::SeqCst);
        (is_watch_of_widgets(request) && !is_listed.load(Ordering::SeqCst)).then_some(410)
    });
    let mut seen = HashSet::from([told.next().await, told.next().await]);
    assert!(seen.remove(&(key("changed"), Some(5))));
    assert!(seen.remove(&(key("deleted"), None)));
    bench.resize("kept", 7).await;
    told.until("kept", Some(7)).await;
    running.end().await.unwrap();
}

fn is_watch_of_widgets(request: &str) -> bool {
    request.contains("/widgets") && request.contains("watch=true")
}

#[tokio::test]
async fn running_reconcile_finishes_before_the_manager_ends() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (gate, finished) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (at_gate, has_finished) = (gate.clone(), finished.clone());
    let mut told = reconcile_widgets(&manager, move |_, _| {
        let (gate, finished) = (at_gate.clone(), has_finished.clone());
        async move {
            let _permit = gate.acquire().await?;
            finished.store(true, Ordering::SeqCst);
            Ok(Action::done())
        }
    });
    let running = run(&manager);
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    bench.create("b", 1).await;
    let mut ended = running.stop();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ended).await;
    assert!(early.is_err(), "the manager did not wait");
    gate.add_permits(1);
    in_time(ended).await.unwrap().unwrap();
    assert!(finished.load(Ordering::SeqCst));
    // A queued key is not started any more.
    assert_eq!(told.unheard(), []);
}

#[tokio::test]
async fn reconcile_that_never_ends_is_aborted_after_the_grace_period() {
    let bench = Bench::new().await;
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            graceful_shutdown_timeout: Duration::from_millis(20).into(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let mut told = reconcile_widgets(&manager, |_, _| std::future::pending());
    let running = run(&manager);
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    let error = running.end().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed waiting for all runnables to end within grace period of 20ms"
    );
}

#[tokio::test]
async fn failing_runnable_ends_the_manager() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let failing =
        operator_runtime::manager::Runnable::new("failing", |_| async { Err(Error::msg("out of luck")) });
    manager.add(failing).unwrap();
    let error = run(&manager).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "out of luck");
}

#[tokio::test]
async fn first_reconcile_sees_all_that_its_object_owns() {
    const OWNED: usize = 30;
    let bench = Bench::new().await;
    let widget = bench.create("a", 1).await;
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    for number in 0..OWNED {
        let mut config = config_map(&format!("of-a-{number}"), "1");
        config.metadata.namespace = Some("default".to_owned());
        operator_runtime::owner::set_controller_reference(&widget, &mut config).unwrap();
        configs.create(&PostParams::default(), &config).await.unwrap();
    }
    // They are listed after several attempts, long after the widgets.
    let refused = AtomicUsize::new(0);
    bench.network.refuse(move |request| {
        let is_list = request.starts_with("GET ") && request.contains("/configmaps");
        (is_list && refused.fetch_add(1, Ordering::SeqCst) < 5).then_some(500)
    });
    let manager = bench.manager().await;
    let (tell, mut counts) = tokio::sync::mpsc::unbounded_channel();
    let (reconciler, _told) = teller(move |ctx: KeyContext, _| {
        let tell = tell.clone();
        async move {
            let _ = tell.send(ctx.list::<ConfigMap>().await?.len());
            Ok(Action::done())
        }
    });
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler).owns::<ConfigMap>())
        .unwrap();
    let running = run(&manager);
    assert_eq!(in_time(counts.recv()).await, Some(OWNED));
    running.end().await.unwrap();
}

#[tokio::test]
async fn cache_sync_timeout_stops_the_manager() {
    let bench = Bench::without_widgets();
    let manager = bench.manager().await;
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new(), plain_teller().0).options(ControllerOptions {
                cache_sync_timeout: Some(Duration::from_millis(200)),
                ..ControllerOptions::default()
            }),
        )
        .unwrap();
    let error = run(&manager).ended().await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to wait for widget caches to sync: timed out: Widget.example.com"),
        "{error}"
    );
}

#[tokio::test]
async fn mistakes_in_building_a_controller_are_errors() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let idle = Controller::without_primary("idle", plain_teller().0);
    let error = manager.add_controller(idle).unwrap_err().to_string();
    let text = "there are no watches configured, controller will never get triggered";
    assert!(error.starts_with(text), "{error}");

    let owner = Controller::without_primary("owner", plain_teller().0);
    let owner = owner.watches(Watch::<ConfigMap>::new().owned());
    let error = manager.add_controller(owner).unwrap_err().to_string();
    let text = "a watch of ConfigMap reconciles owners, but the controller has no primary kind";
    assert!(error.starts_with(text), "{error}");

    let widgets = || Controller::by_key(Watch::<Widget>::new(), plain_teller().0);
    manager.add_controller(widgets()).unwrap();
    let error = manager.add_controller(widgets()).unwrap_err().to_string();
    let text = "controller with name widget already exists. Controller names must be unique to avoid multiple \
                controllers reporting the same metric";
    assert!(error.starts_with(text), "{error}");
}

#[tokio::test]
async fn metrics_are_served_if_enabled() {
    let bench = Bench::new().await;
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            metrics_bind_address: "127.0.0.1:0".to_owned(),
            metrics_secure: false,
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), plain_teller().0))
        .unwrap();
    let address = manager.metrics_address().unwrap();
    let running = run(&manager);
    let (code, text) = crate::support::get(address, "/metrics").await;
    assert_eq!(code, 200);
    assert!(
        text.contains(r#"workqueue_adds_total{name="widget",controller="widget"}"#),
        "{text}"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn leader_releases_its_lease() {
    use k8s_openapi::api::coordination::v1::Lease;
    let bench = Bench::new().await;
    let leases: Api<Lease> = Api::default_namespaced(bench.client.clone());
    for _ in 0..2 {
        let manager = Manager::new(
            "tester",
            ManagerOptions {
                leader_election: true,
                leader_election_options: LeaderElectionOptions {
                    namespace: Some("default".to_owned()),
                    ..LeaderElectionOptions::default()
                },
                ..ManagerOptions::from(bench.client.clone())
            },
        )
        .await
        .unwrap();
        let running = run(&manager);
        // The second manager would wait 15 s if the first had kept the lease.
        in_time(manager.elected()).await;
        let lease = leases.get("tester").await.unwrap().spec.unwrap();
        assert!(lease.holder_identity.is_some_and(|holder| !holder.is_empty()));
        running.end().await.unwrap();
    }
    let lease = leases.get("tester").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.unwrap_or_default(), "");
}

#[tokio::test]
async fn address_in_use_is_an_error_that_names_the_flag() {
    let bench = Bench::without_widgets();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Manager::new(
        "tester",
        ManagerOptions {
            health_probe_bind_address: address,
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap_err()
    .to_string();
    assert!(error.contains("--health-probe-bind-address"), "{error}");
}

#[tokio::test]
async fn server_that_ends_every_watch_at_once_does_not_keep_the_operator_busy() {
    let bench = Bench::new().await;
    let (_, running, mut told) = bench.operator(|_, _| async { Ok(Action::done()) }).await;
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    bench.network.end_watches();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The delay between watches is 5 ms in these tests.
    let opened = bench.network.count(is_watch_of_widgets);
    assert!(opened <= 30, "{opened} watches in 100 ms");
    running.end().await.unwrap();
}

#[tokio::test]
async fn resource_costs_two_writes_and_a_restart_none() {
    const RESOURCES: usize = 50;
    let bench = Bench::new().await;
    for number in 0..RESOURCES {
        bench.create(&format!("w-{number}"), 1).await;
    }
    bench.network.take_writes();
    for expected in [2 * RESOURCES, 0] {
        let manager = bench.manager().await;
        let (reconciler, mut told) = teller(|ctx: KeyContext, request: Request| async move {
            let Some(widget) = ctx.get::<Widget>(&request).await? else {
                return Ok(Action::done());
            };
            ctx.apply_owned(&*widget, config_map(request.name(), "1")).await?;
            let ready = Condition::available(true, "Applied", "The ConfigMap is as it should be");
            ctx.update_status(&widget, |status| {
                status.conditions.set(ready.clone());
                status.size = Some(widget.spec.size);
            })
            .await?;
            Ok(Action::done())
        });
        let controller = Controller::by_key(Watch::<Widget>::new(), reconciler)
            .owns::<ConfigMap>()
            .options(parallel(8));
        manager.add_controller(controller).unwrap();
        let running = run(&manager);
        let mut seen = HashSet::new();
        while seen.len() < RESOURCES {
            seen.insert(told.next().await.0);
        }
        running.end().await.unwrap();
        assert_eq!(bench.network.take_writes().len(), expected);
        let metrics = manager.metrics().to_text();
        assert!(
            metrics.contains(r#"controller_runtime_reconcile_errors_total{controller="widget"} 0"#),
            "{metrics}"
        );
    }
}

#[tokio::test]
async fn nothing_is_lost_while_watches_come_and_go() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let controller = Controller::by_key(Watch::<Widget>::new(), reconciler).options(parallel(4));
    manager.add_controller(controller).unwrap();
    // Every fourth request fails, with each code in turn.
    let count = AtomicUsize::new(0);
    let codes = [500, 410, 429, 503, 403];
    bench.network.refuse(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        (request.starts_with("GET") && request.contains("/widgets?") && number.is_multiple_of(4))
            .then(|| codes[number / 4 % 5])
    });
    let running = run(&manager);
    for number in 0..40 {
        bench.create(&format!("w-{number}"), number).await;
    }
    for number in 0..40 {
        match number % 2 {
            0 => bench.delete(&format!("w-{number}")).await,
            _ => bench.resize(&format!("w-{number}"), number + 100).await,
        }
    }
    let wanted = |number: i32| if number % 2 == 0 { None } else { Some(number + 100) };
    let mut last = std::collections::HashMap::new();
    in_time(async {
        // A widget that was created and deleted unseen counts as deleted.
        while (0..40)
            .any(|number| last.get(&key(&format!("w-{number}"))).copied().flatten() != wanted(number))
        {
            let (key, size) = told.next().await;
            last.insert(key, size);
        }
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn aborted_manager_stops_watching() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), plain_teller().0))
        .unwrap();
    let health = manager.health_address().unwrap();
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    in_time(async {
        while bench.network.count(is_watch_of_widgets) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.abort();
    assert!(in_time(running).await.unwrap_err().is_cancelled());
    // A watch that ended is reopened while it has watchers.
    bench.network.take_writes();
    bench.network.end_watches();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.network.count(is_watch_of_widgets), 0);
    assert!(tokio::net::TcpStream::connect(health).await.is_err());
}
