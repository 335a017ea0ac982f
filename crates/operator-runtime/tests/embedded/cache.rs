//! The cache on the embedded API server: views of one kind, indexes, transforms, selection, removal, resync, quarantine.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Bench, Widget, config_map, in_time, indexed, key, observe_widgets, plain_teller, run, within,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::PartialObjectMeta;
use operator_runtime::cache::{CacheOptions, Transforms};
use operator_runtime::controller::Watch;
use operator_runtime::{Kind, prelude::*};
use serde_json::json;
use tokio::sync::mpsc;

fn widget_kind() -> Kind {
    Kind::in_namespaces("example.com/v1", "Widget", "widgets")
}

fn watches_of_widgets(bench: &Bench) -> usize {
    bench
        .network
        .count(|request| request.contains("/widgets?") && request.contains("watch=true"))
}

#[tokio::test]
async fn every_view_of_a_kind_comes_from_one_watch() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let (client, kind) = (manager.client(), widget_kind());

    let dynamic = client
        .get::<DynamicObject>((&kind, &key("a")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(dynamic.data["spec"]["size"], 1);
    assert_eq!(dynamic.types.as_ref().unwrap().kind, "Widget");
    let typed = client.get::<Widget>(&key("a")).await.unwrap().unwrap();
    assert_eq!(typed.spec.size, 1);
    let metadata = client.list_kind::<PartialObjectMeta>(&kind).await.unwrap();
    assert_eq!(metadata[0].metadata.uid, typed.metadata.uid);
    let same = client
        .get::<DynamicObject>((&kind, &key("a")))
        .await
        .unwrap()
        .unwrap();
    assert!(Arc::ptr_eq(&dynamic, &same), "the kept type is not copied");
    bench.resize("a", 2).await;
    in_time(async {
        while client.get::<Widget>(&key("a")).await.unwrap().unwrap().spec.size != 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(watches_of_widgets(&bench), 1);
    assert_eq!(manager.cache().kinds(), ["Widget.example.com"]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn metadata_readers_cost_only_metadata_until_another_reader_needs_more() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    manager
        .add_controller(Controller::by_key(
            Watch::<PartialObjectMeta<Widget>>::new(),
            Names(sender),
        ))
        .unwrap();
    let running = run(&manager);
    assert_eq!(in_time(heard.recv()).await.unwrap(), "a");
    let client = manager.client();
    let partial = client
        .get::<PartialObjectMeta<Widget>>(&key("a"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(partial.name_any(), "a");

    // A reader of the whole object causes another list. Readers of metadata get no events of that list.
    let typed = client.get::<Widget>(&key("a")).await.unwrap().unwrap();
    assert_eq!(typed.spec.size, 1);
    let dynamic = client
        .get::<DynamicObject>((&widget_kind(), &key("a")))
        .await
        .unwrap();
    assert_eq!(dynamic.unwrap().data["spec"]["size"], 1);
    bench.create("b", 1).await;
    assert_eq!(in_time(heard.recv()).await.unwrap(), "b");
    assert!(heard.try_recv().is_err());
    running.end().await.unwrap();
}

/// Sends the names of its requests.
struct Names(tokio::sync::mpsc::UnboundedSender<String>);

impl KeyReconciler for Names {
    async fn reconcile(&self, request: Request, _: KeyContext) -> Result<Action> {
        self.0.send(request.name().to_owned())?;
        Ok(Action::done())
    }
}

mod slim {
    /// A type with fewer fields than the kind.
    #[derive(
        kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
    )]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    pub(super) struct WidgetSpec {}
}

#[tokio::test]
async fn two_types_of_one_kind_are_served_side_by_side() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    assert_eq!(client.list::<Widget>().await.unwrap()[0].spec.size, 1);
    assert_eq!(client.list::<slim::Widget>().await.unwrap().len(), 1);
    assert_eq!(
        client.get::<Widget>(&key("a")).await.unwrap().unwrap().spec.size,
        1
    );
    assert_eq!(manager.cache().kinds().len(), 1);
    running.end().await.unwrap();
}

#[tokio::test]
async fn index_finds_objects_by_value_and_sees_own_writes() {
    let bench = Bench::new().await;
    for (name, size) in [("a", 1), ("b", 2), ("c", 1)] {
        bench.create(name, size).await;
    }
    let manager = bench.manager().await;
    let by_size = |widget: &Widget| vec![widget.spec.size.to_string()];
    manager.cache().add_index::<Widget>("size", by_size).unwrap();
    let error = manager.cache().add_index::<Widget>("size", by_size).unwrap_err();
    assert!(
        error.to_string().contains(r#"already has an index "size""#),
        "{error}"
    );
    let running = run(&manager);
    let client = manager.client();
    let names = async |value: &str, namespace: Option<&str>| {
        let options = ListOptions {
            namespace: namespace.map(str::to_owned),
            ..indexed("size", value)
        };
        let widgets = client.list::<Widget>().options(options).await.unwrap();
        widgets.iter().map(|widget| widget.name_any()).collect::<Vec<_>>()
    };
    assert_eq!(names("1", None).await, ["a", "c"]);
    assert_eq!(names("2", Some("default")).await, ["b"]);
    assert_eq!(names("1", Some("elsewhere")).await, [""; 0]);
    let mut widget = Widget::clone(&client.get::<Widget>(&key("b")).await.unwrap().unwrap());
    widget.spec.size = 1;
    client.update(widget).await.unwrap();
    assert_eq!(names("1", None).await, ["a", "b", "c"]);
    assert_eq!(names("2", None).await, [""; 0]);

    let by_name = |object: &DynamicObject| object.metadata.name.clone().into_iter().collect();
    manager
        .cache()
        .add_index_of::<DynamicObject>(&widget_kind(), "name", by_name)
        .unwrap();
    let found = client
        .list_kind::<DynamicObject>(&widget_kind())
        .options(indexed("name", "c"))
        .await;
    assert_eq!(found.unwrap().len(), 1);
    let error = client
        .list::<Widget>()
        .options(indexed("color", "red"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains(r#"has no index "color""#), "{error}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn transform_removes_fields() {
    let bench = Bench::new().await;
    let transforms = Transforms::default()
        .of::<ConfigMap>(|config| config.binary_data = None)
        .of_kind::<DynamicObject>(&widget_kind(), |widget| widget.data["spec"] = json!({}));
    let manager = bench
        .manager_with(CacheOptions {
            transforms,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let mut config = config_map("a", "1");
    config.metadata.namespace = Some("default".to_owned());
    config.binary_data = Some([("large".to_owned(), k8s_openapi::ByteString(vec![0; 100]))].into());
    let client = manager.client();
    client.list::<ConfigMap>().await.unwrap();
    client.create(config).await.unwrap();
    let read = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    assert_eq!(
        (
            read.binary_data.is_none(),
            read.data.as_ref().unwrap()["value"].as_str()
        ),
        (true, "1")
    );
    bench.create("w", 7).await;
    let widget = client
        .get::<DynamicObject>((&widget_kind(), &key("w")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(widget.data["spec"], json!({}));
    running.end().await.unwrap();
}

#[tokio::test]
async fn kind_has_its_own_namespaces() {
    let bench = Bench::new().await;
    let kinds = [(Kind::of::<Widget>(), within(["elsewhere"]))].into();
    let manager = bench
        .manager_with(CacheOptions {
            kinds,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let client = manager.client();
    assert!(client.get::<Widget>(("elsewhere", "a")).await.unwrap().is_none());
    let error = client.get::<Widget>(("default", "a")).await.unwrap_err();
    assert!(error.to_string().contains("is not watched"), "{error}");
    assert!(client.get::<ConfigMap>(("default", "a")).await.unwrap().is_none());
    running.end().await.unwrap();
}

#[tokio::test]
async fn removed_kind_is_not_watched_until_it_is_read_again() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    let widget = Arc::downgrade(&client.get::<Widget>(&key("a")).await.unwrap().unwrap());
    assert!(manager.cache().remove(Kind::of::<Widget>()));
    assert!(!manager.cache().remove(Kind::of::<Widget>()));
    assert_eq!(manager.cache().kinds(), [""; 0]);
    in_time(async {
        while widget.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    bench.network.take_writes();
    bench.network.end_watches();
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(watches_of_widgets(&bench), 0);

    assert_eq!(
        client.get::<Widget>(&key("a")).await.unwrap().unwrap().spec.size,
        1
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn resync_repeats_all_objects_and_writes_nothing() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let sync_period = Some(Duration::from_millis(20));
    let manager = bench
        .manager_with(CacheOptions {
            sync_period,
            ..CacheOptions::default()
        })
        .await;
    let mut told = observe_widgets(&manager);
    let (changed, mut of_changed) = plain_teller();
    manager
        .add_controller(
            Controller::by_key(
                Watch::<Widget>::new().filter(operator_runtime::predicate::resource_version_changed()),
                changed,
            )
            .named("changes"),
        )
        .unwrap();
    bench.network.take_writes();
    let running = run(&manager);
    for _ in 0..3 {
        assert_eq!(told.next().await, (key("a"), Some(1)));
    }
    assert_eq!(of_changed.next().await, (key("a"), Some(1)));
    assert_eq!(of_changed.unheard(), []);
    let lists = bench
        .network
        .count(|request| request.contains("/widgets?") && !request.contains("resourceVersion=&"));
    assert_eq!((lists, bench.network.take_writes().len()), (1, 0));
    running.end().await.unwrap();
}

/// A kind with fewer validations than its type.
#[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Lax",
    plural = "laxes",
    namespaced
)]
struct LaxSpec {
    size: i32,
}

/// Installs the kind and creates an object that cannot be decoded as the type.
async fn with_a_bad_lax(bench: &Bench) -> (Api<DynamicObject>, DynamicObject) {
    let kind = Kind::of::<Lax>();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "laxes.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "laxes", "singular": "lax", "kind": "Lax"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(bench.client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap())
        .await
        .unwrap();
    let laxes: Api<DynamicObject> =
        Api::default_namespaced_with(bench.client.clone(), &kube::api::ApiResource::from(&kind));
    let object = json!({"apiVersion": "example.com/v1", "kind": "Lax", "metadata": {"name": "bad"}, "spec": {"size": "large"}});
    let bad = laxes
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    (laxes, bad)
}

/// Waits for the event of an object that cannot be decoded, and returns it with the number of such objects.
async fn misfits(bench: &Bench) -> (Event, usize) {
    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    in_time(async {
        loop {
            let listed = events.list(&Default::default()).await.unwrap();
            let misfits = |event: &&Event| event.reason.as_deref() == Some("DecodeFailed");
            let count = listed.iter().filter(misfits).count();
            match listed.iter().find(misfits) {
                Some(event) => break (event.clone(), count),
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

fn quarantined(manager: &Manager) -> Option<String> {
    let line = "operator_runtime_quarantined_objects{kind=\"Lax.example.com\"} ";
    let metrics = manager.metrics().to_text();
    let count = metrics.lines().find_map(|text| text.strip_prefix(line));
    count.map(str::to_owned)
}

#[tokio::test]
async fn quarantined_object_gets_an_event_and_returns_after_repair() {
    let bench = Bench::new().await;
    let (laxes, mut bad) = with_a_bad_lax(&bench).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    assert!(manager.client().get::<Lax>(&key("bad")).await.is_err());

    let (event, _) = misfits(&bench).await;
    assert_eq!(event.regarding.unwrap().name.as_deref(), Some("bad"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert!(event.note.unwrap().contains("expected i32"));
    bad.data["spec"]["size"] = json!(3);
    laxes.replace("bad", &PostParams::default(), &bad).await.unwrap();
    in_time(async {
        while manager.client().get::<Lax>(&key("bad")).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(quarantined(&manager).as_deref(), Some("0"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn object_that_does_not_fit_one_reader_is_reported_once() {
    let bench = Bench::new().await;
    let (laxes, mut bad) = with_a_bad_lax(&bench).await;
    let kind = Kind::of::<Lax>();
    let manager = bench.manager().await;
    // Kept as `DynamicObject`, which can represent every object.
    let (whole, mut of_whole) = plain_teller();
    manager
        .add_controller(Controller::by_key(Watch::<DynamicObject>::of_kind(&kind), whole))
        .unwrap();
    let (typed, mut of_typed) = mpsc::unbounded_channel();
    manager
        .add_controller(Controller::without_primary("typed", plain_teller().0).watches(
            Watch::<Lax>::new().map(move |lax: &Lax| {
                let _ = typed.send(lax.spec.size);
                Vec::new()
            }),
        ))
        .unwrap();
    let running = run(&manager);
    assert_eq!(of_whole.next().await, (key("bad"), None));
    let (event, _) = misfits(&bench).await;
    assert!(event.note.unwrap().contains("expected i32"));
    assert_eq!(quarantined(&manager).as_deref(), Some("1"));
    let error = manager.client().get::<Lax>(&key("bad")).await.unwrap_err();
    assert!(error.to_string().contains("does not fit its type"), "{error}");

    // A change that does not repair the object is not reported again.
    bad.metadata.labels = Some([("seen".to_owned(), "yes".to_owned())].into());
    bad = laxes.replace("bad", &PostParams::default(), &bad).await.unwrap();
    assert_eq!(of_whole.next().await, (key("bad"), None));
    assert_eq!(quarantined(&manager).as_deref(), Some("1"));
    bad.data["spec"]["size"] = json!(3);
    laxes.replace("bad", &PostParams::default(), &bad).await.unwrap();
    assert_eq!(in_time(of_typed.recv()).await, Some(3));
    assert_eq!(quarantined(&manager).as_deref(), Some("0"));
    assert_eq!(
        manager
            .client()
            .get::<Lax>(&key("bad"))
            .await
            .unwrap()
            .unwrap()
            .spec
            .size,
        3
    );
    running.end().await.unwrap();
    let (event, count) = misfits(&bench).await;
    assert_eq!((event.series, count), (None, 1));
}

#[tokio::test]
async fn watch_of_a_dynamic_kind_is_a_controller_like_any_other() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    manager
        .add_controller(Controller::by_key(
            Watch::<DynamicObject>::of_kind(&widget_kind())
                .filter(operator_runtime::predicate::generation_changed()),
            reconciler,
        ))
        .unwrap();
    let running = run(&manager);
    assert_eq!(told.next().await, (key("a"), Some(1)));
    bench.resize("a", 2).await;
    assert_eq!(told.next().await, (key("a"), Some(2)));
    running.end().await.unwrap();
}

#[tokio::test]
async fn read_starts_no_watch_if_start_on_read_is_false() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench
        .manager_with(CacheOptions {
            start_on_read: false,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let client = manager.client();
    for error in [
        client.get::<Widget>(&key("a")).await.unwrap_err(),
        client
            .list_kind::<DynamicObject>(&widget_kind())
            .await
            .unwrap_err(),
    ] {
        assert!(error.to_string().contains("reads start no watch"), "{error}");
    }
    assert_eq!(watches_of_widgets(&bench), 0);
    manager.cache().watch::<Widget>(&Kind::of::<Widget>());
    assert!(client.get::<Widget>(&key("a")).await.unwrap().is_some());
    running.end().await.unwrap();
}

#[tokio::test]
async fn deletion_reaches_the_handler_that_knew_an_earlier_state() {
    let bench = Bench::new().await;
    let (laxes, mut lax) = with_a_bad_lax(&bench).await;
    lax.data["spec"]["size"] = json!(1);
    lax = laxes.replace("bad", &PostParams::default(), &lax).await.unwrap();
    let manager = bench.manager().await;
    // Kept as `DynamicObject`, which can represent every object.
    let (whole, mut of_whole) = plain_teller();
    manager
        .add_controller(Controller::by_key(
            Watch::<DynamicObject>::of_kind(&Kind::of::<Lax>()),
            whole,
        ))
        .unwrap();
    let (events, mut of_typed) = mpsc::unbounded_channel();
    manager
        .add_controller(Controller::without_primary("typed", plain_teller().0).watches(
            Watch::<Lax>::new().handler(move |event: &operator_runtime::event::Event<Lax>| {
                let is_deleted = matches!(event, operator_runtime::event::Event::Delete { .. });
                let _ = events.send((is_deleted, event.object().spec.size));
                Vec::new()
            }),
        ))
        .unwrap();
    let running = run(&manager);
    assert_eq!(in_time(of_typed.recv()).await, Some((false, 1)));
    lax.data["spec"]["size"] = json!("large");
    laxes.replace("bad", &PostParams::default(), &lax).await.unwrap();
    of_whole.next().await;
    laxes.delete("bad", &Default::default()).await.unwrap();
    assert_eq!(in_time(of_typed.recv()).await, Some((true, 1)));
    running.end().await.unwrap();
}

/// A type whose decoding panics for some values.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
struct Touchy(i32);

impl<'de> serde::Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let size = i32::deserialize(deserializer)?;
        assert!(size >= 0, "nobody thought of {size}");
        Ok(Self(size))
    }
}

#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
struct TouchyWidget {
    metadata: kube::core::ObjectMeta,
    spec: TouchySpec,
}

#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
struct TouchySpec {
    size: Touchy,
}

impl kube::Resource for TouchyWidget {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &kube::core::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test]
async fn panic_of_a_type_affects_one_object() {
    let bench = Bench::new().await;
    bench.create("good", 1).await;
    bench.create("bad", -1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let (client, cache) = (manager.client(), manager.cache());
    let error = client.get::<TouchyWidget>(&key("bad")).await.unwrap_err();
    assert!(
        error.to_string().contains("panic: nobody thought of -1"),
        "{error}"
    );
    let good = client.get::<TouchyWidget>(&key("good")).await.unwrap().unwrap();
    assert_eq!(good.spec.size, Touchy(1));
    for (name, size) in [("good", -1), ("good", 2), ("bad", 3)] {
        bench.resize(name, size).await;
    }
    in_time(async {
        for (name, size) in [("good", 2), ("bad", 3)] {
            let is_so = async || {
                let widget = client.get::<TouchyWidget>(&key(name)).await;
                widget.is_ok_and(|widget| widget.unwrap().spec.size == Touchy(size))
            };
            while !is_so().await {
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    assert!(cache.unhealthy().is_empty());
    running.end().await.unwrap();
}
