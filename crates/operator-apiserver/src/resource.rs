//! Resources: their definitions, built in or from a CustomResourceDefinition, and the rules in which kinds differ.

pub(crate) mod crd;
mod definition;
mod shared_storage;
mod strategy;

pub(crate) use self::definition::{
    Backing, Definition, Subresource, api_version, builtin_catalog, token_requests,
};
