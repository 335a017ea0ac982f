//! The operator on kube of the page for users of kube-rs.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::greeting::{Greeting, greet, start};

// ANCHOR: kube
struct Ctx {
    client: Client,
}

async fn reconcile(greeting: Arc<Greeting>, ctx: Arc<Ctx>) -> Result<Action, kube::Error> {
    let namespace = greeting.namespace().unwrap_or_default();
    let configs: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &namespace);
    let greetings: Api<Greeting> = Api::namespaced(ctx.client.clone(), &namespace);
    let config = ConfigMap {
        metadata: ObjectMeta {
            name: Some(greeting.name_any()),
            owner_references: greeting.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        data: Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into()),
        ..Default::default()
    };
    let apply = PatchParams::apply("greeting-operator").force();
    configs
        .patch(&greeting.name_any(), &apply, &Patch::Apply(&config))
        .await?;
    let status = json!({"status": {"written": true}});
    greetings
        .patch_status(
            &greeting.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&status),
        )
        .await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn error_policy(_: Arc<Greeting>, _: &kube::Error, _: Arc<Ctx>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

async fn run(client: Client) {
    Controller::new(Api::<Greeting>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .run(reconcile, error_policy, Arc::new(Ctx { client }))
        .for_each(|_| ready(()))
        .await;
}
// ANCHOR_END: kube

#[tokio::test]
async fn the_operator_on_kube_works() {
    let env = start().await;
    tokio::spawn(run(env.client()));
    greet(&env, "hello").await;
}
