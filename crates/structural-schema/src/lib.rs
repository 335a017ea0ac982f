//! OpenAPI v3 structural schemas as Kubernetes treats them, as pure logic: check, prune, default, validate.
//!
//! The modules in the order in which a custom resource passes through them: [`node`] (the schema as a tree), [`schema`]
//! (what a server calls), `prune`, `metadata`, `default`, `validate`, `list_type` and `rule` (`x-kubernetes-validations`).
//! [`crd`] checks the definitions themselves. Nothing here does I/O or reads a clock.

pub mod crd;
pub mod node;
pub mod schema;

mod default;
mod effort;
mod field_path;
mod format;
mod list_type;
mod metadata;
mod outcome;
mod prune;
mod rule;
mod validate;

pub use outcome::Outcome;
pub use schema::Schema;
