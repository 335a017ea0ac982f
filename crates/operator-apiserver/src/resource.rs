//! Resources: their definitions, built in or from a CustomResourceDefinition, and the differences between kinds.

pub(crate) mod crd;
mod definition;
mod field_managers;
pub(crate) mod labels;
mod resources;
mod runtime_config;
pub(crate) mod scale;
mod shared_storage;
mod strategy;
mod version_priority;

pub(crate) use self::definition::{
    Catalog, Definition, Source, Subresource, api_version, beta_catalog, builtin_catalog, token_requests,
};
pub(crate) use self::field_managers::FieldManagers;
pub(crate) use self::resources::Resources;
pub use self::runtime_config::RuntimeConfig;
pub(crate) use self::version_priority::version_priority;
