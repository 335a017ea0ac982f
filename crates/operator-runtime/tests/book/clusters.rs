//! The samples of "Work with several clusters".

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config, ResourceExt};
use operator_envtest::TestEnv;
use operator_runtime::cache::CacheOptions;
use operator_runtime::cluster::Cluster;
use operator_runtime::prelude::*;

use crate::greeting::{self, Greeting, says_hello};

// ANCHOR: connect
/// Adds the cluster of a kubeconfig, such as one in a mounted Secret.
async fn connect(manager: &Manager, kubeconfig: &str) -> Result<Cluster> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(manager.add_cluster("away", config, CacheOptions::default())?)
}
// ANCHOR_END: connect

// ANCHOR: reconciler
/// The label of the copies, with the name of the greeting.
const OWNER: &str = "example.com/greeting";

/// Writes each greeting into a ConfigMap of another cluster.
struct Remote {
    cluster: Cluster,
}

impl Reconciler<Greeting> for Remote {
    async fn reconcile(&self, greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
        let key = ctx.key().clone();
        // The garbage collector of the other cluster does not know the owner.
        let remote = self.cluster.client();
        let clean_up = async {
            remote.delete::<ConfigMap>(&key).await?;
            Ok(())
        };
        if !ctx.finalize("example.com/copy", clean_up).await? {
            return Ok(Action::done());
        }
        let mut config = ConfigMap::default();
        config.metadata.name = Some(greeting.name_any());
        config.metadata.namespace = greeting.namespace();
        config.metadata.labels = Some([(OWNER.to_owned(), greeting.name_any())].into());
        config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
        remote.apply(config).await?;
        ctx.update_status(|status| status.written = true).await?;
        Ok(Action::done())
    }
}
// ANCHOR_END: reconciler

// ANCHOR: controller
fn controller(cluster: &Cluster) -> Controller<Greeting> {
    let copies = Watch::<ConfigMap>::new().in_cluster(cluster).map(|config| {
        let owner = config.labels().get(OWNER).cloned();
        let namespace = config.namespace().unwrap_or_default();
        owner.map(|name| ObjectKey::namespaced(&namespace, &name))
    });
    let remote = Remote {
        cluster: cluster.clone(),
    };
    Controller::new(remote).watches(copies)
}
// ANCHOR_END: controller

// ANCHOR: test
#[tokio::test]
async fn a_copy_in_another_cluster_is_repaired_and_deleted() -> Result<()> {
    let (home, away) = (greeting::start().await, TestEnv::start().await?);
    let manager = Manager::new("greeting-operator", greeting::options(home.client())).await?;
    let cluster = connect(&manager, &away.kubeconfig().await?).await?;
    manager.add_controller(controller(&cluster))?;
    tokio::spawn(manager.run_until(std::future::pending()));

    let greetings: Api<Greeting> = Api::default_namespaced(home.client());
    let copies: Api<ConfigMap> = Api::default_namespaced(away.client());
    let spec = greeting::GreetingSpec {
        name: "world".to_owned(),
    };
    let hello = Greeting::new("hello", spec);
    greetings.create(&Default::default(), &hello).await?;
    let copy = away.eventually(&copies, "hello", says_hello).await?;

    copies.delete("hello", &DeleteParams::default()).await?;
    let is_new = |config: &ConfigMap| config.uid() != copy.uid();
    away.eventually(&copies, "hello", is_new).await?;

    greetings.delete("hello", &DeleteParams::default()).await?;
    away.eventually_gone(&copies, "hello").await?;
    Ok(())
}
// ANCHOR_END: test
