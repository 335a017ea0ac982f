//! The parts of a manager, and the order of their start and stop.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::wait::await_condition;
use operator_runtime::Client;
use operator_runtime::cache::CacheOptions;
use operator_runtime::election::Election;
use operator_runtime::manager::{ManagerOptions, Runnable};
use operator_runtime::prelude::*;
use operator_runtime::{ControllerOptions, handler};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use crate::support::{
    Bench, Widget, config_map, get, in_time, key, parallel, plain_teller, probe, reconcile_widgets, run,
    teller,
};

/// A record of events in order.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    async fn until(&self, what: &str) {
        in_time(async {
            while !self.read().iter().any(|entry| entry == what) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Returns a runnable that records its start and its end.
    fn runnable(&self, name: &'static str) -> Runnable {
        let diary = self.clone();
        Runnable::new(name, move |stop| async move {
            diary.write(format!("{name} starts"));
            stop.cancelled().await;
            // Lets other tasks overtake it.
            tokio::time::sleep(Duration::from_millis(5)).await;
            diary.write(format!("{name} ends"));
            Ok(())
        })
    }
}

/// An election that the test decides, which records its release.
struct TestElection {
    won: Arc<Notify>,
    diary: Diary,
}

impl Election for TestElection {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.won.notified().await;
            Ok(())
        })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(std::future::pending())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.diary.write("lease is released") })
    }
}

async fn manager(bench: &Bench, won: &Arc<Notify>, diary: &Diary) -> Manager {
    let lot = TestElection {
        won: won.clone(),
        diary: diary.clone(),
    };
    Manager::new(
        "tester",
        ManagerOptions {
            election: Some(Box::new(lot)),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn groups_start_and_stop_in_order() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let (won, diary) = (Arc::<Notify>::default(), Diary::default());
    let manager = manager(&bench, &won, &diary).await;
    manager.add(diary.runnable("leader")).unwrap();
    manager
        .add(diary.runnable("instance").on_every_instance())
        .unwrap();
    manager.add(diary.runnable("server").before_caches()).unwrap();
    let (entered, mut inside) = mpsc::unbounded_channel();
    let writer = diary.clone();
    let _told = reconcile_widgets(&manager, move |_, _| {
        let (entered, diary) = (entered.clone(), writer.clone());
        async move {
            let _ = entered.send(());
            tokio::time::sleep(Duration::from_millis(30)).await;
            diary.write("reconcile ends");
            Ok(Action::done())
        }
    });
    let running = run(&manager);
    diary.until("instance starts").await;
    assert_eq!(diary.read(), ["server starts", "instance starts"]);
    won.notify_one();
    in_time(manager.elected()).await;
    in_time(inside.recv()).await.unwrap();
    running.end().await.unwrap();
    let mut diary = diary.read();
    // The order within a group is undefined.
    diary[4..6].sort();
    assert_eq!(
        diary,
        [
            "server starts",
            "instance starts",
            "leader starts",
            "instance ends",
            "leader ends",
            "reconcile ends",
            "server ends",
            "lease is released",
        ]
    );
}

#[tokio::test]
async fn runnables_added_while_the_manager_runs_start_at_once_and_stop_with_their_group() {
    let bench = Bench::without_widgets();
    let (won, diary) = (Arc::<Notify>::default(), Diary::default());
    let manager = manager(&bench, &won, &diary).await;
    let running = run(&manager);
    manager.add(diary.runnable("early")).unwrap();
    manager.add(diary.runnable("server").before_caches()).unwrap();
    manager
        .add(diary.runnable("instance").on_every_instance())
        .unwrap();
    diary.until("instance starts").await;
    assert_eq!(diary.read(), ["server starts", "instance starts"]);
    won.notify_one();
    in_time(manager.elected()).await;
    manager.add(diary.runnable("late")).unwrap();
    diary.until("late starts").await;
    running.end().await.unwrap();
    let ended: Vec<_> = diary.read().into_iter().skip(4).collect();
    assert_eq!(ended[0], "instance ends");
    assert_eq!(ended[3..], ["server ends", "lease is released"]);
    let error = manager.add(diary.runnable("too late")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "can't accept new runnable as stop procedure is already engaged"
    );
}

#[tokio::test]
async fn failure_of_a_late_runnable_stops_the_manager() {
    let bench = Bench::without_widgets();
    let manager = bench.manager().await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    let failing = Runnable::new("failing", |_| async { Err(Error::msg("out of luck")) });
    manager.add(failing).unwrap();
    let error = running.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "out of luck");
}

#[tokio::test]
async fn controllers_added_while_the_manager_runs_reconcile() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    let (reconciler, mut told) = plain_teller();
    let controller = |reconciler| Controller::by_key(Watch::<Widget>::new(), reconciler);
    manager.add_controller(controller(reconciler)).unwrap();
    told.until("a", Some(1)).await;
    let (other, mut told_other) = plain_teller();
    let error = manager.add_controller(controller(plain_teller().0)).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("controller with name widget already exists"),
        "{error}"
    );
    let same_name = ControllerOptions {
        skip_name_validation: Some(true),
        ..ControllerOptions::default()
    };
    manager
        .add_controller(controller(other).options(same_name))
        .unwrap();
    told_other.until("a", Some(1)).await;
    bench.resize("a", 2).await;
    told.until("a", Some(2)).await;
    told_other.until("a", Some(2)).await;
    running.end().await.unwrap();
    let later = Controller::by_key(Watch::<Widget>::new(), plain_teller().0).named("later");
    let error = manager.add_controller(later).unwrap_err();
    assert!(
        error.to_string().contains("stop procedure is already engaged"),
        "{error}"
    );
}

