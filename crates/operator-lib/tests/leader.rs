//! Leader for life on an embedded control plane.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use operator_envtest::{Backend, TestEnv};
use operator_lib::leader::LeaderForLife;
use operator_runtime::election::Election as _;
use serde_json::{Value, json};

/// Waits with a timeout.
async fn in_time<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap()
}

fn pod(name: &str) -> Pod {
    let containers = json!([{"name": "operator", "image": "example.com/operator:1"}]);
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"containers": containers}})).unwrap()
}

#[tokio::test]
async fn leader_for_life_leads_until_its_pod_is_collected() {
    let env = TestEnv::start().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    for name in ["operator-1", "operator-2"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let election = |pod: &str| {
        let builder = LeaderForLife::builder(env.client(), "operator-lock")
            .namespace("default")
            .pod_name(pod);
        builder
            .max_backoff_interval(Duration::from_millis(20))
            .build()
            .unwrap()
    };
    let (mut first, mut second) = (election("operator-1"), election("operator-2"));
    in_time(first.acquire()).await.unwrap();
    let locks: Api<ConfigMap> = Api::default_namespaced(env.client());
    let owners = |lock: ConfigMap| lock.metadata.owner_references.unwrap();
    assert_eq!(
        owners(locks.get("operator-lock").await.unwrap())[0].name,
        "operator-1"
    );

    let mut leadership = second.leadership().unwrap();
    let waiting = tokio::spawn(async move {
        second.acquire().await.unwrap();
        second
    });
    assert!(!leadership.borrow_and_update().is_leader());
    first.release().await;
    pods.delete("operator-1", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    let _second = in_time(waiting).await.unwrap();
    assert!(leadership.borrow().is_leader());
    assert_eq!(
        owners(locks.get("operator-lock").await.unwrap())[0].name,
        "operator-2"
    );
    env.stop().await;
}

/// Elects a pod, then sets its status and the readiness of its node, and checks that another pod becomes the leader.
async fn passes_on(status: &Value, ready: &str) {
    let env = TestEnv::builder()
        .backend(Backend::Embedded)
        .nodes(0)
        .start()
        .await
        .unwrap();
    let (nodes, pods): (Api<Node>, Api<Pod>) =
        (Api::all(env.client()), Api::default_namespaced(env.client()));
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let mut first = pod("operator-1");
    first.spec.get_or_insert_default().node_name = Some("n".to_owned());
    for pod in [first, pod("operator-2")] {
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let election = |pod: &str| {
        let builder = LeaderForLife::builder(env.client(), "operator-lock").namespace("default");
        let builder = builder
            .pod_name(pod)
            .max_backoff_interval(Duration::from_millis(20));
        builder.build().unwrap()
    };
    let (mut first, mut second) = (election("operator-1"), election("operator-2"));
    in_time(first.acquire()).await.unwrap();
    env.update_status(&nodes, "n", |node| {
        let condition = json!({"conditions": [{"type": "Ready", "status": ready}]});
        node.status = serde_json::from_value(condition).unwrap();
    })
    .await
    .unwrap();
    env.update_status(&pods, "operator-1", |pod| {
        pod.status = serde_json::from_value(status.clone()).unwrap();
    })
    .await
    .unwrap();
    in_time(second.acquire()).await.unwrap();
    let locks: Api<ConfigMap> = Api::default_namespaced(env.client());
    let lock = locks.get("operator-lock").await.unwrap();
    assert_eq!(lock.metadata.owner_references.unwrap()[0].name, "operator-2");
    let old = pods.get_opt("operator-1").await.unwrap();
    let is_going = old.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    assert!(is_going, "the pod of the old leader is deleted");
    env.stop().await;
}

#[tokio::test]
async fn lock_of_an_evicted_pod_is_taken_over() {
    passes_on(&json!({"phase": "Failed", "reason": "Evicted"}), "True").await;
}

#[tokio::test]
async fn lock_of_a_preempted_pod_is_taken_over() {
    passes_on(&json!({"phase": "Failed", "reason": "Preempting"}), "True").await;
}

#[tokio::test]
async fn lock_of_a_pod_on_a_lost_node_is_taken_over() {
    passes_on(&json!({"phase": "Running"}), "Unknown").await;
}

#[tokio::test]
async fn restarted_container_leads_with_its_own_lock() {
    let env = TestEnv::start().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    pods.create(&PostParams::default(), &pod("operator-1"))
        .await
        .unwrap();
    for _ in 0..2 {
        let builder = LeaderForLife::builder(env.client(), "operator-lock").namespace("default");
        let mut election = builder.pod_name("operator-1").build().unwrap();
        in_time(election.acquire()).await.unwrap();
        election.release().await;
        assert!(!election.leadership().unwrap().borrow().is_leader());
    }
    env.stop().await;
}

#[tokio::test]
async fn pod_must_exist() {
    let env = TestEnv::start().await.unwrap();
    let builder = LeaderForLife::builder(env.client(), "lock").namespace("default");
    let error = in_time(builder.pod_name("none").build().unwrap().acquire())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(r#"cannot read Pod "none", which should be this one"#),
        "{text}"
    );
    env.stop().await;
}
