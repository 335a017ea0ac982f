//! Controllers and their options: kinds in every form, streams, filters, limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Bench, Widget, config_map, in_time, key, plain_teller, retried, run, teller};
use futures::SinkExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use operator_runtime::controller::{Backoff, ControllerOptions, RateLimit, RateLimiter, Watch};
use operator_runtime::event::Event;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::owner::{set_owner_annotations, set_owner_reference};
use operator_runtime::queue::Add;
use operator_runtime::{handler, predicate, prelude::*};
use serde_json::json;
use tokio::sync::Notify;

async fn create(bench: &Bench, config: &ConfigMap) {
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    configs.create(&PostParams::default(), config).await.unwrap();
}

async fn touch(bench: &Bench, name: &str) {
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let patch = Patch::Merge(json!({"data": {"touched": "yes"}}));
    configs
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn owned_object_is_watched_metadata_only() {
    let bench = Bench::new().await;
    let widget = bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new(), reconciler).owns::<PartialObjectMeta<ConfigMap>>(),
        )
        .unwrap();
    let mut config = config_map("of-a", "1");
    config.metadata.namespace = Some("default".to_owned());
    operator_runtime::owner::set_controller_reference(&widget, &mut config).unwrap();
    create(&bench, &config).await;
    let running = run(&manager);
    told.until("a", Some(1)).await;
    touch(&bench, "of-a").await;
    told.until("a", Some(1)).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn every_owner_includes_owners_that_do_not_control() {
    let bench = Bench::new().await;
    let widget = bench.create("a", 1).await;
    let mut config = config_map("shared", "1");
    config.metadata.namespace = Some("default".to_owned());
    set_owner_reference(&widget, &mut config).unwrap();
    create(&bench, &config).await;
    let manager = bench.manager().await;
    let never = |_: &Event<Widget>| false;
    let (controlling, mut of_controlling) = plain_teller();
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new().filter(never), controlling).owns::<ConfigMap>(),
        )
        .unwrap();
    let (every, mut of_every) = plain_teller();
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new().filter(never), every)
                .named("every")
                .watches(Watch::<ConfigMap>::new().every_owner()),
        )
        .unwrap();
    let running = run(&manager);
    assert_eq!(of_every.next().await, (key("a"), Some(1)));
    running.end().await.unwrap();
    assert_eq!(of_controlling.unheard(), []);
}

#[tokio::test]
async fn annotations_lead_to_an_owner_in_another_namespace() {
    let bench = Bench::new().await;
    let widget = bench.create("a", 1).await;
    let mut config = config_map("far", "1");
    set_owner_annotations(&widget, &mut config);
    create(&bench, &config).await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(
            Controller::without_primary("annotated", reconciler)
                .watches(Watch::<ConfigMap>::new().handler(handler::for_annotated(Kind::of::<Widget>()))),
        )
        .unwrap();
    let running = run(&manager);
    assert_eq!(told.next().await, (key("a"), Some(1)));
    running.end().await.unwrap();
}

#[tokio::test]
async fn filter_events_applies_to_all_kinds() {
    let bench = Bench::new().await;
    let mut paused = Widget::new("paused", crate::support::WidgetSpec { size: 1 });
    paused.metadata.annotations = Some([("example.com/paused".to_owned(), "true".to_owned())].into());
    bench
        .widgets()
        .create(&PostParams::default(), &paused)
        .await
        .unwrap();
    let mut config = config_map("paused-config", "1");
    config.metadata.annotations = paused.metadata.annotations.clone();
    create(&bench, &config).await;
    bench.create("b", 2).await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new(), reconciler)
                .watches(Watch::<ConfigMap>::new().handler(handler::for_object()))
                .filter_events(predicate::not_paused("example.com/paused")),
        )
        .unwrap();
    let running = run(&manager);
    assert_eq!(told.next().await, (key("b"), Some(2)));
    running.end().await.unwrap();
    assert_eq!(told.unheard(), []);
}

