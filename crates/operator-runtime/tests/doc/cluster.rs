// What examples of the documentation run in, included by them where they do not show it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use operator_runtime::prelude::*;
use support::*;

mod support {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use operator_envtest::{Backend, Controllers, TestEnv};
    use operator_runtime::manager::ManagerBuilder;
    use operator_runtime::prelude::*;
    use operator_runtime::{Client, Object};
    use serde_json::json;
    use tokio::sync::mpsc;

    /// Runs an example with a manager that runs on an embedded cluster, and its client.
    pub fn cluster(example: impl AsyncFnOnce(&Manager, &Client) -> Result<()>) -> Result<()> {
        cluster_with(|builder| builder, example)
    }

    /// [`cluster`] with further options of the manager.
    pub fn cluster_with(
        options: impl FnOnce(ManagerBuilder) -> ManagerBuilder,
        example: impl AsyncFnOnce(&Manager, &Client) -> Result<()>,
    ) -> Result<()> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build()?.block_on(async {
            // The API server alone: nothing happens but what the example does.
            let builder = TestEnv::builder().backend(Backend::Embedded);
            let env = builder.controllers(Controllers::None).nodes(0).start().await?;
            // Examples count ConfigMaps, of which an API server makes one of its own.
            let configs: kube::Api<ConfigMap> = kube::Api::namespaced(env.client(), "kube-system");
            let own = "kube-apiserver-legacy-service-account-token-tracking";
            configs.delete(own, &Default::default()).await?;
            let builder = Manager::builder("example-operator").client(env.client());
            let manager = options(builder).build().await?;
            tokio::select! {
                ended = manager.clone().run_until(std::future::pending()) => ended,
                done = example(&manager, manager.client()) => done,
            }
        })
    }

    /// An object of a type with these fields.
    pub fn object<K: Object>(fields: serde_json::Value) -> K {
        serde_json::from_value(fields).unwrap()
    }

    /// A ConfigMap with one entry.
    pub fn config_map(name: &str, size: &str) -> ConfigMap {
        object(json!({"metadata": {"name": name, "namespace": "default"}, "data": {"size": size}}))
    }

    /// That entry.
    pub fn size(config: &ConfigMap) -> &str {
        &config.data.as_ref().unwrap()["size"]
    }

    /// A Deployment without replicas.
    pub fn deployment(name: &str) -> Deployment {
        object(json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
                },
            },
        }))
    }

    /// A reconciler, and the requests that it is called with.
    pub fn recorder() -> (Recorder, mpsc::UnboundedReceiver<Request>) {
        let (sender, requests) = mpsc::unbounded_channel();
        (Recorder(sender), requests)
    }

    pub struct Recorder(mpsc::UnboundedSender<Request>);

    impl Reconciler for Recorder {
        async fn reconcile(&self, _: Context, request: Request) -> Result<Action> {
            let _ = self.0.send(request);
            Ok(Action::done())
        }
    }
}
