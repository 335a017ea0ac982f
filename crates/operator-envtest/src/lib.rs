//! A Kubernetes control plane for one test, in its process.
//!
//! [`TestEnv::start`] gives a test an API server of its own in milliseconds, with the controllers that an operator
//! meets on a cluster: Deployments get Pods, Pods become Ready on a simulated node, owned objects are garbage
//! collected, namespaces go away. Nothing is downloaded and no socket is opened unless the test asks for a kubeconfig.
//!
//! In the project of an operator, the requests of managers are recorded:
//! `operator-sdk rbac check` compares it with the operator's role ([`Builder::record_requests`]).
//!
//! [`crash_after_each_write`] crashes an operator after each of its writes in turn and compares what becomes of it.
//!
//! [`Interceptor`] lets requests fail, wait or get lost, to see what the operator makes of it.
//!
//! The same test runs on an existing cluster (`USE_EXISTING_CLUSTER=true`) and on real `kube-apiserver` and `etcd`
//! binaries (`KUBEBUILDER_ASSETS=DIR`); see [`Backend`].
//!
//! ```
//! # use operator_envtest::TestEnv;
//! use k8s_openapi::api::apps::v1::Deployment;
//! use kube::Api;
//! use kube::api::PostParams;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = TestEnv::start().await?;
//! let deployments: Api<Deployment> = Api::default_namespaced(env.client());
//! let web = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "web"},
//!     "spec": {
//!         "replicas": 3,
//!         "selector": {"matchLabels": {"app": "web"}},
//!         "template": {
//!             "metadata": {"labels": {"app": "web"}},
//!             "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
//!         },
//!     },
//! }))?;
//! deployments.create(&PostParams::default(), &web).await?;
//! env.eventually(&deployments, "web", |web| {
//!     web.status.as_ref().and_then(|status| status.available_replicas) == Some(3)
//! })
//! .await?;
//! env.stop().await;
//! # Ok(()) }
//! ```

mod backend;
mod crash;
mod crd;
mod env;
mod equal_object;
mod error;
mod eventually;
mod file;
mod impersonate;
mod intercept;
mod record;
mod webhook;

pub use backend::Backend;
pub use crash::{CrashError, crash_after_each_write};
pub use crd::CrdError;
pub use env::{Builder, TestEnv};
pub use equal_object::{EqualObject, NotEqual};
pub use error::Error;
pub use eventually::NotReached;
pub use file::{FileError, read_object};
pub use intercept::{Call, Interceptor, Then};
pub use operator_apiserver as apiserver;
pub use operator_controlplane::{Clock, Controllers, Delays, Program};
pub use webhook::WebhookError;
