//! The built-in kinds of Kubernetes 1.36 as tables and pure functions: the served resources, Go-compatible decoding,
//! defaults, validation, preparation of creates and updates, printer columns, warnings, quota accounting and the Pod
//! Security Standards.
//!
//! Objects are JSON trees. The crate does not depend on HTTP, a store or a clock. A [`Gvk`](apimachinery::gvk::Gvk)
//! identifies a served kind.
//!
//! ```
//! use builtin_kinds::{columns, decode, default, prepare_for_create, resources, validate_create};
//! use serde_json::json;
//!
//! let deployments = resources().iter().find(|resource| resource.name == "deployments");
//! let kind = &deployments.expect("a built-in resource").gvk;
//! let mut object = json!({"metadata": {"name": "web"}, "spec": {"replcas": 2}});
//! assert_eq!(decode(kind, &mut object)?, ["spec.replcas"], "fields that the kind does not have");
//! default(kind, &mut object);
//! assert_eq!(object["spec"]["replicas"], 1);
//! prepare_for_create(kind, &mut object);
//! let errors = validate_create(kind, &object);
//! assert_eq!(errors[0].to_string(), "spec.selector: Required value");
//! assert_eq!(columns(kind)[1].name, "Ready");
//! # Ok::<(), builtin_kinds::DecodeError>(())
//! ```

mod app_armor;
pub mod certificate_request;
pub mod cluster_objects;
pub mod cron;
pub mod expression;
pub mod horizontal_pod_autoscaler;
pub mod pod_resources;
pub mod pod_security;
pub mod quota;
pub mod resource_v1beta1;
pub mod tree;
pub mod unstructured;

mod decode;
mod default;
mod empty;
mod go_fields;
mod image;
mod labels;
mod metadata_checks;
mod names;
mod prepare;
mod printer;
mod resource;
mod strategy;
mod validate;
mod warnings;

pub use decode::{DecodeError, decode, decode_body, decode_type};
pub use default::default;
pub use empty::{Dropped, counts_empty, drop_empty};
pub use labels::field_label;
pub use metadata_checks::{
    MetadataChecks, PLAIN as PLAIN_METADATA_CHECKS, Step, metadata_checks, update_steps,
};
pub use names::validate_name;
pub use prepare::{
    generation_changed, prepare_for_create, prepare_for_update, qos_class, reset_fields, stamp_times,
};
pub use printer::generic::{NAME_DESCRIPTION, age, generic_cells, generic_columns};
pub use printer::{Column, cells, columns};
pub use resource::{Resource, resources};
pub use strategy::{Strategy, strategy};
pub use validate::{
    is_empty_selector, keeps_service_addresses, selects, validate_create, validate_service_addresses,
    validate_update,
};
pub use warnings::{deprecation, warnings};

#[cfg(test)]
mod tests;
