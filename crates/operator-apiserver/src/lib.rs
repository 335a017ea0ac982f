//! An embedded Kubernetes API server in pure Rust.
//!
//! An [`ApiServer`] is one isolated server. It answers as kube-apiserver 1.36 does, and is reached in three ways: as
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

mod http_server;
mod server;

mod admission;
mod aggregation;
mod audit;
mod authn;
mod authz;
mod call;
mod crd;
mod deadline;
mod discovery;
mod expiry;
mod in_flight;
mod managed_fields;
mod measure;
mod metrics;
mod negotiate;
mod offload;
mod patch;
mod pipeline;
mod pod_security;
mod query;
mod registry;
mod request_info;
mod store;
mod subresource;
mod token;
mod verb;
mod watch;
mod webhook_client;

pub mod client;
pub mod clock;
pub mod quota;
pub mod status;
pub mod time_zone;

mod bootstrap;
mod object;
mod random;
mod selector;

pub(crate) mod builtin;
pub(crate) mod journal;
pub(crate) mod json;
pub(crate) mod keyring;
pub(crate) mod openapi;
pub(crate) mod protobuf;
pub mod yaml;

pub use audit::{AuditLog, AuditOptions, AuditWebhook};
pub use authz::{AbacPolicies, Authorization};
pub use call::Body;
pub use deadline::parse_duration;
pub use http_server::{ListenOptions, Listener, ServerIdentity, Timeouts};
pub use registry::{NetworkError, ServiceNetwork};
pub use server::{ApiServer, Builder, Error};
