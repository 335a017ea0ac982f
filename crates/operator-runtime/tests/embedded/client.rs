//! The client on the embedded API server: sent and skipped requests, and later reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{
    Bench, Running, Widget, WidgetStatus, config_map, in_time, key, labelled, of_tier, reconciling, run,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator_runtime::client::Written;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use serde_json::json;

/// Starts a manager that watches the kinds of the tests.
async fn start(bench: &Bench) -> (Manager, Running) {
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<Widget>().await.unwrap();
    manager.client().list::<ConfigMap>().await.unwrap();
    bench.network.take_writes();
    (manager, running)
}

fn in_default(mut object: ConfigMap) -> ConfigMap {
    object.metadata.namespace = Some("default".to_owned());
    object
}

#[tokio::test]
async fn apply_that_changes_nothing_is_not_sent() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    let network = bench.network.clone();
    reconciling(&manager, async move |ctx| {
        let first = ctx.apply(in_default(config_map("a", "1"))).await.unwrap();
        assert!(first.was_sent());
        assert_eq!(network.take_writes().len(), 1);
        for _ in 0..3 {
            let again = ctx.apply(in_default(config_map("a", "1"))).await.unwrap();
            assert_eq!(again, Written::Unchanged(again.object().clone()));
            assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
        }
        assert_eq!(network.take_writes(), [""; 0]);
    })
    .await;
    let metrics = manager.metrics().to_text();
    assert!(
        metrics.contains(r#"operator_runtime_writes_skipped_total{kind="ConfigMap"} 3"#),
        "{metrics}"
    );

    let changed = manager
        .client()
        .apply(in_default(config_map("a", "2")))
        .await
        .unwrap();
    assert_eq!(changed.data.as_ref().unwrap()["value"], "2");
    assert_eq!(bench.network.take_writes().len(), 1);
    running.end().await.unwrap();
}

