//! Tests of PodSecurity.

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::asking::{delete, get, merge, post};
use crate::{HERE, pod, server};

async fn label(server: &ApiServer, labels: Value) -> crate::asking::Answer {
    merge(server, HERE, json!({"metadata": {"labels": labels}})).await
}

fn mode(mode: &str, level: &str) -> Value {
    json!({format!("pod-security.kubernetes.io/{mode}"): level})
}

#[tokio::test]
async fn an_enforced_level_rejects_pods_and_warns_about_their_controllers() {
    let server = server().await;
    label(&server, mode("enforce", "baseline")).await.is_done();
    let mut bad = pod("a", &json!({}));
    bad["spec"]["hostNetwork"] = true.into();
    let refused = post(&server, &format!("{HERE}/pods"), bad.clone()).await;
    refused.is_refused(
        403,
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)",
    );
    assert_eq!(refused.body["details"], json!({"name": "a", "kind": "pods"}));
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": bad["spec"]}},
    });
    let made = post(
        &server,
        "/apis/apps/v1/namespaces/default/deployments",
        deployment,
    )
    .await;
    made.is_done();
    assert_eq!(made.warnings.len(), 1, "{:?}", made.warnings);
    let fine = post(&server, &format!("{HERE}/pods"), pod("a", &json!({}))).await;
    fine.is_done();
    delete(&server, &format!("{HERE}/pods/a")).await.is_done();
}

#[tokio::test]
async fn the_warn_level_applies_to_pods_and_templates() {
    let server = server().await;
    label(&server, mode("warn", "baseline")).await.is_done();
    let mut bad = pod("a", &json!({}));
    bad["spec"]["hostPID"] = true.into();
    let text = "299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostPID=true)\"";
    let made = post(&server, &format!("{HERE}/pods"), bad.clone()).await;
    made.is_done();
    assert_eq!(made.warnings, [text]);
    bad["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": bad["spec"]}}});
    let made = post(&server, "/apis/batch/v1/namespaces/default/jobs", job).await;
    assert_eq!(made.warnings, [text]);
}

#[tokio::test]
async fn a_new_level_warns_of_existing_pods() {
    let server = server().await;
    for name in ["a", "b"] {
        let mut bad = pod(name, &json!({}));
        bad["spec"]["hostIPC"] = true.into();
        post(&server, &format!("{HERE}/pods"), bad).await.is_done();
    }
    let told = label(&server, mode("enforce", "baseline")).await;
    assert_eq!(
        told.warnings,
        [
            "299 - \"existing pods in namespace \\\"default\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"a (and 1 other pod): host namespaces\"",
        ]
    );
    let told = label(&server, mode("enforce", "privileged")).await;
    assert!(told.warnings.is_empty());
    let refused = label(&server, mode("enforce", "strict")).await;
    refused.is_refused(
        422,
        "Namespace \"default\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
    );
}

#[tokio::test]
async fn a_pod_that_is_there_may_still_be_labelled() {
    let server = server().await;
    let mut bad = pod("a", &json!({}));
    bad["spec"]["hostIPC"] = true.into();
    post(&server, &format!("{HERE}/pods"), bad).await.is_done();
    label(&server, mode("enforce", "baseline")).await.is_done();
    let path = format!("{HERE}/pods/a");
    merge(&server, &path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .is_done();
    let mut containers = get(&server, &path).await.body["spec"]["containers"].clone();
    containers[0]["image"] = "other".into();
    let refused = merge(&server, &path, json!({"spec": {"containers": containers}})).await;
    refused.is_refused(
        403,
        "violates PodSecurity \"baseline:latest\": host namespaces (hostIPC=true)",
    );
}
