//! An embedded Kubernetes API server in pure Rust.
//!
//! An [`ApiServer`] is one isolated server. It behaves like kube-apiserver 1.36, and is reached in three ways: as
//! a [`tower::Service`] (`kube::Client::new(api_server, "default")`), over HTTPS on a [`Listener`], and through the
//! in-process [`client::Client`] that controllers in the same process use.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use operator_apiserver::{ApiServer, ListenOptions};
//! let server = ApiServer::builder().build()?;
//! let listener = server.listen(ListenOptions::default()).await?;
//! std::fs::write("kubeconfig", listener.kubeconfig())?;
//! listener.shutdown().await;
//! # Ok(()) }
//! ```

pub mod client;
pub mod clock;
pub mod status;

mod admission;
mod bootstrap;
mod codec;
mod error;
mod features;
mod http;
mod identity;
mod measure;
mod metrics;
mod patch;
mod query;
mod random;
mod registry;
mod resource;
mod server;
mod store;
mod webhook_client;
mod write;

pub use admission::AdmissionConfiguration;
pub use error::Error;
pub use features::FeatureGates;
pub use http::audit::{AuditLog, AuditMode, AuditOptions, AuditThrottle, AuditTruncation, AuditWebhook};
pub use http::call::Body;
pub use http::listener::{ListenOptions, Listener, ServerIdentity, Timeouts};
pub use http::request_info::RequestInfo;
pub use identity::authn::{AuthenticationConfiguration, FrontProxy, OidcOptions, TokenWebhook};
pub use identity::authz::{AbacPolicies, Authorization, AuthorizationConfiguration, AuthorizationWebhook};
pub use identity::signing::CertificateSigner;
pub use registry::{NetworkError, ServiceNetwork};
pub use resource::RuntimeConfig;
pub use server::{ApiServer, Builder, Snapshot};
