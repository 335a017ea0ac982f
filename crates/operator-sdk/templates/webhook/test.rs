{% if foreign %}
{{ header }}//! Tests the webhooks of {{ kind }} by direct calls.

{% if api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% endif %}
use operator_runtime::prelude::*;
{% if not api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% endif %}

/// Returns an object as a user may write it.
fn sample() -> {{ kind }} {
    {{ kind }}::default()
}
{% else %}
{{ header }}//! Tests the webhooks of {{ kind }} through an API server in this process.

use kube::Api;
use kube::api::PostParams;
use operator_envtest::TestEnv;
use operator_runtime::certificates::Certificates;
use operator_runtime::prelude::*;

use {{ crate_name }}::{{ api_path }}::{{ kind }};

/// The sample in config/, which the tests send to the webhooks.
const SAMPLE: &str = "{{ sample }}";

/// Starts a control plane with the CRDs, the operator and its webhooks.
async fn start() -> Result<TestEnv> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
    // An authority for this test. On a cluster, the operator or cert-manager creates one.
    let certificates = Certificates::self_signed(["127.0.0.1"])?;
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        webhook_certificates: certificates.clone().into(),
        ..ManagerOptions::from(env.client())
    };
    let manager = Manager::new("{{ project_name }}", options).await?;
    {{ crate_name }}::operator().add_to(&manager)?;

    // The webhook configurations in config/, with the address and the authority of this test.
    let address = manager
        .webhook_address()
        .expect("the operator has webhooks");
    let authority = certificates.authority().expect("it was made above");
    env.install_webhooks("config", address, &authority).await?;
    tokio::spawn(manager.run_until(std::future::pending()));
    Ok(env)
}

/// Returns an object as a user may write it.
fn sample() -> Result<{{ kind }}> {
    Ok(operator_envtest::read_object(SAMPLE)?)
}
{% endif %}
