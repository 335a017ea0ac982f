//! Webhooks: defaults and checks that run while the API server handles a write, and conversion between the versions of
//! a custom resource.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
//! use operator_runtime::webhook::{AdmissionRequest, Defaulter, Denied, Validator, WebhookServer, Warnings};
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
//! let server = WebhookServer::new()
//!     .defaulting::<Memcached>(MemcachedWebhook)
//!     .validating::<Memcached>(MemcachedWebhook);
//! assert_eq!(server.paths().collect::<Vec<_>>(), ["/mutate--v1-configmap", "/validate--v1-configmap"]);
//! ```
//!
//! # Certificates
//! The API server calls webhooks over TLS and must trust whoever answers.
//! * With cert-manager, the certificate is mounted as a Secret:
//!   [`Certificates::from_dir`](crate::certificates::Certificates::from_dir).
//! * Without, the operator is its own authority: [`Authority::from_secret`](crate::certificates::Authority::from_secret)
//!   is the same for all its instances, each has a certificate
//!   [issued by it](crate::certificates::Certificates::issued_by), and one of them
//!   [tells the API server](crate::certificates::CaBundle::inject).

mod admission;
mod conversion;
mod denied;
mod patch;
mod review;
mod server;

pub use self::admission::{AdmissionHandler, Defaulter, Validator, Warnings};
pub use self::conversion::{Conversion, Convertible, Lossy, hub_round_trip, round_trip};
pub use self::denied::{Denied, FieldError};
pub use self::review::{
    AdmissionRequest, AdmissionResponse, GroupVersionKind, GroupVersionResource, Operation,
};
pub use self::server::WebhookServer;

use crate::object::{Kind, Object};

/// The path of the defaulting webhook of `K`: `/mutate-cache-example-com-v1-memcached`.
pub fn mutate_path<K: Object>() -> String {
    path("mutate", &Kind::of::<K>())
}

/// The path of the validating webhook of `K`: `/validate-cache-example-com-v1-memcached`.
pub fn validate_path<K: Object>() -> String {
    path("validate", &Kind::of::<K>())
}

fn path(verb: &str, kind: &Kind) -> String {
    let group = kind.group.replace('.', "-");
    format!("/{verb}-{group}-{}-{}", kind.version, kind.kind.to_lowercase())
}

#[cfg(test)]
mod tests;
