//! Operator Lifecycle Manager data as pure logic, without I/O and clocks.
//!
//! * [`catalog`]: file-based catalogs: loading, validation, written form, upgrade graph
//! * [`template`]: catalog templates (`olm.semver`, `olm.template.basic`)

pub mod catalog;
pub mod template;