#[tokio::test]
async fn streams_and_functions_are_sources_too() {
    let bench = Bench::new().await;
    let widget = Arc::new(bench.create("event", 1).await);
    for name in ["key", "function", "later"] {
        bench.create(name, 1).await;
    }
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let (mut keys, from_keys) = futures::channel::mpsc::channel::<Request>(10);
    let (mut events, from_events) = futures::channel::mpsc::channel::<Event<Widget>>(10);
    manager
        .add_controller(
            Controller::without_primary("listener", reconciler)
                .requests_from(from_keys)
                .events_from(from_events, handler::for_object())
                .watches_raw(async |requests, stop| {
                    requests.add(("default", "function"), Add::default());
                    let later = Add {
                        after: Duration::from_millis(20),
                        ..Add::default()
                    };
                    requests.add(("default", "later"), later);
                    stop.cancelled().await;
                    Ok(())
                }),
        )
        .unwrap();
    let running = run(&manager);
    keys.send(key("key")).await.unwrap();
    events.send(Event::Generic { object: widget }).await.unwrap();
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(told.next().await.0.name().to_owned());
    }
    assert_eq!(names.pop().as_deref(), Some("later"));
    names.sort();
    assert_eq!(names, ["event", "function", "key"]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn source_that_fails_ends_the_manager() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    manager
        .add_controller(
            Controller::without_primary("listener", plain_teller().0)
                .watches_raw(async |_, _| Err(Error::msg("the line is dead"))),
        )
        .unwrap();
    let error = run(&manager).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "the line is dead");
}

#[tokio::test]
async fn panic_that_is_not_recovered_ends_the_manager() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (reconciler, _told) = teller(|_, _| async { panic!("out of order") });
    let options = ControllerOptions {
        recover_panic: Some(false),
        ..ControllerOptions::default()
    };
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler).options(options))
        .unwrap();
    let error = run(&manager).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "panic: out of order");
}

/// An election that the test decides.
struct TestElection(Arc<Notify>);

impl operator_runtime::election::Election for TestElection {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.0.notified().await;
            Ok(())
        })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(std::future::pending())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn warm_controller_fills_its_queue_before_it_leads() {
    for warmup in [true, false] {
        let bench = Bench::new().await;
        bench.create("a", 1).await;
        let won = Arc::<Notify>::default();
        let manager = Manager::new(
            "tester",
            ManagerOptions {
                election: Some(Box::new(TestElection(won.clone()))),
                ..ManagerOptions::from(bench.client.clone())
            },
        )
        .await
        .unwrap();
        let (reconciler, mut told) = plain_teller();
        let started = Arc::<AtomicUsize>::default();
        let starts = started.clone();
        let options = ControllerOptions {
            warmup: Some(warmup),
            ..ControllerOptions::default()
        };
        manager
            .add_controller(
                Controller::by_key(Watch::<Widget>::new(), reconciler)
                    .watches_raw(async move |_, _| {
                        starts.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    })
                    .options(options),
            )
            .unwrap();
        let running = run(&manager);
        manager.client().list::<Widget>().await.unwrap();
        in_time(async {
            while warmup && started.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(started.load(Ordering::SeqCst), usize::from(warmup));
        assert_eq!(told.unheard(), []);
        won.notify_one();
        told.until("a", Some(1)).await;
        assert_eq!(started.load(Ordering::SeqCst), 1);
        running.end().await.unwrap();
    }
}

#[tokio::test]
async fn custom_rate_limit_delays_failures() {
    /// Counts its calls, and never delays.
    #[derive(Debug)]
    struct Counting(Arc<AtomicUsize>);

    impl RateLimiter for Counting {
        fn when(&mut self, _: &Request, _: Instant) -> Duration {
            self.0.fetch_add(1, Ordering::SeqCst);
            Duration::ZERO
        }

        fn forget(&mut self, _: &Request) {}
    }

    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let asked = Arc::<AtomicUsize>::default();
    let counter = asked.clone();
    let limit = RateLimit::Custom(Arc::new(move || Box::new(Counting(counter.clone()))));
    let (failing, mut told) = teller(|_, _| async { Err(Error::msg("not yet")) });
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), failing).options(retried(limit)))
        .unwrap();
    let (slow, mut of_slow) = teller(|_, _| async { Err(Error::msg("not yet")) });
    let hour = Duration::from_secs(3600);
    manager
        .add_controller(
            Controller::by_key(Watch::<Widget>::new(), slow)
                .named("slow")
                .options(retried(Backoff {
                    base: hour,
                    max: hour,
                })),
        )
        .unwrap();
    let running = run(&manager);
    for _ in 0..20 {
        told.next().await;
    }
    assert!(asked.load(Ordering::SeqCst) >= 19);
    assert_eq!(of_slow.next().await, (key("a"), Some(1)));
    running.end().await.unwrap();
    assert_eq!(of_slow.unheard(), []);
}
