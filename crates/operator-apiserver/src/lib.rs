//! An embedded Kubernetes API server in pure Rust.

pub mod client;
pub mod status;

pub(crate) mod builtin;
pub(crate) mod journal;
pub(crate) mod json;
pub(crate) mod openapi;
pub(crate) mod protobuf;
pub(crate) mod yaml;