/// Returns a Deployment with many defaulted fields.
fn deployment(image: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "web", "image": image, "args": ["-v"],
                        "ports": [{"name": "http", "containerPort": 80}],
                        "env": [{"name": "A", "value": "1"}],
                        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
                        "securityContext": {"capabilities": {"drop": ["ALL"]}},
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn apply_of_a_defaulted_object_is_recognised_after_a_restart() {
    let bench = Bench::new().await;
    let owner = bench.create("owner", 1).await;
    let (manager, running) = start(&bench).await;
    manager
        .client()
        .apply_owned(&owner, deployment("web:1"))
        .await
        .unwrap();
    running.end().await.unwrap();

    let (manager, running) = start(&bench).await;
    manager.client().list::<Deployment>().await.unwrap();
    let network = bench.network.clone();
    reconciling(&manager, async move |ctx| {
        let known = ctx.apply_owned(&owner, deployment("web:1")).await.unwrap();
        assert_eq!(network.take_writes(), [""; 0]);
        assert_eq!(known.spec.revision_history_limit, Some(10));
        ctx.apply_owned(&owner, deployment("web:2")).await.unwrap();
        assert_eq!(network.take_writes().len(), 1);
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn field_that_is_no_longer_applied_is_removed() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    let mut two = in_default(config_map("a", "1"));
    two.data
        .as_mut()
        .unwrap()
        .insert("second".to_owned(), "2".to_owned());
    manager.client().apply(two).await.unwrap();
    let one = manager
        .client()
        .apply(in_default(config_map("a", "1")))
        .await
        .unwrap();
    assert_eq!(one.data.as_ref().unwrap().len(), 1);
    running.end().await.unwrap();
}

#[tokio::test]
async fn change_by_another_client_is_repaired() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    manager
        .client()
        .apply(in_default(config_map("a", "1")))
        .await
        .unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let patch = Patch::Merge(json!({"data": {"value": "tampered", "foreign": "stays"}}));
    let tampered = configs.patch("a", &PatchParams::default(), &patch).await.unwrap();
    wait_for(&manager, &tampered).await;
    let repaired = manager
        .client()
        .apply(in_default(config_map("a", "1")))
        .await
        .unwrap();
    let data = repaired.data.as_ref().unwrap();
    assert_eq!((data["value"].as_str(), data["foreign"].as_str()), ("1", "stays"));
    running.end().await.unwrap();
}

/// Waits until the cache has the write of another client.
async fn wait_for(manager: &Manager, written: &ConfigMap) {
    in_time(async {
        loop {
            let known = manager
                .client()
                .get::<ConfigMap>(ObjectKey::of(written))
                .await
                .unwrap();
            if known.is_some_and(|known| known.metadata.resource_version == written.metadata.resource_version)
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn reads_see_own_writes_without_the_watch() {
    let bench = Bench::new().await;
    bench
        .network
        .refuse(|request| request.contains("watch=true").then_some(500));
    let (manager, running) = start(&bench).await;
    let client = manager.client();
    for value in ["1", "2", "3"] {
        client.apply(in_default(config_map("a", value))).await.unwrap();
        let read = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["value"], value);
    }
    assert_eq!(
        client
            .list::<ConfigMap>()
            .namespace("default")
            .await
            .unwrap()
            .iter()
            .filter(|config| config.metadata.name.as_deref() == Some("a"))
            .count(),
        1
    );
    let last = client.get::<ConfigMap>(&key("a")).await.unwrap().unwrap();
    client.delete(&*last).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_none());
    client.delete(&*last).await.unwrap();
    running.end().await.unwrap();
}

#[tokio::test]
async fn status_is_sent_only_when_it_changes() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    let client = manager.client();
    let widget = bench.create("a", 1).await;
    let set = |size: i32| {
        move |status: &mut WidgetStatus| {
            status.conditions.set(Condition::available(true, "Ready", ""));
            status.size = Some(size);
        }
    };
    let widget = Arc::new(widget);
    let written = client.update_status(&widget, set(1)).await.unwrap();
    let status = written.status.clone().unwrap();
    assert_eq!(status.size, Some(1));
    assert_eq!(
        status.conditions.find("Available").unwrap().observed_generation,
        Some(1)
    );
    assert_eq!(bench.network.take_writes().len(), 2);

    let network = bench.network.clone();
    reconciling(&manager, async move |ctx| {
        let again = ctx.update_status(written.object(), set(1)).await.unwrap();
        assert!(!again.was_sent());
        assert_eq!(again.metadata.resource_version, written.metadata.resource_version);
        assert_eq!(network.take_writes(), [""; 0]);
        // One part is unchanged, the other one is changed.
        let other = ctx.update_status(written.object(), set(2)).await.unwrap();
        assert_eq!(other.status.as_ref().unwrap().size, Some(2));
        assert_eq!(network.take_writes().len(), 1);
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn condition_of_another_controller_survives_a_stale_write() {
    let bench = Bench::new().await;
    bench
        .network
        .refuse(|request| request.contains("watch=true").then_some(500));
    let (manager, running) = start(&bench).await;
    let stale = bench.create("a", 1).await;
    let foreign = Patch::Merge(json!({"status": {"conditions": [{
        "type": "Foreign", "status": "True", "reason": "Else", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}}));
    bench
        .widgets()
        .patch_status("a", &PatchParams::default(), &foreign)
        .await
        .unwrap();

    let own = Condition::available(true, "Ready", "");
    let written = manager
        .client()
        .update_status(&Arc::new(stale), |status| {
            status.conditions.set(own.clone());
        })
        .await
        .unwrap();
    let conditions = &written.status.as_ref().unwrap().conditions;
    assert!(
        conditions.is_true("Foreign") && conditions.is_true("Available"),
        "{conditions:?}"
    );
    let metrics = manager.metrics().to_text();
    assert!(
        metrics.contains(r#"operator_runtime_conflicts_retried_total{kind="Widget.example.com"} 1"#),
        "{metrics}"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn invalid_owner_is_an_error_before_the_request() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    let owner = bench.create("a", 1).await;
    bench.network.take_writes();
    let mut elsewhere = config_map("a", "1");
    elsewhere.metadata.namespace = Some("kube-system".to_owned());
    let error = manager.client().apply_owned(&owner, elsewhere).await.unwrap_err();
    assert!(error.to_string().contains("cannot own"), "{error}");
    assert_eq!(bench.network.take_writes(), [""; 0]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn error_of_the_server_names_the_object() {
    let bench = Bench::new().await;
    let (manager, running) = start(&bench).await;
    bench
        .network
        .refuse(|request| request.starts_with("PATCH").then_some(403));
    let refused = manager.client().apply(in_default(config_map("a", "1"))).await;
    let error = Error::from(refused.unwrap_err());
    assert_eq!(
        error.to_string(),
        "cannot apply ConfigMap default/a: the test refuses this PATCH"
    );
    assert_eq!(error.status().unwrap().code, 403);
    running.end().await.unwrap();
}

#[tokio::test]
async fn object_that_does_not_fit_its_type_is_an_error_of_its_key() {
    let bench = Bench::new().await;
    let loose: serde_json::Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let crds: Api<kube::api::DynamicObject> = Api::all_with(
        bench.client.clone(),
        &kube::core::ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&()),
    );
    crds.create(&PostParams::default(), &serde_json::from_value(loose).unwrap())
        .await
        .unwrap();
    let kind = kube::core::ApiResource::erase::<Gadget>(&());
    let gadgets: Api<kube::api::DynamicObject> = Api::default_namespaced_with(bench.client.clone(), &kind);
    for (name, size) in [("good", json!(1)), ("bad", json!("large"))] {
        let gadget = json!({
            "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": size},
        });
        gadgets
            .create(&PostParams::default(), &serde_json::from_value(gadget).unwrap())
            .await
            .unwrap();
    }
    let (manager, running) = start(&bench).await;
    assert_eq!(manager.client().list::<Gadget>().await.unwrap().len(), 1);
    let error = manager
        .client()
        .get::<Gadget>(&key("bad"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Gadget.example.com default/bad does not fit its type"),
        "{error}"
    );
    assert!(manager.cache().unhealthy().is_empty());
    let metrics = manager.metrics().to_text();
    assert!(
        metrics.contains(r#"operator_runtime_quarantined_objects{kind="Gadget.example.com"} 1"#),
        "{metrics}"
    );
    running.end().await.unwrap();
}

/// A kind with fewer validations than its type.
#[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    size: i32,
}

#[tokio::test]
async fn only_the_named_namespaces_are_watched() {
    let bench = Bench::new().await;
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            namespaces: ["default"].map(str::to_owned).to_vec(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    let elsewhere = ObjectKey::namespaced("kube-system", "a");
    let error = manager
        .client()
        .get::<Widget>(elsewhere)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not watched"), "{error}");
    in_time(async {
        while manager.client().get::<Widget>(&key("a")).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn repeated_events_are_one_object_with_a_count() {
    use k8s_openapi::api::events::v1::Event;
    let bench = Bench::new().await;
    let widget = bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    for _ in 0..3 {
        manager.recorder().event(&widget).normal("Created", "Created it");
    }
    manager
        .recorder()
        .event(&widget)
        .warning("Broken", "It is broken");
    running.end().await.unwrap();
    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    let mut events = events.list(&Default::default()).await.unwrap().items;
    events.sort_by_key(|event| event.reason.clone());
    let reasons: Vec<_> = events
        .iter()
        .map(|event| event.reason.as_deref().unwrap())
        .collect();
    assert_eq!(reasons, ["Broken", "Created"]);
    assert_eq!(events[1].series.as_ref().unwrap().count, 3);
    assert_eq!(events[1].regarding.as_ref().unwrap().uid, widget.metadata.uid);
    assert_eq!(events[1].reporting_controller.as_deref(), Some("tester"));
}

#[tokio::test]
async fn election_decides_when_controllers_run() {
    struct TestElection {
        won: Arc<tokio::sync::Notify>,
        released: Arc<AtomicUsize>,
        lost: Arc<tokio::sync::Notify>,
    }
    impl operator_runtime::election::Election for TestElection {
        fn acquire(&mut self) -> futures::future::BoxFuture<'_, Result<()>> {
            Box::pin(async {
                self.won.notified().await;
                Ok(())
            })
        }
        fn keep(&mut self) -> futures::future::BoxFuture<'_, Error> {
            Box::pin(async {
                self.lost.notified().await;
                Error::msg("leader election lost")
            })
        }
        fn release(&mut self) -> futures::future::BoxFuture<'_, ()> {
            self.released.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        }
    }
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let (won, lost, released) = (
        Arc::<tokio::sync::Notify>::default(),
        Arc::<tokio::sync::Notify>::default(),
        Arc::<AtomicUsize>::default(),
    );
    let election = TestElection {
        won: won.clone(),
        lost: lost.clone(),
        released: released.clone(),
    };
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            election: Some(Box::new(election)),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let (reconciler, mut told) = crate::support::teller(|_, _| std::future::pending());
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let running = run(&manager);
    manager.client().list::<Widget>().await.unwrap();
    assert_eq!(told.unheard(), []);
    won.notify_one();
    told.until("a", Some(1)).await;
    in_time(manager.elected()).await;
    // A blocked reconcile does not delay the end, because another instance may already lead.
    lost.notify_one();
    assert_eq!(
        running.ended().await.unwrap_err().to_string(),
        "leader election lost"
    );
}

#[tokio::test]
async fn cache_keeps_only_selected_objects() {
    use operator_runtime::cache::CacheOptions;
    let bench = Bench::new().await;
    let kinds = [(Kind::of::<ConfigMap>(), labelled("tier=front"))].into();
    let options = CacheOptions {
        kinds,
        ..CacheOptions::default()
    };
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            cache_options: options,
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    for (name, tier) in [("kept", "front"), ("left-out", "back")] {
        let mut config = config_map(name, "1");
        config.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        configs.create(&PostParams::default(), &config).await.unwrap();
    }
    let running = run(&manager);
    let all = manager.client().list::<ConfigMap>().await.unwrap();
    let names: Vec<_> = all
        .iter()
        .filter_map(|config| config.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["kept"]);
    let none = of_tier("back");
    assert!(
        manager
            .client()
            .list::<ConfigMap>()
            .options(none)
            .await
            .unwrap()
            .is_empty()
    );
    running.end().await.unwrap();
}
