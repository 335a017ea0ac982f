//! Server-side apply and managed fields as pure functions, without a clock and I/O.
//!
//! The semantics are those of `structured-merge-diff` v6 and of the API server's field manager (Kubernetes 1.36).
//! [`FieldManager`] is the entry point. The modules, in the order in which a write passes through them:
//!
//! * [`builtin`]: the types of Kubernetes 1.36 as one compact table
//! * [`path`] and [`field_set`]: paths of fields and sets of paths, with conversion to and from `FieldsV1`
//! * [`schema`]: the merge rules of a type, from a built-in kind or a structural schema, or deduced
//! * [`typed`]: validates, merges, compares and removes the fields of a typed value
//! * [`managed_fields`]: `metadata.managedFields` and its managers
//! * [`field_manager`]: the effect of a write on the object and its managers
//! * [`strategic`]: strategic merge patches
//! * [`go`]: Go's formatting of values
//! * [`scale`]: the managers of a scale subresource
//! ```
//! use serde_json::json;
//! use structured_merge::FieldManager;
//!
//! let deployments = FieldManager::builtin("apps", "v1", "Deployment").expect("a built-in kind");
//! let desired = |replicas: u8| json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas},
//! });
//! let live = deployments.apply(None, &desired(1), "operator", false, "2026-01-01T00:00:00Z")?;
//! // Another manager sets another value of a field that the operator owns.
//! let conflict = deployments.apply(Some(&live), &desired(2), "kubectl", false, "2026-01-02T00:00:00Z");
//! assert!(conflict.unwrap_err().to_string().contains(".spec.replicas"));
//! # Ok::<(), structured_merge::ApplyError>(())
//! ```

pub mod builtin;
mod convert;
pub mod field_manager;
pub mod field_set;
pub mod go;
pub mod managed_fields;
pub mod path;
pub mod scale;
pub mod schema;
pub mod strategic;
pub mod typed;
mod updater;

pub use convert::{ConvertError, Converter};
pub use field_manager::{ApplyError, Conflict, Conflicts, FieldManager, Settings};
pub use field_set::FieldSet;
pub use path::PathElement;
pub use schema::Schema;
