//! The objects that the cache keeps by namespace, and those that lists select.

use std::time::Duration;

use crate::support::{
    Bench, Widget, config_map, in_time, indexed, key, labelled, observe_widgets, run, within,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator_runtime::cache::{CacheOptions, Namespaces, SyncPeriod, Transforms, WatchOptions};
use operator_runtime::manager::ManagerOptions;
use operator_runtime::{Client, prelude::*};
use serde_json::json;

/// Creates namespaces in addition to `default`.
async fn namespaces(bench: &Bench, names: &[&str]) {
    let api: Api<Namespace> = Api::all(bench.client.clone());
    for name in names {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }
}

/// Creates a ConfigMap with the label `tier`, if given.
async fn create(bench: &Bench, namespace: &str, name: &str, tier: Option<&str>) {
    let mut config = config_map(name, "1");
    config.metadata.labels = tier.map(|tier| [("tier".to_owned(), tier.to_owned())].into());
    let api: Api<ConfigMap> = Api::namespaced(bench.client.clone(), namespace);
    api.create(&PostParams::default(), &config).await.unwrap();
}

async fn names(client: &Client, options: impl Into<ListOptions>) -> Vec<String> {
    let configs = client.list::<ConfigMap>().options(options).await.unwrap();
    let full =
        |config: &std::sync::Arc<ConfigMap>| format!("{}/{}", config.namespace().unwrap(), config.name_any());
    configs.iter().map(full).collect()
}

async fn until_there(client: &Client, namespace: &str, name: &str) {
    in_time(async {
        while client
            .get::<ConfigMap>((namespace, name))
            .await
            .unwrap()
            .is_none()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_namespace_is_kept_completely_and_the_others_by_label() {
    let bench = Bench::new().await;
    namespaces(&bench, &["a", "b"]).await;
    for namespace in ["a", "b"] {
        create(&bench, namespace, "plain", None).await;
        create(&bench, namespace, "front", Some("front")).await;
    }
    let kept = Namespaces::from([("a", WatchOptions::default()), ("", labelled("tier=front").watch)]);
    let kinds = [(Kind::of::<ConfigMap>(), within(kept))].into();
    let manager = bench
        .manager_with(CacheOptions {
            kinds,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let client = manager.client();
    assert_eq!(names(client, None).await, ["a/front", "a/plain", "b/front"]);
    // After new lists, neither watch treats the objects of the other as deleted.
    bench.network.refuse(|request| {
        (request.contains("/configmaps?")
            && request.contains("watch=true")
            && !request.contains("sendInitialEvents"))
        .then_some(410)
    });
    bench.network.cut_watches();
    in_time(async {
        let streamed =
            |request: &str| request.contains("/configmaps?") && request.contains("sendInitialEvents");
        while bench.network.count(streamed) < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    bench.network.heal();
    create(&bench, "a", "late", None).await;
    create(&bench, "b", "late", Some("front")).await;
    until_there(client, "a", "late").await;
    until_there(client, "b", "late").await;
    let all = ["a/front", "a/late", "a/plain", "b/front", "b/late"];
    assert_eq!(names(client, None).await, all);
    let asked = bench.network.requests(|request| request.contains("/configmaps?"));
    let others = "fieldSelector=metadata.namespace%21%3Da";
    assert!(asked.iter().any(|request| request.contains(others)), "{asked:?}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn read_in_an_unwatched_namespace_is_an_error() {
    let bench = Bench::new().await;
    let manager = bench
        .manager_with(CacheOptions {
            namespaces: ["default"].into(),
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let client = manager.client();
    let error = client.get::<Widget>(("elsewhere", "a")).await.unwrap_err();
    let told = "unable to get: elsewhere/a because of unknown namespace for the cache";
    assert!(error.to_string().contains(told), "{error}");
    let error = client.list::<Widget>().namespace("elsewhere").await.unwrap_err();
    let told = "unable to list: elsewhere because of unknown namespace for the cache";
    assert!(error.to_string().contains(told), "{error}");
    assert!(
        client
            .list::<Widget>()
            .namespace("default")
            .await
            .unwrap()
            .is_empty()
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn namespaces_of_a_cluster_scoped_kind_are_an_error() {
    let bench = Bench::new().await;
    let options = CacheOptions {
        kinds: [(Kind::of::<Node>(), within(["a"]))].into(),
        ..CacheOptions::default()
    };
    let error = Manager::new(
        "tester",
        ManagerOptions {
            cache_options: options.clone(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .map(drop)
    .unwrap_err()
    .to_string();
    assert!(
        error.starts_with("type Node is not namespaced, but its namespaces setting"),
        "{error}"
    );
    let manager = bench.manager().await;
    let added = manager.add_cluster("other", bench.client.clone(), options);
    assert!(added.is_err());
}

#[tokio::test]
async fn namespaces_have_their_own_transforms_and_sync_periods() {
    let bench = Bench::new().await;
    namespaces(&bench, &["a", "b"]).await;
    let widgets = |namespace: &str| Api::<Widget>::namespaced(bench.client.clone(), namespace);
    for namespace in ["a", "b"] {
        let widget = Widget::new("w", crate::support::WidgetSpec { size: 1 });
        widgets(namespace)
            .create(&PostParams::default(), &widget)
            .await
            .unwrap();
    }
    let often = WatchOptions {
        sync_period: Some(SyncPeriod::Every(Duration::from_millis(20))),
        transforms: Transforms::default().of::<Widget>(|widget| widget.spec.size = 100),
        ..WatchOptions::default()
    };
    let manager = bench
        .manager_with(CacheOptions {
            namespaces: [("b", WatchOptions::default()), ("a", often)].into(),
            ..CacheOptions::default()
        })
        .await;
    let mut told = observe_widgets(&manager);
    let running = run(&manager);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(told.next().await);
    }
    let of = |namespace: &str| {
        seen.iter()
            .filter(|(key, _)| key.namespace() == Some(namespace))
            .count()
    };
    assert_eq!((of("a"), of("b")), (4, 1), "{seen:?}");
    for (key, size) in &seen {
        assert_eq!(*size, Some(if key.namespace() == Some("a") { 100 } else { 1 }));
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn metadata_transform_applies_to_every_kind() {
    let bench = Bench::new().await;
    let transforms = Transforms::default().of_metadata(|metadata| metadata.annotations = None);
    let manager = bench
        .manager_with(CacheOptions {
            transforms,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    bench.create("a", 1).await;
    let note =
        Patch::Merge(json!({"metadata": {"annotations": {"note": "long"}, "labels": {"kept": "yes"}}}));
    bench
        .widgets()
        .patch("a", &PatchParams::default(), &note)
        .await
        .unwrap();
    let widget = manager.client().get::<Widget>(&key("a")).await.unwrap().unwrap();
    assert_eq!((widget.annotations().len(), widget.labels().len()), (0, 1));
    running.end().await.unwrap();
}

#[tokio::test]
async fn lists_select_by_fields_labels_and_indexes_together() {
    let bench = Bench::new().await;
    for (name, tier) in [
        ("a", Some("front")),
        ("b", Some("back")),
        ("c", None),
        ("d", Some("front")),
    ] {
        create(&bench, "default", name, tier).await;
    }
    let manager = bench
        .manager_with(CacheOptions {
            namespaces: ["default"].into(),
            ..CacheOptions::default()
        })
        .await;
    let tier = |config: &ConfigMap| config.labels().get("tier").cloned().into_iter().collect();
    let letter = |config: &ConfigMap| {
        vec![
            if config.name_any().as_str() < "c" {
                "early"
            } else {
                "late"
            }
            .to_owned(),
        ]
    };
    manager.cache().add_index::<ConfigMap>("tier", tier).unwrap();
    manager
        .cache()
        .add_index::<ConfigMap>("spec.letter", letter)
        .unwrap();
    let running = run(&manager);
    let client = manager.client();
    let list = async |options: ListOptions| names(client, options).await;
    let front = || indexed("tier", "front");
    let fields = |selector: &str| ListOptions {
        fields: selector.into(),
        ..ListOptions::default()
    };
    let with_tier = || kube::core::Expression::Exists("tier".to_owned()).into();
    assert_eq!(list(front()).await, ["default/a", "default/d"]);
    assert_eq!(
        list(ListOptions {
            fields: ("spec.letter", "late").into(),
            ..front()
        })
        .await,
        ["default/d"]
    );
    assert_eq!(
        list(fields("spec.letter=early,metadata.name==b")).await,
        ["default/b"]
    );
    assert_eq!(list(fields("metadata.namespace=other")).await, [""; 0]);
    assert_eq!(
        list(ListOptions {
            labels: with_tier(),
            ..fields("spec.letter=late")
        })
        .await,
        ["default/d"]
    );
    let two = ListOptions {
        labels: with_tier(),
        limit: Some(2),
        ..ListOptions::default()
    };
    assert_eq!(list(two).await.len(), 2);
    let mut own = config_map("e", "1");
    own.metadata.namespace = Some("default".to_owned());
    own.metadata.labels = Some([("tier".to_owned(), "front".to_owned())].into());
    bench.network.hold_watches(true);
    client.create(own).await.unwrap();
    assert_eq!(
        list(ListOptions {
            fields: ("spec.letter", "late").into(),
            ..front()
        })
        .await,
        ["default/d", "default/e"]
    );
    bench.network.hold_watches(false);

    let failed = async |options: ListOptions| {
        let listed = client.list::<ConfigMap>().options(options).await;
        listed.unwrap_err().to_string()
    };
    assert_eq!(
        failed(fields("spec.letter!=late")).await,
        "cannot list ConfigMap from the cache: non-exact field matches are not supported by the cache"
    );
    let error = failed(fields("spec.nodeName=n")).await;
    assert!(error.contains(r#"no index "spec.nodeName""#), "{error}");
    let error = failed(fields("nonsense")).await;
    assert!(
        error.contains("invalid selector: 'nonsense'; can't understand 'nonsense'"),
        "{error}"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn read_before_the_start_is_an_error() {
    let bench = Bench::new().await;
    let manager = bench
        .manager_with(CacheOptions {
            read_timeout: Duration::from_millis(10),
            ..CacheOptions::default()
        })
        .await;
    let error = manager.client().get::<Widget>(&key("a")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the cache is not started, can not read objects"),
        "{error}"
    );
}
