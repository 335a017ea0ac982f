//! [`Webhook`]: admission webhooks, and the conversion between versions of a custom resource.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
//! use operator_runtime::webhook::{AdmissionRequest, Defaulter, Denied, Validator, Warnings, Webhook};
//!
//! struct MemcachedWebhook;
//!
//! impl Defaulter<Memcached> for MemcachedWebhook {
//!     async fn default(&self, _: &AdmissionRequest, memcached: &mut Memcached) -> Result<(), Denied> {
//!         memcached.data.get_or_insert_default().entry("size".to_owned()).or_insert_with(|| "3".to_owned());
//!         Ok(())
//!     }
//! }
//!
//! impl Validator<Memcached> for MemcachedWebhook {
//!     async fn validate_create(&self, _: &AdmissionRequest, memcached: &Memcached) -> Result<Warnings, Denied> {
//!         match memcached.data.as_ref().and_then(|data| data.get("size")?.parse::<u8>().ok()) {
//!             Some(size) if size % 2 == 1 => Ok(Warnings::new()),
//!             _ => Err(Denied::new("Cluster size must be an odd number")),
//!         }
//!     }
//!
//!     async fn validate_update(
//!         &self,
//!         request: &AdmissionRequest,
//!         _old: &Memcached,
//!         new: &Memcached,
//!     ) -> Result<Warnings, Denied> {
//!         self.validate_create(request, new).await
//!     }
//! }
//!
//! pub fn memcached_webhook() -> Webhook<Memcached> {
//!     Webhook::new().defaulter(MemcachedWebhook).validator(MemcachedWebhook)
//! }
//!
//! pub fn operator() -> operator_runtime::Operator {
//!     operator_runtime::Operator::new("memcached-operator").webhook(memcached_webhook())
//! }
//! ```
//!
//! # Other requests
//! An [`AdmissionHandler`] answers requests of several kinds or of subresources;
//! [`Manager::add_admission_handler`](crate::Manager::add_admission_handler) serves it.
//! [`Manager::add_webhook_handler`](crate::Manager::add_webhook_handler) serves all other requests, such as the token
//! reviews of `operator-lib`.
//!
//! # Certificates
//! The API server calls webhooks over TLS and must trust their certificate:
//! * With `--webhook-cert-path`, the operator reads certificate and key from that directory, where cert-manager's
//!   Secret is mounted, and reads them again when they change. cert-manager configures the trust.
//! * Otherwise the operator is its own certificate authority: see
//!   [`ManagedCertificates`](crate::certificates::ManagedCertificates).
//!
//! # Tests
//! Unit tests call a [`Defaulter`] or a [`Validator`] with an [`AdmissionRequest`]. `TestEnv::install_webhooks` of
//! operator-envtest makes the API server call them. It needs
//! [`Manager::webhook_address`](crate::Manager::webhook_address) and
//! [`Certificates::authority`](crate::certificates::Certificates::authority). [`round_trip`] and [`hub_round_trip`]
//! test that conversions lose nothing.

mod admission;
mod body;
mod conversion;
mod denied;
mod endpoint;
mod patch;
mod registration;
mod review;
mod server;

pub use self::admission::{AdmissionHandler, Defaulter, Validator, Warnings};
pub use self::conversion::{Conversion, Convertible, Lossy, hub_round_trip, round_trip};
pub use self::denied::{Denied, FieldError};
pub(crate) use self::registration::Description;
pub use self::registration::{
    FailurePolicy, MatchPolicy, ReinvocationPolicy, SideEffects, Webhook, WebhookOptions,
};
pub use self::review::{
    AdmissionRequest, AdmissionResponse, GroupVersionKind, GroupVersionResource, Operation,
};
pub use self::server::WebhookError;
pub(crate) use self::server::WebhookServer;

use crate::object::{Kind, Object};

/// Returns the path of the defaulting webhook of `K`, such as `/mutate-cache-example-com-v1-memcached`.
pub(crate) fn mutate_path<K: Object>() -> String {
    path("mutate", &Kind::of::<K>())
}

/// Returns the path of the validating webhook of `K`, such as `/validate-cache-example-com-v1-memcached`.
pub(crate) fn validate_path<K: Object>() -> String {
    path("validate", &Kind::of::<K>())
}

fn path(verb: &str, kind: &Kind) -> String {
    let group = kind.group.replace('.', "-");
    format!("/{verb}-{group}-{}-{}", kind.version, kind.kind.to_lowercase())
}

#[cfg(test)]
mod tests;
