{{ header }}//! Tests the {{ kind }} controller on a control plane in this process.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, CustomResourceExt};
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;

{{ imports(crate_name ~ "::" ~ api_path, [kind, kind ~ "Spec"]) }}
/// Starts a control plane with the CRD and the operator.
async fn start() -> Result<TestEnv> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        ..ManagerOptions::from(env.client())
    };
    let manager = Manager::new("{{ project_name }}", options).await?;
    {{ crate_name }}::operator().add_to(&manager)?;
    tokio::spawn(manager.run_until(std::future::pending()));
    Ok(env)
}

fn sample(size: i32) -> {{ kind }} {
    {{ kind }}::new("sample", {{ kind }}Spec { size })
}

#[tokio::test]
async fn an_object_becomes_a_deployment_of_its_size() -> Result<()> {
    let env = start().await?;
    let objects: Api<{{ kind }}> = Api::default_namespaced(env.client());
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());

    objects.create(&PostParams::default(), &sample(3)).await?;
    env.eventually(&deployments, "sample", |it| available(it) == 3)
        .await?;
    env.eventually(&objects, "sample", |it| is_ready(it, 3))
        .await?;

    let patch = Patch::Merge(serde_json::json!({"spec": {"size": 4}}));
    objects
        .patch("sample", &PatchParams::default(), &patch)
        .await?;
    env.eventually(&objects, "sample", |it| is_ready(it, 4))
        .await?;

    objects.delete("sample", &DeleteParams::default()).await?;
    env.eventually_gone(&deployments, "sample").await?;
    env.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_size_out_of_range_is_rejected() -> Result<()> {
    let env = start().await?;
    let objects: Api<{{ kind }}> = Api::default_namespaced(env.client());
    for size in [0, {{ image.size_max + 1 }}] {
        let rejected = objects.create(&PostParams::default(), &sample(size)).await;
        let message = rejected.expect_err("the size is out of range").to_string();
        assert!(message.contains("spec.size"), "{message}");
    }
    env.stop().await;
    Ok(())
}

#[test]
fn the_crd_has_the_name_of_the_kind() {
    let name = "{{ plural }}.{{ api_group }}";
    assert_eq!({{ kind }}::crd_name(), name);
}

fn available(deployment: &Deployment) -> i32 {
    let status = deployment.status.as_ref();
    status
        .and_then(|status| status.available_replicas)
        .unwrap_or(0)
}

fn is_ready(object: &{{ kind }}, size: usize) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| status.conditions.is_true("Available") && status.nodes.len() == size)
}
