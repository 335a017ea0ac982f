//! The samples of "Scale out".

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use operator_runtime::cache::{CacheOptions, KindOptions, Transforms, WatchOptions};
use operator_runtime::controller::ControllerOptions;
use operator_runtime::prelude::*;

use crate::greeting::{Greeting, greet, options, start};

// ANCHOR: controller
fn controller() -> Controller<Greeting> {
    // Only the metadata of the ConfigMaps is kept: they are written, and never read.
    let configs = Watch::<PartialObjectMeta<ConfigMap>>::new().owned();
    Controller::new(reconcile)
        .watches(configs)
        .options(ControllerOptions {
            max_concurrent_reconciles: Some(8),
            warmup: Some(true),
            ..ControllerOptions::default()
        })
}
// ANCHOR_END: controller

// ANCHOR: cache
fn cache_options() -> CacheOptions {
    let own_pods = WatchOptions {
        labels: Some("app.kubernetes.io/managed-by=greeting-operator".to_owned()),
        ..WatchOptions::default()
    };
    CacheOptions {
        kinds: [(Kind::of::<Pod>(), KindOptions::from(own_pods))].into(),
        transforms: Transforms::default().of::<Pod>(|pod| {
            if let Some(spec) = &mut pod.spec {
                spec.volumes = None;
            }
        }),
        ..CacheOptions::default()
    }
}
// ANCHOR_END: cache

async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    // Starts the watch of pods, with its selector.
    ctx.list::<Pod>().await?;
    ctx.update_status(|status| status.written = true).await?;
    Ok(Action::done())
}

#[tokio::test]
async fn options_that_save_memory_change_no_result() -> Result<()> {
    let env = start().await;
    let options = ManagerOptions {
        cache_options: cache_options(),
        ..options(env.client())
    };
    let manager = Manager::new("greeting-operator", options).await?;
    manager.add_controller(controller())?;
    tokio::spawn(manager.run_until(std::future::pending()));
    greet(&env, "hello").await;
    Ok(())
}
