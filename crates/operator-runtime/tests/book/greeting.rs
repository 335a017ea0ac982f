//! The kind of the samples: a greeting that its operator writes into a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, CustomResource, CustomResourceExt};
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A greeting.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus", derive = "Default")]
#[derive(Default)]
pub struct GreetingSpec {
    pub name: String,
}

/// The state of a greeting.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct GreetingStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    #[serde(default)]
    pub written: bool,
}

/// Starts a control plane with the CRD.
pub async fn start() -> TestEnv {
    TestEnv::builder().crds([Greeting::crd()]).start().await.unwrap()
}

/// Returns the default options of a manager that serves no webhooks.
pub fn options(client: kube::Client) -> ManagerOptions {
    ManagerOptions {
        webhook_bind_address: String::new(),
        ..ManagerOptions::from(client)
    }
}

/// Runs the parts of an operator until the test ends.
pub async fn run(operator: Operator, client: kube::Client) {
    let manager = Manager::new("greeting-operator", options(client)).await.unwrap();
    operator.add_to(&manager).unwrap();
    tokio::spawn(manager.run_until(std::future::pending()));
}

/// Creates a greeting, and waits until its ConfigMap and its status are written.
pub async fn greet(env: &TestEnv, name: &str) {
    let greetings: Api<Greeting> = Api::default_namespaced(env.client());
    let greeting = Greeting::new(
        name,
        GreetingSpec {
            name: "world".to_owned(),
        },
    );
    greetings.create(&PostParams::default(), &greeting).await.unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(env.client());
    env.eventually(&configs, name, says_hello).await.unwrap();
    let is_done = |greeting: &Greeting| {
        let status = greeting.status.as_ref();
        status.is_some_and(|status| status.written || status.conditions.is_true("Available"))
    };
    env.eventually(&greetings, name, is_done).await.unwrap();
}

/// Returns true for the ConfigMap of a greeting to the world.
pub fn says_hello(config: &ConfigMap) -> bool {
    config.data == Some([("text".to_owned(), "Hello, world".to_owned())].into())
}
