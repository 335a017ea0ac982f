//! Tests of DefaultStorageClass, DefaultIngressClass, PersistentVolumeClaimResize, RuntimeClass and PodTopologyLabels.

use serde_json::{Value, json};

use crate::asking::{get, merge, post};
use crate::{HERE, pod, server};

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_default_one() {
    let server = server().await;
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let claims = format!("{HERE}/persistentvolumeclaims");
    let made = post(&server, &claims, claim("before")).await;
    assert_eq!(made.body["spec"]["storageClassName"], Value::Null);
    for name in ["b", "a"] {
        let marked = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"metadata": {"name": name, "annotations": marked}, "provisioner": "p"});
        post(&server, classes, class).await.is_done();
    }
    let made = post(&server, &claims, claim("after")).await;
    assert_eq!(made.body["spec"]["storageClassName"], "a");
    let mut none = claim("none");
    none["spec"]["storageClassName"] = "".into();
    let made = post(&server, &claims, none).await;
    assert_eq!(made.body["spec"]["storageClassName"], "");
}

#[tokio::test]
async fn an_ingress_without_a_class_gets_the_default_one() {
    let server = server().await;
    let marked = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class =
        json!({"metadata": {"name": "c", "annotations": marked}, "spec": {"controller": "example.com/c"}});
    post(&server, "/apis/networking.k8s.io/v1/ingressclasses", class)
        .await
        .is_done();
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let made = post(
        &server,
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        ingress,
    )
    .await;
    assert_eq!(made.body["spec"]["ingressClassName"], "c");
}

#[tokio::test]
async fn a_bound_claim_grows_only_if_its_class_allows_expansion() {
    let server = server().await;
    let class = json!({"metadata": {"name": "s"}, "provisioner": "p"});
    post(&server, "/apis/storage.k8s.io/v1/storageclasses", class)
        .await
        .is_done();
    let mut bound = claim("c");
    bound["spec"]["storageClassName"] = "s".into();
    bound["spec"]["volumeName"] = "v".into();
    let path = format!("{HERE}/persistentvolumeclaims");
    post(&server, &path, bound).await.is_done();
    let path = format!("{path}/c");
    merge(
        &server,
        &format!("{path}/status"),
        json!({"status": {"phase": "Bound"}}),
    )
    .await
    .is_done();
    let more = || json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    merge(&server, &path, more()).await.is_refused(
        403,
        "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    );
    let grows = json!({"allowVolumeExpansion": true});
    merge(&server, "/apis/storage.k8s.io/v1/storageclasses/s", grows)
        .await
        .is_done();
    merge(&server, &path, more()).await.is_done();
}

#[tokio::test]
async fn a_pod_gets_the_overhead_and_scheduling_of_its_runtime_class() {
    let server = server().await;
    let class = json!({
        "metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "r"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
    });
    post(&server, "/apis/node.k8s.io/v1/runtimeclasses", class)
        .await
        .is_done();
    let pods = format!("{HERE}/pods");
    let mut made = pod("a", &json!({}));
    made["spec"]["runtimeClassName"] = "r".into();
    let spec = post(&server, &pods, made.clone()).await.body["spec"].clone();
    assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
    assert_eq!(spec["nodeSelector"], json!({"runtime": "r"}));
    assert!(
        spec["tolerations"]
            .as_array()
            .unwrap()
            .contains(&json!({"key": "k", "operator": "Exists"}))
    );
    made["metadata"]["name"] = "b".into();
    made["spec"]["nodeSelector"] = json!({"runtime": "other"});
    post(&server, &pods, made.clone()).await.is_refused(
        403,
        "pods \"b\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = r; pod.spec.nodeSelector[runtime] = other",
    );
    made["spec"]["runtimeClassName"] = "none".into();
    post(&server, &pods, made)
        .await
        .is_refused(403, "pod rejected: RuntimeClass \"none\" not found");
    let mut heavy = pod("c", &json!({}));
    heavy["spec"]["overhead"] = json!({"cpu": "1"});
    post(&server, &pods, heavy).await.is_refused(
        403,
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
    );
}

#[tokio::test]
async fn a_bound_pod_has_the_zone_of_its_node() {
    let server = server().await;
    let labels = json!({"topology.kubernetes.io/zone": "z", "other": "o"});
    post(
        &server,
        "/api/v1/nodes",
        json!({"metadata": {"name": "n", "labels": labels}}),
    )
    .await
    .is_done();
    post(&server, &format!("{HERE}/pods"), pod("a", &json!({})))
        .await
        .is_done();
    server.client().bind("default", "a", "n").await.unwrap();
    let bound = get(&server, &format!("{HERE}/pods/a")).await.body;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(
        bound["metadata"]["labels"],
        json!({"topology.kubernetes.io/zone": "z"})
    );
}

#[tokio::test]
async fn roles_that_gather_others_are_gathered_from_the_start() {
    let server = server().await;
    let rules = async |name: &str| {
        let role = get(
            &server,
            &format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"),
        )
        .await;
        role.body["rules"].as_array().cloned().unwrap_or_default()
    };
    let (view, edit, admin) = (rules("view").await, rules("edit").await, rules("admin").await);
    assert!(!view.is_empty());
    assert!(view.iter().all(|rule| edit.contains(rule)));
    assert!(edit.iter().all(|rule| admin.contains(rule)));
    assert!(admin.len() > edit.len());
}
