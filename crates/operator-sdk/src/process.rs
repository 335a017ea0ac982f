//! All I/O: the only module that starts programs or connects to clusters.

pub(crate) mod api;
pub(crate) mod cargo;
pub(crate) mod cluster;
pub(crate) mod download;
pub(crate) mod engine;
pub(crate) mod git;
pub(crate) mod objects;
pub(crate) mod operator;
pub(crate) mod registry;
pub(crate) mod signal;
pub(crate) mod temporary;
pub(crate) mod tls;
