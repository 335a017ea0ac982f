//! Data of the Operator Lifecycle Manager as pure functions, without I/O and clocks; only [`files::read`] reads a
//! directory.
//!
//! * [`bundle`]: registry+v1 bundles with the positions of their nodes
//! * [`validator`] and [`finding`]: the checks of `bundle validate`
//! * [`scorecard`]: the built-in scorecard tests
//! * [`catalog`]: file-based catalogs: loading, validation, formatting, upgrade graphs
//! * [`generate`]: generates bundles from the objects of an operator
//! * [`mod@render`]: renders a bundle as a document of a catalog
//! * [`template`]: catalog templates (`olm.semver`, `olm.template.basic`)
//! ```no_run
//! use std::path::Path;
//! use operator_olm::{bundle, files, validator};
//!
//! let files = files::read(Path::new("bundle"))?;
//! for finding in validator::validate(&bundle::load(&files)?) {
//!     println!("{}", finding.message());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bundle;
pub mod catalog;
pub mod files;
pub mod finding;
pub mod generate;
pub mod render;
pub mod scorecard;
pub mod template;
pub mod validator;

mod decode;
mod document;
mod shape;

pub use document::Manifest;
