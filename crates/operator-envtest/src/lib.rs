//! A Kubernetes control plane for tests, in the process of the test.
//!
//! [`TestEnv::start`] starts an API server in milliseconds, with the controllers of a cluster: Deployments get Pods,
//! Pods become Ready on a simulated node, owned objects are garbage collected, namespaces are deleted. Nothing is
//! downloaded, and no socket is opened unless the test requests a kubeconfig.
//!
//! In the project of an operator, the requests of managers are recorded, and `operator-sdk rbac check` compares them
//! with the operator's role ([`Builder::record_requests`]).
//!
//! The crate `operator-chaos` crashes an operator at each of its writes, and injects many other faults.
//!
//! [`Interceptor`] makes requests fail, delays them, or drops their responses.
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
