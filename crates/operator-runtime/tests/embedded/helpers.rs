//! Pruning, what OLM is told, and reconcilers written for kube-rs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action as KubeAction;
use operator_runtime::kube_adapter;
use operator_runtime::operator_condition::{OperatorCondition, UPGRADEABLE};
use operator_runtime::prelude::*;
use operator_runtime::prune::{PruneError, Pruner};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{Bench, Widget, config_map, in_time, run};

#[tokio::test]
async fn pruner_deletes_what_is_not_kept_and_nothing_when_dry() {
    let bench = Bench::without_widgets();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    for name in ["a", "b", "c"] {
        let mut backup = config_map(name, "1");
        backup.metadata.labels = Some([("app".to_owned(), "backup".to_owned())].into());
        config_maps.create(&PostParams::default(), &backup).await.unwrap();
    }
    config_maps
        .create(&PostParams::default(), &config_map("other", "1"))
        .await
        .unwrap();
    let pruner = || {
        Pruner::of::<ConfigMap>(bench.client.clone())
            .namespace("default")
            .labels("app=backup")
    };
    let unsaid = pruner().run().await.unwrap_err();
    assert!(matches!(unsaid, PruneError::NoStrategy(_)), "{unsaid}");
    assert_eq!(
        pruner()
            .older_than(Duration::from_secs(3600))
            .run()
            .await
            .unwrap(),
        []
    );
    let outdated = [
        ObjectKey::namespaced("default", "a"),
        ObjectKey::namespaced("default", "b"),
    ];
    assert_eq!(pruner().keep_newest(1).dry_run().run().await.unwrap(), outdated);
    assert_eq!(
        config_maps
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );

    let picky = pruner()
        .keep_newest(1)
        .only(|object| object.metadata.name.as_deref() != Some("a"));
    assert_eq!(picky.run().await.unwrap(), outdated[1..]);
    assert_eq!(pruner().keep_newest(1).run().await.unwrap(), outdated[..1]);
    let left = config_maps.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<_> = left.into_iter().filter_map(|left| left.metadata.name).collect();
    assert_eq!(left, ["c", "other"]);
}

#[tokio::test]
async fn pruner_leaves_pods_that_have_not_succeeded() {
    let bench = Bench::without_widgets();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(bench.client.clone());
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(bench.client.clone());
    for (name, phase) in [("done", "Succeeded"), ("running", "Running")] {
        let containers = json!([{"name": "c", "image": "example.com/c:1"}]);
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        pods.patch_status(name, &PatchParams::default(), &status)
            .await
            .unwrap();
    }
    bench
        .network
        .refuse(|request| request.starts_with("DELETE").then_some(500));
    let pruner = || {
        Pruner::of::<Pod>(bench.client.clone())
            .only(|_| true)
            .older_than(Duration::from_nanos(1))
    };
    let error = pruner().run().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot prune Pod default/done");
    bench.network.heal();
    assert_eq!(
        pruner().run().await.unwrap(),
        [ObjectKey::namespaced("default", "done")]
    );

    // What is finished, and what of it goes, can be said otherwise.
    let none = Pruner::of::<Pod>(bench.client.clone()).finished_when(|_| true);
    assert!(none.run().await.is_err(), "nothing says what to keep");
    let picky = Pruner::of::<Pod>(bench.client.clone())
        .finished_when(|pod| pod.data["status"]["phase"] == "Running")
        .strategy(|mut pods| pods.split_off(pods.len() - 1));
    let running = ObjectKey::namespaced("default", "running");
    assert_eq!(picky.run().await.unwrap(), [running]);
}

#[tokio::test]
async fn olm_is_told_once() {
    let bench = Bench::without_widgets();
    let crd = json!({
        "metadata": {"name": "operatorconditions.operators.coreos.com"},
        "spec": {
            "group": "operators.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": "operatorconditions", "kind": "OperatorCondition"},
            "versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let crds = Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(bench.client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap())
        .await
        .unwrap();
    let olm = OperatorCondition::new(bench.client.clone(), "default", "memcached-operator.v1");
    assert!(
        olm.get(UPGRADEABLE)
            .await
            .unwrap_err()
            .to_string()
            .contains("memcached-operator.v1")
    );
    let gvk = kube::core::GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    let resource = kube::api::ApiResource::from_gvk(&gvk);
    let made = kube::api::DynamicObject::new("memcached-operator.v1", &resource);
    let api: Api<kube::api::DynamicObject> = Api::default_namespaced_with(bench.client.clone(), &resource);
    api.create(&PostParams::default(), &made).await.unwrap();

    assert_eq!(olm.get(UPGRADEABLE).await.unwrap(), None);
    let busy = || Condition::new(UPGRADEABLE, false, "Migrating", "A migration is running");
    assert!(olm.set(busy()).await.unwrap());
    let since = olm.get(UPGRADEABLE).await.unwrap().unwrap();
    assert!(!since.is_true() && since.last_transition_time.is_some());
    bench.network.take_writes();
    assert!(!olm.set(busy()).await.unwrap());
    assert_eq!(bench.network.take_writes(), [""; 0]);
}

/// What somebody wrote for kube-rs.
mod written_for_kube {
    use super::*;

    #[derive(Debug)]
    pub(super) struct TooSmall;

    impl std::fmt::Display for TooSmall {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("too small")
        }
    }

    impl std::error::Error for TooSmall {}

    pub(super) struct Ctx {
        pub(super) seen: mpsc::UnboundedSender<(String, i32)>,
        pub(super) failures: Mutex<i32>,
    }

    pub(super) async fn reconcile(widget: Arc<Widget>, ctx: Arc<Ctx>) -> Result<KubeAction, TooSmall> {
        let name = widget.metadata.name.clone().unwrap_or_default();
        let _ = ctx.seen.send((name, widget.spec.size));
        match widget.spec.size {
            0 => Err(TooSmall),
            _ => Ok(KubeAction::await_change()),
        }
    }

    /// Tries twice more.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "this is the signature that kube-rs wants"
    )]
    pub(super) fn error_policy(_: Arc<Widget>, _: &TooSmall, ctx: Arc<Ctx>) -> KubeAction {
        let mut failures = ctx.failures.lock();
        *failures += 1;
        match *failures {
            3 => KubeAction::await_change(),
            _ => KubeAction::requeue(Duration::from_millis(1)),
        }
    }
}

#[tokio::test]
async fn reconciler_for_kube_runs_unchanged() {
    use written_for_kube::{Ctx, error_policy, reconcile};

    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (seen, mut told) = mpsc::unbounded_channel();
    let ctx = Arc::new(Ctx {
        seen,
        failures: Mutex::default(),
    });
    manager
        .add_controller(Controller::new(kube_adapter::reconciler(
            reconcile,
            error_policy,
            ctx.clone(),
        )))
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    assert_eq!(in_time(told.recv()).await, Some(("a".to_owned(), 1)));
    bench.create("small", 0).await;
    for _ in 0..3 {
        assert_eq!(in_time(told.recv()).await, Some(("small".to_owned(), 0)));
    }
    bench.delete("small").await;
    bench.resize("a", 2).await;
    let next = in_time(told.recv()).await;
    assert_eq!(
        next,
        Some(("a".to_owned(), 2)),
        "nothing is reconciled that is gone"
    );
    running.end().await.unwrap();
    let metrics = manager.metrics().to_text();
    let errors =
        |result, count| format!("reconcile_total{{controller=\"widget\",result=\"{result}\"}} {count}\n");
    assert!(metrics.contains(&errors("error", 3)), "{metrics}");
    assert_eq!(*ctx.failures.lock(), 3);
}
