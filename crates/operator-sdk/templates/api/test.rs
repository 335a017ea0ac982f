{{ header }}//! Tests the {{ kind }} controller on a control plane in this process.

use kube::Api;
use kube::api::PostParams;
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;

use {{ crate_name }}::{{ api_path }}::{{ kind }};

/// The sample in config/.
const SAMPLE: &str = "{{ sample }}";

#[tokio::test]
async fn an_object_becomes_available() -> Result<()> {
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

{% if namespaced %}
    let objects: Api<{{ kind }}> = Api::default_namespaced(env.client());
{% else %}
    let objects: Api<{{ kind }}> = Api::all(env.client());
{% endif %}
    let sample: {{ kind }} = operator_envtest::read_object(SAMPLE)?;
    objects.create(&PostParams::default(), &sample).await?;
    let name = sample.metadata.name.unwrap_or_default();
    env.eventually(&objects, &name, |object| {
        object
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_true("Available"))
    })
    .await?;
    env.stop().await;
    Ok(())
}
