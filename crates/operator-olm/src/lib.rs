//! Operator Lifecycle Manager data as pure logic, without I/O and clocks; only [`files::read`] reads a directory.
//!
//! * [`bundle`]: registry+v1 bundles with the positions of their nodes
//! * [`catalog`]: file-based catalogs: loading, validation, written form, upgrade graph
//! * [`generate`]: bundles from the objects of an operator
//! * [`mod@render`]: a bundle as a document of a catalog
//! * [`template`]: catalog templates (`olm.semver`, `olm.template.basic`)

pub mod bundle;
pub mod catalog;
pub mod files;
pub mod generate;
pub mod render;
pub mod template;

mod decode;
mod document;
mod shape;

pub use document::Manifest;