#[tokio::test]
async fn manager_runs_once() {
    let manager = Bench::without_widgets().manager().await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    let error = run(&manager).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "manager already started");
    // The running manager is not affected.
    manager.add(Runnable::new("late", |_| async { Ok(()) })).unwrap();
    running.end().await.unwrap();
    let error = run(&manager).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "manager already started");
}

#[tokio::test]
async fn without_grace_period_tasks_are_aborted_at_once() {
    let bench = Bench::without_widgets();
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            graceful_shutdown_timeout: Duration::ZERO.into(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let endless = Runnable::new("endless", |_| std::future::pending());
    manager.add(endless).unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn grace_period_is_that_of_the_options_or_unlimited() {
    const SHORT: Duration = Duration::from_millis(100);
    let bench = Bench::without_widgets();
    for grace in [Some(SHORT), None] {
        let manager = Manager::new(
            "tester",
            ManagerOptions {
                graceful_shutdown_timeout: grace,
                ..ManagerOptions::from(bench.client.clone())
            },
        )
        .await
        .unwrap();
        // No test waits for longer than the default.
        let options = format!("{manager:?}");
        assert!(
            options.contains(&format!("graceful_shutdown_timeout: {grace:?}")),
            "{options}"
        );
        let gate = Arc::<Notify>::default();
        let opened = gate.clone();
        let slow = Runnable::new("slow", move |_| async move {
            opened.notified().await;
            Ok(())
        });
        manager.add(slow).unwrap();
        let running = run(&manager);
        in_time(manager.elected()).await;
        let mut ended = running.stop();
        let early = tokio::time::timeout(SHORT * 4, &mut ended).await;
        if grace.is_some() {
            let error = early.unwrap().unwrap().unwrap_err();
            assert_eq!(
                error.to_string(),
                "failed waiting for all runnables to end within grace period of 100ms"
            );
        } else {
            assert!(early.is_err(), "the manager did not wait");
            gate.notify_one();
            in_time(ended).await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn panic_of_a_runnable_stops_the_manager() {
    for leads in [true, false] {
        let manager = Bench::without_widgets().manager().await;
        let broken = Runnable::new("broken", |_| async { panic!("no such table") });
        let broken = if leads { broken } else { broken.on_every_instance() };
        manager.add(broken).unwrap();
        // Another runnable is stopped.
        let (ended, told) = oneshot::channel();
        let other = Runnable::new("other", |stop| async move {
            stop.cancelled().await;
            let _ = ended.send(());
            Ok(())
        });
        manager.add(other.before_caches()).unwrap();
        let error = run(&manager).ended().await.unwrap_err();
        assert_eq!(error.to_string(), "runnable broken failed: panic: no such table");
        in_time(told).await.unwrap();
    }
}

#[tokio::test]
async fn panic_of_a_source_stops_the_manager() {
    for warmup in [true, false] {
        let bench = Bench::new().await;
        let manager = bench.manager().await;
        let (reconciler, _told) = plain_teller();
        let options = ControllerOptions {
            warmup: Some(warmup),
            ..ControllerOptions::default()
        };
        let broken = |_: operator_runtime::queue::Requests, _| -> std::future::Pending<Result<()>> {
            panic!("no such device")
        };
        manager
            .add_controller(
                Controller::without_primary("broken", reconciler)
                    .options(options)
                    .watches_raw(broken),
            )
            .unwrap();
        let error = run(&manager).ended().await.unwrap_err();
        assert_eq!(error.to_string(), "panic: no such device");
    }
}

/// The log, line by line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn errors_during_the_stop_are_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _log = tracing::subscriber::set_default(subscriber);
    let bench = Bench::without_widgets();
    let manager = bench.manager().await;
    let failing = Runnable::new("failing", |stop| async move {
        stop.cancelled().await;
        Err(Error::msg("cannot say goodbye"))
    });
    manager.add(failing).unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    running.end().await.unwrap();
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = log.lines().find(|line| line.contains("cannot say goodbye"));
    assert!(
        line.is_some_and(|line| line.contains("Error received after stop sequence was engaged")),
        "{log}"
    );
}

/// Returns the names of the current spans, innermost first.
fn spans() -> Vec<String> {
    let names = tracing::Span::current().with_subscriber(|(id, dispatch)| {
        let registry = dispatch.downcast_ref::<Registry>().unwrap();
        let span = registry.span(id).unwrap();
        span.scope().map(|span| span.name().to_owned()).collect()
    });
    names.unwrap_or_default()
}

#[tokio::test]
async fn controller_names_the_span_of_its_reconciles() {
    let _log = tracing::subscriber::set_default(Registry::default());
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (reconciler, _) = teller(move |_, _| {
        let _ = tell.send(spans());
        async { Ok(Action::done()) }
    });
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new(), reconciler)
                .span(|request, id| tracing::info_span!("mine", %request, id)),
        )
        .unwrap();
    let running = run(&manager);
    assert_eq!(in_time(told.recv()).await.unwrap(), ["mine"]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn controller_options_override_those_of_the_kind_and_the_manager() {
    let bench = Bench::without_widgets();
    let options = ManagerOptions {
        controller_options: ControllerOptions {
            max_concurrent_reconciles: Some(2),
            ..ControllerOptions::default()
        },
        group_kind_concurrency: [("Widget.example.com".to_owned(), 3)].into(),
        ..ManagerOptions::from(bench.client.clone())
    };
    let manager = Manager::new("tester", options).await.unwrap();
    let configs = Controller::by_key(Watch::<ConfigMap>::new(), plain_teller().0);
    manager.add_controller(configs).unwrap();
    let widgets = || Controller::by_key(Watch::<Widget>::new(), plain_teller().0);
    manager.add_controller(widgets()).unwrap();
    let own = widgets()
        .named("own")
        .options(parallel(4))
        .options(ControllerOptions {
            recover_panic: Some(false),
            ..ControllerOptions::default()
        });
    manager.add_controller(own).unwrap();
    let kindless = Controller::without_primary("kindless", plain_teller().0);
    let kindless = kindless.watches(Watch::<Widget>::new().handler(handler::for_object()));
    manager.add_controller(kindless).unwrap();
    let metrics = manager.metrics().to_text();
    for (controller, workers) in [("configmap", 2), ("widget", 3), ("own", 4), ("kindless", 2)] {
        let line = format!(
            "controller_runtime_max_concurrent_reconciles{{controller=\"{controller}\"}} {workers}\n"
        );
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

/// Copies widgets of another cluster into ConfigMaps of the operator's own.
struct Mirror(Client);

impl Reconciler<Widget> for Mirror {
    async fn reconcile(&self, widget: Arc<Widget>, ctx: Context<Widget>) -> Result<Action> {
        let size = widget.spec.size;
        let copy = config_map(ctx.key().name(), &size.to_string());
        self.0
            .with(|options| options.namespace = Some("default".into()))
            .apply(copy)
            .await?;
        // The object and its status are in the other cluster.
        ctx.update_status(|status| status.size = Some(size)).await?;
        Ok(Action::done())
    }
}

#[tokio::test]
async fn objects_of_another_cluster_are_reconciled() {
    let (home, west, east) = (Bench::without_widgets(), Bench::new().await, Bench::new().await);
    west.create("a", 1).await;
    east.create("b", 2).await;
    let manager = home.manager().await;
    let clusters = Mutex::new(Vec::new());
    let mirror = async |name: &str, bench: &Bench| {
        let cluster = manager
            .add_cluster(name, bench.client.clone(), CacheOptions::default())
            .unwrap();
        assert_eq!(cluster.name(), name);
        clusters.lock().push(cluster.client().cache().clone());
        let watch = Watch::new().in_cluster(&cluster);
        let controller = Controller::from_watch(watch, Mirror(manager.client().clone()));
        manager.add_controller(controller.named(name)).unwrap();
    };
    mirror("west", &west).await;
    let check = clusters.lock().last().cloned().unwrap();
    manager.add_cache_check("caches-west", &check).unwrap();
    let error = manager
        .add_cluster("west", west.client.clone(), CacheOptions::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("cluster \"west\" already exists"),
        "{error}"
    );
    let running = run(&manager);
    in_time(manager.elected()).await;
    mirror("east", &east).await;
    for (bench, name, size) in [(&west, "a", 1), (&east, "b", 2)] {
        let is_seen = |widget: Option<&Widget>| {
            let status = widget.and_then(|widget| widget.status.as_ref());
            status.and_then(|status| status.size) == Some(size)
        };
        in_time(await_condition(bench.widgets(), name, is_seen))
            .await
            .unwrap();
        let copy = manager
            .client()
            .live()
            .get::<ConfigMap>(&key(name))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(copy.data.as_ref().unwrap()["value"], size.to_string());
    }
    let (code, text) = probe(&manager, "/readyz?verbose").await;
    assert_eq!(
        (code, text.as_str()),
        (200, "[+]caches-west ok\n[+]ping ok\nreadyz check passed\n")
    );
    let metrics = manager.metrics().to_text();
    for name in ["west", "east"] {
        let line = format!(
            "operator_runtime_watch_live{{kind=\"Widget.example.com\",namespace=\"\",cluster=\"{name}\"}} 1\n"
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert_eq!(home.network.count(|request| request.contains("widgets")), 0);
    running.end().await.unwrap();
}

#[tokio::test]
async fn metrics_server_serves_added_paths() {
    let bench = Bench::without_widgets();
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
    let pong = async |_| http::Response::new(Full::new(Bytes::from("pong")));
    manager.add_metrics_handler("/ping", pong).unwrap();
    let error = manager.add_metrics_handler("/ping", pong).unwrap_err();
    let taken = "can't register extra handler by duplicate path \"/ping\" on metrics http server";
    assert_eq!(error.to_string(), taken);
    let error = manager.add_metrics_handler("/metrics", pong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "overriding builtin /metrics endpoint is not allowed"
    );
    let address = manager.metrics_address().unwrap();
    let running = run(&manager);
    assert_eq!(get(address, "/ping").await, (200, "pong".to_owned()));
    assert_eq!(get(address, "/metrics").await.0, 200);
    let error = manager.add_metrics_handler("/pong", pong).unwrap_err();
    let late = "unable to add new metrics handler because metrics endpoint has already been created";
    assert_eq!(error.to_string(), late);
    running.end().await.unwrap();
}

#[tokio::test]
async fn reconciler_is_called_for_existing_objects() {
    struct Sizes(mpsc::UnboundedSender<(String, i32)>);

    impl Reconciler<Widget> for Sizes {
        async fn reconcile(&self, widget: Arc<Widget>, _: Context<Widget>) -> Result<Action> {
            let name = widget.metadata.name.clone().unwrap_or_default();
            let _ = self.0.send((name, widget.spec.size));
            Ok(Action::done())
        }
    }

    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    manager.add_controller(Controller::new(Sizes(tell))).unwrap();
    let running = run(&manager);
    assert_eq!(in_time(told.recv()).await.unwrap(), ("a".to_owned(), 1));
    bench.delete("a").await;
    in_time(async {
        while manager.client().get::<Widget>(&key("a")).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    bench.create("b", 2).await;
    assert_eq!(in_time(told.recv()).await.unwrap(), ("b".to_owned(), 2));
    running.end().await.unwrap();
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
}

#[tokio::test]
async fn options_of_the_command_line_can_be_changed_in_code() {
    use clap::Parser as _;

    let flags = [
        "operator",
        "--watch-namespace=default",
        "--leader-elect",
        "--health-probe-bind-address=nowhere",
    ];
    let args = Command::parse_from(flags).manager;
    let bench = Bench::new().await;
    let options = ManagerOptions {
        client: Some(bench.client.clone().into()),
        cache_options: CacheOptions {
            page_size: 7,
            namespaces: ["green", "default"].into(),
            ..CacheOptions::default()
        },
        leader_election: false,
        health_probe_bind_address: "127.0.0.1:0".to_owned(),
        webhook_bind_address: "0".to_owned(),
        ..ManagerOptions::from(&args)
    };
    let manager = Manager::new("tester", options).await.unwrap();
    let running = run(&manager);
    // Without a namespace for the lease, no other candidate exists.
    in_time(manager.elected()).await;
    assert!(manager.client().list::<Widget>().await.unwrap().is_empty());
    let requests = bench.network.requests(|request| request.contains("/widgets"));
    let is_narrow = |request: &String| request.contains("/namespaces/default/widgets");
    assert!(
        !requests.is_empty() && requests.iter().all(is_narrow),
        "{requests:?}"
    );
    running.end().await.unwrap();
}
