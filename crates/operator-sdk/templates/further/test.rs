{{ header }}//! Tests the {{ kind }} controller on a control plane in this process.

use operator_envtest::TestEnv;
use operator_runtime::prelude::*;

{% if external %}
#[tokio::test]
#[ignore = "set the file with the CRD of {{ kind }} in `crd_path` below"]
async fn the_operator_watches() -> Result<()> {
    let env = TestEnv::builder()
        .crd_path("config/crd/external")
        .start()
        .await?;
{% elif foreign %}
#[tokio::test]
async fn the_operator_watches() -> Result<()> {
    let env = TestEnv::start().await?;
{% else %}
#[tokio::test]
async fn the_operator_watches() -> Result<()> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
{% endif %}
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        ..ManagerOptions::from(env.client())
    };
    let manager = Manager::new("{{ project_name }}", options).await?;
    {{ crate_name }}::operator().add_to(&manager)?;
    tokio::spawn(manager.clone().run_until(std::future::pending()));

    // The caches are synced before controllers start. Create an object here, and check what the
    // controller does.
    manager.elected().await;
    env.stop().await;
    Ok(())
}
