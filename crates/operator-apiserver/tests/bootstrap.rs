//! Tests of the objects of a new cluster.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::get;
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn names(server: &ApiServer, path: &str) -> Vec<String> {
    let list = get(server, path).await.body;
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_new_cluster_has_the_objects_of_a_real_one() {
    let server = ApiServer::builder().build().unwrap();
    for (path, count, some) in [
        (
            format!("{RBAC}/clusterroles"),
            70,
            "system:controller:namespace-controller",
        ),
        (format!("{RBAC}/clusterrolebindings"), 51, "system:kube-scheduler"),
        (
            format!("{RBAC}/roles"),
            7,
            "extension-apiserver-authentication-reader",
        ),
        (
            format!("{RBAC}/rolebindings"),
            7,
            "system:controller:bootstrap-signer",
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            2,
            "system-node-critical",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(),
            11,
            "kube-scheduler",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations".to_owned(),
            8,
            "workload-low",
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs".to_owned(),
            1,
            "kubernetes",
        ),
        ("/apis/networking.k8s.io/v1/ipaddresses".to_owned(), 1, "10.0.0.1"),
        (
            "/api/v1/namespaces/kube-system/configmaps".to_owned(),
            1,
            "kube-apiserver-legacy-service-account-token-tracking",
        ),
    ] {
        let names = names(&server, &path).await;
        assert_eq!(names.len(), count, "{path}: {names:?}");
        assert!(names.iter().any(|name| name == some), "{path}: {names:?}");
    }
}

#[tokio::test]
async fn roles_bindings_and_flow_schemas_have_the_fields_of_the_real_ones() {
    let server = ApiServer::builder().build().unwrap();
    let part = async |path: &str, field: &str| get(&server, path).await.body[field].clone();
    let role = format!("{RBAC}/clusterroles/system:node-proxier");
    assert_eq!(
        part(&role, "rules").await,
        json!([
            {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["endpoints", "services"]},
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["nodes"]},
            {"verbs": ["create", "patch", "update"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
            {"verbs": ["list", "watch"], "apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs"]},
            {"verbs": ["list", "watch"], "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]},
        ])
    );
    let binding = format!("{RBAC}/namespaces/kube-public/rolebindings/system:controller:bootstrap-signer");
    assert_eq!(
        part(&binding, "subjects").await,
        json!([{"kind": "ServiceAccount", "name": "bootstrap-signer", "namespace": "kube-system"}])
    );
    let schema = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/system-leader-election";
    let spec = part(schema, "spec").await;
    assert_eq!(
        spec["rules"][0]["resourceRules"],
        json!([{
            "verbs": ["get", "create", "update"], "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"], "namespaces": ["*"],
        }])
    );
    assert_eq!(part(schema, "status").await["conditions"][0]["reason"], "Found");
    let level = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/system";
    assert_eq!(
        part(level, "spec").await["limited"]["limitResponse"],
        json!({"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}})
    );
    // Aggregated roles have their rules even without controllers.
    let view = part(&format!("{RBAC}/clusterroles/view"), "rules").await;
    assert!(view.as_array().is_some_and(|rules| rules.len() > 5), "{view}");
    assert_eq!(
        part(&format!("{RBAC}/clusterroles/none"), "rules").await,
        Value::Null
    );
}
