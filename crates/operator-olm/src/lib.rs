//! Operator Lifecycle Manager data as pure logic, without I/O and clocks; only [`files::read`] reads a directory.
//!
//! * [`bundle`]: registry+v1 bundles with the positions of their nodes
//! * [`catalog`]: file-based catalogs: loading, validation, written form, upgrade graph
//! * [`template`]: catalog templates (`olm.semver`, `olm.template.basic`)

pub mod bundle;
pub mod catalog;
pub mod files;
pub mod template;

mod decode;
mod document;
mod shape;

pub use document::Manifest;
