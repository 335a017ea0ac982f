//! Sources other than the events of kinds: asynchronous handlers, delays, late watches and streams.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator_runtime::event::Event;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::queue::Add;
use operator_runtime::queue::Requests;
use operator_runtime::{Client, ControllerOptions, Kind, handler, prelude::*};
use serde_json::json;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use crate::support::{Bench, Widget, config_map, in_time, key, plain_teller, run, teller};

async fn create(bench: &Bench, name: &str) {
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let config = config_map(name, "1");
    configs.create(&PostParams::default(), &config).await.unwrap();
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
async fn handler_finds_objects_by_reading() {
    let bench = Bench::new().await;
    for (name, size) in [("a", 1), ("b", 1), ("c", 2)] {
        bench.create(name, size).await;
    }
    create(&bench, "1").await;
    let manager = bench.manager().await;
    manager
        .cache()
        .add_index::<Widget>("size", |widget: &Widget| vec![widget.spec.size.to_string()])
        .unwrap();
    let of_size = Watch::new().find(async |client: Client, config: Arc<ConfigMap>| {
        let size = config.metadata.name.as_deref().unwrap_or_default();
        let widgets = client.list::<Widget>().index("size", size).await?;
        Ok(widgets
            .iter()
            .map(|widget| Request::of(widget.as_ref()))
            .collect())
    });
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(Controller::without_primary("by-size", reconciler).watches(of_size))
        .unwrap();
    let running = run(&manager);
    for _ in 0..2 {
        let mut names = [told.next().await, told.next().await].map(|(key, _)| key.name().to_owned());
        names.sort();
        assert_eq!(names, ["a", "b"]);
        touch(&bench, "1").await;
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn failing_handler_is_retried_without_delaying_others() {
    let bench = Bench::new().await;
    for name in ["broken", "fine"] {
        create(&bench, name).await;
        bench.create(name, 1).await;
    }
    let manager = bench.manager().await;
    let failures = Arc::new(parking_lot::Mutex::new(3));
    let found = Watch::new().find(move |_: Client, config: Arc<ConfigMap>| {
        let failures = failures.clone();
        async move {
            let name = config.metadata.name.clone().unwrap_or_default();
            let mut left = failures.lock();
            if name == "broken" && *left > 0 {
                *left -= 1;
                assert_ne!(*left, 1, "a panic is a failure like others");
                return Err(Error::msg("not yet"));
            }
            Ok(vec![key(&name)])
        }
    });
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(Controller::without_primary("found", reconciler).watches(found))
        .unwrap();
    let running = run(&manager);
    // The first objects are mapped before the workers start, and therefore in this order.
    assert_eq!(told.next().await.0, key("fine"));
    assert_eq!(told.next().await.0, key("broken"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn handler_sets_delay_and_priority() {
    let bench = Bench::new().await;
    for name in ["later", "low", "high"] {
        create(&bench, name).await;
        bench.create(name, 1).await;
    }
    let manager = bench.manager().await;
    let handler = handler::queued(|event: &Event<ConfigMap>, queue: &Requests| {
        let name = event.object().metadata.name.clone().unwrap_or_default();
        let add = match name.as_str() {
            "later" => Add {
                after: Duration::from_millis(200),
                priority: Some(1000),
                ..Add::default()
            },
            "high" => Add {
                priority: Some(10),
                ..Add::default()
            },
            // The first list determines the default priority.
            "low" => return queue.add(key("low"), Add::default()),
            _ => return,
        };
        queue.add(key(&name), add);
    });
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(
            Controller::without_primary("queued", reconciler)
                .watches(Watch::<ConfigMap>::new().handler(handler)),
        )
        .unwrap();
    let running = run(&manager);
    for name in ["high", "low", "later"] {
        assert_eq!(told.next().await.0, key(name));
    }
    let metrics = manager.metrics().to_text();
    for line in [
        "workqueue_retries_total{name=\"queued\",controller=\"queued\"} 1\n",
        "workqueue_depth{name=\"queued\",controller=\"queued\",priority=\"-100\"} 0\n",
        "workqueue_depth{name=\"queued\",controller=\"queued\",priority=\"1000\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn watches_are_added_to_a_running_controller() {
    let bench = Bench::new().await;
    for name in ["before", "after"] {
        create(&bench, name).await;
    }
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let controller = manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let named = |name: &'static str| {
        Watch::new().map(move |config: &ConfigMap| match config.metadata.name.as_deref() {
            Some(found) if found == name => vec![key(found)],
            _ => Vec::new(),
        })
    };
    controller.watch(named("before")).unwrap();
    let running = run(&manager);
    told.until("before", None).await;
    controller.watch(named("after")).unwrap();
    told.until("after", None).await;
    touch(&bench, "after").await;
    told.until("after", None).await;
    // A kind without a Rust type that was not watched before.
    let secrets = Kind::in_namespaces("v1", "Secret", "secrets");
    controller
        .watch(Watch::<kube::api::DynamicObject>::of_kind(&secrets).handler(handler::for_object()))
        .unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sesame"}});
    let api: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(bench.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    told.until("sesame", None).await;
    running.end().await.unwrap();
    let error = controller.watch(named("late")).unwrap_err();
    assert_eq!(error.to_string(), "controller widget has stopped");
}

#[tokio::test]
async fn controllers_of_a_manager_share_a_span_unless_they_have_their_own() {
    let _log = tracing::subscriber::set_default(Registry::default());
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let options = |name: &str| ControllerOptions {
        parent_span: Some(match name {
            "common" => tracing::info_span!("common"),
            _ => tracing::info_span!("own"),
        }),
        ..ControllerOptions::default()
    };
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            controller_options: options("common"),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for (name, own) in [("plain", None), ("special", Some(options("own")))] {
        let tell = tell.clone();
        let (reconciler, _) = teller(move |ctx: KeyContext, _| {
            let spans = tracing::Span::current().with_subscriber(|(id, dispatch)| {
                let span = dispatch.downcast_ref::<Registry>().unwrap().span(id).unwrap();
                let fields: Vec<_> = span
                    .metadata()
                    .fields()
                    .iter()
                    .map(|field| field.name())
                    .collect();
                let names: Vec<_> = span.scope().map(|span| span.name()).collect();
                (names.join(" in "), fields.join(" "))
            });
            let _ = tell.send((
                ctx.controller().to_owned(),
                spans.unwrap(),
                ctx.reconcile_id().to_owned(),
            ));
            async { Ok(Action::done()) }
        });
        manager
            .add_controller(
                Controller::by_key(Watch::<Widget>::new(), reconciler)
                    .named(name)
                    .options(own.unwrap_or_default()),
            )
            .unwrap();
    }
    let running = run(&manager);
    let mut seen = [
        in_time(told.recv()).await.unwrap(),
        in_time(told.recv()).await.unwrap(),
    ];
    seen.sort();
    let fields = "controller controllerGroup controllerKind namespace name reconcileID";
    for ((controller, (spans, found), id), (wanted, in_spans)) in seen
        .iter()
        .zip([("plain", "reconcile in common"), ("special", "reconcile in own")])
    {
        assert_eq!(
            (controller.as_str(), spans.as_str(), found.as_str()),
            (wanted, in_spans, fields)
        );
        // A UUID of version 4, as in controller-runtime.
        let lengths: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(id.as_bytes()[14], b'4');
    }
    running.end().await.unwrap();
}
