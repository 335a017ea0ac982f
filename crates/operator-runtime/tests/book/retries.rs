//! The sample of the page for users of kopf: errors and timers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use operator_runtime::prelude::*;

use crate::greeting::{Greeting, GreetingSpec, greet, run, start};

// ANCHOR: reconcile
async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    if greeting.spec.name.is_empty() {
        return Err(Error::terminal("spec.name must not be empty"));
    }
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    ctx.event().normal("Written", "the greeting is in the ConfigMap");
    ctx.update_status(|status| status.written = true).await?;
    Ok(Action::requeue_after(Duration::from_secs(60)))
}
// ANCHOR_END: reconcile

#[tokio::test]
async fn an_invalid_object_does_not_disturb_others() -> Result<()> {
    let env = start().await;
    let controller = Controller::new(reconcile).owns::<ConfigMap>();
    run(
        Operator::new("greeting-operator").controller(controller),
        env.client(),
    )
    .await;
    let greetings: Api<Greeting> = Api::default_namespaced(env.client());
    let invalid = Greeting::new("invalid", GreetingSpec::default());
    greetings.create(&PostParams::default(), &invalid).await?;
    greet(&env, "hello").await;
    let invalid = greetings.get("invalid").await?;
    assert!(invalid.status.is_none());
    Ok(())
}
