//! The samples of "The cache and own writes".

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::ResourceExt;
use operator_runtime::prelude::*;

use crate::greeting::{Greeting, greet, options, start};

async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    // ANCHOR: reads
    // From the cache: an object, or None if it does not exist.
    let deployment: Option<Arc<Deployment>> = ctx.get(("default", "web")).await?;
    // From the cache: the objects in the namespace of the reconciled object with these labels.
    let pods: Vec<Arc<Pod>> = ctx.list().labels([("app", "web")]).await?;
    // From the API server.
    let node: Option<Arc<Node>> = ctx.live().get(&ObjectKey::cluster("node-1")).await?;
    // ANCHOR_END: reads
    assert!(deployment.is_none() && pods.is_empty() && node.is_some());
    // ANCHOR: index
    let pods = ctx.list::<Pod>().all_namespaces().index("node", "node-1").await?;
    // ANCHOR_END: index
    assert!(pods.is_empty());
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    ctx.update_status(|status| status.written = true).await?;
    Ok(Action::done())
}

#[tokio::test]
async fn reads_come_from_the_cache_or_the_server() -> Result<()> {
    let env = start().await;
    let manager = Manager::new("greeting-operator", options(env.client())).await?;
    // ANCHOR: add_index
    manager.cache().add_index("node", |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Vec::from_iter(node)
    })?;
    // ANCHOR_END: add_index
    manager.add_controller(Controller::new(reconcile).owns::<ConfigMap>())?;
    tokio::spawn(manager.run_until(std::future::pending()));
    greet(&env, "hello").await;
    Ok(())
}
