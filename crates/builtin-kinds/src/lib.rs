//! The built-in resources of Kubernetes 1.36, as tables and pure functions: what is served, how objects are decoded
//! and normalised, defaults, validation, printer columns, field labels, reset fields.
//!
//! Knows no HTTP, no store and no clock: values in, values out. `kind` is always the pair (group/version, kind) of
//! the object as it is served.

pub(crate) mod certificate_request;
pub(crate) mod cluster_objects;
mod decode;
mod default;
pub(crate) mod expression;
mod go_fields;
pub(crate) mod horizontal_pod_autoscaler;
mod image;
mod labels;
mod metadata_checks;
pub(crate) mod names;
pub(crate) mod pod_resources;
mod prepare;
mod printer;
mod resource;
mod resource_table;
mod strategy;
pub(crate) mod tree;
pub(crate) mod unstructured;
mod validate;
mod warnings;

pub(crate) use decode::{decode, decode_type};
pub(crate) use default::default;
pub(crate) use labels::field_label;
pub(crate) use metadata_checks::{MetadataChecks, PLAIN as PLAIN_METADATA_CHECKS, metadata_checks};
pub(crate) use names::validate_name;
pub(crate) use prepare::{
    generation_changed, prepare_for_create, prepare_for_update, qos_class, reset_fields, stamp_times,
};
pub(crate) use printer::generic::{NAME_DESCRIPTION, age, generic_cells, generic_columns};
pub(crate) use printer::{Column, cells, columns};
pub(crate) use resource::{Gvk, Resource, resources};
pub(crate) use strategy::{Strategy, strategy};
pub(crate) use validate::{is_empty_selector, selects, validate_create, validate_update};
pub(crate) use warnings::{deprecation, warnings};

#[cfg(test)]
mod tests;
