//! OpenAPI v3 structural schemas as Kubernetes treats them, as pure logic: check, prune, default, validate.
//!
//! The rooms, in the order a custom resource walks them: [`node`] (the schema as a tree), [`schema`] (what a server
//! calls), `prune`, `metadata`, `default`, `validate`, `list_type` and [`cel`] (rules). [`crd`] checks the definitions themselves,
//! [`jsonpath`] reads the small paths that they contain. Nothing here does I/O or knows a clock.

pub mod cel;
pub mod crd;
pub mod field;
pub mod go;
pub mod jsonpath;
pub mod node;
pub mod schema;

mod default;
mod effort;
mod format;
mod list_type;
mod metadata;
mod names;
mod prune;
mod validate;

pub use schema::{Outcome, Schema};
