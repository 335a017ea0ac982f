//! Tests of disabled plug-ins.

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use super::asking::{delete, post};
use super::{HERE, named};

fn without(plugin: &str) -> ApiServer {
    let builder = ApiServer::builder().disable_admission_plugins([plugin]);
    builder.build().unwrap()
}

fn with() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

#[tokio::test]
async fn without_namespace_lifecycle_a_namespace_need_not_exist() {
    let path = "/api/v1/namespaces/missing/configmaps";
    let refused = post(&with(), path, named("a")).await;
    refused.is_refused(404, "namespaces \"missing\" not found");
    post(&without("NamespaceLifecycle"), path, named("a"))
        .await
        .is_done();
    let refused = delete(&with(), HERE).await;
    refused.is_refused(403, "this namespace may not be deleted");
    delete(&without("NamespaceLifecycle"), HERE).await.is_done();
}

#[tokio::test]
async fn without_taint_nodes_by_condition_a_node_has_no_taint() {
    for (server, taints) in [
        (
            with(),
            json!([{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]),
        ),
        (without("TaintNodesByCondition"), Value::Null),
    ] {
        let node = post(&server, "/api/v1/nodes", named("n")).await;
        assert_eq!(node.body["spec"]["taints"], taints);
    }
}

#[tokio::test]
async fn disabled_storage_object_in_use_protection_adds_no_finalizer() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let path = format!("{HERE}/persistentvolumeclaims");
    for (server, finalizers) in [
        (with(), json!(["kubernetes.io/pvc-protection"])),
        (without("StorageObjectInUseProtection"), Value::Null),
    ] {
        let made = post(&server, &path, claim.clone()).await;
        assert_eq!(made.body["metadata"]["finalizers"], finalizers);
    }
}
