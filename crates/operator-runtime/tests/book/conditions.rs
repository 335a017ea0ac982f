//! The sample of "Conditions and events".

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use operator_runtime::prelude::*;
use operator_runtime::rollout;
use serde_json::json;

use crate::greeting::{Greeting, greet, run, start};

async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    // ANCHOR: conditions
    let deployment = ctx.apply_owned(deployment_for(&greeting)?).await?;
    let conditions = rollout::conditions(&*deployment);
    let [available, ..] = &conditions;
    let status = greeting.status.as_ref();
    if available.is_true() && !status.is_some_and(|status| status.conditions.is_true("Available")) {
        // ANCHOR: event
        ctx.event().normal("Available", "all replicas are running");
        // ANCHOR_END: event
    }
    ctx.update_status(|status| status.conditions.set_all(conditions.clone()))
        .await?;
    // ANCHOR_END: conditions
    Ok(Action::done())
}

fn deployment_for(greeting: &Greeting) -> Result<Deployment> {
    let labels = json!({"app": greeting.name_any()});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": greeting.name_any()},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
            },
        },
    }))?)
}

#[tokio::test]
async fn the_conditions_follow_the_deployment() {
    let env = start().await;
    let controller = Controller::new(reconcile)
        .owns::<ConfigMap>()
        .owns::<Deployment>();
    let operator = Operator::new("greeting-operator").controller(controller);
    run(operator, env.client()).await;
    greet(&env, "hello").await;
}
