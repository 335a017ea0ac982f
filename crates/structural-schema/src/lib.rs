//! OpenAPI v3 structural schemas of Kubernetes as pure functions: check, prune, default, validate.
//!
//! The modules, in the order in which a custom resource passes through them: [`node`] (the schema as a tree),
//! [`schema`] (the entry point [`schema::Schema`]), `prune`, `metadata`, `default`, `validate`, `list_type` and `rule`
//! (`x-kubernetes-validations`). [`crd`] checks the CRDs themselves. The crate does no I/O and reads no clock.
//! ```
//! use serde_json::json;
//! use structural_schema::Schema;
//!
//! let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {
//!     "type": "object",
//!     "properties": {"size": {"type": "integer", "minimum": 1, "default": 1}},
//! }}})).expect("a structural schema");
//! let mut object = json!({"spec": {"unknown": true}});
//! schema.prune(&mut object);
//! schema.default(&mut object);
//! assert_eq!(object, json!({"spec": {"size": 1}}));
//! let errors = schema.validate(&json!({"spec": {"size": 0}}), None);
//! assert!(errors[0].to_string().starts_with("spec.size: Invalid value"));
//! ```

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
