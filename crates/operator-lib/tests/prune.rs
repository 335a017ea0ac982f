//! Pruning on an embedded control plane.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use operator_envtest::{Controllers, Interceptor, TestEnv, Then};
use operator_lib::prune::{PruneError, Pruner};
use operator_runtime::ObjectKey;
use serde_json::json;

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some(name.to_owned());
    config_map.data = Some([("value".to_owned(), value.to_owned())].into());
    config_map
}

#[tokio::test]
async fn pruner_deletes_objects_unless_dry_run() {
    let env = TestEnv::builder()
        .controllers(Controllers::None)
        .start()
        .await
        .unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(env.client());
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
        Pruner::of::<ConfigMap>(env.client())
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
    let env = TestEnv::builder()
        .controllers(Controllers::None)
        .start()
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(env.client());
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
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
    let pruner = |client: Client| {
        Pruner::of::<Pod>(client)
            .only(|_| true)
            .older_than(Duration::from_nanos(1))
    };
    let refusing = Interceptor::new(|call| match call.is("delete", "pods") {
        true => Then::fail(500, "InternalError", "etcdserver: leader changed"),
        false => Then::Proceed,
    });
    let error = pruner(refusing.client(env.client())).run().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot prune Pod default/done");
    assert_eq!(
        pruner(env.client()).run().await.unwrap(),
        [ObjectKey::namespaced("default", "done")]
    );

    // Custom functions for finished objects and for the selection.
    let none = Pruner::of::<Pod>(env.client()).finished_when(|_| true);
    assert!(none.run().await.is_err(), "no limit is set");
    let picky = Pruner::of::<Pod>(env.client())
        .finished_when(|pod| pod.data["status"]["phase"] == "Running")
        .strategy(|mut pods| pods.split_off(pods.len() - 1));
    let running = ObjectKey::namespaced("default", "running");
    assert_eq!(picky.run().await.unwrap(), [running]);
}
