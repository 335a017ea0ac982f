//! What nearly every controller uses: `use operator_runtime::prelude::*`.
//!
//! ```
//! use operator_runtime::prelude::*;
//!
//! struct Mine;
//!
//! impl Reconciler for Mine {
//!     async fn reconcile(&self, _ctx: Context, request: Request) -> Result<Action> {
//!         tracing::info!(name = request.name(), "Reconciling");
//!         Ok(Action::done())
//!     }
//! }
//! ```

pub use crate::cache::ListOptions;
pub use crate::condition::{Condition, ConditionStatus, Conditions};
pub use crate::controller::{Action, Context, Controller, Reconciler, Request};
pub use crate::error::{Error, Result};
pub use crate::manager::Manager;
pub use crate::manifests::Rbac;
pub use crate::object::ObjectKey;
pub use crate::rbac;
